"""Transferia's two records on the wire, and the names of their operations."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Raw, UnsetType

from changeling.model.operation import Image, Operation

ROW_KINDS = {
    "insert": Operation.INSERT,
    "update": Operation.UPDATE,
    "delete": Operation.DELETE,
    "mongo:update_document": Operation.UPDATE,
}
CONTROL_KINDS = {
    "truncate": Operation.TRUNCATE,
    "DDL": Operation.DDL,
    "pg:DDL": Operation.DDL,
    "drop_table": Operation.DDL,
    **dict.fromkeys(
        (
            *("init_sharded_table_load", "init_load_table", "done_load_table", "done_sharded_table_load"),
            *("", "message", "mongo:create", "mongo:drop", "mongo:rename", "mongo:dropDatabase", "mongo:noop"),
            *("ch:createTable", "ch:DDLBuilder", "es:dumpIndex"),
        ),
        Operation.MESSAGE,
    ),
}
MESSAGE_PREFIXES = ("mongo:", "ch:", "es:")
"""Kinds of one store alone: a new one is a message like the others."""
KINDS = {
    Operation.READ: "insert",
    Operation.INSERT: "insert",
    Operation.REPLACE: "insert",
    Operation.UPDATE: "update",
    Operation.UPSERT: "update",
    Operation.DELETE: "delete",
}
SEED_KINDS = {
    "INSERT": Operation.INSERT,
    "UPDATE": Operation.UPDATE,
    "DELETE": Operation.DELETE,
    "DDL": Operation.DDL,
}
TRANSACTION_DONE = ("-- transaction ", " done")
"""The text around the id in the statement of the DDL item that ends a transaction."""
UINT64 = 2**64
INT64 = 2**63
Unsigned = Annotated[int, msgspec.Meta(ge=0)]
"""msgspec itself accepts no integer of more than 64 bits."""


MEMBERS = (
    *("id", "nextlsn", "commitTime", "txPosition", "kind", "schema", "table", "part", "columnnames", "columnvalues"),
    *("table_schema", "oldkeys", "tx_id", "query", "changeling"),
)
"""The members of an item in the order in which Transferia writes them, and ours after them."""


class OldKeys(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """The row before the change, or the part of it that the source sends."""

    keynames: Raw | UnsetType = UNSET
    keytypes: Raw | UnsetType = UNSET
    keyvalues: list[Raw] | UnsetType | None = UNSET


class Extras(msgspec.Struct, gc=False, omit_defaults=True):
    """What an item cannot express, in a member `changeling` that Transferia's own reader ignores."""

    op: Operation | None = None
    catalog: str | None = None
    position: list[int] | None = None
    order: int | UnsetType | None = UNSET
    """The order in the transaction where it is not `txPosition`; null where there is none."""
    total: int | None = None
    before_image: Image | None = None
    after_image: Image | None = None


class Item(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A change item in the system's own names, in the order in which it writes them."""

    kind: str
    id: Unsigned | UnsetType = UNSET
    nextlsn: Unsigned | UnsetType = UNSET
    commit_time: Unsigned | UnsetType = msgspec.field(default=UNSET, name="commitTime")
    tx_position: Unsigned | UnsetType = msgspec.field(default=UNSET, name="txPosition")
    schema: str | UnsetType = UNSET
    table: str | UnsetType = UNSET
    part: str | UnsetType = UNSET
    columnnames: Raw | UnsetType = UNSET
    columnvalues: list[Raw] | UnsetType | None = UNSET
    table_schema: Raw | UnsetType = UNSET
    oldkeys: OldKeys | UnsetType | None = UNSET
    tx_id: str | UnsetType = UNSET
    query: str | UnsetType = UNSET
    changeling: Raw | UnsetType = UNSET


class SeedRecord(msgspec.Struct, gc=False, rename="pascal"):
    """The record that Transferia's data model describes. Members that it does not name are kept separately."""

    kind: str
    id: Unsigned = msgspec.field(name="ID")
    commit_time: Unsigned | None = None
    table: str | None = None
    values: list[Raw] | None = None
    old_values: list[Raw] | None = None
    table_schema: Raw | UnsetType = UNSET


SEED_MEMBERS = ("ID", "CommitTime", "Kind", "Table", "Values", "OldValues", "TableSchema")


class WireColumn(msgspec.Struct, gc=False):
    """One column of `table_schema`; the members that matter here."""

    name: str
    type: str = "any"
    key: bool = False
    required: bool = False
    original_type: str = ""
