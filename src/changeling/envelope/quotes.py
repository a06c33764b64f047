"""Where the texts of JSON are: nothing but a quote that is not escaped begins or ends one."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from changeling.envelope.text_columns import Bytes, Mask

Offsets: TypeAlias = npt.NDArray[np.int64]

QUOTE, BACKSLASH = b'"\\'
_BLOCK = 256 * 1024
"""A block that fits a core's cache is searched several times as fast."""


class QuotedText:
    """The bytes of a column of records, and where the quotes are that begin or end a text."""

    def __init__(self, texts: pa.Array) -> None:
        bounds = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
        self.buffer = texts.buffers()[2]
        self.bytes: Bytes = np.frombuffer(self.buffer, np.uint8)[: bounds[-1]]
        self.begins, self.ends = bounds[:-1].astype(np.int64), bounds[1:].astype(np.int64)
        self.quotes: Offsets = _quotes(self.bytes[bounds[0] :]) + int(bounds[0])

    def holds(self, literal: bytes, at: Offsets) -> Mask:
        """Where a literal stands at these places."""
        size = len(literal)
        last = len(self.bytes) - size
        if last < 0:
            return np.zeros(len(at), np.bool_)
        inside = np.minimum(at, last)
        found = np.ndarray((last + 1,), f"V{size}", buffer=self.buffer, strides=(1,))[inside]
        if found.tobytes() == literal * len(at):
            right: Mask = inside == at
            return right
        same = found.view(np.uint8).reshape(-1, size) == np.frombuffer(literal, np.uint8)
        found_there: Mask = same.all(axis=1) & (inside == at)
        return found_there

    def column(self, begins: Offsets, ends: Offsets) -> pa.Array:
        """These parts of the records, one each."""
        bounds = np.empty(2 * len(begins), np.int32)
        bounds[::2], bounds[1::2] = begins, ends
        parts_and_gaps = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), self.buffer])
        return parts_and_gaps.take(pa.array(np.arange(0, len(bounds), 2)))


def _quotes(content: Bytes) -> Offsets:
    """Where the quotes are that begin or end a text."""
    found, doubtful = [], []
    for start in range(0, len(content), _BLOCK):
        overlap = min(start, 2)
        block = content[start - overlap : start + _BLOCK]
        is_quote, is_backslash = block == QUOTE, block == BACKSLASH
        after_two = is_quote[2:] & is_backslash[1:-1] & is_backslash[:-2]
        if after_two.any():
            doubtful.append(np.flatnonzero(after_two) + start - overlap + 2)
        is_quote[1:] &= ~is_backslash[:-1]
        found.append(np.flatnonzero(is_quote[overlap:]) + start)
    if doubtful:
        places = np.concatenate(doubtful)
        found.append(places[_backslashes_before(content, places) % 2 == 0])
        return np.sort(np.concatenate(found))
    return np.concatenate(found)


def _backslashes_before(content: Bytes, places: Offsets) -> Offsets:
    """How many backslashes stand in front of each of these places: at least one."""
    known = np.flatnonzero(content == BACKSLASH)
    every = np.arange(len(known))
    firsts = np.maximum.accumulate(np.where(np.diff(known, prepend=-2) != 1, every, 0))
    last = np.searchsorted(known, places - 1)
    found: Offsets = last - firsts[last] + 1
    return found
