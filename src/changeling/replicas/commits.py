"""Commits of replicas: each brings rows and what it says of them at once, or nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from changeling.iceberg.failpoints import reach
from changeling.iceberg.lake import Lake, quoted
from changeling.replicas import staged_rows
from changeling.replicas.fold_task import TableOutcome
from changeling.replicas.history_rows import closings_and_openings, intervals, merge_statement
from changeling.replicas.merge_tasks import Work
from changeling.replicas.metadata_columns import service_names
from changeling.replicas.quarantine import Asides
from changeling.replicas.replica_reader import STATE, ReplicaState
from changeling.replicas.shape import Shape
from changeling.replicas.stored_merge import (
    columns,
    completed,
    key_places,
    named,
    placed,
    placed_columns,
    recounted,
    staged_frame,
    together,
)
from changeling.replicas.tables import Replica, ReplicaTables, properties

_BRANCH = "merging"
_SAID = f"spark.sql.iceberg.snapshot-property.{STATE}"


class Committer:
    """Writes what folds found out."""

    def __init__(self, lake: Lake, tables: ReplicaTables, asides: Asides) -> None:
        self._tables, self._asides = tables, asides
        self._lake = tables.lake
        self._spark = lake.spark
        self.after_cut_off = False
        """A merge that was cut off may have kept something aside already."""

    def rows_at(self, replica: Replica, snapshot: int | None, shape: Shape) -> DataFrame:
        """The rows of a snapshot, or those of now, in the places of a shape."""
        if snapshot is None or snapshot == replica.snapshot:
            return placed(self._lake.frame(replica.table), replica.shape, shape)
        rows = self._spark.read.option("versionAsOf", snapshot).table(self._lake.name(replica.table))
        return placed(rows, self._tables.state_at(replica, snapshot).shape, shape)

    def rewritten(self, replica: Replica, shape: Shape) -> Replica:
        """The replica with other columns and the same rows, written anew in one commit; earlier snapshots stay as they were."""
        kind, made = replica.identity.kind, replace(replica, shape=shape)
        beside = zip(service_names(replica.shape, kind), service_names(shape, kind), strict=True)
        stored = self._lake.frame(replica.table)
        own = placed_columns(replica.shape, shape)
        rows = stored.select(
            *(value.alias(column.name) for value, column in zip(own, shape.columns, strict=True)),
            *(f.col(quoted(old)).alias(new) for old, new in beside),
        )
        writer = rows.writeTo(self._lake.name(replica.table)).using("iceberg")
        for name, value in properties(made).items():
            writer = writer.tableProperty(name, value)
        state = msgspec.structs.replace(replica.state, shape=shape)
        with self._saying(state):
            self._lake.repeated(writer.replace)
        return self._tables.committed(made, state)

    def commit(self, work: Work, outcome: TableOutcome, state: ReplicaState) -> Replica:
        """Brings the outcome of a fold into a replica; the replica as it is then."""
        if work.folded.history:
            return self._history(work, outcome, state)
        if work.folded.staged:
            return self._on_top(work, outcome, state)
        self._keep_aside(work, outcome, None, state)
        reach("replica.before")
        said = {STATE: msgspec.json.encode(state).decode()}
        if work.replica.snapshot is None or (work.folded.listed and not work.from_scratch):
            self._lake.append(work.replica.table, outcome.files, datetime.now(UTC), said)
        else:
            self._lake.replace(work.replica.table, outcome.files, said)
        reach("replica.after")
        return self._tables.committed(work.replica, state)

    def _history(self, work: Work, outcome: TableOutcome, state: ReplicaState) -> Replica:
        """Every state of rows: nothing is taken away but what late changes tell otherwise."""
        shape, replica = work.folded.shape, work.replica
        rows = staged_frame(self._spark, outcome.files) if outcome.files else None
        name = self._lake.name(replica.table)
        reach("replica.before")
        if work.from_scratch:
            writer = intervals(self._spark, rows, shape).writeTo(name)
            with self._saying(state):
                self._lake.repeated(lambda: writer.overwrite(f.lit(True)))
        else:
            source = closings_and_openings(rows, self._lake.frame(replica.table), work)
            if source is None:
                return replica
            with self._saying(state), self._viewed(source) as view:
                self._lake.retried(merge_statement(name, view, work))
        reach("replica.after")
        return self._tables.committed(replica, state)

    def _on_top(self, work: Work, outcome: TableOutcome, state: ReplicaState) -> Replica:
        if not outcome.files:
            return work.replica
        shape, base = work.folded.shape, work.base
        rows = staged_frame(self._spark, outcome.files)
        current = self.rows_at(work.replica, None, shape)
        again = None if base is None or base.snapshot is None else self.rows_at(work.replica, base.snapshot, shape)
        self._keep_aside(work, outcome, rows, state)
        reach("replica.before")
        if work.from_scratch:
            whole = together(again, self._now(work, outcome, rows, again, again), shape)
            writer = named(whole, shape).writeTo(self._lake.name(work.replica.table))
            with self._saying(state):
                self._lake.repeated(lambda: writer.overwrite(f.lit(True)))
        else:
            self._merge(work.replica, self._now(work, outcome, rows, current, again), shape, state)
        reach("replica.after")
        return self._tables.committed(work.replica, state)

    def _now(
        self,
        work: Work,
        outcome: TableOutcome,
        rows: DataFrame,
        current: DataFrame | None,
        again: DataFrame | None,
    ) -> DataFrame:
        """The rows that changed, as they are now."""
        shape = work.folded.shape
        if not shape.key:
            made = recounted
        elif outcome.patched:
            made = completed
        else:
            return completed(rows, None, shape)
        if not work.folded.again:
            return made(rows, current, shape)
        is_again = f.coalesce(f.col(staged_rows.AGAIN), f.lit(False))
        return made(rows.where(~is_again), current, shape).unionByName(made(rows.where(is_again), again, shape))

    def _merge(self, replica: Replica, now: DataFrame, shape: Shape, state: ReplicaState) -> None:
        if shape.key:
            self._replace_by_key(replica, now, shape, state)
            return
        names = [quoted(column.name) for column in shape.columns]
        places = columns(shape)
        same_row = " AND ".join(f"t.{name} <=> s.{place}" for name, place in zip(names, places, strict=True))
        insert = f"INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{place}' for place in places)})"
        with self._saying(state), self._viewed(now) as view:
            self._lake.retried(
                f"MERGE INTO {self._lake.name(replica.table)} t USING {view} s ON s.effect = 'gone' AND {same_row} "
                f"WHEN MATCHED THEN DELETE WHEN NOT MATCHED AND s.effect <> 'gone' THEN {insert}"
            )

    def _replace_by_key(self, replica: Replica, now: DataFrame, shape: Shape, state: ReplicaState) -> None:
        """Takes the rows of these keys away and adds them as they are now, on a branch that then becomes the table.

        MERGE does both in one commit, but carries all columns of the stored rows through a join: it took twice the time.
        """
        places = columns(shape)
        names = [quoted(column.name) for column in shape.columns]
        by_place = dict(zip(places, names, strict=True))
        own = " AND ".join(f"t.{by_place[place]} <=> s.{place}" for place in key_places(shape))
        branch = f"{self._lake.name(replica.table)}.branch_{_BRANCH}"

        def replaced(view: str) -> None:
            self._lake.branch(replica.table, _BRANCH)
            self._lake.sql(f"DELETE FROM {branch} t WHERE EXISTS (SELECT 1 FROM {view} s WHERE {own})").collect()
            self._lake.sql(
                f"INSERT INTO {branch} ({', '.join(names)}) SELECT {', '.join(places)} FROM {view} "
                "WHERE effect <> 'gone'"
            ).collect()
            self._lake.become(replica.table, _BRANCH)

        with self._saying(state), self._viewed(now) as view:
            self._lake.repeated(lambda: replaced(view))

    def _keep_aside(self, work: Work, outcome: TableOutcome, rows: DataFrame | None, state: ReplicaState) -> None:
        """First of all: a replica that says that it is at a point has everything beside it."""
        # A list of changes only grows, and so does what is kept aside of it.
        any_before = (work.replica.state.asides > 0 or self.after_cut_off) and not work.folded.listed
        reach("asides.before")
        names = [column.name for column in work.folded.shape.columns]
        identity = work.replica.identity
        self._asides.take(identity, state.point, rows, names, outcome.aside_files, any_before=any_before)
        reach("asides.after")

    @contextmanager
    def _viewed(self, rows: DataFrame) -> Iterator[str]:
        """A name for rows, as long as a statement needs it."""
        view = f"changeling_{uuid4().hex}"
        rows.createOrReplaceTempView(view)
        try:
            yield view
        finally:
            self._spark.catalog.dropTempView(view)

    @contextmanager
    def _saying(self, state: ReplicaState) -> Iterator[None]:
        """What Spark commits meanwhile says this of its replica."""
        self._spark.conf.set(_SAID, msgspec.json.encode(state).decode())
        try:
            yield
        finally:
            self._spark.conf.unset(_SAID)
