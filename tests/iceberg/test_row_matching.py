import math
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from changeling.iceberg.row_matching import matching

CELLS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int": (pa.int64(), st.integers(-3, 3)),
    "text": (pa.string(), st.sampled_from(["", "a", "b", "ä"])),
    "float": (pa.float64(), st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf])),
    "bytes": (pa.binary(), st.sampled_from([b"", b"a"])),
    "bool": (pa.bool_(), st.booleans()),
    "list": (pa.list_(pa.int64()), st.lists(st.integers(0, 1) | st.none(), max_size=2)),
}


def same(one: Any, other: Any) -> bool:
    """Spark's `<=>`, said once more in plain Python."""
    if one is None or other is None:
        return one is other
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    return bool(one == other)


@st.composite
def two_sets(draw: st.DrawFn) -> tuple[list[pa.Array], list[pa.Array]]:
    kinds = draw(st.lists(st.sampled_from(sorted(CELLS)), min_size=1, max_size=3))
    sides = []
    for _ in range(2):
        count = draw(st.integers(0, 8))
        sides.append(
            [
                pa.array(draw(st.lists(CELLS[kind][1] | st.none(), min_size=count, max_size=count)), CELLS[kind][0])
                for kind in kinds
            ]
        )
    return sides[0], sides[1]


@given(two_sets())
def test_exactly_the_equal_rows_are_paired(sets: tuple[list[pa.Array], list[pa.Array]]) -> None:
    wanted, stored = sets
    left, right = (list(zip(*(column.to_pylist() for column in side), strict=True)) for side in sets)
    expected = {
        (one, other)
        for one, row in enumerate(left)
        for other, held in enumerate(right)
        if all(same(a, b) for a, b in zip(row, held, strict=True))
    }
    pairs = matching(wanted, stored)
    found = list(zip(pairs.wanted.tolist(), pairs.stored.tolist(), strict=True))
    assert len(found) == len(expected)
    assert set(found) == expected
    assert pairs.stored.tolist() == sorted(pairs.stored.tolist())
