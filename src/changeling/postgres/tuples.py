"""Parses the rows of pgoutput messages, column by column for all rows at once."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from changeling.model.errors import ChangelingError
from changeling.postgres.values import spans

PADDING = 8
"""The number of bytes that must follow the last message: numbers are read before bounds are checked."""
TEXT, NULL, UNCHANGED = ord("t"), ord("n"), ord("u")
_BINARY = ord("b")


class Field(NamedTuple):
    """One column of many rows: for each its kind, and where its text is."""

    kinds: np.ndarray
    """`TEXT`, `NULL`, or `UNCHANGED`: a TOASTed value that an update did not change, and that is not sent."""
    starts: np.ndarray
    lengths: np.ndarray
    """0 where there is no text."""


class Tuples(NamedTuple):
    """Many rows of the same columns."""

    fields: list[Field]
    ends: np.ndarray
    """Where the bytes of each row end."""


def numbers(data: np.ndarray, places: np.ndarray, kind: str) -> np.ndarray:
    """The numbers of type `kind` (`>i4`, say) at these offsets, as 64 bits; offsets need no alignment."""
    width = np.dtype(kind).itemsize
    unaligned = np.ndarray((len(data) - width + 1,), kind, data, strides=(1,))
    found: np.ndarray = unaligned[places].astype(np.int64)
    return found


def walk(data: np.ndarray, starts: np.ndarray, columns: int) -> Tuples:
    """The fields of the rows that begin at `starts`, all of which must have `columns` columns.

    Raises `ChangelingError` where they have not, or are malformed. `PADDING` bytes follow the last row.
    """
    limit = len(data) - PADDING
    if not len(starts):
        nothing = np.zeros(0, np.int64)
        return Tuples([Field(nothing.astype(np.uint8), nothing, nothing)] * columns, nothing)
    _check(starts, limit)
    if (numbers(data, starts, ">i2") != columns).any():
        raise ChangelingError(f"a row of the replication stream does not have the {columns} columns of its table")
    fields, cursor = [], starts + 2
    for _ in range(columns):
        _check(cursor, limit)
        kinds = data[cursor]
        is_text = kinds == TEXT
        lengths = numbers(data, cursor + 1, ">i4")
        begins = cursor + 5
        if is_text.all():
            cursor = begins + lengths
        else:
            _check_kinds(kinds[~is_text])
            lengths[~is_text] = 0
            cursor = np.where(is_text, begins + lengths, cursor + 1)
        if (lengths < 0).any():
            raise _malformed()
        fields.append(Field(kinds, begins, lengths))
    _check(cursor - 1, limit)
    return Tuples(fields, cursor)


def texts(data: np.ndarray, field: Field) -> tuple[pa.BinaryArray, np.ndarray | None]:
    """The values of the rows that have a text, and for each row its index among them, or -1; None where all have one.

    Rows must be in the order of their bytes.
    """
    is_text = field.kinds == TEXT
    starts, ends, places = field.starts, field.starts + field.lengths, None
    if not is_text.all():
        places = np.where(is_text, np.cumsum(is_text) - 1, -1)
        starts, ends = starts[is_text], ends[is_text]
    if not len(starts):
        return pa.array([], pa.binary()), places
    found = spans(data, starts, ends)
    return found.take(pa.array(np.arange(0, len(found), 2))), places


def _check(places: np.ndarray, limit: int) -> None:
    if places.max() >= limit or places.min() < 0:
        raise _malformed()


def _check_kinds(kinds: np.ndarray) -> None:
    if (kinds == _BINARY).any():
        raise ChangelingError("the replication stream has binary values: start it without the option binary")
    if ((kinds != NULL) & (kinds != UNCHANGED)).any():
        raise _malformed()


def _malformed() -> ChangelingError:
    return ChangelingError("a row of the replication stream ends too early: it is not a valid row of pgoutput")
