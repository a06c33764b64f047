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

from changeling.log import layout
from changeling.log.failpoints import reach
from changeling.log.lake import Lake
from changeling.model.errors import ChangelingError
from changeling.postgres.connection import connect, unreachable
from changeling.replicas.points import Point
from changeling.replicas.tables import ReplicaTables
from changeling.replicas.works import points_of
from changeling.targets.applying import Applied, How, apply, check_whole
from changeling.targets.asides import Asides, asides
from changeling.targets.differences import Differences, Side
from changeling.targets.ledger import Entry, Ledger, Standing, standing
from changeling.targets.places import Place, Wanted
from changeling.targets.planning import Planner, Work
from changeling.targets.removing import remove
from changeling.targets.reshaping import Connection, add_key, alter, create, drop_key
from changeling.targets.staging import Staged, create_stage, drop_stages, stage

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

    def step(self) -> TargetReport | None:
        """Moves the database to the newest point; None where it is there. Raises `ChangelingError` that names the target."""
        begun = monotonic()
        log = self._log()
        state = None if log is None else self._state()
        if log is None or state is None or state == self._settled:
            return None
        newest = points_of(self._lake).last
        with self._connected() as connection:
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
            moved, warnings = self._move(connection, ledger, Differences(replicas), works, before, newest)
        self._settled = state
        new = [text for text in [*planner.warnings, *warnings] if text not in self._told]
        self._told.update(new)
        return TargetReport(self.name, newest, moved, monotonic() - begun, new)

    def standing(self) -> Standing | None:
        """How far the database is; None where it never was at a point."""
        with self._connected() as connection:
            return standing(connection, self._pipeline, self.name)

    def remove(self) -> list[str]:
        """Drops the tables that the target made, and its notes; tells the names of the tables."""
        log = self._log()
        if log is None:
            return []
        with self._connected() as connection:
            return [str(place) for place in remove(connection, Ledger(connection, self._pipeline, self.name, log))]

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
    ) -> tuple[list[Moved], list[str]]:
        stages = {}
        try:
            for work in works:
                name = f"{ledger.stages}{uuid4().hex[:12]}"
                stages[work.place] = self._stage(connection, name, differences, work)
            reach("target.staged")
            with connection.transaction():
                ledger.lock(before)
                connection.execute("SET CONSTRAINTS ALL DEFERRED")
                done = {work.place: self._apply(connection, ledger, work, *stages[work.place]) for work in works}
                ledger.write_point(newest)
                reach("target.before")
            reach("target.after")
        finally:
            if not connection.closed and not connection.broken:
                drop_stages(connection, ledger.leftovers())
        moved = [
            Moved(work.place, done[work.place].written, done[work.place].deleted, work.how is not How.CHANGES)
            for work in works
            if work.how is not How.CHANGES or done[work.place].written or done[work.place].deleted
        ]
        return moved, _warnings(works, stages, done)

    def _stage(
        self, connection: Connection, name: str, differences: Differences, work: Work
    ) -> tuple[Staged, Asides | None]:
        """The rows of a work on their way, and what is kept aside where that changes."""
        new = Side(work.snapshot, work.shape)
        if work.how is How.CHANGES and work.entry is not None:
            rows = differences.between(work.replica, Side(work.entry.snapshot, work.entry.shape), new)
        else:
            rows = differences.whole(work.replica, new)
        staged = stage(self._url, create_stage(connection, name, work.shape), rows, work.shape)
        # The planner of PostgreSQL takes a table that nobody looked at for a small one.
        connection.execute(psycopg.sql.SQL("ANALYZE {}").format(staged.table))
        listed_otherwise = work.entry is not None and work.entry.asides > 0 and work.entry.shape != work.shape
        if staged.misfits or listed_otherwise:
            return staged, asides(differences.rows(work.replica, new), work.shape)
        return staged, None if work.how is How.CHANGES else Asides(0, [])

    def _apply(
        self, connection: Connection, ledger: Ledger, work: Work, staged: Staged, kept_aside: Asides | None
    ) -> Applied:
        check_whole(connection, staged)
        entry, place, shape = work.entry, work.place, work.shape
        schema_created = entry is not None and entry.schema_created
        has_key = work.there is not None and work.there.constraint is not None
        if work.there is None:
            schema_created = create(connection, place, shape) or schema_created
        elif entry is not None and entry.shape != shape:
            if work.there.constraint is not None and entry.shape.key != shape.key:
                drop_key(connection, place, work.there.constraint, entry.shape)
                has_key = False
            if work.how is How.ALL:
                connection.execute(psycopg.sql.SQL("DELETE FROM {}").format(place.quoted))
            alter(connection, place, entry.shape, shape)
        if not has_key and work.how is not How.ALL:
            add_key(connection, place, shape)
        done = apply(connection, place, shape, staged, work.how)
        if not has_key and work.how is How.ALL:
            # Many rows are in order sooner than one by one.
            add_key(connection, place, shape)
        count = kept_aside.count if kept_aside is not None else entry.asides if entry is not None else 0
        created = work.there is None or (entry is not None and entry.created)
        ledger.write_table(Entry(place, work.replica.identity, work.snapshot, shape, count, created, schema_created))
        if kept_aside is not None:
            ledger.write_asides(place, kept_aside.listed)
        return done

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """A connection to the database; whatever goes wrong meanwhile is told of this target."""
        try:
            with connect(self._url, settings=_SETTINGS) as connection:
                yield connection
        except psycopg.Error as error:
            raise ChangelingError(f"target {self.name!r}: {unreachable(self._url, error)}") from None
        except ChangelingError as error:
            raise type(error)(f"target {self.name!r}: {error}") from None


def _warnings(
    works: list[Work], stages: dict[Place, tuple[Staged, Asides | None]], done: dict[Place, Applied]
) -> list[str]:
    found = []
    for work in works:
        staged, kept_aside = stages[work.place]
        if kept_aside is not None and kept_aside.count:
            reason, _ = kept_aside.listed[0]
            found.append(
                f"{kept_aside.count:,} rows of {work.place} cannot be in PostgreSQL and are kept aside ({reason}): "
                "changeling.asides lists them"
            )
        if done[work.place].missing > 0 and not staged.misfits:
            found.append(
                f"{done[work.place].missing:,} rows of {work.place} that were to go were not there: somebody else changed it"
            )
    return found
