"""Transferia's two records on the wire, and the names of their operations."""

from typing import Annotated, Literal, Required, TypedDict

import msgspec
from msgspec import Raw

from changeling.model.errors import UsageError
from changeling.model.operation import Image, Operation

_MESSAGES = (
    *("init_sharded_table_load", "init_load_table", "done_load_table", "done_sharded_table_load"),
    *("", "message", "mongo:create", "mongo:drop", "mongo:rename", "mongo:dropDatabase", "mongo:noop"),
    *("ch:createTable", "ch:DDLBuilder", "es:dumpIndex"),
)
OPERATIONS = {
    "insert": Operation.INSERT,
    "update": Operation.UPDATE,
    "delete": Operation.DELETE,
    "mongo:update_document": Operation.UPDATE,
    "truncate": Operation.TRUNCATE,
    **dict.fromkeys(("DDL", "pg:DDL", "drop_table"), Operation.DDL),
    **dict.fromkeys(_MESSAGES, Operation.MESSAGE),
}
MESSAGE_PREFIXES = ("mongo:", "ch:", "es:")
"""Kinds of one store alone: a new one is a message like the others."""
KINDS = {
    **dict.fromkeys((Operation.READ, Operation.INSERT, Operation.REPLACE), "insert"),
    **dict.fromkeys((Operation.UPDATE, Operation.UPSERT), "update"),
    Operation.DELETE: "delete",
}
ROWS = [operation.value for operation in KINDS]
SEED_KINDS = {kind.upper(): OPERATIONS[kind] for kind in ("insert", "update", "delete", "DDL")}
TRANSACTION_DONE = ("-- transaction ", " done")
"""The text around the id in the statement of the DDL item that ends a transaction."""
INT64_END, UINT64_END = 2**63, 2**64
"""The first numbers that integers of 64 bits, with and without a sign, cannot hold."""
Unsigned = Annotated[int, msgspec.Meta(ge=0)]
OWN_PLACE = -1
"""An order in the transaction that is `txPosition`."""
Shape = Literal["item", "seed"]
Serialization = Literal["json", "proto"]


class OldKeys(TypedDict, total=False):
    """The row before the change, or the part of it that the source sends."""

    keynames: Raw
    keytypes: Raw
    keyvalues: list[Raw] | None


class Item(TypedDict, total=False):
    """A change item in the system's own names, in the order in which it writes them, and a member of ours after them."""

    id: Unsigned
    nextlsn: Unsigned
    commitTime: Unsigned
    txPosition: Unsigned
    kind: str
    schema: str
    table: str
    part: str
    columnnames: Raw
    columnvalues: list[Raw] | None
    table_schema: Raw
    oldkeys: OldKeys | None
    tx_id: str
    query: str
    changeling: Raw


class SeedRecord(TypedDict, total=False):
    """The record that Transferia's data model describes."""

    Kind: Required[str]
    ID: Required[Unsigned]
    CommitTime: Unsigned | None
    Table: str | None
    Values: list[Raw] | None
    OldValues: list[Raw] | None
    TableSchema: Raw


class Extras(msgspec.Struct, gc=False):
    """What an item cannot express, in a member `changeling` that Transferia's own reader ignores."""

    op: Operation | None = None
    catalog: str | None = None
    position: list[int] | None = None
    order: int | None = OWN_PLACE
    """The order in the transaction; null where there is none."""
    total: int | None = None
    before_image: Image | None = None
    after_image: Image | None = None


MEMBERS = tuple(Item.__annotations__)
OLD_KEYS = tuple(OldKeys.__annotations__)
SEED_MEMBERS = ("ID", "CommitTime", "Kind", "Table", "Values", "OldValues", "TableSchema")


def refuse_proto(serialization: Serialization) -> None:
    """Raises `UsageError` unless values are serialized as JSON."""
    if serialization == "proto":
        raise UsageError("transferia: serialization=proto is not supported; values are read and written as json")
