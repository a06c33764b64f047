"""Tables of PostgreSQL as their catalog tells them: columns, types, what identifies a row."""

from typing import Literal

import msgspec

from changeling.model.table import TableName

TypeKind = Literal["base", "enum", "domain", "composite", "range", "multirange", "array"]
Identity = Literal["default", "full", "index", "nothing"]


class PgType(msgspec.Struct, frozen=True):
    """A type."""

    oid: int
    schema: str
    name: str
    """As `pg_type` has it: `int4`, not `integer`."""
    kind: TypeKind = "base"
    element: "PgType | None" = None
    """Of an array, its items; of a domain, the type below it; of a range, what it spans."""


class PgColumn(msgspec.Struct, frozen=True):
    """A column that changes tell of: dropped ones and those that are not published are none."""

    name: str
    type: PgType
    typmod: int = -1
    spelled: str = ""
    """The type as the server's `format_type` writes it, with its length or precision."""
    nullable: bool = True


class Relation(msgspec.Struct, frozen=True):
    """A table, or the root of a partitioned one."""

    oid: int
    table: TableName
    """The catalog is the database."""
    columns: tuple[PgColumn, ...]
    key: tuple[str, ...]
    """The columns that identify a row: the primary key, or the index that the replica identity names; none without either."""
    identity: Identity = "default"
