"""The state of a target, in tables of its own database: its point, its tables, its quarantined rows.

It is written in the transaction that applies the rows of a point, so both always agree. Needs no Spark.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import msgspec
import psycopg
from psycopg import sql

from changeling.model.errors import ChangelingError
from changeling.postgres.connection import connect, unreachable
from changeling.replicas.points import Point, SourcePoint
from changeling.replicas.replica_reader import Identity
from changeling.replicas.shape import Shape
from changeling.targets.schema_changes import Connection
from changeling.targets.table_mapping import SERVICE, TargetTable

_TABLES = """
CREATE TABLE IF NOT EXISTS changeling.points (
    pipeline text NOT NULL, target text NOT NULL, log text NOT NULL, point bigint NOT NULL,
    made_at timestamptz NOT NULL, applied_at timestamptz NOT NULL, sources json NOT NULL, tables json NOT NULL,
    PRIMARY KEY (pipeline, target));
CREATE TABLE IF NOT EXISTS changeling.tables (
    schema_name text NOT NULL, table_name text NOT NULL, pipeline text NOT NULL, target text NOT NULL,
    table_oid oid NOT NULL, replica json NOT NULL, snapshot bigint NOT NULL, shape json NOT NULL, asides bigint NOT NULL,
    created boolean NOT NULL, schema_created boolean NOT NULL, PRIMARY KEY (schema_name, table_name));
CREATE TABLE IF NOT EXISTS changeling.asides (
    schema_name text NOT NULL, table_name text NOT NULL, reason text NOT NULL, "row" text NOT NULL);
"""
_ONE_AT_A_TIME = 0x6368616E67656C69


@dataclass(frozen=True)
class TargetStatus:
    """The point that a target is at."""

    point: int
    made_at: datetime
    """When the replicas reached that point."""
    applied_at: datetime
    """When the target reached it."""
    sources: dict[str, SourcePoint]
    tables: dict[str, int]
    """The snapshots of the replicas, by their names."""
    quarantined: int = 0
    """Rows that PostgreSQL cannot store."""


@dataclass(frozen=True)
class Entry:
    """A table of the target."""

    place: TargetTable
    oid: int
    """The identity of the table: one of the same name that somebody else creates has another oid."""
    identity: Identity
    snapshot: int
    """The snapshot of the replica whose rows it has."""
    shape: Shape
    quarantined: int
    created: bool
    """The target created it; otherwise it existed and was empty."""
    schema_created: bool


def read_status(connection: Connection, pipeline: str, target: str) -> TargetStatus | None:
    """The status of a target from its own database; None where it never was at a point."""
    if not _state_exists(connection):
        return None
    row = connection.execute(
        "SELECT point, made_at, applied_at, sources::text, tables::text, "
        "(SELECT coalesce(sum(asides), 0) FROM changeling.tables t WHERE (t.pipeline, t.target) = (p.pipeline, p.target)) "
        "FROM changeling.points p WHERE pipeline = %s AND target = %s",
        (pipeline, target),
    ).fetchone()
    if row is None:
        return None
    point, made_at, applied_at, sources, tables, quarantined = row
    assert isinstance(made_at, datetime)
    assert isinstance(applied_at, datetime)
    return TargetStatus(
        int(str(point)),
        made_at,
        applied_at,
        msgspec.json.decode(str(sources), type=dict[str, SourcePoint]),
        msgspec.json.decode(str(tables), type=dict[str, int]),
        int(str(quarantined)),
    )


def fetch_status(url: str, pipeline: str, target: str) -> TargetStatus | None:
    """The same, over a connection of its own; raises `ChangelingError` where the database cannot be reached."""
    try:
        with connect(url) as connection:
            return read_status(connection, pipeline, target)
    except psycopg.Error as error:
        raise unreachable(url, error) from None


def lag(status: TargetStatus | None, points: Sequence[Point], now: datetime) -> timedelta | None:
    """How long the target has lacked something that the replicas have; None where there is nothing to have yet."""
    missing = [point.made_at for point in points if status is None or point.number > status.point]
    if missing:
        return now - min(missing)
    return None if status is None else timedelta(0)


def _state_exists(connection: Connection) -> bool:
    found = connection.execute("SELECT to_regclass('changeling.points') IS NOT NULL").fetchone()
    return found is not None and bool(found[0])


class Ledger:
    """The state of one target. `log` is the id of the pipeline's log."""

    def __init__(self, connection: Connection, pipeline: str, target: str, log: str) -> None:
        self._connection, self._own, self._log = connection, (pipeline, target), log
        name = sha256("\0".join((pipeline, target, log)).encode()).hexdigest()[:12]
        self.stages = f"stage_{name}_"
        """The prefix of staging tables."""

    def exists(self) -> bool:
        """Whether any target ever wrote to the database."""
        return _state_exists(self._connection)

    def prepare(self) -> None:
        """Creates the missing state tables."""
        if self.exists():
            return
        with self._connection.transaction():
            self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (_ONE_AT_A_TIME,))
            # A user who may not create schemas may still own this one.
            if self._connection.execute("SELECT to_regnamespace('changeling')").fetchone() == (None,):
                self._connection.execute("CREATE SCHEMA changeling")
            self._connection.execute(_TABLES)

    def check(self) -> None:
        """Raises `ChangelingError` where the state belongs to another pipeline of the same name."""
        row = self._connection.execute(
            "SELECT log FROM changeling.points WHERE (pipeline, target) = (%s, %s)", self._own
        ).fetchone()
        if row is not None and row[0] != self._log:
            pipeline, target = self._own
            raise ChangelingError(
                f"the database is written by the target {target!r} of another pipeline named {pipeline!r}, or of an "
                "earlier log of this one. Give this one another name; or, if the other no longer exists, drop the tables that "
                "changeling.tables lists, and then its rows and that of changeling.points"
            )

    def status(self) -> TargetStatus | None:
        """The status of the target."""
        return read_status(self._connection, *self._own)

    def lock(self, expected: TargetStatus | None) -> None:
        """Locks the target until the transaction ends; raises `ChangelingError` where it was moved since."""
        self._connection.execute(
            "SELECT 1 FROM changeling.points WHERE (pipeline, target) = (%s, %s) FOR UPDATE", self._own
        )
        now = self.status()
        if (now and (now.point, now.applied_at)) != (expected and (expected.point, expected.applied_at)):
            raise ChangelingError("another run moved it at the same time")

    def tables(self) -> dict[TargetTable, Entry]:
        """The tables of this target."""
        rows = self._connection.execute(
            "SELECT schema_name, table_name, table_oid, replica::text, snapshot, shape::text, asides, created, schema_created "
            "FROM changeling.tables WHERE (pipeline, target) = (%s, %s)",
            self._own,
        ).fetchall()
        found = {}
        for schema, table, oid, identity, snapshot, shape, quarantined, created, schema_created in rows:
            place = TargetTable(str(schema), str(table))
            found[place] = Entry(
                place,
                int(str(oid)),
                msgspec.json.decode(str(identity), type=Identity),
                int(str(snapshot)),
                msgspec.json.decode(str(shape), type=Shape),
                int(str(quarantined)),
                bool(created),
                bool(schema_created),
            )
        return found

    def owners(self, places: Sequence[TargetTable]) -> Mapping[TargetTable, tuple[str, str]]:
        """Which other targets own these tables: pipeline and name."""
        rows = self._connection.execute(
            "SELECT schema_name, table_name, pipeline, target FROM changeling.tables t "
            "JOIN unnest(%s::text[], %s::text[]) AS w(s, n) ON (t.schema_name, t.table_name) = (w.s, w.n) "
            "WHERE (pipeline, target) <> (%s, %s)",
            ([place.schema for place in places], [place.table for place in places], *self._own),
        ).fetchall()
        return {TargetTable(str(row[0]), str(row[1])): (str(row[2]), str(row[3])) for row in rows}

    def write_point(self, point: Point) -> None:
        """Records that the target is at a point."""
        sources, tables = (msgspec.json.encode(one).decode() for one in (point.sources, dict(point.tables)))
        self._connection.execute(
            "INSERT INTO changeling.points VALUES (%s, %s, %s, %s, %s, %s, %s::json, %s::json) "
            "ON CONFLICT (pipeline, target) DO UPDATE SET point = excluded.point, made_at = excluded.made_at, "
            "applied_at = excluded.applied_at, sources = excluded.sources, tables = excluded.tables",
            (*self._own, self._log, point.number, point.made_at, datetime.now(UTC), sources, tables),
        )

    def write_table(self, entry: Entry) -> None:
        """Records the state of a table."""
        identity, shape = (msgspec.json.encode(one).decode() for one in (entry.identity, entry.shape))
        written = self._connection.execute(
            "INSERT INTO changeling.tables VALUES (%s, %s, %s, %s, %s, %s::json, %s, %s::json, %s, %s, %s) "
            "ON CONFLICT (schema_name, table_name) DO UPDATE SET table_oid = excluded.table_oid, "
            "snapshot = excluded.snapshot, shape = excluded.shape, asides = excluded.asides, "
            "created = excluded.created, schema_created = excluded.schema_created "
            "WHERE (tables.pipeline, tables.target) = (excluded.pipeline, excluded.target)",
            (
                *(entry.place.schema, entry.place.table, *self._own, entry.oid, identity, entry.snapshot, shape),
                *(entry.quarantined, entry.created, entry.schema_created),
            ),
        )
        if written.rowcount != 1:
            raise ChangelingError(f"table {entry.place} was taken by another target at the same time")

    def write_quarantine(self, place: TargetTable, rows: Sequence[tuple[str, str]]) -> None:
        """Records the quarantined rows of a table: reasons, and the rows as JSON."""
        own = (place.schema, place.table)
        self._connection.execute("DELETE FROM changeling.asides WHERE (schema_name, table_name) = (%s, %s)", own)
        with self._connection.cursor() as cursor:
            cursor.executemany("INSERT INTO changeling.asides VALUES (%s, %s, %s, %s)", [(*own, *row) for row in rows])

    def leftovers(self) -> list[sql.Identifier]:
        """Staging tables that earlier steps left behind."""
        rows = self._connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('changeling') AND relkind = 'r' "
            "AND starts_with(relname::text, %s)",
            (self.stages,),
        ).fetchall()
        return [sql.Identifier(SERVICE, str(name)) for (name,) in rows]

    def forget(self) -> None:
        """Deletes the state of this target, and the state tables if no other target uses them."""
        run = self._connection.execute
        run(
            "DELETE FROM changeling.asides a USING changeling.tables t WHERE (t.pipeline, t.target) = (%s, %s) "
            "AND (a.schema_name, a.table_name) = (t.schema_name, t.table_name)",
            self._own,
        )
        for table in ("tables", "points"):
            own = sql.SQL("DELETE FROM {} WHERE (pipeline, target) = (%s, %s)")
            run(own.format(sql.Identifier(SERVICE, table)), self._own)
        left = run("SELECT 1 FROM changeling.tables UNION ALL SELECT 1 FROM changeling.points").fetchone()
        if left is None:
            run("DROP TABLE changeling.points, changeling.tables, changeling.asides")
