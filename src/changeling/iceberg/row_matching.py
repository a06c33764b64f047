"""Rows of two sets that are equal in some columns: NULL equals NULL, NaN equals NaN, and -0.0 equals 0.0, as in Spark's `<=>`."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Columns = Sequence[pa.Array | pa.ChunkedArray]


class Pairs(NamedTuple):
    """Places of rows that are equal: `wanted[i]` on one side, `stored[i]` on the other, ascending by `stored`."""

    wanted: np.ndarray
    stored: np.ndarray


def matching(wanted: Columns, stored: Columns) -> Pairs:
    """All pairs of equal rows."""
    own, other = codes(wanted, stored)
    order = np.argsort(own, kind="stable")
    ranked = own[order]
    starts, ends = np.searchsorted(ranked, other, "left"), np.searchsorted(ranked, other, "right")
    counts = np.where(other >= 0, ends - starts, 0)
    places = np.flatnonzero(counts)
    if not len(places):
        return Pairs(np.zeros(0, np.int64), np.zeros(0, np.int64))
    repeated = counts[places]
    firsts = np.repeat(starts[places], repeated)
    offsets = np.arange(len(firsts)) - np.repeat(np.cumsum(repeated) - repeated, repeated)
    return Pairs(order[firsts + offsets], np.repeat(places, repeated))


def codes(wanted: Columns, stored: Columns) -> tuple[np.ndarray, np.ndarray]:
    """A number for each row: equal rows have equal ones, and a stored row without a match has -1."""
    count, others = len(wanted[0]), len(stored[0])
    own, other = np.zeros(count, np.int64), np.zeros(others, np.int64)
    for one, two in zip(wanted, stored, strict=True):
        left, right = _column_codes(one, two)
        width = int(left.max(initial=0)) + 1
        own = own * width + left
        other = np.where((other < 0) | (right < 0), -1, other * width + right)
        # Numbers stay below the count of wanted rows, whatever the number of columns.
        distinct, own = np.unique(own, return_inverse=True)
        place = np.searchsorted(distinct, other)
        known = (
            (place < len(distinct)) & (distinct[np.minimum(place, len(distinct) - 1)] == other) if count else place < 0
        )
        other = np.where(known, place, -1)
    return own, other


def _column_codes(
    wanted: pa.Array | pa.ChunkedArray, stored: pa.Array | pa.ChunkedArray
) -> tuple[np.ndarray, np.ndarray]:
    one, two = _comparable(wanted), _comparable(stored)
    values = one.unique()
    left, right = pc.index_in(one, values), pc.index_in(two, values)
    return np.asarray(left, np.int64), np.asarray(pc.fill_null(right, -1), np.int64)


def _comparable(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_floating(column.type):
        return _bits(column)
    if pa.types.is_nested(column.type):
        return pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())
    return column


def _bits(column: pa.Array) -> pa.Array:
    """Floats as the numbers of their bits, one for all NaNs and one for both zeros."""
    values = np.asarray(column.fill_null(0.0)).astype(np.float64) + 0.0
    values[np.isnan(values)] = np.nan
    return pa.array(values.view(np.int64), mask=np.asarray(column.is_null()))
