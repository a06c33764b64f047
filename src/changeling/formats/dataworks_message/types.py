"""The `schema` of a message: its table, its columns, and their six types. All else is text."""

from collections.abc import Mapping
from decimal import Decimal
from math import isfinite

import msgspec

from changeling.envelope.cells import Cell, Cells
from changeling.envelope.scalar_cells import SCALARS
from changeling.formats.nested_text import NESTED, NestedAsText, as_text, from_text
from changeling.model import json_text, times, types
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.table import TableName, schema_from_json
from changeling.model.types import INTEGER_RANGES, Type

_CANONICAL = {
    "BOOLEAN": "bool",
    "DATE": "timestamptz",
    "BYTES": "bytes",
    "STRING": "string",
    "LONG": "int64",
    "DOUBLE": "float64",
}
"""The six types. All else is text; a DATE counts milliseconds, so it is an instant."""
MOMENTS = frozenset({"date", "timestamp", "timestamptz"})
_NAMES = {
    **{kind: name for name, kind in _CANONICAL.items()},
    "float32": "DOUBLE",
    **dict.fromkeys(MOMENTS, "DATE"),
    **{kind: "LONG" for kind in INTEGER_RANGES if kind != "uint64"},
}


def parse(name: str) -> Type | None:
    """The canonical type of a wire type."""
    return types.parse(_CANONICAL[name]) if name in _CANONICAL else None


def name_of(kind: Type) -> str:
    """The wire type of a canonical type."""
    return _NAMES.get(kind.kind, "STRING")


def guess(cells: Cells, raw: Cell) -> Cell:
    """The wire type that an untyped value looks like."""
    number = cells.where(cells.matches(raw, "-*[0-9]+"), b"LONG", b"DOUBLE")
    other = cells.where(cells.matches(raw, "true|false"), b"BOOLEAN", b"STRING")
    return cells.where(cells.matches(raw, r"[-0-9][^\n]*"), number, other)


def _divided(raw: bytes) -> tuple[int | None, int]:
    """A timestamp in milliseconds, and what is left; None if milliseconds cannot express it at all."""
    try:
        return divmod(times.parse(json_text.string(raw))[0], times.NANOS_PER_MILLI)
    except Rejected:
        return None, 0


def _to_millis(raw: bytes) -> bytes:
    """A timestamp in milliseconds; one that they cannot express stays as it is, for the writer to refuse."""
    millis, rest = _divided(raw) if raw[:1] == b'"' else (None, 0)
    return raw if millis is None or rest else b"%d" % millis


def shortened(raw: bytes) -> bytes:
    """The same timestamp to the millisecond, or NULL if milliseconds cannot express it."""
    return quote(_divided(raw)[0])


def _from_millis(raw: bytes) -> bytes:
    if raw[:1] == b'"':
        return raw
    try:
        return quote(times.to_text(int(raw) * times.NANOS_PER_MILLI))
    except ValueError:
        raise Rejected(f"{raw[:40].decode(errors='replace')} is not a DATE, a whole number of milliseconds") from None
    except OverflowError:
        raise Rejected(f"the DATE {raw.decode()} lies outside the years 1 to 9999") from None


def _fits(raw: bytes) -> bool:
    """Whether a value is of one of the six types: a number must be a LONG, or a DOUBLE that has all of its digits."""
    if raw[:1] not in b"-0123456789":
        return raw[:1] not in b"{["
    if raw.lstrip(b"-").isdigit():
        return len(raw) <= 20 and -(2**63) <= int(raw) < 2**63
    number = float(raw)
    return isfinite(number) and Decimal(repr(number)) == Decimal(raw.decode())


def _untyped(raw: bytes) -> bytes:
    return raw if _fits(raw) else as_text(raw)


def _loss(raw: bytes) -> str | None:
    return None if _fits(raw) else "no type of the message holds it, and without its type (--columns) it is text"


TYPES = NestedAsText(
    read={"json": from_text, **dict.fromkeys(MOMENTS, _from_millis)},
    write={**NESTED, "uint64": as_text, **dict.fromkeys(MOMENTS, _to_millis)},
    parse=parse,
    name=name_of,
    untyped=_untyped,
    untyped_loss=_loss,
)


class WireColumn(msgspec.Struct, frozen=True):
    """A column as `schema.dataColumn` lists it."""

    name: str
    type: str


class WireSource(msgspec.Struct, rename="camel"):
    """Where the rows come from."""

    db_name: str | None = None
    schema_name: str | None = None
    table_name: str | None = None


class WireSchema(msgspec.Struct, rename="camel"):
    """What a message says about its table; heartbeats and marks have none."""

    data_column: list[WireColumn] | None = None
    primary_key: list[str] | None = None
    source: WireSource | None = None


def own_schema(schema: str | None, table: TableName | None, source: bytes) -> bytes | None:
    """The schema that a message had, with the columns by the names that the wire gave their types."""
    if schema is None:
        return None
    own = schema_from_json(schema)
    columns = [WireColumn(column.name, column.original_type or "STRING") for column in own.columns]
    found: bytes = schema_text(SCALARS, quote(columns), own.key, table, json_text.members(source))
    return found


def schema_text(
    cells: Cells, columns: Cell, key: tuple[str, ...], table: TableName | None, source: Mapping[str, bytes]
) -> Cell:
    """The member of these columns; `source` contains the database's type and version as JSON."""
    names = (table and table.catalog, table and table.schema, table and table.name)
    wire = zip(("dbName", "schemaName", "tableName"), map(quote, names), strict=True)
    behind = b',"primaryKey":%b,"source":%b}' % (quote(key), json_text.join([*source.items(), *wire]))
    return cells.joined(b'{"dataColumn":', columns, behind)
