"""Copies the records of a feed into files, exactly once: the second step of a feed whose topic is a folder or a place on S3.

A file is a range of offsets of one partition. It is planned in the ledger before it is written, and appears when it is whole.
So a run that is interrupted anywhere is continued with the same files, byte for byte.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
import pyarrow as pa

from changeling.feeds.feed import Feed
from changeling.feeds.file_ranges import FileRange, Gathering
from changeling.feeds.files_ledger import FOLDER, Ledger, LedgerFile
from changeling.feeds.topic import FeedState, Topic
from changeling.files import s3
from changeling.files.output import Output, remove_unfinished
from changeling.files.paths import NoFileFound, expand
from changeling.files.writing import write
from changeling.iceberg.failpoints import reach
from changeling.model import arrow_layouts
from changeling.model.errors import ChangelingError, UsageError

FILE_BYTES = 32 * 1024 * 1024
"""The largest file by default, as Arcion's applier has it."""
FILE_SECONDS = 60.0
"""The longest that a record waits for others by default."""
_PART_BYTES = 32 * 1024 * 1024
_FIRST_ROWS, _MAX_ROWS = 10_000, 200_000
"""How many records are read at once: each time a row group is decoded, so few are slow; the sizes of the last ones tell."""


@dataclass(frozen=True)
class Copied:
    """The result of a step."""

    files: int
    records: int


class FilesTopicWriter:
    """The files of one feed, in a local folder or below `s3://bucket/folder`. One process writes at a time.

    Tombstones are left out: a line is a value. A file of CSV begins with a header where its records have one.
    """

    def __init__(
        self, feed: Feed, topic: Topic, place: str, *, max_bytes: int = FILE_BYTES, max_seconds: float = FILE_SECONDS
    ) -> None:
        if "*" in place or "?" in place:
            raise UsageError(f"{place}: is a pattern; name one folder for the feed {feed.name!r}")
        if place.startswith(s3.SCHEME):
            s3.bucket_and_key(place)
        self._feed, self._topic, self._place = feed, topic, place.rstrip("/")
        self._max_bytes, self._max_seconds = max_bytes, max_seconds
        self._file = LedgerFile(self._place)
        self._ledger: Ledger | None = None
        self._gatherings: list[Gathering] = []
        self._part = _FIRST_ROWS

    def step(self, *, drain: bool, now: datetime | None = None) -> Copied | None:
        """Writes the files that are due, with `drain` all that there is; None where nothing was written.

        A file is due when it is full, when the next row has other columns, and when its first record was published long ago.
        """
        state = self._topic.state()
        if state is None:
            return None
        try:
            return self._step(state, drain, now or datetime.now(UTC))
        except BaseException:
            # What is in memory may be ahead of the ledger.
            self._ledger, self._gatherings = None, []
            raise

    def offsets(self) -> list[int]:
        """The first offset of each partition that is in no file: the topic must keep its records from there on."""
        ledger = self._file.read(self._feed)
        return [0] * self._feed.partitions if ledger is None else ledger.next

    def _step(self, state: FeedState, drain: bool, now: datetime) -> Copied | None:
        written: list[FileRange] = []
        if self._ledger is None:
            written += self._resume()
        for partition, until in enumerate(state.offsets):
            for file in self._complete(self._gatherings[partition], partition, until, drain, now):
                if file.records:
                    self._store(msgspec.structs.replace(self._known, planned=file))
                    reach("files.planned")
                    self._write(file)
                    written.append(file)
                self._ledger = self._known.after(file)
        if written:
            self._store(self._known)
        return Copied(len(written), sum(file.records for file in written)) if written else None

    @property
    def _known(self) -> Ledger:
        assert self._ledger is not None, "read at the start of a step"
        return self._ledger

    def _store(self, ledger: Ledger) -> None:
        self._file.write(ledger)
        self._ledger = ledger

    def _resume(self) -> list[FileRange]:
        """Reads the ledger, and writes the file that it announces unless that was done."""
        ledger = self._file.read(self._feed) or Ledger(
            feed=self._feed.name, id=self._feed.id, next=self._topic.earliest()
        )
        self._ledger, written = ledger, []
        if not self._place.startswith(s3.SCHEME):
            for folder in (self._place, f"{self._place}/{FOLDER}"):
                remove_unfinished(folder)
        if ledger.planned is not None:
            if not self._exists(ledger.planned):
                self._write(ledger.planned)
                written.append(ledger.planned)
            self._store(ledger.after(ledger.planned))
        self._gatherings = [
            Gathering(partition, first, self._max_bytes) for partition, first in enumerate(self._known.next)
        ]
        return written

    def _complete(
        self, gathering: Gathering, partition: int, until: int, drain: bool, now: datetime
    ) -> Iterator[FileRange]:
        for part in self._parts(partition, gathering.until, until):
            yield from gathering.add(part)
        if not gathering.is_empty and (drain or gathering.is_due(now, self._max_seconds)):
            yield gathering.close()

    def _path(self, file: FileRange) -> str:
        return f"{self._place}/{file.name}"

    def _exists(self, file: FileRange) -> bool:
        try:
            return bool(expand([self._path(file)]))
        except NoFileFound:
            return False

    def _write(self, file: FileRange) -> None:
        with Output(self._path(file)) as output:
            write(self._batches(file), output)
            reach("files.staged")
        reach("files.written")

    def _batches(self, file: FileRange) -> Iterator[pa.RecordBatch]:
        for part in self._parts(file.partition, file.first, file.until):
            shown = part.filter(part.column("value").is_valid())
            columns = [
                shown.column(field.name) if field.name in ("value", "headers") else pa.nulls(shown.num_rows, field.type)
                for field in arrow_layouts.RECORDS
            ]
            yield from pa.table(columns, schema=arrow_layouts.RECORDS).combine_chunks().to_batches()

    def _parts(self, partition: int, first: int, until: int) -> Iterator[pa.Table]:
        """The records of a range, none of which may be missing, in parts that fit into memory."""
        start = first
        while start < until:
            stop = min(start + self._part, until)
            part = self._topic.records(partition, start, stop, expired=True)
            if part.num_rows < stop - start:
                raise ChangelingError(
                    f"feed {self._feed.name!r}: of the offsets {start} to {stop - 1} of partition {partition} only"
                    f" {part.num_rows} are left, and they were not copied to {self._place} yet: lengthen the retention, and"
                    " give the feed a new folder, which begins with what is left"
                )
            yield part
            start = stop
            self._part = min(max(part.num_rows * _PART_BYTES // part.nbytes, 1), _MAX_ROWS)
