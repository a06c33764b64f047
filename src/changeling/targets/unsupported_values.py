"""Values of a replica that PostgreSQL cannot store: their rows are quarantined, never altered."""

import re
from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from changeling.model.types import Type
from changeling.targets.column_types import column_type

_MAX_INTEGER_DIGITS, _MAX_FRACTION_DIGITS = 131_072, 16_383
"""Digits of a `numeric` before and after the point."""
_TEXTS = ("string", "time", "duration", "interval")
_DIGITS = re.compile(r"-?([0-9]*)(?:\.([0-9]*))?")


class Unsupported(NamedTuple):
    """Which values of a column PostgreSQL cannot store, and why."""

    where: pa.BooleanArray
    why: str


def find_unsupported(column: pa.Array, kind: Type, *, in_key: bool) -> list[Unsupported]:
    """The unsupported values of a stored column; empty where all can be stored."""
    found = []
    if in_key and column.null_count:
        found.append(Unsupported(column.is_null(), "a column of the primary key cannot be NULL"))
    if kind.item is None:
        found += _scalars(column, kind, in_key)
    elif column_type(kind, in_key=False) != "json":
        found += [
            Unsupported(_owners(column, one.where), one.why) for one in _scalars(column.flatten(), kind.item, in_key)
        ]
    return found


def _scalars(column: pa.Array, kind: Type, in_key: bool) -> list[Unsupported]:
    if kind.kind in _TEXTS or (kind.kind == "json" and in_key):
        where = pc.fill_null(pc.match_substring(column, "\0"), False)
        return (
            [Unsupported(where, "text in PostgreSQL cannot have the character U+0000")] if pc.any(where).as_py() else []
        )
    if kind.kind == "decimal" and pa.types.is_string(column.type):
        return _checked(column, _is_numeric(bounded=kind.precision is not None), "it is not a `numeric` of PostgreSQL")
    return []


def _checked(column: pa.Array, fits: Callable[[str], bool], why: str) -> list[Unsupported]:
    wrong = [value is not None and not fits(value) for value in column.to_pylist()]
    return [Unsupported(pa.array(wrong, pa.bool_()), why)] if any(wrong) else []


def _is_numeric(*, bounded: bool) -> Callable[[str], bool]:
    def fits(text: str) -> bool:
        digits = _DIGITS.fullmatch(text)
        if digits is None:
            return text == "NaN" or (text in ("Infinity", "-Infinity") and not bounded)
        return len(digits[1]) <= _MAX_INTEGER_DIGITS and len(digits[2] or "") <= _MAX_FRACTION_DIGITS

    return fits


def _owners(column: pa.ListArray, items: pa.BooleanArray) -> pa.BooleanArray:
    """The arrays that have one of these items."""
    flags = iter(items.to_pylist())
    lengths = pc.fill_null(column.value_lengths(), 0).to_pylist()
    # All items of an array are consumed, whatever the first of them is.
    return pa.array([any(list(islice(flags, length))) for length in lengths], pa.bool_())


def any_of(found: Sequence[Unsupported], length: int) -> pa.BooleanArray | None:
    """The rows with any unsupported value; None where there is none."""
    where: pa.BooleanArray | None = None
    for one in found:
        where = one.where if where is None else pc.or_(where, one.where)
    assert where is None or len(where) == length
    return where
