"""The `schema` member: the table that a message is about, read and written."""

import functools
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from changeling.formats.dataworks_message.envelope import WireColumn, WireSchema
from changeling.formats.dataworks_message.types import parse
from changeling.formats.options import ReadOptions
from changeling.model import json_text
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.table import Column, TableName, TableSchema

_wire_schema = msgspec.json.Decoder(WireSchema | None).decode


class TableInfo(NamedTuple):
    """What a message's `schema` and the user say about its table."""

    table: TableName | None
    schema: str | None
    key: tuple[str, ...]
    columns: frozenset[str]
    """The columns that the message lists."""
    meta: tuple[str, bytes]
    """The member of `meta` that restores the wire's schema."""


def reader(options: ReadOptions) -> "functools._lru_cache_wrapper[TableInfo]":
    """A function from the raw member to its content, cached: a topic repeats few of them."""

    def read(raw: bytes) -> TableInfo:
        try:
            wire = _wire_schema(raw) or WireSchema()
        except msgspec.ValidationError as error:
            raise Rejected(f"schema: {error}") from None
        table = _table(wire) or None
        given = options.schema_of(table or options.table)
        own = _schema(wire)
        kept: tuple[str, bytes] = ("schema", json_text.compact(raw))
        if given is None and own is not None and table is not None:
            kept = _short(raw, own, table) or kept
        key = tuple(wire.primary_key or ()) or options.key_of(table or options.table)
        schema = given or own
        return TableInfo(
            table,
            schema.to_json() if schema is not None else None,
            key,
            frozenset(column.name for column in wire.data_column or ()),
            kept,
        )

    return functools.lru_cache(maxsize=4096)(read)


def _table(wire: WireSchema) -> TableName | None:
    source = wire.source
    if source is None or source.table_name is None:
        return None
    return TableName(source.db_name, source.schema_name, source.table_name)


def _schema(wire: WireSchema) -> TableSchema | None:
    if not wire.data_column:
        return None
    typed = ((column, parse(column.type)) for column in wire.data_column)
    # A type that is not published stays unknown: its values pass as they are.
    columns = tuple(Column(column.name, str(kind), column.type) for column, kind in typed if kind is not None)
    return TableSchema(columns, tuple(wire.primary_key or ()))


def _short(raw: bytes, own: TableSchema, table: TableName) -> tuple[str, bytes] | None:
    """Only what the change does not contain, if all else can be written from it."""
    source = json_text.members(json_text.members(raw)["source"])
    rest = {name: part for name, part in source.items() if name in ("dbType", "dbVersion")}
    written = print_schema(wire_columns(own), own.key, table, rest)
    same = written == json_text.compact(raw)
    return ("source", json_text.join(rest.items())) if same else None


def wire_columns(schema: TableSchema) -> list[WireColumn]:
    """The columns by the names that the wire gave their types."""
    return [WireColumn(column.name, column.original_type or "STRING") for column in schema.columns]


def print_schema(
    columns: list[WireColumn], key: tuple[str, ...], table: TableName | None, source: Mapping[str, bytes]
) -> bytes:
    """The member of these columns; `source` contains the database's type and version as JSON."""
    return b'{"dataColumn":%b%b' % (quote(columns), behind_columns(key, table, source))


def behind_columns(key: tuple[str, ...], table: TableName | None, source: Mapping[str, bytes]) -> bytes:
    """What the member has behind its list of columns."""
    names = (table and table.catalog, table and table.schema, table and table.name)
    wire = zip(("dbName", "schemaName", "tableName"), map(quote, names), strict=True)
    return b',"primaryKey":%b,"source":%b}' % (quote(key), json_text.join([*source.items(), *wire]))
