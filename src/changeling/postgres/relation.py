"""Tables of PostgreSQL: columns, types, and what identifies a row."""

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
    """The item type of an array, the base type of a domain, the subtype of a range."""


class PgColumn(msgspec.Struct, frozen=True):
    """A published column; dropped and unpublished columns are left out."""

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
    """The columns that identify a row: the primary key, or the replica identity index; empty without either."""
    identity: Identity = "default"
