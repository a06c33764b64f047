"""JSON objects of rows, built from columns for all rows at once.

Every object is a sequence of pieces (separator, value, separator, ...), and one Arrow `take` concatenates the pieces of all
objects. The end of a value, the name of the next column and the start of its value form one separator.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from changeling.model import json_text
from changeling.model.json_text import quote
from changeling.postgres.values import WHOLE, Around, Pieces, parts

_NULL = (b"null", b"")
_EMPTY = pa.array([b""], pa.binary())
# Large inputs are built in several steps, so that the pieces of one stay in the CPU cache.
_PIECES_AT_ONCE = 1 << 20


class Member(NamedTuple):
    """One column of many rows, ready to be put into objects."""

    name: str
    pieces: Pieces
    places: np.ndarray | None = None
    """For each row the index of its value among the pieces, or -1 where it is NULL; None where row i has piece i."""
    absent: np.ndarray | None = None
    """Which rows do not have it."""

    def canonical(self) -> "Member":
        """The same with equal values written alike, as in keys."""
        found = [json_text.canonical(value) for value in self.pieces.whole().to_pylist()]
        return self._replace(pieces=Pieces(pa.array(found, pa.binary()), WHOLE))


def images(members: Sequence[Member], count: int) -> tuple[pa.StringArray, np.ndarray]:
    """The object of each row, and which of them are partial: absent members are omitted."""
    patterns = np.zeros(count, np.int64)
    for member in members:
        if member.absent is not None:
            _, patterns = np.unique(patterns * 2 + member.absent, return_inverse=True)
    if not patterns.any():
        present = [member for member in members if member.absent is None or not member.absent.any()]
        return objects(present, count), np.full(count, len(present) < len(members))
    built, order, partial = [], [], np.zeros(count, bool)
    for pattern in range(int(patterns.max()) + 1):
        rows = np.flatnonzero(patterns == pattern)
        present = [member for member in members if member.absent is None or not member.absent[rows[0]]]
        partial[rows] = len(present) < len(members)
        built.append(objects(present, len(rows), rows))
        order.append(rows)
    return pa.concat_arrays(built).take(pa.array(np.argsort(np.concatenate(order)))), partial


def keys(members: Sequence[Member], count: int) -> pa.StringArray:
    """The canonical object of each row, as in `json_text.canonical_key`; null where a member is absent.

    Members whose values have several spellings must be `canonical`.
    """
    ordered = sorted(members, key=lambda member: member.name)
    unknown = [member.absent for member in members if member.absent is not None]
    if not unknown:
        return objects(ordered, count)
    known = ~np.logical_or.reduce(unknown)
    places = np.where(known, np.cumsum(known) - 1, 0)
    rows = np.flatnonzero(known)
    return objects(ordered, len(rows), rows).take(pa.array(places, mask=~known))


def objects(members: Sequence[Member], count: int, rows: np.ndarray | None = None) -> pa.StringArray:
    """An object of all members for each row, or for the `count` rows of `rows`.

    Raises `ValueError` where a text is not UTF-8.
    """
    if not members:
        return pa.repeat(pa.scalar("{}", pa.string()), count)
    step = max(1, _PIECES_AT_ONCE // (2 * len(members) + 1))
    if count <= step:
        return _objects(members, count, rows)
    built = []
    for start in range(0, count, step):
        stop = min(start + step, count)
        part = np.arange(start, stop) if rows is None else rows[start:stop]
        built.append(_objects(members, stop - start, part))
    return pa.concat_arrays(built)


def _objects(members: Sequence[Member], count: int, rows: np.ndarray | None) -> pa.StringArray:
    ways = tuple(member.pieces.around + ((_NULL,) if member.places is not None else ()) for member in members)
    separators, bases = _separators(tuple(member.name for member in members), ways)
    pieces = pa.concat_arrays([_EMPTY, separators, *(member.pieces.texts for member in members)])
    index = np.empty((count, 2 * len(members) + 1), np.int32)
    base = 1 + len(separators)
    closing: np.ndarray | int = 0
    for number, (member, around) in enumerate(zip(members, ways, strict=True)):
        places, opening = _placed(member, count, rows, base)
        index[:, 2 * number] = bases[number] + closing * len(around) + opening
        index[:, 2 * number + 1] = places
        base += len(member.pieces.texts)
        closing = opening
    index[:, -1] = bases[-1] + closing
    return _strings(pieces.take(pa.array(index.reshape(-1))), count, index.shape[1])


def _placed(member: Member, count: int, rows: np.ndarray | None, base: int) -> tuple[np.ndarray, np.ndarray | int]:
    """For each row the index of the piece that is its value, and the index of its opening and closing."""
    pieces, places = member.pieces, member.places
    if rows is not None:
        places = rows if places is None else places[rows]
    elif places is None:
        places = np.arange(count)
    values = pieces.texts if pieces.places is None else pieces.places
    if not len(values):
        return np.zeros(count, np.int64), len(pieces.around)
    found = places if pieces.places is None else pieces.places[places]
    forms: np.ndarray | int = 0 if pieces.forms is None else pieces.forms[places]
    if member.places is None:
        return found + base, forms
    null = places < 0
    return np.where(null, 0, found + base), np.where(null, len(pieces.around), forms)


@functools.lru_cache(maxsize=256)
def _separators(names: tuple[str, ...], ways: tuple[Around, ...]) -> tuple[pa.BinaryArray, list[int]]:
    """All separators, and where those before each member begin: one for each possible pair of closing and opening."""
    found: list[bytes] = []
    bases = []
    closings = [b"{"]
    for name, around in zip(names, ways, strict=True):
        bases.append(1 + len(found))
        head = quote(name) + b":"
        found += [closing + head + opening for closing in closings for opening, _ in around]
        closings = [closing + b"," for _, closing in around]
    bases.append(1 + len(found))
    found += [closing[:-1] + b"}" for closing in closings]
    return pa.array(found, pa.binary()), bases


def _strings(pieces: pa.BinaryArray, count: int, width: int) -> pa.StringArray:
    """Each run of `width` pieces as one text."""
    data, places = parts(pieces)
    ends = np.ascontiguousarray(places[::width])
    joined = [None, pa.py_buffer(ends), pieces.buffers()[2]]
    if not len(data) or data.max() < 0x80:
        return pa.Array.from_buffers(pa.string(), count, joined)
    try:
        return pa.Array.from_buffers(pa.binary(), count, joined).cast(pa.string())
    except pa.ArrowInvalid:
        raise ValueError("it is not UTF-8; is the database's encoding SQL_ASCII?") from None
