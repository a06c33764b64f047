"""Decodes files: the tasks that decode them open them, so that their text never crosses the JVM."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from changeling.files import paths as places
from changeling.files.paths import FileRef
from changeling.files.reading import Carrier, read
from changeling.formats import registry
from changeling.formats.decoding import Decoder
from changeling.formats.format import read_options
from changeling.formats.framing import Framing, JsonValues
from changeling.formats.options import ReadOptions
from changeling.model import arrow_layouts
from changeling.model.errors import ChangelingError
from changeling.spark.adapter import run
from changeling.spark.dialects import Decoded
from changeling.spark.frames import origins
from changeling.spark.rows_and_rejects import Shows
from changeling.spark.splits import SPLIT_BYTES, Split, line_count, lines, numbered, splits

_GZIP = b"\x1f\x8b"
_BATCH_ROWS = 8192
_BATCH_BYTES = 8 * 1024 * 1024
_MIN_BYTES = 1024 * 1024
"""Less work than this is not worth a task."""
_COUNTED = pa.schema([("split", pa.int64()), ("lines", pa.int64())])


def decode_files(
    spark: SparkSession,
    paths: str | Sequence[str],
    format: str,
    *,
    carrier: Carrier = "plain",
    split_bytes: int = SPLIT_BYTES,
    **options: Any,
) -> Decoded:
    """Decodes files, folders or patterns into changes and rejects, numbered in `origin` as one reader would number them.

    Large uncompressed files with one JSON object a line are read by several tasks, in parts of `split_bytes`: a first pass
    counts their lines. One task reads each file of any other kind. The files are listed now; a file that changes before it is
    read raises `ChangelingError` in its task.
    """
    given = [paths] if isinstance(paths, str) else list(paths)
    checked = read_options(registry.get(format), options)
    reader = reader_of(spark, places.expand(given), FileRecords(format, checked, carrier), split_bytes=split_bytes)
    return Decoded(*(_decoded(spark, reader, part) for part in (Shows.ROWS, Shows.REJECTS)))


@dataclass(frozen=True)
class FileRecords:
    """What files contain: records of a dialect, alone or in messages."""

    format: str
    options: ReadOptions
    carrier: Carrier = "plain"

    @property
    def framing(self) -> Framing:
        """How records without messages are framed."""
        return registry.get(self.format).framing(self.options)


def reader_of(
    spark: SparkSession,
    found: Sequence[FileRef],
    records: FileRecords,
    *,
    first: int = 0,
    split_bytes: int = SPLIT_BYTES,
) -> "FilesReader":
    """A reader of these files; their ordinals begin with `first`. Large ones are scanned now, to be split."""
    return FilesReader(records, _tasks(spark, found, records, first, split_bytes))


@dataclass(frozen=True)
class FilePart:
    """A file, or a split of one, and its place among the files."""

    ordinal: int
    place: FileRef
    split: Split | None = None


def _decoded(spark: SparkSession, reader: "FilesReader", part: Shows) -> DataFrame:
    return run(reader.frame(spark), FilesKernel(reader, part), part.layout(arrow_layouts.CHANGES))


def _tasks(
    spark: SparkSession, found: Sequence[FileRef], records: FileRecords, first: int, split_bytes: int
) -> list[list[FilePart]]:
    """The file parts of each task. Small files share a task, as long as there is enough work for every core."""
    may_split = records.carrier == "plain" and isinstance(records.framing, JsonValues)
    large = [place for place in found if may_split and _is_splittable(place, split_bytes)]
    cut = _counted(spark, [splits(place.path, split_bytes) for place in large], records.options.record_bytes)
    share = sum(place.size or 0 for place in found) // (2 * spark.sparkContext.defaultParallelism)
    return shared_out(found, first, max(min(share, split_bytes), _MIN_BYTES), cut)


def shared_out(
    found: Sequence[FileRef], first: int, limit: int, cut: Mapping[str, Sequence[Split]] | None = None
) -> list[list[FilePart]]:
    """The file parts of each task: files of up to `limit` bytes together, or one that is larger; those that are `cut`, by split."""
    tasks: list[list[FilePart]] = []
    # Negative, so that an empty first file opens a task as well.
    room = -1
    for ordinal, place in enumerate(found, first):
        if parts := (cut or {}).get(place.path):
            tasks += [[FilePart(ordinal, place, part)] for part in parts]
            room = -1
            continue
        size = limit if place.size is None else place.size
        if size > room:
            tasks.append([])
            room = limit
        tasks[-1].append(FilePart(ordinal, place))
        room -= size
    return tasks


def _is_splittable(place: FileRef, split_bytes: int) -> bool:
    if place.size is None or place.size <= split_bytes or place.path.startswith("s3://"):
        return False
    with open(place.path, "rb") as file:
        return file.read(2) != _GZIP


def _counted(spark: SparkSession, files: list[list[Split]], limit: int) -> dict[str, list[Split]]:
    """The numbered splits of the files whose lines are all plain; the others are left out and not split."""
    every = [part for parts in files for part in parts]
    if not every:
        return {}
    kernel = CountKernel(every, limit)
    rows = run(spark.range(0, len(every), 1, len(every)), kernel, _COUNTED).toArrow().to_pylist()
    counts = {row["split"]: row["lines"] for row in rows}
    cut: dict[str, list[Split]] = {}
    done = 0
    for parts in files:
        here = [counts[number] for number in range(done, done + len(parts))]
        done += len(parts)
        if None not in here:
            cut[parts[0].path] = numbered(parts, here)
    return cut


@dataclass(frozen=True)
class CountKernel:
    """Counts the lines of splits, given their numbers."""

    splits: list[Split]
    limit: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A batch of one row for each split."""
        for number in _numbers(batches):
            yield pa.RecordBatch.from_pylist(
                [{"split": number, "lines": line_count(self.splits[number], self.limit)}], _COUNTED
            )


@dataclass(frozen=True)
class FilesReader:
    """Reads the records of the files of tasks, given the numbers of the tasks; rejects what is not a record."""

    records: FileRecords
    tasks: list[list[FilePart]]

    def frame(self, spark: SparkSession) -> DataFrame:
        """The numbers of the tasks, each in a partition of its own."""
        return spark.range(0, len(self.tasks), 1, max(1, len(self.tasks)))

    def few(self) -> pa.RecordBatch | None:
        """The rows of the frame where all files together are not worth a task; else None."""
        sizes = [part.place.size for task in self.tasks for part in task]
        if None in sizes or sum(size or 0 for size in sizes) > _MIN_BYTES:
            return None
        return pa.record_batch({"id": pa.array(range(len(self.tasks)), pa.int64())})

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """Batches of some thousand records.

        A file that changed since it was listed raises `ChangelingError`.
        """
        for number in _numbers(batches):
            for part in self.tasks[number]:
                yield from self._read(part)
                if what := places.changed(part.place):
                    raise ChangelingError(f"{part.place.path} was changed while it was read: {what}")

    def _read(self, part: FilePart) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        if part.split is not None:
            number = part.split.first
            for values in lines(part.split):
                yield _records(values, part, number), _NO_REJECTS
                number += len(values)
            return
        for batch in read(
            [part.place],
            framing=self.records.framing,
            carrier=self.records.carrier,
            batch_rows=_BATCH_ROWS,
            batch_bytes=_BATCH_BYTES,
            size_limit=self.records.options.record_bytes,
        ):
            yield _with_ordinal(batch.records, part.ordinal), _with_ordinal(batch.rejects, part.ordinal)


@dataclass(frozen=True)
class FilesKernel:
    """Decodes the files of tasks, given the numbers of the tasks."""

    reader: FilesReader
    part: Shows

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One output batch for each that is read, and one more where something is no record."""
        read = self.reader.records
        decoder = Decoder(registry.get(read.format), read.options)
        for records, rejects in self.reader(batches):
            decoded = decoder(records)
            yield self.part.of(decoded.changes, decoded.rejects)
            if rejects.num_rows and self.part is not Shows.ROWS:
                yield self.part.of(decoded.changes.slice(0, 0), rejects)


_NO_REJECTS = pa.RecordBatch.from_pylist([], arrow_layouts.REJECTS)


def _numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _records(values: pa.Array, part: FilePart, first: int) -> pa.RecordBatch:
    count = len(values)
    known = {
        "file": pa.repeat(pa.scalar(part.place.path, pa.string()), count),
        "ordinal": pa.repeat(pa.scalar(part.ordinal, pa.int64()), count),
        "record": pa.array(np.arange(first, first + count)),
    }
    origin = origins(count, known)
    columns = {"value": values, "origin": origin}
    return pa.record_batch(
        [columns.get(field.name, pa.nulls(count, field.type)) for field in arrow_layouts.RECORDS],
        schema=arrow_layouts.RECORDS,
    )


def _with_ordinal(batch: pa.RecordBatch, ordinal: int) -> pa.RecordBatch:
    """The batch of one file with its place among all of them: its reader knew of no other file."""
    at = batch.schema.get_field_index("origin")
    known = dict(zip((field.name for field in arrow_layouts.ORIGIN), batch.column(at).flatten(), strict=True))
    known["ordinal"] = pa.repeat(pa.scalar(ordinal, pa.int64()), batch.num_rows)
    return batch.set_column(at, batch.schema.field(at), origins(batch.num_rows, known))
