"""The PostgreSQL types of canonical types, spelled as PostgreSQL reports them."""

from changeling.log.schema_evolution import widens
from changeling.model.types import Type
from changeling.replicas.shape import ReplicaColumn, Shape

_TEXT = "text"
_SIMPLE = {
    "bool": "boolean",
    **dict.fromkeys(("int8", "int16", "uint8"), "smallint"),
    **dict.fromkeys(("int32", "uint16"), "integer"),
    **dict.fromkeys(("int64", "uint32"), "bigint"),
    "uint64": "numeric(20,0)",
    "float32": "real",
    "float64": "double precision",
    "decimal": "numeric",
    **dict.fromkeys(("string", "time", "duration", "interval"), _TEXT),
    "bytes": "bytea",
    "date": "date",
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
    "uuid": "uuid",
    "json": "json",
}


def column_type(kind: Type, *, in_key: bool) -> str:
    """The type of a column. A key cannot be `json`, which has no equality: it is text then."""
    found = _column_type(kind)
    return _TEXT if in_key and found.startswith("json") else found


def _column_type(kind: Type) -> str:
    if kind.item is not None:
        # PostgreSQL's arrays of arrays are rectangular, without empty rows: not every value fits.
        return "json" if kind.item.item is not None else f"{_column_type(kind.item)}[]"
    if kind.precision is not None:
        return f"numeric({kind.precision},{kind.scale})"
    return _SIMPLE[kind.kind]


def column_types(shape: Shape) -> dict[str, str]:
    """The types of a table's columns, by their names."""
    return {column.source_name: type_in(shape, column) for column in shape.columns}


def type_in(shape: Shape, column: ReplicaColumn) -> str:
    """The type that a column has in a table of this shape."""
    return column_type(column.kind, in_key=column.id in shape.key)


def keeps_values(old: Type, new: Type) -> bool:
    """Whether PostgreSQL's cast converts old values as the replica does."""
    if old == new:
        return True
    # A list of lists is JSON: its items are not cast.
    nested = any(kind.item is not None and kind.item.item is not None for kind in (old, new))
    return widens(old, new) and not nested
