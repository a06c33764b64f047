"""Columns of Arrow as the text that PostgreSQL's COPY reads (its format CSV)."""

from collections.abc import Sequence
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from changeling.model.types import Type
from changeling.replicas.showing import json_column
from changeling.replicas.stored_types import arrow_type

# Text stands in quotes, NULL is nothing at all: so an empty text is no NULL.
_LAYOUT = csv.WriteOptions(include_header=False, quoting_style="needed")


def copy_text(columns: Sequence[pa.Array]) -> memoryview:
    """Rows of columns that `copied` made."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch(list(columns), names=[str(place) for place in range(len(columns))])
    csv.write_csv(batch, sink, _LAYOUT)
    return memoryview(sink.getvalue())


def copied(column: pa.Array, kind: Type) -> pa.Array:
    """The values of a stored column as PostgreSQL spells them; floats are text already."""
    if kind.item is None:
        return _scalars(column, kind)
    if kind.item.item is not None:
        texts = [text.decode() for text in json_column(column.cast(arrow_type(kind)), kind)]
        return pa.array(texts, pa.string(), mask=column.is_null().to_numpy(zero_copy_only=False))
    return _arrays(column, kind.item)


def _scalars(column: pa.Array, kind: Type) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        # In UTC, as the session is: without a zone to look at, it is written in a tenth of the time.
        return column.cast(pa.timestamp("us")).cast(pa.string())
    if kind.kind == "bytes":
        return pa.array([None if value is None else f"\\x{value.hex()}" for value in column.to_pylist()], pa.string())
    return column


def _arrays(column: pa.ListArray, item: Type) -> pa.StringArray:
    """Array literals: each item in quotes, so that none is taken for NULL or for two of them."""
    texts = _scalars(column.flatten(), item).cast(pa.string())
    escaped = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    items = pc.fill_null(pc.binary_join_element_wise('"', escaped, '"', ""), "NULL")
    lengths = pc.fill_null(column.value_lengths(), 0).to_pylist()
    offsets = pa.array([0, *accumulate(lengths)], pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, items), ",")
    made = pc.binary_join_element_wise("{", joined, "}", "")
    return pc.if_else(column.is_null(), pa.scalar(None, pa.string()), made)
