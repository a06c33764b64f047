"""Which changes of the log the replicas do not have yet, and how far they may go: to the end of a complete transaction."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from changeling.iceberg.lake import Lake
from changeling.log import layout
from changeling.log.batch_stats import ROWS, BatchStats, TableStats, together
from changeling.model.table import TableName
from changeling.replicas.points import Point, SourcePoint


class TableDelta(msgspec.Struct, frozen=True):
    """The new changes of one table."""

    source: str
    table: TableName
    changes: int
    late: int
    """How many of them belong before what the replica has."""
    first_late: str | None
    truncated: str | None
    """The position of the last truncate."""
    key: str | None
    """A key of one of its rows, for its columns."""
    version: int | None = None
    """The schema version of its last change that has one, and its position."""
    version_at: str = ""
    versions: list[int] = []
    """The versions that they have."""
    first: str = ""
    """The first position."""
    reads: bool = False
    """It has snapshot rows."""


class Delta(msgspec.Struct, frozen=True):
    """The new changes of all tables."""

    point: Point
    """The point that the replicas reach with it; its tables are still those of the last one."""
    limits: dict[str, str | None]
    """Where each source ends: positions before this; None where all of it is taken."""
    tables: list[TableDelta] = []


class PendingChanges:
    """Finds the changes of the log after the last point."""

    def __init__(self, lake: Lake, settle: timedelta) -> None:
        self._lake, self._settle = lake, settle
        self._partitions: dict[str, dict[tuple[str, int], str]] = {}

    def next(
        self,
        last: Point,
        batches: Mapping[str, int],
        stats: Mapping[str, Mapping[int, BatchStats]] | None = None,
        looked: Mapping[str, datetime] | None = None,
        *,
        end: bool,
    ) -> Delta | None:
        """What is new up to these batches; None where there is nothing, or nothing complete.

        With `end`, the end of the log is the end of every transaction in it. Where the stats of all these batches are known and
        nothing in them is late or open, the log is not looked at. `looked` says up to which time all that a source had is in
        the log: only so far has anything been waited for.
        """
        fresh = {name: batch for name, batch in batches.items() if batch > last.of(name).whole_batch}
        if not fresh:
            return None
        known = {name: stats_since(last.of(name), batch, (stats or {}).get(name, {})) for name, batch in fresh.items()}
        if all(one is not None and (end or not one.open) for one in known.values()):
            for name in fresh:
                # What their partitions have is looked up where it matters again.
                self._partitions.pop(name, None)
            return delta_of(last, fresh, {name: one for name, one in known.items() if one is not None})
        new = self._new(last, fresh)
        limits: dict[str, str | None] = dict.fromkeys(fresh)
        complete = True
        if not end:
            limits, complete = self._limits(new, last, fresh, looked or {})
        return self._delta(new, last, fresh, limits, complete)

    def _new(self, last: Point, batches: Mapping[str, int]) -> DataFrame:
        """The changes that are not in the last point."""
        wanted: Column = f.lit(False)
        for name, batch in batches.items():
            known = last.of(name)
            part = (f.col("source") == name) & (f.col("batch") > known.whole_batch) & (f.col("batch") <= batch)
            if known.position is not None and known.batch > known.whole_batch:
                part = part & ((f.col("batch") > known.batch) | (f.col("position") > known.position))
            wanted = wanted | part
        return self._lake.frame(layout.CHANGES).where(wanted)

    def _limits(
        self, new: DataFrame, last: Point, batches: Mapping[str, int], looked: Mapping[str, datetime]
    ) -> tuple[dict[str, str | None], bool]:
        """Where the first transaction begins that is not complete, for each source, and whether all ends are known.

        It is complete where its end is marked, or where every partition has gone past it, or after a wait. What is late is not
        waited for: the last point is behind it, so what is left out there would count as applied.
        """
        self._note_partitions(new, batches)
        limits: dict[str, str | None] = dict.fromkeys(batches)
        complete = True
        found = (
            new.where("transaction.id IS NOT NULL")
            .groupBy("source", f.col("transaction.id").alias("id"))
            .agg(
                f.min("position").alias("first"),
                f.max("position").alias("last"),
                f.max(f.col("transaction.complete") | (f.col("op") == "commit")).alias("ended"),
                f.max("ingested_at").alias("seen"),
            )
            .where("NOT coalesce(ended, false)")
        )
        passed = {name: min(places.values()) for name, places in self._partitions.items() if places}
        open_ones: Column = f.lit(False)
        for name in batches:
            open_ones = open_ones | ((f.col("source") == name) & (f.col("last") >= passed.get(name, "")))
        for row in found.where(open_ones).collect():
            held = last.of(row.source).position
            if held is not None and row["first"] <= held:
                complete = False
                continue
            # A run may be slow, or its source unreachable: records that were not read yet may be the rest of the transaction.
            if row.source in looked and row.seen.astimezone(UTC) + self._settle <= looked[row.source]:
                complete = False
                continue
            known = limits[row.source]
            limits[row.source] = row["first"] if known is None else min(known, row["first"])
        return limits, complete

    def _note_partitions(self, new: DataFrame, batches: Mapping[str, int]) -> None:
        """How far each partition of each source is."""
        unknown = [name for name in batches if name not in self._partitions]
        frames = [new]
        if unknown:
            frames.append(
                self._lake.frame(layout.CHANGES).where(
                    f.col("source").isin(unknown) & f.col("origin.topic").isNotNull()
                )
            )
        for frame in frames:
            found = frame.groupBy("source", "origin.topic", "origin.partition").agg(f.max("position").alias("last"))
            for row in found.collect():
                places = self._partitions.setdefault(row.source, {})
                place = (row.topic or "", row.partition or 0)
                places[place] = max(places.get(place, ""), row["last"])

    def _delta(
        self,
        new: DataFrame,
        last: Point,
        batches: Mapping[str, int],
        limits: Mapping[str, str | None],
        complete: bool,
    ) -> Delta | None:
        taken, behind = f.lit(False), f.lit(False)
        for name in batches:
            limit, held = limits[name], last.of(name).position
            part = f.col("source") == name
            taken = taken | (part if limit is None else part & (f.col("position") < limit))
            if held is not None:
                behind = behind | (part & (f.col("position") <= held))
        of_table = taken & (f.col("op").isin(*ROWS, "truncate")) & f.col("table.name").isNotNull()
        late = of_table & behind
        altered = taken & (f.col("op") == "ddl") & f.col("table.name").isNotNull() & f.col("schema_id").isNotNull()
        with_schema = f.when((of_table & f.col("schema_id").isNotNull()) | altered, f.col("position"))
        rows = (
            new.groupBy("source", "table")
            .agg(
                f.count(f.when(taken, 1)).alias("seen"),
                f.count(f.when(of_table, 1)).alias("changes"),
                f.count(f.when(altered, 1)).alias("altered"),
                f.count(f.when(late, 1)).alias("late"),
                f.min(f.when(late, f.col("position"))).alias("first_late"),
                f.max(f.when(of_table & (f.col("op") == "truncate"), f.col("position"))).alias("truncated"),
                f.max(f.when(of_table, f.col("key"))).alias("key"),
                f.max_by(f.col("schema_id"), with_schema).alias("version"),
                f.max(with_schema).alias("version_at"),
                f.collect_set(f.when(taken, f.col("schema_id"))).alias("versions"),
                f.min(f.when(taken, f.col("position"))).alias("first"),
                f.max(of_table & (f.col("op") == "read")).alias("reads"),
                f.max(f.when(taken, f.col("position"))).alias("last"),
                f.max_by(f.col("transaction.id"), f.when(taken, f.col("position"))).alias("transaction"),
                f.max(f.when(taken, f.col("commit_time"))).alias("commit_time"),
                f.min(f.when(~taken, f.col("batch"))).alias("left"),
            )
            .collect()
        )
        sources = {
            name: _advanced(last.of(name), batch, [row for row in rows if row.source == name])
            for name, batch in batches.items()
        }
        if not any(row.seen for row in rows) and all(one.whole_batch < one.batch for one in sources.values()):
            return None
        tables = [_table_delta(row) for row in rows if row.changes or row.altered]
        point = Point(last.number + 1, datetime.now(UTC), complete, {**last.sources, **sources}, last.tables)
        return Delta(point, dict(limits), tables)


def stats_since(before: SourcePoint, batch: int, known: Mapping[int, BatchStats]) -> BatchStats | None:
    """The statistics of all batches after a point; None where they are not all known, or where a change is late."""
    numbers = range(before.whole_batch + 1, batch + 1)
    if before.batch != before.whole_batch or any(number not in known for number in numbers):
        return None
    found = together(known[number] for number in numbers)
    held = before.position
    return None if held is not None and any(table.first <= held for table in found.tables) else found


def delta_of(last: Point, batches: Mapping[str, int], stats: Mapping[str, BatchStats]) -> Delta:
    """The new changes by their statistics, where all of them are taken."""
    sources, tables = {}, []
    for name, batch in batches.items():
        before, found = last.of(name), stats[name]
        position, transaction = _furthest(before, [] if found.last is None else [found.last])
        commit_time = max(filter(None, (before.commit_time, found.commit_time)), default=None)
        sources[name] = SourcePoint(batch, batch, position, transaction, commit_time)
        tables += [_delta_of_stats(name, table) for table in found.tables]
    point = Point(last.number + 1, datetime.now(UTC), True, {**last.sources, **sources}, last.tables)
    return Delta(point, dict.fromkeys(batches), tables)


def _delta_of_stats(source: str, stats: TableStats) -> TableDelta:
    position, version = stats.version or ("", None)
    return TableDelta(
        source,
        stats.table,
        stats.changes,
        0,
        None,
        stats.truncated,
        stats.key,
        version,
        position,
        stats.versions,
        stats.first,
        stats.reads,
    )


def _advanced(before: SourcePoint, batch: int, rows: list[Any]) -> SourcePoint:
    seen = [row for row in rows if row["last"] is not None]
    position, transaction = _furthest(before, [(row["last"], row.transaction) for row in seen])
    left = min((row.left for row in rows if row.left is not None), default=None)
    return SourcePoint(
        batch=batch,
        whole_batch=batch if left is None else left - 1,
        position=position,
        transaction=transaction,
        commit_time=max(filter(None, (before.commit_time, *(row.commit_time for row in seen))), default=None),
        late=min((row.first_late for row in rows if row.first_late is not None), default=None),
    )


def _furthest(before: SourcePoint, lasts: list[tuple[str, str | None]]) -> tuple[str | None, str | None]:
    """The furthest position, and its transaction."""
    held = [] if before.position is None else [(before.position, before.transaction)]
    return max([*lasts, *held], key=lambda one: one[0], default=(None, None))


def _table_delta(row: Any) -> TableDelta:
    table = TableName(row.table.catalog, row.table.schema, row.table.name)
    return TableDelta(
        row.source,
        table,
        row.changes,
        row.late,
        row.first_late,
        row.truncated,
        row.key,
        row.version,
        row.version_at or "",
        sorted(row.versions),
        row["first"],
        row.reads,
    )
