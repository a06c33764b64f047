"""The store that states are computed from, in this process and without Spark."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow as pa

from changeling.iceberg.measured_scan import Budget, MeasuredTable, NeedsSpark
from changeling.iceberg.parquet_files import WrittenFile
from changeling.iceberg.reader import Tables
from changeling.log import log_tables
from changeling.log.schema_registry import Registry
from changeling.replicas import replica_reader
from changeling.replicas.arrow_changes import ArrowChanges
from changeling.replicas.as_of import State
from changeling.replicas.logged_changes import Changes
from changeling.replicas.points import points_of
from changeling.replicas.replica_reader import Identity, Replica, ReplicaState, loaded_replicas
from changeling.replicas.row_replacement import StoredSnapshot, read_staged
from changeling.replicas.shape import Shape
from changeling.replicas.staged_rows import column_name
from changeling.replicas.state_rows import state_on_top
from changeling.replicas.stored_types import arrow_type, is_promotion

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ArrowStore:
    """The log and the replicas of a pipeline as PyIceberg reads them. All reading raises `NeedsSpark` where it is too much."""

    def __init__(self, tables: Tables, pipeline: str, log: MeasuredTable) -> None:
        self._log, self._budget = log.table, log.budget
        self.changes: Changes = ArrowChanges(log)
        self.points = points_of(tables)
        self.registry = Registry.from_rows(tables.rows(log_tables.SCHEMAS).to_pylist())
        found = list(loaded_replicas(tables, pipeline))
        self.replicas: Mapping[Identity, Replica] = {replica.identity: replica for replica, _ in found}
        self._tables = {replica.identity: table for replica, table in found}

    @staticmethod
    def of(tables: Tables, pipeline: str) -> "ArrowStore | None":
        """The store of a pipeline; None where it has no log yet."""
        log = tables.load(log_tables.CHANGES.name)
        return None if log is None else ArrowStore(tables, pipeline, MeasuredTable(log, Budget()))

    def log_properties(self) -> Mapping[str, str]:
        """The properties of the log's table."""
        return self._log.properties

    def snapshots(self, replica: Replica) -> set[int]:
        """The ids of the snapshots that a replica still has."""
        return {snapshot.snapshot_id for snapshot in self._tables[replica.identity].snapshots()}

    def state_at(self, replica: Replica, snapshot: int) -> ReplicaState:
        """The state in a snapshot, or in the last one before it that has one."""
        table = self._tables[replica.identity]
        return replica_reader.state_at(table, table.snapshot_by_id(snapshot))

    def rows_at(self, replica: Replica, snapshot: int, shape: Shape) -> pa.Table:
        """The rows of a snapshot in the places and types of a shape."""
        is_current = snapshot == replica.snapshot
        stored = replica.shape if is_current else self.state_at(replica, snapshot).shape
        known = {column.id: column for column in stored.columns}
        for column in shape.columns:
            if column.id in known and not is_promotion(known[column.id].kind, column.kind):
                raise NeedsSpark(f"the column {column.name} had another type")
        table = MeasuredTable(self._tables[replica.identity], self._budget)
        rows = table.rows(snapshot=None if is_current else snapshot)
        columns = []
        for column in shape.columns:
            kind, own = arrow_type(column.kind), known.get(column.id)
            columns.append(pa.nulls(rows.num_rows, kind) if own is None else rows.column(own.name).cast(kind))
        return pa.table(columns, schema=_placed(shape))

    def full_load(self, place: str, shape: Shape) -> pa.Table:
        """Spark reads the files of a full load, whatever their kind."""
        raise NeedsSpark("a full load is read")

    @contextmanager
    def staging(self) -> Iterator[str]:
        """A place for the files of a fold, on this machine."""
        with TemporaryDirectory(prefix="changeling-") as place:
            yield place

    def on_top(self, files: Sequence[WrittenFile], base: pa.Table | None, shape: Shape) -> pa.Table:
        """The rows that a fold staged, on top of a base, under the names of a shape.

        The files are no longer needed then.
        """
        rows = _placed(shape).empty_table() if base is None else base
        if files:
            ids = [column.id for column in shape.columns]
            stored = StoredSnapshot((), _placed(shape), tuple(ids.index(number) for number in shape.key), base)
            (staged,) = read_staged(files, shape, limit=None)
            rows = state_on_top(staged, stored)
        return pa.table(rows.columns, names=[column.name for column in shape.columns])


def on_arrow(state: "State[DataFrame]") -> State[pa.Table]:
    """A state on Spark, as one of this process is."""
    columns = pa.schema([(column.name, arrow_type(column.kind)) for column in state.shape.columns])
    return State(state.rows.toArrow().cast(columns), state.shape)


def _placed(shape: Shape) -> pa.Schema:
    """The columns of a shape by their places."""
    return pa.schema([(column_name(place), arrow_type(column.kind)) for place, column in enumerate(shape.columns)])
