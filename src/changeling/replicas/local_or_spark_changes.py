"""Changes of the log, read in this process where they are few, else by a Spark job."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa

from changeling.iceberg.conditions import Condition
from changeling.iceberg.file_parts import FileParts
from changeling.iceberg.lake import Lake
from changeling.iceberg.measured_scan import NeedsSpark
from changeling.iceberg.planned_scan import PlannedTable
from changeling.log import log_tables
from changeling.replicas.arrow_changes import ArrowChanges
from changeling.replicas.logged_changes import Changes, SnapshotMarks
from changeling.replicas.row_events import LOG_COLUMNS, fold_input
from changeling.replicas.spark_changes import BUCKET_BYTES, SparkChanges, folded_by_tasks
from changeling.spark.adapter import Kernel

Answer = TypeVar("Answer")
_BUCKETS_OF_A_CORE = 8
"""Enough for Spark to make tasks of even size of them."""


@dataclass(frozen=True)
class LocalOrSparkChanges:
    """Selected changes of a lake: read in this process where they are few, else by Spark."""

    lake: Lake
    log: PlannedTable
    local: ArrowChanges

    @staticmethod
    def of(lake: Lake) -> "LocalOrSparkChanges":
        """All changes of the log as it is now."""
        log = lake.planned(log_tables.CHANGES)
        return LocalOrSparkChanges(lake, log, ArrowChanges(log))

    def where(self, *conditions: Condition) -> "LocalOrSparkChanges":
        """The changes that meet all conditions."""
        return replace(self, local=self.local.where(*conditions))

    def cached(self) -> "LocalOrSparkChanges":
        """The same changes, read once where they are few."""
        try:
            return replace(self, local=self.local.cached())
        except NeedsSpark:
            return self

    def min_by(self, column: str, *others: str) -> tuple[Any, ...] | None:
        """The smallest value of a column, and what other columns have there; None where no change has one."""
        return self._asked(lambda changes: changes.min_by(column, *others))

    def max_by(self, column: str, *others: str) -> tuple[Any, ...] | None:
        """The same for the largest value."""
        return self._asked(lambda changes: changes.max_by(column, *others))

    def any_value(self, column: str) -> Any:
        """The value of a column in some change that has one; None where none has."""
        return self._asked(lambda changes: changes.any_value(column))

    def distinct(self, *columns: str) -> list[tuple[Any, ...]]:
        """The different values of some columns."""
        return self._asked(lambda changes: changes.distinct(*columns))

    def rows(self, *columns: str, alike: pa.Table | None = None) -> pa.Table:
        """Some columns of all changes; only of those that have the values of a row of `alike` in its columns, none of them NULL."""
        return self._asked(lambda changes: changes.rows(*columns, alike=alike))

    def has_new_reads(self) -> bool:
        """Whether a `read` of a row has no other change of it before, given all changes of a table. One without a key has none."""
        return self._asked(lambda changes: changes.has_new_reads())

    def snapshot_marks(self, paths: Mapping[str, str]) -> SnapshotMarks | None:
        """The rows of snapshots, if there are any; `paths` says by encoding where in `meta` they are marked."""
        return self._asked(lambda changes: changes.snapshot_marks(paths))

    def schema_switches(self, kinds: Mapping[int, int], limit: int) -> list[tuple[str, int]]:
        """Where a change has a schema of another kind than the one before it: positions and schemas, the first `limit`."""
        return self._asked(lambda changes: changes.schema_switches(kinds, limit))

    def to_fold(self, limit: int) -> pa.Table:
        """The columns that a fold reads, of at most `limit` changes."""
        return self._asked(lambda changes: changes.to_fold(limit))

    def folded(self, to_events: Kernel, fold_events: Kernel, one_bucket: Sequence[int] = ()) -> pa.Table:
        """See `Changes.folded`; where Spark does it, tasks read the files of the log by themselves."""
        try:
            return self.local.folded(to_events, fold_events, one_bucket)
        except NeedsSpark:
            spark = self.lake.spark
            cores = spark.sparkContext.defaultParallelism
            parts = self.log.parts(self.local.condition, LOG_COLUMNS, cores)
            buckets = max(_BUCKETS_OF_A_CORE * cores, parts.size // BUCKET_BYTES)
            return folded_by_tasks(parts.frame(spark), _ReadByTasks(parts, to_events), fold_events, one_bucket, buckets)

    def _asked(self, question: Callable[[Changes], Answer]) -> Answer:
        try:
            return question(self.local)
        except NeedsSpark:
            return question(SparkChanges.of(self.lake).where(self.local.condition))


@dataclass(frozen=True)
class _ReadByTasks:
    """Runs a kernel over the changes in the files of tasks, given the numbers of the tasks."""

    parts: FileParts
    to_events: Kernel

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        return self.to_events(part for rows in self.parts.rows(batches) for part in fold_input(rows).to_batches())
