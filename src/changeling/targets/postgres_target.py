"""The target `postgres`: replicas of a pipeline in a PostgreSQL database, moved from point to point.

Each step is one PostgreSQL transaction for all tables, which also records the point. So the database is always at a point, and
the next step applies the differences between that point and the newest one.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from uuid import uuid4

import psycopg
from psycopg import sql

from changeling.iceberg.failpoints import reach
from changeling.iceberg.lake import Lake
from changeling.log import log_tables
from changeling.model.errors import ChangelingError
from changeling.postgres.connection import connect, unreachable
from changeling.replicas.points import Point, points_of
from changeling.replicas.tables import ReplicaTables
from changeling.spark.errors import translated_errors
from changeling.targets.apply import Applied, ApplyMode
from changeling.targets.schema_changes import Connection, existing_tables
from changeling.targets.snapshot_diff import Differences
from changeling.targets.staging_table import drop_stages
from changeling.targets.sync_plan import Planner, TableTask
from changeling.targets.table_mapping import SERVICE, TargetTable, Wanted
from changeling.targets.table_sync import StagedTask, begin, finish
from changeling.targets.target_state import Ledger, TargetStatus, fetch_status

_SETTINGS = {"search_path": "pg_catalog", "lock_timeout": "30s"}
"""Names are always qualified; and a step that waits for a long reader must not block others from the table."""


@dataclass(frozen=True)
class SyncedTable:
    """The changes that were written to one table."""

    place: TargetTable
    written: int
    deleted: int
    whole: bool
    """All of its rows were compared or written again."""


@dataclass(frozen=True)
class TargetReport:
    """The result of a step."""

    target: str
    point: Point
    tables: list[SyncedTable]
    seconds: float
    warnings: list[str]


class PostgresTarget:
    """One target of a pipeline. `tables` are names of source tables, or patterns with `*`."""

    def __init__(self, lake: Lake, name: str, url: str, tables: Sequence[str], pipeline: str) -> None:
        self._lake, self.name, self._url, self._pipeline = lake, name, url, pipeline
        self._wanted = Wanted(tables)
        self._known_log: str | None = None
        self._settled: int | None = None
        """The snapshot of the table `points` at which there was nothing to do."""
        self._warned: set[str] = set()
        """The lasting warnings that were already reported."""

    def step(self, newest: Point | None = None, replicas: ReplicaTables | None = None) -> TargetReport | None:
        """Moves the database to the newest point; None if it is already there. Raises `ChangelingError` that names the target.

        Whoever knows that point and the replicas gives them: reading them takes a while where there are many tables.
        """
        with self._named():
            return self._step(newest, replicas)

    def _step(self, newest: Point | None, replicas: ReplicaTables | None) -> TargetReport | None:
        begun = monotonic()
        log = self._log()
        state = None if log is None else self._state()
        if log is None or state is None or state == self._settled:
            return None
        newest = newest or points_of(self._lake).last
        with connect(self._url, settings=_SETTINGS) as connection:
            ledger = Ledger(connection, self._pipeline, self.name, log)
            ledger.prepare()
            ledger.check()
            drop_stages(connection, ledger.leftovers())
            before = ledger.status()
            replicas = replicas or ReplicaTables(self._lake)
            planner = Planner(connection, ledger, replicas, self._wanted)
            tasks = planner.tasks(newest)
            if before is not None and before.point == newest.number and not tasks:
                self._settled = state
                return None
            done = self._move(connection, ledger, Differences(replicas), tasks, before, newest)
        self._settled = state
        lasting = [text for text in planner.lasting if text not in self._warned]
        self._warned.update(lasting)
        warnings = [
            *lasting,
            *planner.warnings,
            *(text for staged, applied in done for text in staged.warnings(applied)),
        ]
        return TargetReport(self.name, newest, _synced(done), monotonic() - begun, warnings)

    def status(self) -> TargetStatus | None:
        """The point that the database is at; None where it never was at one."""
        with self._named():
            return fetch_status(self._url, self._pipeline, self.name)

    def remove(self) -> list[str]:
        """Drops the tables that the target created, and its state; returns the names of the tables."""
        with self._named():
            log = self._log()
            if log is None:
                return []
            with connect(self._url, settings=_SETTINGS) as connection:
                dropped = _drop_all(connection, Ledger(connection, self._pipeline, self.name, log))
            return [str(place) for place in dropped]

    def _log(self) -> str | None:
        """The id of the pipeline's log; None where it has none yet."""
        if self._known_log is None and log_tables.POINTS.name in self._lake.names():
            self._known_log = self._lake.load(log_tables.POINTS).uuid().toString()
        return self._known_log

    def _state(self) -> int | None:
        """The snapshot of the table `points`; None where it is empty."""
        snapshot = self._lake.load(log_tables.POINTS).currentSnapshot()
        return None if snapshot is None else int(snapshot.snapshotId())

    def _move(
        self,
        connection: Connection,
        ledger: Ledger,
        differences: Differences,
        tasks: list[TableTask],
        before: TargetStatus | None,
        newest: Point,
    ) -> list[tuple[StagedTask, Applied]]:
        try:
            staged_tasks = [
                begin(connection, self._url, f"{ledger.stages}{uuid4().hex[:12]}", differences, task) for task in tasks
            ]
            reach("target.staged")
            with connection.transaction():
                ledger.lock(before)
                connection.execute("SET CONSTRAINTS ALL DEFERRED")
                done = [(staged, finish(connection, ledger, staged)) for staged in staged_tasks]
                ledger.write_point(newest)
                reach("target.before")
            reach("target.after")
        except psycopg.errors.UniqueViolation as error:
            hint = _constraint_hint(connection, error)
            if hint is None:
                raise
            raise ChangelingError(f"{unreachable(self._url, error)} {hint}") from None
        finally:
            if not connection.closed:
                drop_stages(connection, ledger.leftovers())
        return done

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Errors name this target, in one sentence, without the password."""
        try:
            with translated_errors():
                yield
        except psycopg.Error as error:
            raise ChangelingError(f"target {self.name!r}: {unreachable(self._url, error)}") from None
        except ChangelingError as error:
            raise type(error)(f"target {self.name!r}: {error}") from None


def _synced(done: list[tuple[StagedTask, Applied]]) -> list[SyncedTable]:
    """The tables that were changed."""
    return [
        SyncedTable(staged.task.place, applied.written, applied.deleted, staged.task.mode is not ApplyMode.CHANGES)
        for staged, applied in done
        if staged.task.mode is not ApplyMode.CHANGES or applied.written or applied.deleted
    ]


def _drop_all(connection: Connection, ledger: Ledger) -> list[TargetTable]:
    """Drops what the target created (tables, their schemas, its state), or nothing; returns the dropped tables.

    Tables that somebody else created stay, with their rows.
    """
    if not ledger.exists():
        return []
    ledger.check()
    drop_stages(connection, ledger.leftovers())
    with connection.transaction():
        entries = ledger.tables()
        existing = existing_tables(connection, sorted(entries))
        created = [
            place for place in sorted(existing) if entries[place].created and entries[place].oid == existing[place].oid
        ]
        for place in created:
            connection.execute(sql.SQL("DROP TABLE {}").format(place.quoted))
        ledger.forget()
        for schema in sorted({place.schema for place, entry in entries.items() if entry.schema_created}):
            _drop_empty(connection, schema)
        if not ledger.exists():
            _drop_empty(connection, SERVICE)
    return created


def _drop_empty(connection: Connection, schema: str) -> None:
    """Drops a schema if it is empty."""
    try:
        with connection.transaction():
            connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {}").format(sql.Identifier(schema)))
    except psycopg.errors.DependentObjectsStillExist:
        return


def _constraint_hint(connection: Connection, error: psycopg.errors.UniqueViolation) -> str | None:
    """What to do about a unique constraint that somebody added; None for a primary key, or if it is deferrable."""
    violated = error.diag
    found = connection.execute(
        "SELECT 1 FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE (n.nspname, c.relname) = (%s, %s) AND i.indimmediate AND NOT i.indisprimary",
        (violated.schema_name, violated.constraint_name),
    ).fetchone()
    if found is None:
        return None
    return (
        f"{violated.constraint_name!r} was added to table {violated.schema_name}.{violated.table_name} by hand, and rows may swap their "
        "values within a step: it must be a constraint that is DEFERRABLE (ALTER TABLE … ADD UNIQUE (…) DEFERRABLE)"
    )
