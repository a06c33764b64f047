"""The payload of YDB's Debezium form: its source block."""

import msgspec

CONNECTOR, VERSION = "ydb", "1.0.0"
KEY_HEADER = "__key"
"""YDB's own clients find the key here, Kafka's in the message key."""


BY_STEP = -(2**62)
"""No time of its own."""


class Source(msgspec.Struct, gc=False):
    """What the reader needs of `source`; the rest of it, such as `user`, is kept as it is."""

    connector: str | None = None
    ts_ms: int | None = BY_STEP
    """null where the time is not known; where it is missing, the step gives it."""
    step: int | None = None
    transaction: int | None = msgspec.field(name="txId", default=None)
