"""The stored rows of replicas: their files at a snapshot, and the commits that replace some rows by others.

A look-up and its commit belong together: where others wrote the table in between, the rows are looked up again.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa

from changeling.iceberg import row_delta
from changeling.iceberg.data_files import DataFile, plan_files
from changeling.iceberg.lake import PAUSES, Lake
from changeling.iceberg.parquet_files import WrittenFile
from changeling.iceberg.row_delta import RowDelta
from changeling.model.errors import ChangelingError
from changeling.replicas.replacement import Replacement
from changeling.replicas.replica_reader import STATE, Replica, ReplicaState
from changeling.replicas.row_replacement import StoredSnapshot, vectors
from changeling.replicas.shape import Shape
from changeling.replicas.stored_types import arrow_type, is_promotion
from changeling.replicas.tables import ReplicaTables
from changeling.spark.errors import Conflict, translated_errors


class StoredRows:
    """Looks up and replaces rows of replicas."""

    def __init__(self, tables: ReplicaTables) -> None:
        self._tables, self._lake = tables, tables.lake
        self._known: dict[str, tuple[int, tuple[DataFile, ...]]] = {}
        """The files of tables after our own commits: valid as long as the snapshot is the current one."""

    def at(self, replica: Replica, snapshot: int | None, shape: Shape) -> StoredSnapshot | None:
        """The stored rows of a snapshot, in the column order of a shape; no rows where `snapshot` is None.

        None where its files hold values that the shape stores otherwise.
        """
        with translated_errors():
            iceberg_table = self._lake.load(replica.table)
            if snapshot is None:
                return StoredSnapshot((), _columns(self._lake, iceberg_table.schema(), shape, shape), _key(shape))
            stored = self._tables.state_at(replica, snapshot).shape
            kinds = {column.id: column.kind for column in stored.columns}
            if not all(is_promotion(kinds.get(column.id, column.kind), column.kind) for column in shape.columns):
                return None
            schema = iceberg_table.schemas().get(iceberg_table.snapshot(snapshot).schemaId())
            files = tuple(plan_files(iceberg_table, self._lake.jvm, snapshot))
            return StoredSnapshot(files, _columns(self._lake, schema, stored, shape), _key(shape))

    def from_memory(self, shape: Shape, rows: pa.Table) -> StoredSnapshot:
        """Rows that are in no file of the table, in the column order of a shape."""
        numbered = [
            pa.field(f"c{place}", arrow_type(column.kind), metadata={"PARQUET:field_id": str(place + 1)})
            for place, column in enumerate(shape.columns)
        ]
        schema = pa.schema(numbered)
        return StoredSnapshot((), schema, _key(shape), pa.table(rows.columns, schema=schema))

    def alter(self, replica: Replica, shape: Shape) -> Replica:
        """Commits the columns of a shape, where the replica has others, without rows; returns the new replica."""
        if shape == replica.shape:
            return replica
        with translated_errors():
            self._tables.transaction(self._lake.load(replica.table), replica, shape).commitTransaction()
        return self._tables.note(replace(replica, shape=shape))

    def add(self, replica: Replica, files: Sequence[WrittenFile], state: ReplicaState) -> Replica:
        """Commits files of new rows, with a state and its columns; returns the new replica."""
        return self._commit_files(replica, files, state, row_delta.commit_added)

    def overwrite(self, replica: Replica, files: Sequence[WrittenFile], state: ReplicaState) -> Replica:
        """Commits files that replace all rows, with a state and its columns; returns the new replica."""
        return self._commit_files(replica, files, state, row_delta.commit_all)

    def _commit_files(
        self, replica: Replica, files: Sequence[WrittenFile], state: ReplicaState, commit: row_delta.CommitFiles
    ) -> Replica:
        with translated_errors():
            iceberg_table = self._lake.load(replica.table)
            change = self._tables.transaction(iceberg_table, replica, state.shape)
            commit(change.table(), self._lake.jvm, files, _summary(state))
            change.commitTransaction()
        return self._committed(replica, iceberg_table, state)

    def _committed(self, replica: Replica, iceberg_table: Any, state: ReplicaState) -> Replica:
        snapshot = iceberg_table.currentSnapshot().snapshotId()
        return self._tables.note(replace(replica, shape=state.shape, state=state, snapshot=snapshot))

    def replace(self, replica: Replica, replacement: Replacement, state: ReplicaState) -> Replica:
        """Commits a replacement of rows, with a state and its columns; returns the new replica."""
        for pause in (*PAUSES, None):
            try:
                with translated_errors():
                    return self._replace(replica, replacement, state)
            except ChangelingError as error:
                self._known.pop(replica.name, None)
                if self._is_there(replica, state):
                    return self._tables.committed(replace(replica, shape=state.shape), state)
                if pause is None or not isinstance(error, Conflict):
                    raise
                time.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _replace(self, replica: Replica, replacement: Replacement, state: ReplicaState) -> Replica:
        iceberg_table, jvm = self._lake.load(replica.table), self._lake.jvm
        current = iceberg_table.currentSnapshot()
        planned = None if current is None else current.snapshotId()
        files = self._files(replica.name, iceberg_table, planned)
        change = self._tables.transaction(iceberg_table, replica, state.shape)
        spec = self._lake.write_spec_of(change.table(), replace(replica, shape=state.shape).table)
        stored = StoredSnapshot(files, pa.schema(list(spec.columns)), _key(state.shape))
        added, deleted = replacement.written(self._lake.spark, stored, spec)
        delta = RowDelta(added, vectors(spec.location, files, deleted))
        # After a failure the outcome is unknown: the files stay, since they may be in the table.
        there = row_delta.commit(change.table(), jvm, planned, delta, _summary(state))
        change.commitTransaction()
        vector = {file.path: made for file, made in delta.deleted}
        now = tuple(msgspec.structs.replace(file, vector=vector.get(file.path, file.vector)) for file in files)
        committed = self._committed(replica, iceberg_table, state)
        assert committed.snapshot is not None
        self._known[replica.name] = (committed.snapshot, (*now, *there))
        return committed

    def _files(self, name: str, iceberg_table: Any, snapshot: int | None) -> tuple[DataFile, ...]:
        known = self._known.get(name)
        if known is not None and known[0] == snapshot:
            return known[1]
        return tuple(plan_files(iceberg_table, self._lake.jvm, snapshot))

    def _is_there(self, replica: Replica, state: ReplicaState) -> bool:
        """Whether a commit whose outcome is unknown is in the table."""
        with translated_errors():
            iceberg_table = self._lake.load(replica.table)
            text = msgspec.json.encode(state).decode()
            snapshot = iceberg_table.currentSnapshot()
            while snapshot is not None:
                entry = snapshot.summary().get(STATE)
                if entry is not None:
                    return bool(entry == text)
                parent = snapshot.parentId()
                snapshot = None if parent is None else iceberg_table.snapshot(parent)
            return False


def _summary(state: ReplicaState) -> dict[str, str]:
    return {STATE: msgspec.json.encode(state).decode()}


def _key(shape: Shape) -> tuple[int, ...]:
    ids = [column.id for column in shape.columns]
    return tuple(ids.index(number) for number in shape.key)


def _columns(lake: Lake, schema: Any, stored: Shape, wanted: Shape) -> pa.Schema:
    """The columns of a shape under the ids that a snapshot's schema knows them by; one that it lacks has an id of no column."""
    known = msgspec.json.decode(lake.jvm.org.apache.iceberg.SchemaParser.toJson(schema))
    by_name = {field["name"]: field["id"] for field in known["fields"]}
    names = {column.id: column.name for column in stored.columns}
    return pa.schema(
        [
            pa.field(
                column.name,
                arrow_type(column.kind),
                metadata={"PARQUET:field_id": str(by_name.get(names.get(column.id, ""), 0))},
            )
            for column in wanted.columns
        ]
    )
