"""Columns of JSON text, joined, cut and compared as a whole: no object is created for a record or for a part of one."""

from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Lengths = npt.NDArray[np.int64]
Places = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
TextPart: TypeAlias = pa.Array | bytes
Value = TypeVar("Value", bound=Hashable)

_NEWLINE = ord("\n")


def is_one_of(texts: pa.Array, values: Collection[str]) -> pa.Array:
    """Which texts are one of some values."""
    # No array at import: PyArrow loads pandas for the first one, before the command line can leave it out.
    return pc.is_in(texts, pa.array(list(values), pa.string()))


def lines(texts: pa.Array) -> memoryview:
    """All texts of a column, joined as lines."""
    whole = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    return memoryview(pc.binary_join(whole, b"\n" if texts.type == pa.binary() else "\n")[0].as_buffer())


def lengths_of(texts: Sequence[Any]) -> Lengths:
    """The number of bytes of each text (of `msgspec.Raw`)."""
    return np.fromiter(map(len, texts), np.int64, len(texts))


def column(texts: Sequence[Any]) -> pa.Array:
    """Texts (of `msgspec.Raw`) as a column."""
    ends = np.zeros(len(texts) + 1, np.int32)
    np.cumsum(lengths_of(texts), out=ends[1:])
    return _binary(ends, pa.py_buffer(b"".join(texts)))


def _binary(ends: npt.NDArray[np.int32], content: pa.Buffer) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, [None, pa.py_buffer(ends), content])


def cut(texts: pa.Array, lengths: Lengths) -> pa.Array:
    """Every text cut into pieces, all in one column: `lengths` has a row for each text, which adds up to its own length."""
    ends = np.zeros(lengths.size + 1, np.int32)
    np.cumsum(lengths, out=ends[1:], dtype=np.int32)
    starts, content = texts.buffers()[1:]
    ends += np.frombuffer(starts, np.int32, 1, offset=4 * texts.offset)[0]
    return _binary(ends, content)


def every(pieces: pa.Array, first: int, step: int) -> pa.Array:
    """One piece of each text."""
    return pieces.take(pa.array(np.arange(first, len(pieces), step)))


def byte_lengths(texts: pa.Array) -> Lengths:
    """The number of bytes of each text; 0 where it is null."""
    lengths = pc.binary_length(texts)
    found: Lengths = (pc.fill_null(lengths, 0) if lengths.null_count else lengths).to_numpy().astype(np.int64)
    return found


def counts_of(texts: pa.Array, letters: bytes) -> Lengths:
    """How many of these bytes each text contains, of a column without nulls."""
    bounds, content = content_of(texts)
    found = np.zeros(len(content), np.bool_)
    for letter in letters:
        found |= content == letter
    counts: Lengths = np.diff(np.searchsorted(np.flatnonzero(found), bounds)).astype(np.int64)
    return counts


def content_of(texts: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """The bounds of the texts, from 0 on, and the bytes of all of them."""
    bounds = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    content = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    return bounds - bounds[0], content[bounds[0] : bounds[-1]]


def first_bytes(texts: pa.Array) -> Bytes:
    """The first byte of each text; 0 where it is empty or null."""
    bounds, content = content_of(texts)
    found = np.zeros(len(texts), np.uint8)
    there = bounds[:-1] < bounds[1:]
    found[there] = content[bounds[:-1][there]]
    return found


def starts(texts: pa.Array, heads: pa.Array) -> tuple[Mask, pa.Array]:
    """Whether each text begins with what is at its place in `heads`, and the texts without as many bytes."""
    whole = byte_lengths(texts)
    front = np.minimum(whole, byte_lengths(heads))
    pieces = cut(texts, np.column_stack((front, whole - front)))
    return as_mask(pc.equal(every(pieces, 0, 2), heads)), every(pieces, 1, 2)


def as_mask(values: pa.Array) -> Mask:
    """Truth values; null is false."""
    found = pc.fill_null(values, False) if values.null_count else values
    return found.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def joined(*parts: TextPart) -> pa.Array:
    """Text by text, these parts after one another; null where one of them is."""
    return pc.binary_join_element_wise(*merged(parts), b"")


def merged(parts: Iterable[TextPart]) -> list[TextPart]:
    """The same parts, neighbouring literals made one."""
    found: list[TextPart] = []
    for part in parts:
        if isinstance(part, bytes) and found and isinstance(found[-1], bytes):
            found[-1] += part
        else:
            found.append(part if isinstance(part, bytes) else part.cast(pa.binary()))
    return found


def scattered(parts: Sequence[tuple[Places, pa.Array]], count: int) -> pa.Array:
    """One column of `count` rows: the values of each part at its places, null elsewhere."""
    if len(parts) == 1 and len(parts[0][0]) == count:
        return parts[0][1]
    places = np.full(count, -1, np.int64)
    start = 0
    for rows, values in parts:
        places[rows] = np.arange(start, start + len(values))
        start += len(values)
    together = pa.concat_arrays([values for _, values in parts]) if parts else pa.nulls(1, pa.binary())
    return together.take(pa.array(places, mask=places < 0))


def quoted(texts: pa.Array) -> pa.Array:
    """Each text as a JSON string with the fewest escapes, `null` where there is none."""
    if not pc.any(pc.match_substring_regex(texts, r'["\\\x00-\x1f]')).as_py():
        return pc.fill_null(joined(b'"', texts, b'"'), b"null")
    content = msgspec.json.Encoder().encode_lines(texts.to_pylist())
    breaks = np.flatnonzero(np.frombuffer(content, np.uint8) == _NEWLINE)
    bounds = np.zeros(2 * len(breaks) + 1, np.int32)
    bounds[1::2], bounds[2::2] = breaks, breaks + 1
    return every(_binary(bounds, pa.py_buffer(content)), 0, 2)


def distinct(values: Iterable[Value]) -> tuple[list[Value], pa.Array]:
    """The distinct values in the order of their first occurrence, and which of them each one is."""
    given = list(values)
    known = {value: place for place, value in enumerate(dict.fromkeys(given))}
    return list(known), pa.array(map(known.__getitem__, given), pa.int32(), size=len(given))


def distinct_rows(columns: Sequence[Sequence[Any]]) -> tuple[list[tuple[Any, ...]], pa.Array]:
    """The distinct rows of some columns, and which of them each row is."""
    varying = [place for place, column_ in enumerate(columns) if column_.count(column_[0]) < len(column_)]
    if len(varying) != 1:
        return distinct(zip(*columns, strict=True))
    # Mostly one member names the table and the others never change: no tuple for each row is needed.
    (own,) = varying
    found, places = distinct(columns[own])
    rest = [column_[0] for column_ in columns]
    return [(*rest[:own], value, *rest[own + 1 :]) for value in found], places


def contained(texts: pa.Array, parts: Sequence[bytes]) -> list[bytes]:
    """Which of these parts some text of the column contains."""
    _, content = content_of(texts)
    whole = content.tobytes()
    return [part for part in parts if part in whole]
