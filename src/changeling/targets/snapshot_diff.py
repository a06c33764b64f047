"""The difference between two snapshots of a replica, as rows with a count: how often each was added, or removed if below zero.

Rows in files of both snapshots that are deleted in neither or in both cancel out unread: what remains are the files of only one
of them, and the rows that either deletes in the files of both.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from changeling.replicas.replica_reader import Replica
from changeling.replicas.shape import Shape
from changeling.replicas.staged_rows import column_name
from changeling.replicas.stored_merge import columns, placed, placed_columns
from changeling.replicas.stored_types import sql_type
from changeling.replicas.tables import ReplicaTables

COUNT = "n"
_OURS = ("_file", "_deleted")
"""Iceberg's metadata columns: a table may have columns of these names itself."""
_APPENDED = {"append", "replace"}
"""Commits that add rows, or only rewrite them."""


@dataclass(frozen=True)
class Side:
    """One snapshot, and the columns that its rows have."""

    snapshot: int
    shape: Shape


_Files: TypeAlias = dict[str, frozenset[tuple[str, int | None]]]
"""The data files of a snapshot, each with its delete files."""


@dataclass(frozen=True)
class _Share:
    """What one snapshot has and the other does not."""

    alone: list[str]
    """Files that only it has."""
    touched: list[str]
    """Files that both have, in which it deletes other rows."""


class Differences:
    """Reads the replicas of a pipeline."""

    def __init__(self, tables: ReplicaTables) -> None:
        self._tables, self._lake = tables, tables.lake

    def all_rows(self, replica: Replica, side: Side) -> DataFrame:
        """All rows of a snapshot, each once: columns named by index, and `n`."""
        return _counted(self.rows(replica, side), f.lit(1))

    def rows(self, replica: Replica, side: Side) -> DataFrame:
        """The rows of a snapshot as they are stored, columns named by index."""
        return placed(self._at(replica, side.snapshot), side.shape, side.shape)

    def between(self, replica: Replica, old: Side, new: Side) -> DataFrame:
        """The rows that were added (`n` above zero) and removed (below), in the columns of the new snapshot."""
        java = self._lake.load(replica.table)
        if not self._same_columns(java, old, new):
            parts = [
                _counted(placed(self._at(replica, side.snapshot), side.shape, new.shape), f.lit(sign))
                for side, sign in ((new, 1), (old, -1))
            ]
            return _summed(parts, new.shape)
        if _only_appended(java, old.snapshot, new.snapshot):
            rows = self._lake.spark.read.option("start-snapshot-id", old.snapshot).option(
                "end-snapshot-id", new.snapshot
            )
            found = placed(rows.table(self._lake.name(replica.table)), new.shape, new.shape)
            return _counted(found, f.lit(1))
        before, after = _files(java, old.snapshot), _files(java, new.snapshot)
        shares = [(new, _share(after, before), 1), (old, _share(before, after), -1)]
        parts = [
            self._changed(replica, side, share, sign) for side, share, sign in shares if share.alone or share.touched
        ]
        return _summed(parts, new.shape) if parts else self.all_rows(replica, new).limit(0)

    def _at(self, replica: Replica, snapshot: int) -> DataFrame:
        return self._lake.spark.read.option("versionAsOf", snapshot).table(self._lake.name(replica.table))

    def _same_columns(self, java: Any, old: Side, new: Side) -> bool:
        """Whether both snapshots have exactly the columns that the table has now."""
        schemas = {java.snapshot(old.snapshot).schemaId(), java.snapshot(new.snapshot).schemaId()}
        named = {column.name for column in new.shape.columns}
        return old.shape == new.shape and schemas == {java.schema().schemaId()} and not named.intersection(_OURS)

    def _changed(self, replica: Replica, side: Side, share: _Share, sign: int) -> DataFrame:
        """Rows in a snapshot's own files are added by it; rows that it deletes in files of both are removed by it."""
        file, deleted = f.col("_file"), f.col("_deleted")
        count = f.when(file.isin(share.alone) & ~deleted, f.lit(sign)).when(
            file.isin(share.touched) & deleted, f.lit(-sign)
        )
        values = placed_columns(side.shape, side.shape)
        named = (value.alias(column_name(place)) for place, value in enumerate(values))
        rows = self._at(replica, side.snapshot).select(*named, count.cast("bigint").alias(COUNT))
        return rows.where(f.col(COUNT).isNotNull())


def _counted(rows: DataFrame, count: Column) -> DataFrame:
    return rows.withColumn(COUNT, count.cast("bigint"))


def _summed(parts: list[DataFrame], shape: Shape) -> DataFrame:
    """Sums the counts of equal rows and drops those with zero."""
    rows = _exact(parts[0], shape)
    for part in parts[1:]:
        rows = rows.unionByName(_exact(part, shape))
    return rows.groupBy(*columns(shape)).agg(f.sum(COUNT).alias(COUNT)).where(f.col(COUNT) != 0)


def _exact(rows: DataFrame, shape: Shape) -> DataFrame:
    """Rows with floats as text: Spark groups 0 and -0 as one value."""
    selected = []
    for place, column in enumerate(shape.columns):
        stored, value = sql_type(column.kind), f.col(column_name(place))
        text = stored.replace("FLOAT", "STRING").replace("DOUBLE", "STRING")
        selected.append(value if text == stored else value.cast(text).alias(column_name(place)))
    return rows.select(*selected, COUNT)


def _only_appended(java: Any, old: int, new: int) -> bool:
    """Whether every commit between two snapshots only added or rewrote rows."""
    for snapshot in _back(java, new):
        if snapshot.snapshotId() == old:
            return True
        if snapshot.operation() not in _APPENDED:
            return False
    return False


def _back(java: Any, start: int) -> Iterator[Any]:
    """A snapshot and its ancestors, as far as they are retained."""
    snapshot = java.snapshot(start)
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parentId()
        snapshot = None if parent is None else java.snapshot(parent)


def _share(own: _Files, other: _Files) -> _Share:
    return _Share(
        [name for name in own if name not in other],
        [name for name, deletes in own.items() if deletes and other.get(name, deletes) != deletes],
    )


def _files(java: Any, snapshot: int) -> _Files:
    tasks = java.newScan().useSnapshot(snapshot).planFiles()
    try:
        found: _Files = {}
        rest = tasks.iterator()
        while rest.hasNext():
            task = rest.next()
            deletes = frozenset((one.location(), one.contentOffset()) for one in task.deletes())
            found[task.file().location()] = deletes
        return found
    finally:
        tasks.close()
