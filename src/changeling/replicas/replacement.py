"""Stored rows replaced by those that a fold staged: by the driver where they are few, by Spark's tasks where they are many.

A task takes some of the staged files, looks their rows up among the stored ones, and writes them as they are now. No row is in two
staged files, so what tasks found is put together by the driver, which commits it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from changeling.iceberg.parquet_files import Writer, WriteSpec, WrittenFile
from changeling.replicas.history_replacement import HistoryRange, replaced_states
from changeling.replicas.row_replacement import (
    MAX_ROWS,
    Scan,
    StoredSnapshot,
    completed,
    read_staged,
    recounted,
    scan_keyed,
)
from changeling.replicas.shape import Shape
from changeling.replicas.staged_rows import staged_layout
from changeling.spark.adapter import run

FEW_ROWS = 50_000
"""Up to this many staged rows are not worth a Spark job, nor a task of their own."""
_REPLACED = pa.schema([("added", pa.string()), ("path", pa.string()), ("rows", pa.list_(pa.int64()))])
"""The output of a task: a row with its files, as JSON, then a row for each data file with the positions of deleted rows."""


class Replaced(NamedTuple):
    """The files that a replacement adds to a table, and the rows that it deletes."""

    added: list[WrittenFile]
    deleted: dict[str, np.ndarray]
    """The positions of deleted rows, by data file."""


class Rule(Protocol):
    """How the rows of a fold replace stored ones: it is sent to tasks."""

    def __call__(self, rows: pa.Table, current: StoredSnapshot) -> tuple[Scan, pa.Table]:
        """Which stored rows to delete, and which rows to add."""


@dataclass(frozen=True)
class ReplacedRows:
    """Rows of a table as it is now. Those that are folded again are completed from `base`."""

    base: StoredSnapshot | None = None

    def __call__(self, rows: pa.Table, current: StoredSnapshot) -> tuple[Scan, pa.Table]:
        """Rows without a key are counted by their content."""
        if not current.key:
            return recounted(rows, current, self.base)
        scan = scan_keyed(rows, current, self.base)
        return scan, completed(rows, scan, current.columns, current.key)


@dataclass(frozen=True)
class ReplacedStates:
    """States of rows in a history."""

    span: HistoryRange

    def __call__(self, rows: pa.Table, current: StoredSnapshot) -> tuple[Scan, pa.Table]:
        """States that are closed, removed and added."""
        return replaced_states(rows, current, self.span)


@dataclass(frozen=True)
class Replacement:
    """The staged rows of one table, and how they replace stored ones."""

    staged: Sequence[WrittenFile]
    shape: Shape
    rule: Rule
    history: bool = False
    together: bool = False
    """All staged rows have to be known at once."""

    def written(self, spark: SparkSession, current: StoredSnapshot, spec: WriteSpec) -> Replaced:
        """Writes the rows that are added; what is deleted is up to the commit."""
        tasks = [] if self.together else _shared_out(self.staged, spark.sparkContext.defaultParallelism)
        if len(tasks) < 2:
            return written(self.staged, self, current, spec)
        kernel = _ReplacementKernel(tasks, self, current, spec)
        found = run(spark.range(0, len(tasks), 1, len(tasks)), kernel, _REPLACED).toArrow()
        added = [
            msgspec.json.decode(text, type=list[WrittenFile]) for text in found.column("added").to_pylist() if text
        ]
        deleted = zip(found.column("path").to_pylist(), found.column("rows"), strict=True)
        return Replaced(
            [file for files in added for file in files],
            _united((path, rows.values.to_numpy()) for path, rows in deleted if path is not None),
        )

    def parts(self, staged: Sequence[WrittenFile]) -> Iterator[pa.Table]:
        """The rows of staged files, in parts of bounded size."""
        if not staged:
            yield staged_layout(self.shape, self.history).empty_table()
            return
        yield from read_staged(staged, self.shape, self.history, None if self.together else MAX_ROWS)


def written(
    staged: Sequence[WrittenFile], replacement: Replacement, current: StoredSnapshot, spec: WriteSpec
) -> Replaced:
    """Looks up the rows of some staged files, and writes those that are added."""
    writer = Writer(spec)
    deleted: list[tuple[str, np.ndarray]] = []
    try:
        for part in replacement.parts(staged):
            scan, rows = replacement.rule(part, current)
            deleted += scan.deleted.items()
            for batch in pa.table(rows.columns, names=spec.columns.names).to_batches():
                writer.write(batch)
        return Replaced(writer.close(), _united(deleted))
    except BaseException:
        writer.abandon()
        raise


@dataclass(frozen=True)
class _ReplacementKernel:
    """Runs the replacements of tasks, given the numbers of the tasks."""

    tasks: list[list[WrittenFile]]
    replacement: Replacement
    current: StoredSnapshot
    spec: WriteSpec

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                done = written(self.tasks[number], self.replacement, self.current, self.spec)
                columns = [
                    [msgspec.json.encode(done.added).decode(), *(None for _ in done.deleted)],
                    [None, *done.deleted],
                    [None, *done.deleted.values()],
                ]
                made = [pa.array(column, field.type) for column, field in zip(columns, _REPLACED, strict=True)]
                yield pa.record_batch(made, schema=_REPLACED)


def _shared_out(staged: Sequence[WrittenFile], cores: int) -> list[list[WrittenFile]]:
    """The staged files of each task: about two tasks a core, none of them with few rows."""
    most = max(FEW_ROWS, sum(file.rows for file in staged) // (2 * cores))
    tasks: list[list[WrittenFile]] = []
    room = 0
    for file in staged:
        if file.rows > room:
            tasks.append([])
            room = most
        tasks[-1].append(file)
        room -= file.rows
    return tasks


def _united(parts: Iterable[tuple[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """All positions of each data file."""
    found: dict[str, np.ndarray] = {}
    for path, positions in parts:
        found[path] = np.union1d(found[path], positions) if path in found else positions
    return found
