"""Schema records (`tableChanges`): both shapes into a schema, and a schema into the newer one."""

import msgspec

from changeling.formats.changefeed import KnownTable
from changeling.formats.ydb_json.types import TYPES
from changeling.model import json_text
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.table import Column, TableSchema


class _ColumnType(msgspec.Struct):
    type: str


class _Table(msgspec.Struct, rename={"version": "schemaVersion", "key": "primaryKeyColumnNames"}):
    version: int
    columns: dict[str, _ColumnType | str]
    key: list[str] | str


class _TableChange(msgspec.Struct):
    table: _Table


_changes = json_text.named("tableChanges", msgspec.json.Decoder(list[_TableChange]).decode)


def read_schema(raw: bytes, table: KnownTable) -> TableSchema:
    """The schema in a record; raises `Rejected` if there is none.

    The older serializer names only the last key column, as a string: the key that the user named replaces it.
    """
    changes = _changes(raw)
    if len(changes) != 1:
        raise Rejected(f"`tableChanges` has {len(changes)} tables; a record of one table's changefeed has one")
    found = changes[0].table
    if not found.columns:
        raise Rejected("`tableChanges` has no columns")
    key = table.key
    if not isinstance(found.key, str):
        key = tuple(found.key)
        if not key:
            raise Rejected("`tableChanges` names no key column")
        if missing := [name for name in key if name not in found.columns]:
            raise Rejected(f"`tableChanges` names key columns that are not among its columns: {', '.join(missing)}")
    columns = tuple(_column(name, kind if isinstance(kind, str) else kind.type) for name, kind in found.columns.items())
    return TableSchema(columns, key, table.name, found.version)


def _column(name: str, wire: str) -> Column:
    if not name or not wire:
        raise Rejected("`tableChanges` has a column without a name or without a type")
    kind = TYPES.parse(wire)
    # A type that this version does not know passes as whatever JSON it is.
    return Column(name, "json" if kind is None else str(kind), wire)


def print_schema(schema: TableSchema, native: bool) -> bytes:
    """The `tableChanges` of a schema; `native` schemas keep YDB's own names of their types."""
    columns: dict[str, _ColumnType | str] = {
        column.name: _ColumnType((native and column.original_type) or TYPES.name(column.canonical))
        for column in schema.columns
    }
    return quote([_TableChange(_Table(1 if schema.id is None else schema.id, columns, list(schema.key)))])
