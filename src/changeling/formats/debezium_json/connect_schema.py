"""The schema part of a record: Connect's description of the envelope, to and from the columns of a table."""

import functools
from collections.abc import Mapping
from typing import Any

import msgspec

from changeling.formats.debezium_json.types import CONNECT, DECIMAL, LOGICAL, parse, scale_of
from changeling.model import types
from changeling.model.errors import Rejected, UsageError
from changeling.model.json_text import quote
from changeling.model.table import Column, TableSchema
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


@functools.lru_cache(maxsize=1024)
def columns_of(schema: bytes) -> tuple[Column, ...] | None:
    """The columns of the rows in an envelope; None where its images are no structs (MongoDB's are text)."""
    envelope = _read(schema)
    for side in ("after", "before"):
        for field in (envelope.fields or ()) if envelope else ():
            if field.field == side and field.fields is not None:
                return tuple(map(_column, (column for column in field.fields if column.type is not None)))
    return None


@functools.lru_cache(maxsize=1024)
def key_columns_of(schema: bytes) -> tuple[str, ...]:
    """The names of the columns in a key's schema."""
    key = _read(schema)
    return tuple(field.field for field in (key.fields or ()) if field.field is not None) if key else ()


def _read(schema: bytes) -> Field | None:
    try:
        found: Field | None = _field(schema)
    except msgspec.ValidationError as error:
        raise Rejected(f"the schema part: {error}") from None
    return found


def _column(field: Field) -> Column:
    if field.field is None:
        raise Rejected("the schema part has a column without a name")
    kind, wire = _type(field)
    return Column(field.field, str(kind), wire, field.optional)


def _type(field: Field) -> tuple[Type, str]:
    parameters = field.parameters or {}
    kind, wire = _wire_type(field, parameters)
    if canonical := parameters.get(_CANONICAL):
        try:
            kind = types.parse(str(canonical))
        except UsageError as error:
            raise Rejected(f"the schema part: {error}") from None
    return kind, wire


def _wire_type(field: Field, parameters: Mapping[str, Any]) -> tuple[Type, str]:
    if field.name == DECIMAL:
        scale = _whole(parameters, "scale") or 0
        return _decimal(scale, _whole(parameters, _PRECISION)), f"{DECIMAL}({scale})"
    if field.type == "array" and field.items is not None:
        item, wire = _type(field.items)
        return types.array(item), f"array<{wire}>"
    # An unknown logical type has the values of the type below it.
    name = field.name if field.name in LOGICAL else field.type
    kind = parse(name or "")
    if kind is None:
        raise Rejected(f"the schema part has the type {field.type!r}; Connect has {', '.join([*CONNECT, 'array'])}")
    return kind, field.name or field.type or ""


def _whole(parameters: Mapping[str, Any], name: str) -> int | None:
    value = parameters.get(name)
    if value is None:
        return None
    try:
        return int(value)
    except (TypeError, ValueError):
        raise Rejected(f"the schema part: {name} is {value!r}, which is no integer") from None


def _decimal(scale: int, precision: int | None) -> Type:
    if precision is None or precision <= 0:
        return Type("decimal")
    return types.decimal(max(precision, scale), scale) if scale >= 0 else types.decimal(precision - scale, 0)


def struct(name: str | None, fields: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """The schema of a struct."""
    return {"type": "struct", "fields": fields, **({"name": name} if name else {}), "optional": False, **more}


def field_of(name: str, connect: str, optional: bool = True) -> dict[str, Any]:
    """The schema of a plain field."""
    return {"type": connect, "optional": optional, "field": name}


def _described(kind: Type, wire: str) -> dict[str, Any]:
    if kind.item is not None:
        return {"type": "array", "items": {**_described(kind.item, wire[6:-1]), "optional": True}}
    scale = scale_of(wire)
    bare = DECIMAL if scale is not None else wire
    logical = LOGICAL.get(bare)
    parameters: dict[str, str] = {}
    if scale is not None:
        parameters["scale"] = str(scale)
        if kind.precision is not None:
            parameters[_PRECISION] = str(kind.precision)
    plain = _decimal(scale, kind.precision) if scale is not None else parse(bare)
    if plain != kind:
        parameters[_CANONICAL] = str(kind)
    described: dict[str, Any] = {"type": bare if logical is None else logical.connect}
    if bare == "io.debezium.data.VariableScaleDecimal":
        described["fields"] = [field_of("scale", "int32", False), field_of("value", "bytes", False)]
    if logical is not None:
        described |= {"name": bare, "version": 1}
    return described | ({"parameters": parameters} if parameters else {})


_SOURCE = struct(
    "io.debezium.connector.changeling.Source",
    [
        field_of("version", "string", False),
        field_of("connector", "string", False),
        field_of("name", "string", False),
        field_of("ts_ms", "int64"),
        field_of("snapshot", "string"),
        field_of("db", "string", False),
        field_of("ts_us", "int64"),
        field_of("ts_ns", "int64"),
        field_of("schema", "string"),
        field_of("table", "string", False),
        field_of("position", "string"),
        {
            **struct(None, [field_of(name, "string") for name in ("op", "before_image", "after_image")]),
            "optional": True,
            "field": "changeling",
        },
    ],
    field="source",
)
_TRANSACTION = struct(
    "event.block",
    [field_of("id", "string", False), field_of("total_order", "int64"), field_of("data_collection_order", "int64")],
    version=1,
    field="transaction",
) | {"optional": True}


def envelope_schema(schema: TableSchema, wires: Mapping[str, str], topic: str) -> bytes:
    """The schema part of the values of a table."""
    row = struct(f"{topic}.Value", [_described_column(column, schema, wires) for column in schema.columns])
    fields = [{**row, "optional": True, "field": side} for side in ("before", "after")]
    plain = [field_of("op", "string", False), *(field_of(name, "int64") for name in ("ts_ms", "ts_us", "ts_ns"))]
    return quote(struct(f"{topic}.Envelope", [*fields, _SOURCE, _TRANSACTION, *plain], version=2))


def key_schema(schema: TableSchema, wires: Mapping[str, str], names: tuple[str, ...], topic: str) -> bytes:
    """The schema part of the keys of a table."""
    columns = [column for column in schema.columns if column.name in names]
    return quote(struct(f"{topic}.Key", [_described_column(column, schema, wires) for column in columns]))


def _described_column(column: Column, schema: TableSchema, wires: Mapping[str, str]) -> dict[str, Any]:
    # A record may show part of a row, so only the key is certain.
    described = _described(column.canonical, wires[column.name])
    return {**described, "optional": column.name not in schema.key, "field": column.name}
