"""How columns of canonical types are stored in a replica: as Arrow types, and as Spark's SQL spells them."""

import pyarrow as pa

from changeling.model.types import STORED_DIGITS, Type

_INT = (pa.int32(), "INT")
_LONG = (pa.int64(), "BIGINT")
_TEXT = (pa.string(), "STRING")
_STORED: dict[str, tuple[pa.DataType, str]] = {
    "bool": (pa.bool_(), "BOOLEAN"),
    **dict.fromkeys(("int8", "int16", "int32", "uint8", "uint16"), _INT),
    **dict.fromkeys(("int64", "uint32"), _LONG),
    "uint64": (pa.decimal128(20, 0), "DECIMAL(20,0)"),
    "float32": (pa.float32(), "FLOAT"),
    "float64": (pa.float64(), "DOUBLE"),
    **dict.fromkeys(("decimal", "time", "duration", "interval", "uuid", "json", "string"), _TEXT),
    "bytes": (pa.binary(), "BINARY"),
    "date": (pa.date32(), "DATE"),
    "timestamp": (pa.timestamp("us"), "TIMESTAMP_NTZ"),
    "timestamptz": (pa.timestamp("us", "UTC"), "TIMESTAMP"),
}


def arrow_type(kind: Type) -> pa.DataType:
    """The Arrow type that holds values of a canonical type."""
    if kind.item is not None:
        return pa.list_(arrow_type(kind.item))
    return pa.decimal128(kind.precision, kind.scale) if is_exact_decimal(kind) else _STORED[kind.kind][0]


def sql_type(kind: Type) -> str:
    """The same type in Spark's SQL."""
    if kind.item is not None:
        return f"ARRAY<{sql_type(kind.item)}>"
    return f"DECIMAL({kind.precision},{kind.scale})" if is_exact_decimal(kind) else _STORED[kind.kind][1]


def is_exact_decimal(kind: Type) -> bool:
    """Whether it is a decimal that is stored as one; others are stored as text."""
    return kind.kind == "decimal" and kind.precision is not None and kind.precision <= STORED_DIGITS


def is_promotion(old: Type, new: Type) -> bool:
    """Whether a stored column of the old type becomes one of the new type in place: no value is rewritten.

    Items of arrays are not promoted: SQL cannot say it of the whole column.
    """
    if not are_spelled_alike(old, new):
        return False
    before, after = arrow_type(old), arrow_type(new)
    if before == after:
        return True
    if pa.types.is_decimal(before) and pa.types.is_decimal(after):
        return bool(before.scale == after.scale and before.precision <= after.precision)
    return (before, after) in ((pa.int32(), pa.int64()), (pa.float32(), pa.float64()))


def are_spelled_alike(old: Type, new: Type) -> bool:
    """Whether the same text stands for the same value in both, where both are stored as text: JSON has texts in quotes."""
    if old.item is not None and new.item is not None:
        return are_spelled_alike(old.item, new.item)
    return new.kind != "json" or old.kind in ("json", "decimal", "interval")
