"""The difference between two snapshots of a replica, as rows with a count: how often each was added, or removed if below zero.

Rows in files of both snapshots that are deleted in neither or in both cancel out unread: what remains are the files of only one
of them, and the rows that either deletes in the files of both. Where that is little, it is read in this process, without a job.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from changeling.iceberg import deletion_vectors
from changeling.iceberg.data_files import DataFile, OpenFile
from changeling.iceberg.deletion_vectors import Vector
from changeling.replicas.replica_reader import Replica
from changeling.replicas.row_replacement import NO_ROWS
from changeling.replicas.shape import Shape
from changeling.replicas.spark_replacement import columns, placed, placed_columns
from changeling.replicas.staged_rows import column_name
from changeling.replicas.stored_rows import StoredRows
from changeling.replicas.stored_types import sql_type
from changeling.replicas.tables import ReplicaTables

COUNT = "n"
MAX_BYTES = 128 * 1024 * 1024
"""Size of the files that are read in this process."""
_OURS = ("_file", "_deleted")
"""Iceberg's metadata columns: a table may have columns of these names itself."""
_APPENDED = {"append", "replace"}
"""Commits that add rows, or only rewrite them."""

Rows: TypeAlias = DataFrame | pa.Table
"""Rows with their count, columns named by index."""


@dataclass(frozen=True)
class Side:
    """One snapshot, and the columns that its rows have."""

    snapshot: int
    shape: Shape


_Files: TypeAlias = Mapping[str, DataFile]
"""The data files of a snapshot, by their paths."""


@dataclass(frozen=True)
class _Share:
    """The rows that one snapshot has and the other does not."""

    alone: list[DataFile]
    """Files that only it has."""
    touched: list[tuple[DataFile, Vector | None]]
    """Files that both have, in which it deletes other rows; each with the vector that the other has."""

    @staticmethod
    def of(own: _Files, other: _Files) -> "_Share":
        shared = [(file, other[path].vector) for path, file in own.items() if path in other]
        return _Share(
            [file for path, file in own.items() if path not in other],
            [(file, vector) for file, vector in shared if file.vector is not None and file.vector != vector],
        )

    @property
    def size(self) -> int:
        return sum(file.size for file in (*self.alone, *(file for file, _ in self.touched)))


class Differences:
    """Reads the replicas of a pipeline."""

    def __init__(self, tables: ReplicaTables) -> None:
        self._tables, self._lake = tables, tables.lake
        self._stored = StoredRows(tables)

    def all_rows(self, replica: Replica, side: Side) -> DataFrame:
        """All rows of a snapshot, each once: columns named by index, and `n`."""
        return _counted(self.rows(replica, side), f.lit(1))

    def rows(self, replica: Replica, side: Side) -> DataFrame:
        """The rows of a snapshot as they are stored, columns named by index."""
        return placed(self._at(replica, side.snapshot), side.shape, side.shape)

    def between(self, replica: Replica, old: Side, new: Side) -> Rows:
        """The rows that were added (`n` above zero) and removed (below), in the columns of the new snapshot."""
        iceberg_table = self._lake.load(replica.table)
        if not self._same_columns(iceberg_table, old, new):
            parts = [
                _counted(placed(self._at(replica, side.snapshot), side.shape, new.shape), f.lit(sign))
                for side, sign in ((new, 1), (old, -1))
            ]
            return _summed(parts, new.shape)
        before, after = (self._stored.at(replica, side.snapshot, new.shape) for side in (old, new))
        assert before is not None
        assert after is not None
        files = [{file.path: file for file in side.files} for side in (before, after)]
        going, coming = _Share.of(*files), _Share.of(*reversed(files))
        if going.size + coming.size <= MAX_BYTES:
            return _netted(pa.concat_tables([_read(coming, after.columns, 1), _read(going, after.columns, -1)]))
        if _only_appended(iceberg_table, old.snapshot, new.snapshot):
            rows = self._lake.spark.read.option("start-snapshot-id", old.snapshot).option(
                "end-snapshot-id", new.snapshot
            )
            found = placed(rows.table(self._lake.name(replica.table)), new.shape, new.shape)
            return _counted(found, f.lit(1))
        return _summed([self._changed(replica, new, coming, 1), self._changed(replica, old, going, -1)], new.shape)

    def _at(self, replica: Replica, snapshot: int) -> DataFrame:
        return self._lake.spark.read.option("versionAsOf", snapshot).table(self._lake.name(replica.table))

    def _same_columns(self, iceberg_table: Any, old: Side, new: Side) -> bool:
        """Whether both snapshots have exactly the columns that the table has now."""
        schemas = {iceberg_table.snapshot(old.snapshot).schemaId(), iceberg_table.snapshot(new.snapshot).schemaId()}
        named = {column.name for column in new.shape.columns}
        return (
            old.shape == new.shape and schemas == {iceberg_table.schema().schemaId()} and not named.intersection(_OURS)
        )

    def _changed(self, replica: Replica, side: Side, share: _Share, sign: int) -> DataFrame:
        """Rows in a snapshot's own files are added by it; rows that it deletes in files of both are removed by it."""
        file, deleted = f.col("_file"), f.col("_deleted")
        alone, touched = [one.path for one in share.alone], [one.path for one, _ in share.touched]
        count = f.when(file.isin(alone) & ~deleted, f.lit(sign)).when(file.isin(touched) & deleted, f.lit(-sign))
        values = placed_columns(side.shape, side.shape)
        named = (value.alias(column_name(place)) for place, value in enumerate(values))
        rows = self._at(replica, side.snapshot).select(*named, count.cast("bigint").alias(COUNT))
        return rows.where(f.col(COUNT).isNotNull())


def _read(share: _Share, stored: pa.Schema, sign: int) -> pa.Table:
    """The same rows as `_changed`, of which those that both delete are not read."""
    found = [_with_count(stored.empty_table(), sign)]
    for file in share.alone:
        with OpenFile(file) as opened:
            found.append(_with_count(opened.columns(stored).filter(pa.array(opened.live())), sign))
    for file, other in share.touched:
        deleted = np.setdiff1d(_positions(file.vector), _positions(other))
        with OpenFile(file) as opened:
            found.append(_with_count(opened.rows(deleted, stored), -sign))
    return pa.concat_tables(found)


def _positions(vector: Vector | None) -> np.ndarray:
    return NO_ROWS if vector is None else deletion_vectors.read(vector)


def _with_count(rows: pa.Table, count: int) -> pa.Table:
    """Columns by their places, since names may be anything."""
    names = [column_name(place) for place in range(rows.num_columns)]
    return rows.rename_columns(names).append_column(COUNT, pa.repeat(pa.scalar(count, pa.int64()), rows.num_rows))


def _netted(rows: pa.Table) -> pa.Table:
    """Sums the counts of equal rows and drops those with zero, as `_summed` does; rows that were only added stay as they are."""
    if not rows.num_rows or pc.min(rows.column(COUNT)).as_py() > 0:
        return rows
    names = [name for name in rows.column_names if name != COUNT]
    compared = pa.table([_comparable(rows.column(name)) for name in names], names)
    numbered = compared.append_column(COUNT, rows.column(COUNT)).append_column("at", pa.array(np.arange(rows.num_rows)))
    sums = numbered.group_by(names, use_threads=False).aggregate([(COUNT, "sum"), ("at", "min")])
    sums = sums.filter(pc.not_equal(sums.column(f"{COUNT}_sum"), 0))
    found = rows.take(sums.column("at_min"))
    return found.set_column(found.schema.get_field_index(COUNT), COUNT, sums.column(f"{COUNT}_sum"))


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values that Arrow groups exactly: floats as text, so that 0 is not -0, and lists."""
    if pa.types.is_floating(column.type):
        return pc.cast(column, pa.string())
    if pa.types.is_nested(column.type):
        return pa.chunked_array(
            [pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())]
        )
    return column


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


def _only_appended(iceberg_table: Any, old: int, new: int) -> bool:
    """Whether every commit between two snapshots only added or rewrote rows."""
    for snapshot in _back(iceberg_table, new):
        if snapshot.snapshotId() == old:
            return True
        if snapshot.operation() not in _APPENDED:
            return False
    return False


def _back(iceberg_table: Any, start: int) -> Iterator[Any]:
    """A snapshot and its ancestors, as far as they are retained."""
    snapshot = iceberg_table.snapshot(start)
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parentId()
        snapshot = None if parent is None else iceberg_table.snapshot(parent)
