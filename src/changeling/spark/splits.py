"""Splits large files of JSON lines, so that several tasks read one file and still know their records' numbers."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from changeling.files.raw_records import cut_lines
from changeling.model.errors import ChangelingError
from changeling.model.json_text import SIZE_LIMIT

SPLIT_BYTES = 48 * 1024 * 1024
# Measured: what fits the CPU cache is counted twice as fast, and batches of 4,000 to 8,000 rows cross to the JVM fastest. Of 3 MB, a
# batch of the log took a tenth more time.
_COUNT_BYTES = 512 * 1024
_DECODE_BYTES = 6 * 1024 * 1024
_NEWLINE, _OPEN, _CLOSE = b"\n{}"
_SECOND_VALUE = np.zeros(256, bool)
_SECOND_VALUE[list(b"{[ \t\r")] = True


@dataclass(frozen=True)
class Split:
    """Complete lines of one file: the bytes from `start` up to `stop`."""

    path: str
    start: int
    stop: int
    first: int = 0
    """The number of the first line in the file."""
    lines: int = 0


def splits(path: str, split_bytes: int) -> list[Split]:
    """Splits a file after line ends into parts of about that many bytes; a small file is one part."""
    size = os.path.getsize(path)
    bounds = [0]
    with open(path, "rb") as file:
        for place in range(split_bytes, size, split_bytes):
            if place > bounds[-1]:
                file.seek(place - 1)
                file.readline(SIZE_LIMIT)
                bounds.append(file.tell())
    if bounds[-1] < size:
        bounds.append(size)
    return [Split(path, start, stop) for start, stop in pairwise(bounds)]


def line_count(split: Split, limit: int = SIZE_LIMIT) -> int | None:
    """The number of lines if each is plainly one record; None if that needs a closer look, as a line over the limit does.

    A plain line starts with `{` and ends with `}`, and no `}` in it is followed by an opening bracket or a blank: that could
    be two records on one line. Files that framing would not cut at line ends never count as plain.
    """
    count = 0
    for data in _chunks(split, _COUNT_BYTES):
        text = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(text == _NEWLINE)
        if len(data) > limit and (np.diff(ends, prepend=-1) - 1 > limit).any():
            return None
        if len(data) > SIZE_LIMIT or text[0] != _OPEN or (text[ends[:-1] + 1] != _OPEN).any():
            return None
        if (text[ends - 1] != _CLOSE).any() or _SECOND_VALUE[text[np.flatnonzero(text == _CLOSE) + 1]].any():
            return None
        count += len(ends)
    return count


def numbered(parts: list[Split], counts: list[int]) -> list[Split]:
    """The parts of one file, in order, each with the number of its first line."""
    firsts = [0, *np.cumsum(counts).tolist()]
    return [
        replace(part, first=first, lines=count) for part, first, count in zip(parts, firsts[:-1], counts, strict=True)
    ]


def lines(split: Split) -> Iterator[pa.Array]:
    """The lines of a part that `line_count` has counted; raises `ChangelingError` if their number has changed."""
    found = 0
    for data in _chunks(split, _DECODE_BYTES):
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE)
        found += len(ends)
        yield cut_lines(data, 0, len(data), ends)
    if found != split.lines:
        raise ChangelingError(f"{split.path} was changed while it was read; read it again when it is complete")


def _chunks(split: Split, size: int) -> Iterator[bytes]:
    """The bytes of a part, about `size` at a time, in complete lines with their ends."""
    with open(split.path, "rb", buffering=0) as file:
        file.seek(split.start)
        left, wanted = split.stop - split.start, size
        while left:
            data = file.read(min(wanted, left))
            if not data:
                return
            end = data.rfind(b"\n") + 1
            if len(data) == left:
                end = left
            elif not end:
                file.seek(-len(data), os.SEEK_CUR)
                wanted *= 2
                continue
            # The line at the end is read again with the next bytes: cheaper than carrying it along.
            file.seek(end - len(data), os.SEEK_CUR)
            left, wanted = left - end, size
            yield data[:end] if data[end - 1] == _NEWLINE else data[:end] + b"\n"
