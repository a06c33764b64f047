"""The target `postgres`: replicas of a pipeline in a PostgreSQL database, moved from point to point.

Each step is one transaction of PostgreSQL for all tables, with the point in it. So the database is at a point whatever happens,
and the next step goes on from there: what differs between the two points is what it changes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from uuid import uuid4

import psycopg

from changeling.iceberg.failpoints import reach
from changeling.iceberg.lake import Lake
from changeling.log import layout
from changeling.model.errors import ChangelingError
from changeling.postgres.connection import connect, unreachable
from changeling.replicas.merge_tasks import points_of
from changeling.replicas.points import Point
from changeling.replicas.tables import ReplicaTables
from changeling.spark.errors import translated_errors
from changeling.targets.apply import Applied, How
from changeling.targets.removal import remove
from changeling.targets.schema_changes import Connection
from changeling.targets.snapshot_diff import Differences
from changeling.targets.staging_table import drop_stages
from changeling.targets.sync_plan import Planner, Work
from changeling.targets.table_mapping import Place, Wanted
from changeling.targets.table_sync import Move, begin, finish
from changeling.targets.target_state import Ledger, Standing, asked_standing
from changeling.targets.unique_constraints import hint

_SETTINGS = {"search_path": "pg_catalog", "lock_timeout": "30s"}
"""Names are written out; and whoever reads a table for long must not keep others from it while its columns wait to change."""


@dataclass(frozen=True)
class Moved:
    """What one table got."""

    place: Place
    written: int
    deleted: int
    whole: bool
    """All of its rows were compared or written anew."""


@dataclass(frozen=True)
class TargetReport:
    """What a step did."""

    target: str
    point: Point
    tables: list[Moved]
    seconds: float
    warnings: list[str]


class PostgresTarget:
    """One target of a pipeline. `tables` are names of source tables, or patterns with `*`."""

    def __init__(self, lake: Lake, name: str, url: str, tables: Sequence[str], pipeline: str) -> None:
        self._lake, self.name, self._url, self._pipeline = lake, name, url, pipeline
        self._wanted = Wanted(tables)
        self._known_log: str | None = None
        self._settled: int | None = None
        """The state of the table `points` at which there was nothing to do."""
        self._told: set[str] = set()
        """The lasting warnings that a user knows."""

    def step(self) -> TargetReport | None:
        """Moves the database to the newest point; None where it is there. Raises `ChangelingError` that names the target."""
        with self._named():
            return self._step()

    def _step(self) -> TargetReport | None:
        begun = monotonic()
        log = self._log()
        state = None if log is None else self._state()
        if log is None or state is None or state == self._settled:
            return None
        newest = points_of(self._lake).last
        with connect(self._url, settings=_SETTINGS) as connection:
            ledger = Ledger(connection, self._pipeline, self.name, log)
            ledger.prepare()
            ledger.check()
            drop_stages(connection, ledger.leftovers())
            before = ledger.standing()
            replicas = ReplicaTables(self._lake)
            planner = Planner(connection, ledger, replicas, self._wanted)
            works = planner.works(newest)
            if before is not None and before.point == newest.number and not works:
                self._settled = state
                return None
            done = self._move(connection, ledger, Differences(replicas), works, before, newest)
        self._settled = state
        lasting = [text for text in planner.lasting if text not in self._told]
        self._told.update(lasting)
        warnings = [*lasting, *planner.warnings, *(text for move, applied in done for text in move.warnings(applied))]
        return TargetReport(self.name, newest, _moved(done), monotonic() - begun, warnings)

    def standing(self) -> Standing | None:
        """How far the database is; None where it never was at a point."""
        with self._named():
            return asked_standing(self._url, self._pipeline, self.name)

    def remove(self) -> list[str]:
        """Drops the tables that the target made, and its notes; tells the names of the tables."""
        with self._named():
            log = self._log()
            if log is None:
                return []
            with connect(self._url, settings=_SETTINGS) as connection:
                gone = remove(connection, Ledger(connection, self._pipeline, self.name, log))
            return [str(place) for place in gone]

    def _log(self) -> str | None:
        """What tells the pipeline's log from every other; None where it has none yet."""
        if self._known_log is None and layout.POINTS.name in self._lake.names():
            self._known_log = self._lake.load(layout.POINTS).uuid().toString()
        return self._known_log

    def _state(self) -> int | None:
        """The state of the table `points`; None where it is empty."""
        snapshot = self._lake.load(layout.POINTS).currentSnapshot()
        return None if snapshot is None else int(snapshot.snapshotId())

    def _move(
        self,
        connection: Connection,
        ledger: Ledger,
        differences: Differences,
        works: list[Work],
        before: Standing | None,
        newest: Point,
    ) -> list[tuple[Move, Applied]]:
        try:
            moves = [
                begin(connection, self._url, f"{ledger.stages}{uuid4().hex[:12]}", differences, work) for work in works
            ]
            reach("target.staged")
            with connection.transaction():
                ledger.lock(before)
                connection.execute("SET CONSTRAINTS ALL DEFERRED")
                done = [(move, finish(connection, ledger, move)) for move in moves]
                ledger.write_point(newest)
                reach("target.before")
            reach("target.after")
        except psycopg.errors.UniqueViolation as error:
            told = hint(connection, error)
            if told is None:
                raise
            raise ChangelingError(f"{unreachable(self._url, error)} {told}") from None
        finally:
            if not connection.closed:
                drop_stages(connection, ledger.leftovers())
        return done

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Whatever goes wrong meanwhile is told of this target, in one sentence, without the password."""
        try:
            with translated_errors():
                yield
        except psycopg.Error as error:
            raise ChangelingError(f"target {self.name!r}: {unreachable(self._url, error)}") from None
        except ChangelingError as error:
            raise type(error)(f"target {self.name!r}: {error}") from None


def _moved(done: list[tuple[Move, Applied]]) -> list[Moved]:
    """The tables that got something."""
    return [
        Moved(move.work.place, applied.written, applied.deleted, move.work.how is not How.CHANGES)
        for move, applied in done
        if move.work.how is not How.CHANGES or applied.written or applied.deleted
    ]
