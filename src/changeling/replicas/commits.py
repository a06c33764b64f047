"""Commits of replicas: each commits rows and the replica's state atomically."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from changeling.iceberg.failpoints import reach
from changeling.iceberg.lake import Lake, quoted
from changeling.iceberg.parquet_files import Writer
from changeling.replicas import staged_rows
from changeling.replicas.fold_task import TableOutcome
from changeling.replicas.history_replacement import HistoryRange
from changeling.replicas.history_rows import intervals
from changeling.replicas.metadata_columns import service_names
from changeling.replicas.quarantine import Quarantine, QuarantineUpdate, RowsWritten
from changeling.replicas.replacement import ReplacedRows, ReplacedStates, Replacement
from changeling.replicas.replica_merges import ReplicaMerge
from changeling.replicas.replica_reader import STATE, Replica, ReplicaState
from changeling.replicas.row_replacement import StoredSnapshot, read_staged, without_base
from changeling.replicas.row_writer import quarantine_rows, stale_entry
from changeling.replicas.shape import Shape
from changeling.replicas.spark_file_writer import written_files
from changeling.replicas.spark_replacement import (
    columns,
    key_places,
    placed,
    placed_columns,
    same,
    staged_frame,
    together,
)
from changeling.replicas.spark_replacement import completed as completed_frame
from changeling.replicas.spark_replacement import recounted as recounted_frame
from changeling.replicas.stored_rows import StoredRows
from changeling.replicas.tables import ReplicaTables, properties


class Committer:
    """Commits the results of folds."""

    def __init__(self, lake: Lake, tables: ReplicaTables, quarantine: Quarantine) -> None:
        self._tables, self._quarantine = tables, quarantine
        self._lake = tables.lake
        self._rows = StoredRows(tables)
        self._spark = lake.spark

    def rows_at(self, replica: Replica, snapshot: int | None, shape: Shape) -> DataFrame:
        """The rows of a snapshot, or the current ones, in the columns of a shape."""
        if snapshot is None or snapshot == replica.snapshot:
            return placed(self._lake.frame(replica.table), replica.shape, shape)
        rows = self._spark.read.option("versionAsOf", snapshot).table(self._lake.name(replica.table))
        return placed(rows, self._tables.state_at(replica, snapshot).shape, shape)

    def rewritten(self, replica: Replica, shape: Shape) -> Replica:
        """The replica with other columns and the same rows, rewritten in one commit; earlier snapshots stay as they were."""
        kind, made = replica.identity.kind, replace(replica, shape=shape)
        service = zip(service_names(replica.shape, kind), service_names(shape, kind), strict=True)
        stored = self._lake.frame(replica.table)
        own = placed_columns(replica.shape, shape)
        rows = stored.select(
            *(value.alias(column.name) for value, column in zip(own, shape.columns, strict=True)),
            *(f.col(quoted(old)).alias(new) for old, new in service),
        )
        writer = rows.writeTo(self._lake.name(replica.table)).using("iceberg")
        for name, value in properties(made).items():
            writer = writer.tableProperty(name, value)
        state = msgspec.structs.replace(replica.state, shape=shape)
        writer = writer.option(f"snapshot-property.{STATE}", msgspec.json.encode(state).decode())
        self._lake.repeated(writer.replace)
        return self._tables.committed(made, state)

    def needs_spark(self, merge: ReplicaMerge, outcome: TableOutcome) -> bool:
        """Whether the commit of a table runs Spark statements; others may be committed concurrently."""
        return merge.from_scratch and (merge.folded.history or (merge.folded.staged and bool(outcome.files)))

    def commit(self, merge: ReplicaMerge, outcome: TableOutcome, state: ReplicaState) -> Replica:
        """Commits the outcome of a fold to a replica; returns the new replica."""
        if merge.folded.history:
            return self._history(merge, outcome, state)
        if merge.folded.staged:
            return self._on_top(merge, outcome, state)
        reach("replica.before")
        is_added = merge.replica.snapshot is None or (merge.folded.is_change_list and not merge.from_scratch)
        committed = (self._rows.add if is_added else self._rows.overwrite)(merge.replica, outcome.files, state)
        reach("replica.after")
        return committed

    def _history(self, merge: ReplicaMerge, outcome: TableOutcome, state: ReplicaState) -> Replica:
        """Every state of rows: only what late changes contradict is removed."""
        shape, replica = merge.folded.shape, merge.replica
        reach("replica.before")
        if merge.from_scratch:
            rows = staged_frame(self._spark, outcome.files) if outcome.files else None
            files = written_files(intervals(self._spark, rows, shape), self._tables.write_spec(replica, shape))
            committed = self._rows.overwrite(replica, files, state)
        else:
            truncates = merge.folded.truncates_of(refolded=False)
            if not (outcome.files or truncates):
                return self._rows.alter(replica, shape)
            span = HistoryRange("" if merge.base is None else merge.base.position, truncates[0] if truncates else None)

            # A truncate also ends states that no row of the fold touches: so all of them must be known.
            rule = ReplacedStates(span)
            replacement = Replacement(outcome.files, shape, rule, history=True, together=bool(truncates))
            committed = self._rows.replace(replica, replacement, state)
        reach("replica.after")
        return committed

    def _on_top(self, merge: ReplicaMerge, outcome: TableOutcome, state: ReplicaState) -> Replica:
        if not outcome.files:
            return self._rows.alter(merge.replica, merge.folded.shape)
        reach("replica.before")
        committed = (self._overwritten if merge.from_scratch else self._replaced)(merge, outcome, state)
        reach("replica.after")
        return committed

    def _overwritten(self, merge: ReplicaMerge, outcome: TableOutcome, state: ReplicaState) -> Replica:
        """Replaces all stored rows by the changed rows and those of the base."""
        shape, base = merge.folded.shape, merge.base
        rows = staged_frame(self._spark, outcome.files)
        base_rows = None if base is None or base.snapshot is None else self.rows_at(merge.replica, base.snapshot, shape)
        whole = together(base_rows, self._now(outcome, rows, base_rows, shape), shape)
        files = written_files(whole, self._tables.write_spec(merge.replica, shape))
        return self._rows.overwrite(merge.replica, files, state)

    def _replaced(self, merge: ReplicaMerge, outcome: TableOutcome, state: ReplicaState) -> Replica:
        """Replaces the stored versions of the changed rows."""
        shape = merge.folded.shape
        rule = ReplacedRows(self._base_rows(merge, outcome) if merge.folded.refold_keys else None)
        # Rows without a key are counted by their content, so all of them must be known.
        replacement = Replacement(outcome.files, shape, rule, together=not shape.key)
        return self._rows.replace(merge.replica, replacement, state)

    def _base_rows(self, merge: ReplicaMerge, outcome: TableOutcome) -> StoredSnapshot:
        """The rows of the base that folded rows need, in the current types of the replica."""
        shape, base = merge.folded.shape, merge.base
        snapshot = None if base is None else base.snapshot
        stored = self._rows.at(merge.replica, snapshot, shape)
        if stored is not None:
            return stored
        # Some columns were rewritten since: the base rows are converted in the same way.
        rows = staged_frame(self._spark, outcome.files)
        if not merge.from_scratch:
            rows = rows.where(staged_rows.REFOLDED)
        names = columns(shape)
        keys = key_places(shape) or names
        wanted = [staged_rows.stored_key_name(place) for place in range(len(shape.key))] or names
        looked = rows.select(*(f.col(name).alias(f"n{name}") for name in wanted)).distinct()
        pairs = [(f.col(f"n{own}"), f.col(name)) for own, name in zip(wanted, keys, strict=True)]
        found = self.rows_at(merge.replica, snapshot, shape).join(looked, same(pairs), "left_semi").toArrow()
        return self._rows.from_memory(shape, found)

    def _now(self, outcome: TableOutcome, rows: DataFrame, base: DataFrame | None, shape: Shape) -> DataFrame:
        """The rows that changed, as they are now on top of a base."""
        if not shape.key:
            return recounted_frame(rows, base, shape)
        return completed_frame(rows, base if outcome.patched else None, shape)

    def with_missing_old_rows(self, merge: ReplicaMerge, outcome: TableOutcome, point: int) -> TableOutcome:
        """The outcome in which rows that moved here from a stored row are stale where there is no such row."""
        if not outcome.moved or merge.folded.history:
            return outcome
        shape = merge.folded.shape
        base_rows = self._base_rows(merge, outcome) if merge.from_scratch or merge.folded.refold_keys else None
        current = base_rows if merge.from_scratch else self._rows.at(merge.replica, merge.replica.snapshot, shape)
        assert current is not None, "the stored rows have the replica's own types"
        lost = [without_base(rows, current, base_rows) for rows in read_staged(outcome.files, shape)]
        entries = [
            stale_entry(row[staged_rows.KEY], row[staged_rows.POSITION])
            for rows in lost
            for row in rows.select([staged_rows.KEY, staged_rows.POSITION]).to_pylist()
        ]
        if not entries:
            return outcome
        writer = Writer(self._quarantine.write_spec())
        writer.write(quarantine_rows(merge.folded, entries, point))
        files = [*outcome.quarantine_files, *writer.close()]
        return msgspec.structs.replace(outcome, stale=outcome.stale + len(entries), quarantine_files=files)

    def quarantine(self, found: Sequence[tuple[ReplicaMerge, TableOutcome]], point: int, *, resumed: bool) -> None:
        """Runs before any commit of rows: a replica whose state names a point has its quarantine complete.

        A merge that is `resumed` may have quarantined something before it was interrupted.
        """
        reach("quarantine.before")
        updates = (self._quarantine_update(merge, outcome, resumed) for merge, outcome in found)
        self._quarantine.take([update for update in updates if update is not None], point)
        reach("quarantine.after")

    def _quarantine_update(self, merge: ReplicaMerge, outcome: TableOutcome, resumed: bool) -> QuarantineUpdate | None:
        if merge.folded.history or (merge.folded.staged and not outcome.files):
            return None
        # A change list is append-only, so its quarantine entries stay.
        any_before = (merge.replica.state.quarantined > 0 or resumed) and not merge.folded.is_change_list
        # Refolded rows repeat their moves; their quarantine entries have already moved.
        moves = not (merge.from_scratch or merge.folded.refold_keys)
        written = RowsWritten(outcome.files, merge.folded.shape, moves) if merge.folded.staged else None
        return QuarantineUpdate(merge.replica.identity, outcome.quarantine_files, written, any_before)
