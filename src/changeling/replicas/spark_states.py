"""The store that states are computed from, on Spark."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame

from changeling.iceberg.parquet_files import WrittenFile
from changeling.log import log_tables
from changeling.log.change_log import Log
from changeling.replicas.commits import Committer
from changeling.replicas.full_load import base_rows
from changeling.replicas.logged_changes import Changes
from changeling.replicas.points import points_of
from changeling.replicas.quarantine import Quarantine
from changeling.replicas.replica_reader import Identity, Replica, ReplicaState
from changeling.replicas.shape import Shape
from changeling.replicas.spark_changes import SparkChanges
from changeling.replicas.spark_replacement import completed, named, placed, recounted, staged_frame, together
from changeling.replicas.staging_folder import folder_of_reader, remove_folder
from changeling.replicas.tables import ReplicaTables


class SparkStore:
    """The log and the replicas of a pipeline as frames."""

    def __init__(self, log: Log) -> None:
        self._lake = log.lake
        self._tables = ReplicaTables(self._lake)
        self._committer = Committer(self._lake, self._tables, Quarantine(self._lake))
        self.changes: Changes = SparkChanges.of(self._lake)
        self.points = points_of(self._lake)
        self.registry = log.registry
        self.replicas: Mapping[Identity, Replica] = self._tables.known

    def log_properties(self) -> Mapping[str, str]:
        """The properties of the log's table."""
        return self._lake.entries(self._lake.load(log_tables.CHANGES).properties())

    def snapshots(self, replica: Replica) -> set[int]:
        """The ids of the snapshots that a replica still has."""
        return self._tables.snapshots(replica)

    def state_at(self, replica: Replica, snapshot: int) -> ReplicaState:
        """The state in a snapshot, or in the last one before it that has one."""
        return self._tables.state_at(replica, snapshot)

    def rows_at(self, replica: Replica, snapshot: int, shape: Shape) -> DataFrame:
        """The rows of a snapshot in the places and types of a shape."""
        return self._committer.rows_at(replica, snapshot, shape)

    def full_load(self, place: str, shape: Shape) -> DataFrame:
        """The rows of a full load in the places and types of a shape."""
        return base_rows(self._lake.spark, place, shape)

    @contextmanager
    def staging(self) -> Iterator[str]:
        """A place for the files of a fold, alongside the points: tasks on other machines write there."""
        place = folder_of_reader(self._lake.load(log_tables.POINTS).location())
        try:
            yield place
        finally:
            remove_folder(place)

    def on_top(self, files: Sequence[WrittenFile], base: DataFrame | None, shape: Shape) -> DataFrame:
        """The rows that a fold staged, on top of a base, under the names of a shape.

        The files are no longer needed then.
        """
        if files:
            made = completed if shape.key else recounted
            now = made(staged_frame(self._lake.spark, files), base, shape).localCheckpoint()
            return named(together(base, now, shape), shape)
        return named(placed(self._lake.spark.range(0), Shape(()), shape) if base is None else base, shape)
