"""Raw records: the bytes of one, of one that is too large, or of many cut out of one text at once."""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa

HEAD = 1024
"""How many bytes are kept of a record over the size limit."""


@dataclass(frozen=True, slots=True)
class Oversized:
    """A record over the size limit: its first bytes and its length. The rest was skipped, never held in memory."""

    head: bytes
    length: int


def oversized(seen: bytes, length: int) -> Oversized:
    """A record over the size limit, by its length and what was read from its start on, which may go beyond its end."""
    return Oversized(seen[: min(HEAD, length)], length)


RawRecord: TypeAlias = bytes | Oversized
Block: TypeAlias = pa.Array | list[RawRecord]
"""Consecutive records: a binary array where they could be cut at once, else a list."""


def size(record: RawRecord) -> int:
    """How many bytes a record has."""
    return record.length if isinstance(record, Oversized) else len(record)


class Readable(Protocol):
    """All that framing needs of a stream: `read(n)` returns up to n bytes, and none only at the end."""

    def read(self, size: int, /) -> bytes:
        """The next bytes."""
        ...


def line_bounds(text: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where the lines of a text start, where their content stops, and where their line breaks are; the text ends with one.

    The content stops before a carriage return at the end of the line.
    """
    ends = np.flatnonzero(text == ord("\n"))
    starts = np.empty_like(ends)
    starts[0] = 0
    starts[1:] = ends[:-1] + 1
    returns = (text[ends - 1] == ord("\r")) & (ends > starts)
    return starts, ends - returns, ends


def cut(data: bytes, start: int, end: int, starts: np.ndarray, stops: np.ndarray) -> pa.Array:
    """The spans of `data[start:end]` (in order, not overlapping) as a binary array.

    An Arrow array has no gaps between its values, so one that has the gaps as values is built first, around the same bytes.
    """
    bounds = np.empty(2 * len(starts), np.int32)
    bounds[0::2] = starts
    bounds[1::2] = stops
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data).slice(start, end - start)]
    spans_and_gaps = pa.Array.from_buffers(pa.binary(), max(len(bounds) - 1, 0), buffers)
    return spans_and_gaps.take(pa.array(np.arange(0, len(bounds), 2)))


def cut_lines(data: bytes, start: int, end: int, ends: np.ndarray) -> pa.Array:
    """All lines of `data[start:end]`, each of which ends with a bare line break: quicker than `cut`."""
    offsets = np.empty(len(ends) + 1, np.int32)
    offsets[0] = 0
    offsets[1:] = ends - np.arange(len(ends))
    joined = data[start:end].replace(b"\n", b"")
    return pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(joined)])
