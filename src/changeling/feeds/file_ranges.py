"""Cuts the records of a partition into the ranges of offsets that files are made of: by size, and where the columns change."""

from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.formats.framing import COLUMNS, HEADER


class FileRange(msgspec.Struct, frozen=True, kw_only=True):
    """A range of offsets of one partition: what one file contains."""

    partition: int
    first: int
    until: int
    """The offset behind its last record."""
    records: int
    """How many have a value: tombstones are not in files. Where none has, there is no file."""
    csv: bool

    @property
    def name(self) -> str:
        """The file's name: names sort by partition, then by offset."""
        return f"{self.partition:05d}-{self.first:019d}.{'csv' if self.csv else 'json'}"


class _Columns(NamedTuple):
    """The header of the rows of CSV; both are empty for JSON."""

    row: bytes | None = None
    shown: bool = False
    """It is the first row of the file."""

    @property
    def bytes(self) -> int:
        return len(self.row) + 1 if self.row is not None and self.shown else 0


class _Run(NamedTuple):
    """Consecutive records that may share a file."""

    columns: _Columns
    sizes: np.ndarray
    """The bytes of each line; 0 for a tombstone."""
    published_at: pa.ChunkedArray

    @property
    def records(self) -> int:
        return int(np.count_nonzero(self.sizes))


class Gathering:
    """The records of a partition that wait for their file. They are measured, and not kept."""

    def __init__(self, partition: int, first: int, max_bytes: int) -> None:
        self._partition, self._most = partition, max_bytes
        self._first = self.until = first
        self._columns, self._records, self._bytes = _Columns(), 0, 0
        self._since: datetime | None = None

    def add(self, part: pa.Table) -> Iterator[FileRange]:
        """Takes the next records, in the layout of a topic, and gives the ranges that are complete with them.

        A file has at most the given number of bytes, unless its only record has more, and rows of the same columns.
        """
        for run in _runs(part):
            if run.records and self._records and run.columns != self._columns:
                yield self.close()
            yield from self._fill(run)

    def is_due(self, now: datetime, seconds: float) -> bool:
        """Whether what waits must not wait for more: it fills a file, or its first record was published so long ago."""
        if self._since is None:
            return False
        return self._bytes >= self._most or (now - self._since).total_seconds() >= seconds

    @property
    def is_empty(self) -> bool:
        """Nothing waits."""
        return self._first == self.until

    def close(self) -> FileRange:
        """The range of what waits; a new one begins after it."""
        made = FileRange(
            partition=self._partition,
            first=self._first,
            until=self.until,
            records=self._records,
            csv=self._columns.row is not None,
        )
        self._first, self._since = self.until, None
        self._columns, self._records, self._bytes = _Columns(), 0, 0
        return made

    def _fill(self, run: _Run) -> Iterator[FileRange]:
        ends = np.cumsum(run.sizes)
        start = 0
        while start < len(ends):
            if not self._records:
                self._columns, self._bytes = run.columns, run.columns.bytes
            before = int(ends[start - 1]) if start else 0
            stop = int(np.searchsorted(ends, before + self._most - self._bytes, side="right"))
            # The first record has its place, however large it is.
            stop = max(stop, start if self._records else start + 1)
            if stop > start:
                self._since = self._since or run.published_at[start].as_py()
                self._records += int(np.count_nonzero(run.sizes[start:stop]))
                self._bytes += int(ends[stop - 1]) - before
                self.until += stop - start
            start = stop
            if start < len(ends) and self._records:
                yield self.close()


def _runs(part: pa.Table) -> Iterator[_Run]:
    values = part.column("value")
    sizes = pc.fill_null(pc.add(pc.binary_length(values).cast(pa.int64()), 1), 0).to_numpy()
    codes, known = _columns_of(part.column("headers").combine_chunks())
    # A tombstone fits into any file.
    shown = np.flatnonzero(sizes)
    changes = shown[1:][np.diff(codes[shown]) != 0]
    bounds = [0, *changes.tolist(), len(sizes)]
    for start, stop in pairwise(bounds):
        found = shown[np.searchsorted(shown, start)] if len(shown) else start
        published_at = part.column("published_at").slice(start, stop - start)
        yield _Run(known[codes[found]], sizes[start:stop], published_at)


def _columns_of(headers: pa.ListArray) -> tuple[np.ndarray, list[_Columns]]:
    """For each record a number, and what columns each number means."""
    codes = np.zeros(len(headers), np.int64)
    pairs, owners = pc.list_flatten(headers), pc.list_parent_indices(headers)
    is_columns = pc.is_in(pc.struct_field(pairs, "name"), value_set=pa.array([HEADER, COLUMNS]))
    pairs, owners = pairs.filter(is_columns), owners.filter(is_columns)
    known = [_Columns()]
    for name in (HEADER, COLUMNS):
        chosen = pc.equal(pc.struct_field(pairs, "name"), name)
        rows = pc.struct_field(pairs, "value").filter(chosen).dictionary_encode()
        codes[owners.filter(chosen).to_numpy()] = rows.indices.to_numpy() + len(known)
        known += [_Columns(row, name == HEADER) for row in rows.dictionary.to_pylist()]
    return codes, known
