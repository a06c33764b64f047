"""Cuts many records out of one text at once."""

import numpy as np
import pyarrow as pa


def line_bounds(text: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of a text that ends with a line break: where its lines start, where their text stops, and where their ends are.

    The text stops before a carriage return at the end of the line.
    """
    ends = np.flatnonzero(text == ord("\n"))
    starts = np.empty_like(ends)
    starts[0] = 0
    starts[1:] = ends[:-1] + 1
    returns = (text[ends - 1] == ord("\r")) & (ends > starts)
    return starts, ends - returns, ends


def cut(data: bytes, start: int, end: int, starts: np.ndarray, stops: np.ndarray) -> pa.Array:
    """The spans of `data[start:end]` (in order, not overlapping) as a binary array.

    An array of Arrow has no gaps between its values, so one with the gaps as values is made first, around the same bytes.
    """
    bounds = np.empty(2 * len(starts), np.int32)
    bounds[0::2] = starts
    bounds[1::2] = stops
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data).slice(start, end - start)]
    spans_and_gaps = pa.Array.from_buffers(pa.binary(), max(len(bounds) - 1, 0), buffers)
    return spans_and_gaps.take(pa.array(np.arange(0, len(bounds), 2)))


def cut_lines(data: bytes, start: int, end: int, ends: np.ndarray) -> pa.Array:
    """All lines of `data[start:end]`, which end with a bare line break each: quicker than `cut`."""
    offsets = np.empty(len(ends) + 1, np.int32)
    offsets[0] = 0
    offsets[1:] = ends - np.arange(len(ends))
    joined = data[start:end].replace(b"\n", b"")
    return pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(joined)])
