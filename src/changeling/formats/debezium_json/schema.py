"""The schema part of messages: Connect's description of an envelope, to and from the columns of a table; and how these are written."""

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from changeling.formats.debezium_envelope import IMAGES
from changeling.formats.debezium_json.types import (
    CONNECT,
    DECIMAL,
    LOGICAL,
    TYPES,
    VARIABLE_SCALE,
    Decimals,
    Times,
    parse,
    scale_of,
    wire_name,
)
from changeling.formats.options import ReadOptions
from changeling.formats.type_table import is_zoned
from changeling.model import json_text, types
from changeling.model.canonical import Convert
from changeling.model.errors import Rejected, UsageError, inside
from changeling.model.json_text import quote
from changeling.model.table import Column, TableName, TableSchema, schema_from_json
from changeling.model.types import Type

_CANONICAL = "changeling.type"
"""The parameter with the canonical type, where the wire's own does not express all of it."""
_PRECISION = "connect.decimal.precision"


class Field(msgspec.Struct):
    """A schema, or one field of a struct."""

    type: str | None = None
    field: str | None = None
    optional: bool = False
    name: str | None = None
    parameters: dict[str, Any] | None = None
    items: "Field | None" = None
    fields: "list[Field] | None" = None


_field = msgspec.json.Decoder(Field | None).decode


def schema_text(
    options: ReadOptions, table: TableName, value_schema: bytes | None, key_schema: bytes | None
) -> str | None:
    """The record's schema with the column types that the user declared; one of the two if the other is missing."""
    declared = options.schema_of(table)
    columns = None if value_schema is None else _columns_of(value_schema)
    if columns is None:
        return None if declared is None else declared.to_json()
    key = options.key_of(table) or (() if key_schema is None else _key_columns_of(key_schema))
    if declared is None:
        return TableSchema(columns, key).to_json()
    known = {column.name: column for column in columns}
    merged = {**known, **{column.name: _overridden(column, known.get(column.name)) for column in declared.columns}}
    return TableSchema(tuple(merged.values()), key, declared.table, declared.id).to_json()


def _overridden(declared: Column, own: Column | None) -> Column:
    if own is None:
        return declared
    return Column(own.name, declared.type, declared.original_type or own.original_type, declared.nullable)


@functools.lru_cache(maxsize=1024)
def _columns_of(schema: bytes) -> tuple[Column, ...] | None:
    """The columns of the rows in an envelope; None where its images are not structs (MongoDB's are text)."""
    fields = {field.field: field.fields for field in _fields_of(schema) if field.fields is not None}
    found = fields.get("after", fields.get("before"))
    return None if found is None else tuple(_column(column) for column in found if column.type is not None)


@functools.lru_cache(maxsize=1024)
def _key_columns_of(schema: bytes) -> tuple[str, ...]:
    """The names of the columns in a key's schema."""
    return tuple(field.field for field in _fields_of(schema) if field.field is not None)


def _fields_of(schema: bytes) -> list[Field]:
    with inside("the schema part"):
        found = _field(schema)
    return (found and found.fields) or []


def _column(field: Field) -> Column:
    if field.field is None:
        raise Rejected("the schema part has a column without a name")
    kind, wire = _type(field)
    return Column(field.field, str(kind), wire, field.optional)


def _type(field: Field) -> tuple[Type, str]:
    """The canonical type of a field, and the wire's name of its type."""
    wire = field.name or field.type or ""
    if field.name == DECIMAL:
        scale = _whole(field, "scale") or 0
        kind, wire = _decimal(scale, _whole(field, _PRECISION)), f"{DECIMAL}({scale})"
    elif field.type == "array" and field.items is not None:
        item, wire = _type(field.items)
        kind, wire = types.array(item), f"array<{wire}>"
    # An unknown logical type has the values of the type below it.
    elif found := parse((field.name if field.name in LOGICAL else field.type) or ""):
        kind = found
    else:
        raise Rejected(f"the schema part has the type {field.type!r}; Connect has {', '.join([*CONNECT, 'array'])}")
    try:
        canonical = (field.parameters or {}).get(_CANONICAL)
        return types.parse(str(canonical)) if canonical else kind, wire
    except UsageError as error:
        raise Rejected(f"the schema part: {error}") from None


def _whole(field: Field, name: str) -> int | None:
    value = (field.parameters or {}).get(name)
    try:
        return None if value is None else int(value)
    except (TypeError, ValueError):
        raise Rejected(f"the schema part: {name} is {value!r}, which is not an integer") from None


def _decimal(scale: int, precision: int | None) -> Type:
    if precision is None or precision <= 0:
        return Type("decimal")
    return types.decimal(max(precision, scale), scale) if scale >= 0 else types.decimal(precision - scale, 0)


def _struct(name: str | None, fields: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": fields, **({"name": name} if name else {}), "optional": False, **more}


def _plain(*fields: str) -> list[dict[str, Any]]:
    """The schemas of plain fields: of each its name and its type, with a `?` where it is optional."""
    pairs = [field.split() for field in fields]
    return [{"type": kind.rstrip("?"), "optional": kind.endswith("?"), "field": name} for name, kind in pairs]


_MARKS = _struct(None, _plain("op string?", "before_image string?", "after_image string?"), field="changeling")
_SOURCE = _struct(
    "io.debezium.connector.changeling.Source",
    [
        *_plain("version string", "connector string", "name string", "ts_ms int64?", "snapshot string?", "db string"),
        *_plain("ts_us int64?", "ts_ns int64?", "schema string?", "table string", "position string?"),
        {**_MARKS, "optional": True},
    ],
    field="source",
)
_ORDER = _plain("id string", "total_order int64?", "data_collection_order int64?")
_TRANSACTION = _struct("event.block", _ORDER, version=1, field="transaction")
_REST = _plain("op string", "ts_ms int64?", "ts_us int64?", "ts_ns int64?")
_BEHIND_IMAGES = [_SOURCE, {**_TRANSACTION, "optional": True}, *_REST]


def _described(kind: Type, wire: str) -> dict[str, Any]:
    """The schema of a type."""
    if kind.item is not None:
        return {"type": "array", "items": {**_described(kind.item, wire[6:-1]), "optional": True}}
    scale = scale_of(wire)
    bare = wire if scale is None else DECIMAL
    plain = parse(bare) if scale is None else _decimal(scale, kind.precision)
    given = {
        "scale": scale,
        _PRECISION: None if scale is None else kind.precision,
        _CANONICAL: None if plain == kind else kind,
    }
    parameters = {name: str(value) for name, value in given.items() if value is not None}
    logical = LOGICAL.get(bare)
    described: dict[str, Any] = {"type": bare if logical is None else logical.connect}
    if bare == VARIABLE_SCALE:
        described["fields"] = _plain("scale int32", "value bytes")
    if logical is not None:
        described |= {"name": bare, "version": 1}
    return described | ({"parameters": parameters} if parameters else {})


class Wire(NamedTuple):
    """How the rows of one schema are written."""

    conversions: Mapping[str, Convert] = {}
    columns: tuple[str, ...] = ()
    value_schema: bytes | None = None
    key_schema: bytes | None = None

    def converted(self, row: bytes | str | None) -> dict[str, bytes]:
        """The columns of a row with their values as they are written."""
        columns = json_text.members(row or b"{}")
        for name, convert in self.conversions.items():
            if columns.get(name, b"null") != b"null":
                columns[name] = convert(columns[name])
        return columns


class WireTypes:
    """How rows are written in the modes that the user chose, each column by its type, and with both schema parts if `schemas`."""

    def __init__(self, schemas: bool, times: Times | None, decimals: Decimals | None) -> None:
        self._schemas = schemas
        self._times: Times = times or ("adaptive" if schemas else "isostring")
        self._decimals: Decimals = decimals or ("precise" if schemas else "string")
        self.convert = schemas or (self._times, self._decimals) != ("isostring", "string")
        """Values are not written as they are."""
        self.of = functools.lru_cache(maxsize=1024)(self._wire_of)
        """How the rows of a schema (as text) with these key columns are written to a topic."""

    def _wire_of(self, text: str | None, topic: str, key: tuple[str, ...]) -> Wire:
        if text is None:
            if self._schemas:
                raise Rejected("the schema part needs the types of the columns, which are not known; give --columns")
            return Wire()
        schema = schema_from_json(text)
        names = tuple(column.name for column in schema.columns)
        if not self.convert:
            return Wire({}, names)
        key = key or schema.key
        conversions, described = {}, {}
        for column in schema.columns:
            kind, zoned = column.canonical, is_zoned(column.original_type)
            wire = wire_name(kind, self._times, self._decimals, zoned=zoned)
            if (write := TYPES.writer(kind, wire)) is not None:
                plain = TYPES.writer(kind) is None
                conversions[column.name] = write if plain else _chain(TYPES.reader(kind), write)
            # A record may show part of a row, so only the key is certain.
            more = {"optional": column.name not in key, "field": column.name}
            described[column.name] = {**_described(kind, wire), **more}
        if not self._schemas:
            return Wire(conversions, names)
        row = _struct(f"{topic}.Value", list(described.values()))
        images = [{**row, "optional": True, "field": side} for side in IMAGES]
        key_fields = [field for name, field in described.items() if name in key]
        return Wire(
            conversions,
            names,
            quote(_struct(f"{topic}.Envelope", [*images, *_BEHIND_IMAGES], version=2)),
            quote(_struct(f"{topic}.Key", key_fields)),
        )


def _chain(read: Convert, write: Convert) -> Convert:
    return lambda raw: write(read(raw))
