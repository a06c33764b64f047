"""Arrow columns as text for PostgreSQL's COPY (CSV format)."""

import json
from collections.abc import Sequence
from itertools import accumulate

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from changeling.model.types import Type
from changeling.replicas.json_output import json_column
from changeling.replicas.stored_types import arrow_type

# Text is quoted and NULL is empty, so an empty text is not NULL.
_json = msgspec.json.Decoder(msgspec.Raw).decode
_LAYOUT = csv.WriteOptions(include_header=False, quoting_style="needed")


def copy_text(columns: Sequence[pa.Array]) -> memoryview:
    """The rows of columns that `copied` returned."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch(list(columns), names=[str(place) for place in range(len(columns))])
    csv.write_csv(batch, sink, _LAYOUT)
    return memoryview(sink.getvalue())


def copied(column: pa.Array, kind: Type, spelled: str) -> pa.Array:
    """The values of a stored column as text for a PostgreSQL column of type `spelled`; floats may be text already."""
    if kind.item is None:
        return _scalars(column, kind, spelled)
    if kind.item.item is not None:
        texts = [text.decode() for text in json_column(column.cast(arrow_type(kind)), kind)]
        return pa.array(texts, pa.string(), mask=column.is_null().to_numpy(zero_copy_only=False))
    return _arrays(column, kind.item, spelled)


def _scalars(column: pa.Array, kind: Type, spelled: str) -> pa.Array:
    if spelled.startswith("json"):
        return pa.array([None if value is None else _document(value) for value in column.to_pylist()], pa.string())
    if pa.types.is_timestamp(column.type):
        # Without a zone, since the session is in UTC too: this takes a tenth of the time.
        column = column if column.type.tz is None else column.cast(pa.timestamp("us", "UTC"))
        return column.cast(pa.timestamp("us")).cast(pa.string())
    if kind.kind == "bytes":
        return pa.array([None if value is None else f"\\x{value.hex()}" for value in column.to_pylist()], pa.string())
    return column


def _arrays(column: pa.ListArray, item: Type, spelled: str) -> pa.StringArray:
    """Array literals: each item is quoted, so that none is read as NULL or as two items."""
    texts = _scalars(column.flatten(), item, spelled).cast(pa.string())
    escaped = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    items = pc.fill_null(pc.binary_join_element_wise('"', escaped, '"', ""), "NULL")
    lengths = pc.fill_null(column.value_lengths(), 0).to_pylist()
    offsets = pa.array([0, *accumulate(lengths)], pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, items), ",")
    literals = pc.binary_join_element_wise("{", joined, "}", "")
    return pc.if_else(column.is_null(), pa.scalar(None, pa.string()), literals)


def _document(text: str) -> str:
    """A text that is valid JSON, as it is; any other text as a JSON string."""
    try:
        _json(text)
    except msgspec.DecodeError:
        # msgspec rejects half of a surrogate pair, which PostgreSQL accepts.
        return text if _is_odd_json(text) else json.dumps(text, ensure_ascii=False)
    return text


def _is_odd_json(text: str) -> bool:
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return False
    return True


def _no_number(text: str) -> object:
    raise ValueError(text)
