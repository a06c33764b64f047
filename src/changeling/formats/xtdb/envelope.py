"""XTDB's envelope on the wire, and the names of its parts."""

import re

import msgspec

from changeling.model.operation import Operation

OPERATIONS = {
    "c": Operation.INSERT,
    "u": Operation.UPDATE,
    "d": Operation.DELETE,
    "r": Operation.READ,
}
LETTERS = {
    Operation.INSERT: "c",
    Operation.READ: "r",
    Operation.UPDATE: "u",
    Operation.UPSERT: "u",
    Operation.REPLACE: "u",
    Operation.DELETE: "d",
}
TOPIC_PREFIX = "xtdb.cdc."
"""XTDB's prefix of the table's name in a topic, where no other is chosen."""


class Transaction(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """The transaction's id as text, and the event's places in the log and in the transaction."""

    id: str
    total_order: int
    data_collection_order: int


class AnyTransaction(msgspec.Struct, gc=False):
    """A transaction that may say more: the full envelope is kept, so nothing of it is lost."""

    id: str
    total_order: int
    data_collection_order: int


class Envelope(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """The plain shape: documents as text, all six members. Other shapes are read member by member."""

    before: str | None
    after: str | None
    source: msgspec.Raw
    op: str
    ts_ms: int | None
    transaction: Transaction


_HEAD = re.compile(rb'\s*\{\s*"before"\s*:')
_TAIL = re.compile(
    rb'"op"~:~"[a-z]"~,~"ts_ms"~:~(?:-?[0-9]+|null)~,~"transaction"~:~\{~"id"~:~"(?:[^"\\]|\\.)*"~,'
    rb'~"total_order"~:~-?[0-9]+~,~"data_collection_order"~:~-?[0-9]+~\}~\}~\Z'.replace(b"~", rb"\s*")
)


def in_order(event: bytes, source: bytes) -> bool:
    """Whether the members of an event in the plain shape, and of its transaction, come as XTDB writes them.

    `source` is the text of that member: where `before` is first and it stands before `op`, `after` is between.
    """
    tail = event.rfind(b'"op"')
    if tail < 0 or _TAIL.match(event, tail) is None or _HEAD.match(event) is None:
        return False
    return event.endswith(source, 0, event.rfind(b"}", 0, tail) + 1)


class Source(msgspec.Struct, gc=False):
    """What the reader needs of `source`; the rest of it is kept as it is."""

    tx_id: int
    table: str | None = None
    db: str | None = None
    ts_ms: int | None = None
    system_time: int | None = None


class DocumentId(msgspec.Struct, gc=False):
    """The record id of a document, under either of its names."""

    id: msgspec.Raw | msgspec.UnsetType = msgspec.field(name="_id", default=msgspec.UNSET)
    old_id: msgspec.Raw | msgspec.UnsetType = msgspec.field(name="xt/id", default=msgspec.UNSET)
