"""Debezium's envelope on the wire: operations, source blocks of all connectors, and what we add to ours."""

import base64
from typing import Any

import msgspec

from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation

OPERATIONS = {
    "c": Operation.INSERT,
    "u": Operation.UPDATE,
    "d": Operation.DELETE,
    "r": Operation.READ,
    "t": Operation.TRUNCATE,
    "m": Operation.MESSAGE,
}
LETTERS = {
    **{operation: letter for letter, operation in OPERATIONS.items()},
    Operation.UPSERT: "u",
    Operation.REPLACE: "u",
}
PLACEHOLDER = "__debezium_unavailable_value"
OLD_KEY, NEW_KEY = "__debezium.oldkey", "__debezium.newkey"
"""The headers of the two halves of a key change, each with the key of the other."""
XTDB, YDB, MONGODB = "xtdb-cdc", "ydb", "mongodb"
DOCUMENTS = frozenset({XTDB, MONGODB})
"""Connectors whose rows are documents: each has the columns that it has."""

_EVENTS = (("op", "source"), ("op", "before"), ("op", "after"))
_SCHEMA_CHANGES = (("source", "ddl"), ("source", "tableChanges"), ("source", "historyRecord"))
_BOUNDARIES = (("status", "id", "ts_ms"), ("status", "id", "event_count"))
SIGNS = tuple(
    tuple(f"{inside}{name}" for name in sign)
    for inside in ("", "payload.", "value.", "value.payload.")
    for sign in (*_EVENTS, *_SCHEMA_CHANGES, *_BOUNDARIES)
)
"""What gives an event away, bare or in each wrapper. Heartbeats, a time and nothing else, show nothing."""

Number = int | str | None
"""An integer, which some connectors and Debezium's own older manuals print as text."""


class Marks(msgspec.Struct, gc=False, omit_defaults=True):
    """What a change has and Debezium cannot express, in `source.changeling` of the records that we write."""

    op: Operation | None = None
    before_image: Image | None = None
    after_image: Image | None = None


class Source(msgspec.Struct, gc=False):
    """What the reader needs of `source`; the rest of it is kept as it is."""

    connector: str | None = None
    db: str | None = None
    schema: str | None = None
    keyspace: str | None = None
    """What Vitess and Cassandra call a database."""
    table: str | None = None
    collection: str | None = None
    ts_ms: Number = None
    ts_us: Number = None
    ts_ns: Number = None
    sequence: str | None = None
    lsn: Number = None
    file: str | None = None
    pos: Number = None
    row: Number = None
    commit_lsn: Number = None
    change_lsn: Number = None
    event_serial_no: Number = None
    commit_scn: Number = None
    scn: Number = None
    rs_id: Number = None
    ssn: Number = None
    ord: Number = None
    tord: Number = None
    tx_id: Number = None
    system_time: Number = None
    step: Number = None
    txId: Number = None
    position: Any = None
    """Text where the record is one of ours; other sources may call anything so."""
    changeling: Marks | None = None


class Transaction(msgspec.Struct, gc=False):
    """The transaction's id, and the event's places in it and in its table's part of it."""

    id: Number
    total_order: Number = None
    data_collection_order: Number = None


class Boundary(msgspec.Struct, gc=False):
    """A record of the transaction topic."""

    status: str
    id: Number
    event_count: Number = None
    ts_ms: Number = None
    ts_ns: Number = None
    position: str | None = None


class Placeholder:
    """The placeholder of a column which the database did not send, in each form that it may take."""

    def __init__(self, text: str) -> None:
        plain, packed = quote(text), quote(base64.b64encode(text.encode()).decode())
        counted = quote(list(text.encode()))
        self.plain = plain
        self.traces = (text.encode(), packed, counted)
        """An image that contains none of these has no column with the placeholder."""
        self._forms = frozenset({plain, packed, counted, b"[%b]" % plain, b"{%b:%b}" % (plain, plain)})

    def may_be_in(self, image: bytes) -> bool:
        """Whether a closer look is needed."""
        return any(trace in image for trace in self.traces)

    def is_form(self, value: bytes) -> bool:
        """Whether this value is the placeholder: as text, bytes, an array or a map of it."""
        return value in self._forms
