"""Stored columns back as JSON in the canonical convention, for people and programs to read."""

import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import islice

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from changeling.model import json_text
from changeling.model.json_text import quote
from changeling.model.types import INTEGER_RANGES, Type, array

_DOCUMENTS = ("json", "interval")
_FLOATS = ("float32", "float64")
_MOMENTS = ("timestamp", "timestamptz")
_PLAIN = msgspec.json.Encoder(enc_hook=str).encode


def lines(table: pa.Table, kinds: Mapping[str, Type]) -> Iterator[bytes]:
    """One JSON object for each row, columns in the table's order; one without a kind is shown by its Arrow type."""
    names = table.schema.names
    for batch in table.to_batches():
        shown = [_shown(column, kinds.get(name)) for name, column in zip(names, batch.columns, strict=True)]
        for row in zip(*shown, strict=True):
            yield json_text.join(zip(names, row, strict=True))


def json_column(column: pa.Array | pa.ChunkedArray, kind: Type) -> list[bytes]:
    """One JSON text for each value of a column that stores values of a canonical type."""
    if isinstance(column, pa.ChunkedArray):
        return [text for chunk in column.chunks for text in json_column(chunk, kind)]
    if kind.item is not None:
        return _lists(column, kind.item)
    if kind.kind in _MOMENTS:
        return list(map(quote, _moment_texts(column).to_pylist()))
    if kind.kind == "date":
        return list(map(quote, column.cast(pa.string()).to_pylist()))
    if kind.kind in _FLOATS:
        return _floats(column)
    if kind.kind in _DOCUMENTS:
        return [b"null" if text is None else _document(text) for text in column.to_pylist()]
    if kind.kind == "decimal":
        return [quote(f"{value:f}" if isinstance(value, Decimal) else value) for value in column.to_pylist()]
    if kind.kind in INTEGER_RANGES:
        return [b"null" if value is None else b"%d" % int(value) for value in column.to_pylist()]
    return list(map(quote, column.to_pylist()))


def _lists(column: pa.ListArray, item: Type) -> list[bytes]:
    items = iter(json_column(column.flatten(), item))
    lengths = column.value_lengths().to_pylist()
    return [b"null" if length is None else json_text.join_array(islice(items, length)) for length in lengths]


def _moment_texts(column: pa.TimestampArray) -> pa.StringArray:
    """ISO-8601 with the fewest groups of three fraction digits."""
    if column.type.tz is not None:
        column = column.cast(pa.timestamp(column.type.unit, "UTC"))
    texts = pc.replace_substring(column.cast(pa.string()), " ", "T")
    whole = pc.replace_substring_regex(texts, r"\.(?:000)+(Z?)$", r"\1")
    return pc.replace_substring_regex(whole, r"(\.(?:[0-9]{3})+?)(?:000)+(Z?)$", r"\1\2")


def _floats(column: pa.Array) -> list[bytes]:
    if pa.types.is_float32(column.type):
        # The digits that distinguish it from its neighbours, which are fewer than a double needs.
        column = column.cast(pa.string()).cast(pa.float64())
    return [b"null" if value is None else _float(value) for value in column.to_pylist()]


def _float(value: float) -> bytes:
    if math.isfinite(value):
        return quote(value)
    return b'"NaN"' if math.isnan(value) else b'"Infinity"' if value > 0 else b'"-Infinity"'


def _document(text: str) -> bytes:
    """The JSON that a text holds, in one line; a text that holds none is shown as a text."""
    try:
        return json_text.compact(text)
    except (ValueError, RecursionError):
        return quote(text)


def _shown(column: pa.Array, kind: Type | None) -> list[bytes]:
    kind = kind or _kind(column.type)
    return list(map(_PLAIN, column.to_pylist())) if kind is None else json_column(column, kind)


def _kind(stored: pa.DataType) -> Type | None:
    """The canonical type to show a stored one as; None where a plain value shows itself."""
    if pa.types.is_list(stored) or pa.types.is_large_list(stored):
        item = _kind(stored.value_type)
        return None if item is None else array(item)
    if pa.types.is_timestamp(stored):
        return Type("timestamp" if stored.tz is None else "timestamptz")
    if pa.types.is_decimal(stored):
        return Type("decimal")
    return Type("float64") if pa.types.is_floating(stored) else None
