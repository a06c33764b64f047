"""What a merge has to know of new changes before it folds them: on Spark, or in this process where they are few."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from changeling.iceberg.conditions import Condition
from changeling.iceberg.lake import Lake
from changeling.iceberg.measured_scan import NeedsSpark
from changeling.iceberg.spark_conditions import spark_condition
from changeling.log import log_tables
from changeling.log.batch_stats import TABLE_OPERATIONS
from changeling.log.stats_counter import placed_positions
from changeling.model.table import TableName
from changeling.replicas.logged_changes import is_placed

Limits = Mapping[str, str | None]
"""By source, a position: changes before it are meant; all of them where it is None."""
_READ = (
    "source",
    "table",
    "op",
    "position",
    "key",
    "schema_id",
    "transaction",
    "commit_time",
    "batch",
    "ingested_at",
    "origin",
    "arrived",
)


class Partition(NamedTuple):
    """How far a partition of a source is."""

    source: str
    topic: str
    partition: int
    last: str


class OpenTransaction(NamedTuple):
    """A transaction whose end is not marked, or that has fewer changes than the mark says."""

    source: str
    first: str
    last: str
    seen: datetime
    """When the last of its changes was ingested."""
    is_marked: bool = False


class TableSummary(NamedTuple):
    """The changes of one table. Those before the limit of its source are taken, the others are left."""

    source: str
    table: TableName
    seen: int
    """How many are taken, of whatever kind, that have a position."""
    changes: int
    """Row changes and truncates."""
    altered: int
    """Schema versions that came on their own."""
    late: int
    first_late: str | None
    truncated: str | None
    key: str | None
    version: int | None
    version_at: str | None
    versions: list[int]
    first: str | None
    has_snapshot_rows: bool
    last: str | None
    transaction: str | None
    commit_time: int | None
    left: int | None
    """The first batch of which something is left."""


class NewChanges(Protocol):
    """Changes that no point has yet."""

    def partitions(self) -> Iterable[Partition]:
        """How far each partition is."""

    def open_transactions(self) -> Iterable[OpenTransaction]:
        """The transactions whose end is not among the changes, or not all of what its mark counts."""

    def tables(self, limits: Limits, merged_to: Limits) -> list[TableSummary]:
        """The changes by table; `merged_to` says how far each source was merged: changes up to there are late."""


def new_changes(lake: Lake, condition: Condition) -> NewChanges:
    """The changes of the log for which a condition holds."""
    try:
        return FewChanges(lake.planned(log_tables.CHANGES).rows(condition, _READ))
    except NeedsSpark:
        return ManyChanges(lake.frame(log_tables.CHANGES).where(spark_condition(condition)))


@dataclass(frozen=True)
class FewChanges:
    """Changes that this process has read."""

    rows: pa.Table

    def partitions(self) -> Iterable[Partition]:
        """How far each partition is."""
        lasts: dict[tuple[str, str, int], str] = {}
        for source, topic, partition, position in self._values("source", "origin.topic", "origin.partition", "place"):
            if position is None:
                continue
            place = (source, topic or "", partition or 0)
            lasts[place] = max(lasts.get(place, ""), position)
        return [Partition(*place, last) for place, last in lasts.items()]

    def open_transactions(self) -> Iterable[OpenTransaction]:
        """The transactions whose end is not among the changes, or not all of what its mark counts."""
        found: dict[tuple[str, str], OpenTransaction] = {}
        ended: dict[tuple[str, str], int] = {}
        places: dict[tuple[str, str], set[str]] = {}
        for source, number, complete, total, op, position, seen in self._values(
            "source", "transaction.id", "transaction.complete", "transaction.total", "op", "place", "ingested_at"
        ):
            if number is None:
                continue
            if complete or op == "commit":
                declared = (total or 0) if position is None else 0
                ended[source, number] = max(ended.get((source, number), 0), declared)
            if position is None:
                continue
            if op in TABLE_OPERATIONS:
                # A change that is delivered again is one.
                places.setdefault((source, number), set()).add(position)
            one = found.get((source, number), OpenTransaction(source, position, position, seen))
            found[source, number] = OpenTransaction(
                source, min(one.first, position), max(one.last, position), max(one.seen, seen)
            )
        return [
            one._replace(is_marked=place in ended)
            for place, one in found.items()
            if place not in ended or len(places.get(place, ())) < ended[place]
        ]

    def tables(self, limits: Limits, merged_to: Limits) -> list[TableSummary]:
        """The changes by table."""
        own: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
        for row in self._values(
            *("source", "table.catalog", "table.schema", "table.name"),
            *("op", "position", "key", "schema_id", "transaction.id", "commit_time", "batch", "place"),
        ):
            own.setdefault(row[:4], []).append(row[4:])
        return [
            _summary(source, TableName(*table), changes, limits.get(source), merged_to.get(source))
            for (source, *table), changes in own.items()
        ]

    def _values(self, *names: str) -> Iterable[tuple[Any, ...]]:
        return zip(*(_column(self._placed, name).to_pylist() for name in names), strict=True)

    @cached_property
    def _placed(self) -> pa.Table:
        return self.rows.append_column("place", placed_positions(self.rows))


def _column(rows: pa.Table, name: str) -> pa.ChunkedArray:
    whole, _, member = name.partition(".")
    return pc.struct_field(rows.column(whole), member) if member else rows.column(whole)


def _summary(
    source: str, table: TableName, changes: list[tuple[Any, ...]], limit: str | None, merged_to: str | None
) -> TableSummary:
    taken = [change for change in changes if limit is None or change[-1] is None or change[-1] < limit]
    left = [change for change in changes if limit is not None and change[-1] is not None and change[-1] >= limit]
    placed = [change for change in taken if change[-1] is not None]
    is_named = table.name is not None
    own = [change for change in taken if is_named and change[0] in TABLE_OPERATIONS]
    altered = [change for change in taken if is_named and change[0] == "ddl" and change[3] is not None]
    late = [position for _, position, *_ in own if merged_to is not None and position <= merged_to]
    versioned = [(position, version) for _, position, _, version, *_ in (*own, *altered) if version is not None]
    version_at, version = max(versioned, default=(None, None))
    last = max(placed, key=lambda change: change[-1], default=None)
    return TableSummary(
        source,
        table,
        len(placed),
        len(own),
        len(altered),
        len(late),
        min(late, default=None),
        min((position for op, position, *_ in own if op == "truncate"), default=None),
        max((key for _, _, key, *_ in own if key is not None), default=None),
        version,
        version_at,
        sorted({version for _, _, _, version, *_ in taken if version is not None}),
        min((change[-1] for change in placed), default=None),
        any(op == "read" for op, *_ in own),
        None if last is None else last[1],
        None if last is None else last[4],
        max((moment for *_, moment, _, _ in placed if moment is not None), default=None),
        min((batch for *_, batch, _ in left), default=None),
    )


@dataclass(frozen=True)
class ManyChanges:
    """Changes as a frame."""

    frame: DataFrame

    def partitions(self) -> Iterable[Partition]:
        """How far each partition is."""
        placed = self.frame.where(_place().isNotNull())
        found = placed.groupBy("source", "origin.topic", "origin.partition").agg(f.max("position").alias("last"))
        return [Partition(row.source, row.topic or "", row.partition or 0, row["last"]) for row in found.collect()]

    def open_transactions(self) -> Iterable[OpenTransaction]:
        """The transactions whose end is not among the changes, or not all of what its mark counts."""
        declared = f.when((f.col("op") == "commit") & _place().isNull(), f.col("transaction.total"))
        found = (
            self.frame.where("transaction.id IS NOT NULL")
            .groupBy("source", f.col("transaction.id").alias("id"))
            .agg(
                f.min(_place()).alias("first"),
                f.max(_place()).alias("last"),
                f.coalesce(f.max(f.col("transaction.complete") | (f.col("op") == "commit")), f.lit(False)).alias(
                    "ended"
                ),
                f.coalesce(f.max(declared), f.lit(0)).alias("declared"),
                f.count_distinct(f.when(f.col("op").isin(*TABLE_OPERATIONS), f.col("position"))).alias("rows"),
                f.max(f.when(_place().isNotNull(), f.col("ingested_at"))).alias("seen"),
            )
            .where("first IS NOT NULL AND (NOT ended OR rows < declared)")
        )
        return [
            OpenTransaction(row.source, row["first"], row["last"], row.seen.astimezone(UTC), row.ended)
            for row in found.collect()
        ]

    def tables(self, limits: Limits, merged_to: Limits) -> list[TableSummary]:
        """The changes by table."""
        place = _place()
        taken = _any_source(limits, lambda limit: f.lit(True) if limit is None else place.isNull() | (place < limit))
        behind = _any_source(merged_to, lambda last: f.lit(False) if last is None else f.col("position") <= last)
        of_table = taken & f.col("op").isin(*TABLE_OPERATIONS) & f.col("table.name").isNotNull()
        late = of_table & behind
        altered = taken & (f.col("op") == "ddl") & f.col("table.name").isNotNull() & f.col("schema_id").isNotNull()
        with_schema = f.when((of_table & f.col("schema_id").isNotNull()) | altered, f.col("position"))
        rows = (
            self.frame.groupBy("source", "table")
            .agg(
                f.count(f.when(taken, place)).alias("seen"),
                f.count(f.when(of_table, 1)).alias("changes"),
                f.count(f.when(altered, 1)).alias("altered"),
                f.count(f.when(late, 1)).alias("late"),
                f.min(f.when(late, f.col("position"))).alias("first_late"),
                f.min(f.when(of_table & (f.col("op") == "truncate"), f.col("position"))).alias("truncated"),
                f.max(f.when(of_table, f.col("key"))).alias("key"),
                f.max(f.when(with_schema.isNotNull(), f.struct(with_schema, "schema_id"))).schema_id.alias("version"),
                f.max(with_schema).alias("version_at"),
                f.sort_array(f.collect_set(f.when(taken, f.col("schema_id")))).alias("versions"),
                f.min(f.when(taken, place)).alias("first"),
                f.coalesce(f.max(of_table & (f.col("op") == "read")), f.lit(False)).alias("has_snapshot_rows"),
                f.max(f.when(taken, place)).alias("last"),
                f.max_by(f.col("transaction.id"), f.when(taken, place)).alias("transaction"),
                f.max(f.when(taken & place.isNotNull(), f.col("commit_time"))).alias("commit_time"),
                f.min(f.when(~taken, f.col("batch"))).alias("left"),
            )
            .collect()
        )
        return [
            TableSummary(row.source, TableName(*(row.table or (None, None, None))), *tuple(row)[2:]) for row in rows
        ]


def _place() -> Column:
    """The position, where it compares with others."""
    return f.when(spark_condition(is_placed()), f.col("position"))


def _any_source(values: Limits, holds: Callable[[str | None], Column]) -> Column:
    found = f.lit(False)
    for source, value in values.items():
        found = found | ((f.col("source") == source) & holds(value))
    return found
