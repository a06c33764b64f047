"""The task of a merge for one replica: the base on which it is folded, and the changes that this needs."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from changeling.iceberg.lake import Lake
from changeling.log import layout
from changeling.log.maintenance import DROPPED
from changeling.model.table import TableName
from changeling.replicas.pending_changes import TableDelta
from changeling.replicas.points import Points, from_row
from changeling.replicas.row_changes import RowChangesKernel
from changeling.replicas.row_events import FoldTable, read_columns
from changeling.replicas.tables import Replica

MANY = 20_000
"""With more keys than this, the whole table is folded again instead of single keys."""


@dataclass(frozen=True)
class Base:
    """A state to begin with: all changes up to a position, as a snapshot has them; nothing without one."""

    position: str = ""
    snapshot: int | None = None


@dataclass
class MergeTask:
    """One replica to be merged."""

    delta: TableDelta
    replica: Replica
    folded: FoldTable
    base: Base | None = None
    """The base of rows that are folded again; None without such rows."""
    from_scratch: bool = False
    """The result replaces all rows."""
    version: int | None = None
    """The schema version of its columns, and the position of the last change that has it."""
    version_at: str = ""
    renamed: bool = False
    """Its columns are now known differently: earlier states can no longer be bases."""


def points_of(lake: Lake) -> Points:
    """The points of a pipeline; none where its log is older than they are."""
    if layout.POINTS.name not in lake.names():
        return Points([])
    return Points(from_row(row) for row in lake.rows(layout.POINTS).to_pylist())


def of_table(source: str, table: TableName) -> Column:
    """The changes of one table."""
    wanted = f.col("source") == source
    for name, value in (("catalog", table.catalog), ("schema", table.schema), ("name", table.name)):
        part = f.col(f"table.{name}")
        wanted = wanted & (part.isNull() if value is None else part == value)
    return wanted


def names_a_table() -> Column:
    """Changes that name a table of the source. A message may not: a topic alone names that of a tombstone, and not in full."""
    return f.col("table.name").isNotNull() & (f.col("op") != "message")


def is_part() -> Column:
    """New rows with a partial image."""
    return f.col("op").isin("insert", "read") & (f.col("after_image") == "partial")


def between(after: str, before: str | None, batch: int, since: int = 0) -> Column:
    """Positions after one and before another, of batches up to one; batches up to `since` are known to contain none."""
    wanted = (f.col("position") > after) & (f.col("batch") <= batch)
    if since:
        wanted = wanted & (f.col("batch") > since)
    return wanted if before is None else wanted & (f.col("position") < before)


class Bases:
    """Finds the nearest state to begin with."""

    def __init__(self, lake: Lake, points: Points) -> None:
        self._lake, self._points = lake, points

    def before(self, replica: Replica, position: str, there: set[int]) -> Base | None:
        """The newest state of a replica that ends before a position and that nothing disturbed; None where none is kept.

        `there` are the snapshots that the replica still has.
        """
        source = replica.identity.source
        for point in self._points.undisturbed(source, position):
            snapshot = replica.snapshot_in(point.tables)
            if snapshot is None:
                break
            held = point.of(source).position
            if held is not None and snapshot in there:
                return Base(held, snapshot)
        return Base() if self.log_is_whole() else None

    def log_is_whole(self) -> bool:
        """Whether the log still has every change that was ever ingested."""
        return log_is_whole(self._lake)


def log_is_whole(lake: Lake) -> bool:
    """Whether the log still has every change that was ever ingested."""
    return DROPPED not in dict(lake.load(layout.CHANGES).properties())


def last_truncate(lake: Lake, source: str, table: TableName, after: str, before: str | None, batch: int) -> str | None:
    """The position of the last truncate of a table."""
    wanted = of_table(source, table) & between(after, before, batch) & (f.col("op") == "truncate")
    found = lake.frame(layout.CHANGES).where(wanted).agg(f.max("position")).first()
    return None if found is None else found[0]


def all_truncates(
    lake: Lake, source: str, table: TableName, after: str, before: str | None, batch: int
) -> tuple[tuple[str, int | None], ...]:
    """The positions of all truncates of a table, each with its commit time."""
    wanted = of_table(source, table) & between(after, before, batch) & (f.col("op") == "truncate")
    found = lake.frame(layout.CHANGES).where(wanted).select("position", "commit_time").distinct().collect()
    return tuple(sorted((row.position, row.commit_time) for row in found))


def first_later(lake: Lake, source: str, moment: int, start: str, end: str) -> str | None:
    """The start of the first transaction between two positions that is later than a time; None where there is none."""
    changes = lake.frame(layout.CHANGES).where(
        (f.col("source") == source) & (f.col("position") > start) & (f.col("position") <= end)
    )
    first = changes.where(f.col("commit_time") > moment)
    found = first.agg(f.min("position").alias("position"), f.min_by("transaction.id", "position").alias("id")).first()
    if found is None or found.position is None:
        return None
    if found.id is None:
        return str(found.position)
    begun = changes.where(f.col("transaction.id") == found.id).agg(f.min("position")).first()
    return str(found.position if begun is None else begun[0])


def tables_named(lake: Lake, name: str) -> list[tuple[str, TableName]]:
    """The tables of the log that have a name, whatever their schema, each with its source."""
    rows = lake.frame(layout.CHANGES).where(names_a_table() & (f.col("table.name") == name))
    found = rows.select("source", "table.*").distinct().collect()
    return [(row.source, TableName(row.catalog, row.schema, row.name)) for row in found]


def some_key(lake: Lake, source: str, table: TableName) -> str | None:
    """A key of some row of a table, for its columns."""
    found = lake.frame(layout.CHANGES).where(of_table(source, table) & f.col("key").isNotNull()).select("key").first()
    return None if found is None else found[0]


def last_version(lake: Lake, source: str, table: TableName) -> tuple[int | None, str]:
    """The schema version of a table's last change that has one, and its position."""
    with_schema = f.when(f.col("schema_id").isNotNull(), f.col("position"))
    changes = lake.frame(layout.CHANGES).where(of_table(source, table))
    found = changes.agg(f.max_by("schema_id", with_schema), f.max(with_schema)).first()
    return (None, "") if found is None else (found[0], found[1] or "")


def after(position: str) -> str:
    """A text that sorts after a position and before every later one."""
    return f"{position}!"


def late_keys(changes: DataFrame, table: FoldTable) -> frozenset[str] | None:
    """The keys of rows that late changes touch; None where there are too many."""
    rows = read_columns(changes).limit(MANY + 1).toArrow()
    if rows.num_rows > MANY:
        return None
    return keys_of(rows.to_batches(), table)


def keys_of(batches: Sequence[pa.RecordBatch], table: FoldTable) -> frozenset[str]:
    """The keys that changes touch, each row's own and the one it had before."""
    found: set[str] = set()
    for events in RowChangesKernel((table,))(batches):
        found.update(events.column("key").to_pylist())
        found.update(events.column("origin").drop_null().to_pylist())
    return frozenset(found)
