"""Changes of the log on Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from changeling.iceberg.conditions import Condition, is_set
from changeling.iceberg.lake import Lake
from changeling.iceberg.spark_conditions import spark_condition
from changeling.log import log_tables
from changeling.replicas.change_order import ARRIVAL
from changeling.replicas.event_bundles import BUNDLES, Bundling, Unbundling
from changeling.replicas.fold_task import OUTCOME
from changeling.replicas.logged_changes import SnapshotMarks
from changeling.replicas.row_events import READ_COLUMNS
from changeling.replicas.snapshot_attempts import FIRSTS, LASTS, Mark, topic_partition
from changeling.spark.adapter import Kernel, run
from changeling.spark.errors import SPARK_ERRORS, translate_error

BUCKET_BYTES = 16 * 1024 * 1024
"""What a bucket has of the changes, roughly: a task holds the events of one bucket at a time."""
_BUCKETS = 64
"""Of a table whose size Spark does not know, or that is small."""
_UNKNOWN_BYTES = 2**62


@dataclass(frozen=True)
class SparkChanges:
    """Changes as a frame."""

    frame: DataFrame

    @staticmethod
    def of(lake: Lake) -> "SparkChanges":
        """All changes of the log."""
        return SparkChanges(lake.frame(log_tables.CHANGES))

    def where(self, *conditions: Condition) -> "SparkChanges":
        """The changes that meet all conditions."""
        frame = self.frame
        for condition in conditions:
            frame = frame.where(spark_condition(condition))
        return SparkChanges(frame)

    def cached(self) -> "SparkChanges":
        """The same: Spark reads them for each question, and only what it asks for."""
        return self

    def min_by(self, column: str, *others: str) -> tuple[Any, ...] | None:
        """The smallest value of a column, and what other columns have there; None where no change has one."""
        return self._summed(f.min(column), *(f.min_by(other, column) for other in others))

    def max_by(self, column: str, *others: str) -> tuple[Any, ...] | None:
        """The same for the largest value."""
        return self._summed(f.max(column), *(f.max_by(other, column) for other in others))

    def _summed(self, *values: Column) -> tuple[Any, ...] | None:
        found = self.frame.agg(*values).first()
        return None if found is None or found[0] is None else tuple(found)

    def any_value(self, column: str) -> Any:
        """The value of a column in some change that has one; None where none has."""
        found = self.where(is_set(column)).frame.select(column).first()
        return None if found is None else found[0]

    def distinct(self, *columns: str) -> list[tuple[Any, ...]]:
        """The different values of some columns."""
        return [tuple(row) for row in self._selected(*columns).distinct().collect()]

    def rows(self, *columns: str, alike: pa.Table | None = None) -> pa.Table:
        """Some columns of all changes; only of those that have the values of a row of `alike` in its columns, none of them NULL."""
        if alike is None:
            return self._selected(*columns).toArrow()
        names = alike.column_names
        wanted = alike.rename_columns([f"wanted{place}" for place in range(len(names))])
        known = self.frame.sparkSession.createDataFrame(wanted)
        on = [f.col(name) == known[f"wanted{place}"] for place, name in enumerate(names)]
        return SparkChanges(self.frame.join(known, on, "left_semi")).rows(*columns)

    def _selected(self, *columns: str) -> DataFrame:
        return self.frame.select(*(f.col(name).alias(name) for name in columns))

    def has_new_reads(self) -> bool:
        """Whether a `read` of a row has no other change of it before, given all changes of a table. One without a key has none."""
        rows = self.frame.where("key IS NOT NULL OR op = 'read'")
        place = f.struct("position", (f.col("op") != "read").alias("is_other"))
        firsts = rows.groupBy("key").agg(f.min(place).alias("first"))
        return firsts.where("NOT first.is_other").first() is not None

    def snapshot_marks(self, paths: Mapping[str, str]) -> SnapshotMarks | None:
        """The rows of snapshots, if there are any; `paths` says by encoding where in `meta` they are marked."""
        mark = f.lit(None).cast("string")
        for encoding, path in paths.items():
            mark = f.when(f.col("encoding") == encoding, f.get_json_object("meta", path)).otherwise(mark)
        reads = self.frame.where(f.col("op") == "read").select("position", mark.alias("mark"), *arrival_columns())
        marked = f.when(f.col("mark").isin(*FIRSTS, *LASTS), f.struct("mark", "position", *ARRIVAL))
        found = reads.agg(f.min("position"), f.max("position"), f.collect_list(marked)).first()
        if found is None or found[0] is None:
            return None
        marks = [
            Mark(
                topic_partition(row.ordinal, row.partition),
                (row.batch, row.ordinal, row.record),
                row.mark in FIRSTS,
                row.position,
            )
            for row in found[2]
        ]
        return SnapshotMarks(found[0], found[1], marks)

    def schema_switches(self, kinds: Mapping[int, int], limit: int) -> list[tuple[str, int]]:
        """Where a change has a schema of another kind than the one before it: positions and schemas, the first `limit`."""
        kind = f.create_map(*(f.lit(part) for pair in kinds.items() for part in pair))[f.col("schema_id")]
        changes = self.frame.where(f.col("schema_id").isin(list(kinds)))
        changes = changes.select("position", "schema_id", kind.alias("kind"))
        before = f.lag("kind").over(Window.orderBy("position", "kind"))
        changed = changes.withColumn("before", before).where("before IS NULL OR before <> kind")
        rows = changed.orderBy("position", "kind").limit(limit).collect()
        return [(row.position, row.schema_id) for row in rows]

    def to_fold(self, limit: int) -> pa.Table:
        """The columns that a fold reads, of at most `limit` changes."""
        return read_columns(self.frame).limit(limit).toArrow()

    def folded(self, to_events: Kernel, fold_events: Kernel, one_bucket: Sequence[int] = ()) -> pa.Table:
        """See `Changes.folded`: each task writes files of its own."""
        return folded_by_tasks(read_columns(self.frame), to_events, fold_events, one_bucket, buckets_of(self.frame))


def folded_by_tasks(
    changes: DataFrame, to_events: Kernel, fold_events: Kernel, one_bucket: Sequence[int], buckets: int
) -> pa.Table:
    """Makes row events of changes, and folds them in tasks: those of a row together and in order.

    The groups of a table are divided into so many buckets, which tasks take one after another; a table of `one_bucket` has one.
    """
    bundles = run(changes, Bundling(to_events, buckets, frozenset(one_bucket)), BUNDLES)
    together = bundles.repartition("table", "bucket").sortWithinPartitions("table", "bucket")
    try:
        return run(together, Unbundling(fold_events), OUTCOME).toArrow()
    except SPARK_ERRORS as error:
        raise translate_error(error) from error


def buckets_of(changes: DataFrame) -> int:
    """How many buckets the groups of these changes need, by Spark's estimate of their size."""
    size: int = changes._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
    return _BUCKETS if size > _UNKNOWN_BYTES else max(_BUCKETS, size // BUCKET_BYTES)


def read_columns(changes: DataFrame) -> DataFrame:
    """The columns that a fold reads: `READ_COLUMNS` and `ARRIVAL`. Changes that are not of the log count as one batch."""
    if "batch" not in changes.columns:
        changes = changes.withColumn("batch", f.lit(0))
    return changes.select(*READ_COLUMNS, *arrival_columns())


def arrival_columns() -> list[Column]:
    """`ARRIVAL`, given rows of the log."""
    values = (
        f.col("batch"),
        f.coalesce(f.col("origin.ordinal"), f.lit(0)),
        f.when(f.col("origin.offset").isNotNull(), f.coalesce(f.col("origin.partition"), f.lit(0))),
        f.coalesce(f.col("origin.offset"), f.col("origin.record"), f.lit(0)),
    )
    return [value.cast("bigint").alias(name) for name, value in zip(ARRIVAL, values, strict=True)]
