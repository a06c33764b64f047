"""The server side of a capture: its publication, slot, connections, and the captured tables."""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

import psycopg
from psycopg import sql

from changeling.model.errors import ChangelingError
from changeling.model.position import decode
from changeling.model.table import TableName
from changeling.postgres import catalog, readiness
from changeling.postgres.catalog import CatalogTable, Connection, Leaf
from changeling.postgres.connection import connect, unreachable
from changeling.postgres.fingerprint import Fingerprint, fingerprints
from changeling.postgres.readiness import Need, Server
from changeling.postgres.relation import Relation
from changeling.postgres.slot import ExportedSnapshot, Slot, SlotStatus, format_lsn, parse_lsn
from changeling.sources.postgres_reading import Tables
from changeling.sources.postgres_settings import CaptureSettings
from changeling.sources.postgres_tables import CapturedTables

_FLUSH_SECONDS = 10.0
"""By default, a server flushes its log to disk within 0.6 s, under a heavy load later."""

_STREAMED = 2
"""Positions of the stream have an LSN and an ordinal; those of a snapshot have more parts."""


@dataclass(frozen=True)
class LockedTables:
    """Tables as a snapshot shows them; until they are unlocked they cannot be altered, but can be written."""

    relations: dict[str, Relation]
    leaves: dict[TableName, list[Leaf]]
    prints: dict[str, Fingerprint]
    time: int
    """The server's clock, in nanoseconds."""


class Capture:
    """The server side of one source."""

    def __init__(self, settings: CaptureSettings) -> None:
        self._settings = settings
        self._slot = Slot(settings.url, settings.slot)
        self.chosen = CapturedTables(settings)
        """Which tables are captured."""
        self._claim = settings.claim()
        self._connection: Connection | None = None
        self._locking: Connection | None = None
        self._server: Server | None = None
        self._released = 0
        self._alarmed = 0
        self._warnings: list[str] = []

    @property
    def publications(self) -> str:
        """The names of the publications, as pgoutput takes them."""
        return ",".join(sql.Identifier(name).as_string(None) for name in self._settings.publications)

    def open(self) -> Server:
        """Connects, checks the server, and publishes the tables; raises `ChangelingError` where another log reads the slot."""
        self._connection = connect(self._settings.url)
        self._released = 0
        self._server = readiness.server(self._connection)
        self._claim.check(self._connection)
        self.look(readiness.server_needs(self._connection))
        return self._server

    def look(self, needs: Sequence[Need] = ()) -> None:
        """Publishes the tables that match the patterns now; raises `ChangelingError` where none of them can be captured."""
        assert self._server is not None
        self.chosen.look(self._connected(), self._server, needs)

    @property
    def found(self) -> list[CatalogTable]:
        """The tables that are captured."""
        return self.chosen.found

    def claim(self, *, begun: bool) -> None:
        """Records that the log reads the slot; `begun`: the log already has changes from it.

        Raises `ChangelingError` where another log reads the slot, or may do so.
        """
        self._claim.take(self._connected(), begun=begun)

    def tables(self) -> Tables:
        """What tasks need to know."""
        return self.chosen.for_tasks()

    def status(self) -> SlotStatus | None:
        """The status of the slot."""
        return self._slot.status(self._connected())

    def fresh_status(self) -> SlotStatus | None:
        """The same, over a connection of its own."""
        with connect(self._settings.url) as connection:
            try:
                return self._slot.status(connection)
            except psycopg.Error as error:
                raise unreachable(self._settings.url, error) from None

    def oldest_unread(self, position: int) -> datetime | None:
        """When the first published transaction committed that the slot has from a position on; None where it has none.

        Only for a slot that has no reader now. It has a connection of its own.
        """
        with connect(self._settings.url) as connection:
            try:
                return self._slot.first_commit(connection, self.publications, position)
            except psycopg.Error as error:
                raise unreachable(self._settings.url, error) from None

    def lost(self, status: SlotStatus | None, position: int | None) -> str | None:
        """Why the slot no longer has what follows a position; None where it has."""
        name = self._slot.name
        if status is None:
            return None if position is None else f"the slot {name} is gone"
        if status.lost is not None:
            return (
                f"the server invalidated the slot {name} ({status.lost}), since nobody read it for too long (see "
                "max_slot_wal_keep_size and idle_replication_slot_timeout)"
            )
        if position is not None and status.confirmed > position:
            return (
                f"the slot {name} is at {format_lsn(status.confirmed)}, beyond what was stored ({format_lsn(position)}): it was "
                "recreated, or somebody else read it"
            )
        return None

    def went_back(self, status: SlotStatus | None, stored: str | None, position: int | None) -> str | None:
        """Why the server has lost what was already stored, or None: its log may have grown past the same LSN since.

        `stored` is the last position in the change log.
        """
        last = decode(stored) if stored is not None else ()
        if status is None or position is None or last[0:1] < (status.confirmed,):
            return None
        if len(last) != _STREAMED or not last[1]:
            # Not a transaction's: a snapshot that emptied a table, or a message outside of any.
            return None
        if self.commits_at(last[0], position):
            return None
        return (
            f"the server does not know the last transaction that was stored ({format_lsn(last[0])}): it was restored from a backup, "
            "or its publication was altered"
        )

    def check_continues(self, system: str | None, position: int | None) -> None:
        """Raises `ChangelingError` where this is not the server whose log was stored up to a position; `system`: the one it was."""
        assert self._server is not None
        name = self._settings.name
        if system not in (None, self._server.system):
            raise ChangelingError(
                f"source {name}: this is another server than the one that was captured before, so positions in its log "
                "mean something else: point the url at the former one, or run with --resnapshot"
            )
        if position is not None and (flushed := self.flushed()) < position:
            raise ChangelingError(
                f"source {name}: the log of this server ends at {format_lsn(flushed)}, before what was stored "
                f"({format_lsn(position)}): it is another server, or was restored from a backup, and its changes cannot "
                "continue the stored ones. Begin with a pipeline of another name, or `changeling remove` this one first"
            )

    def refused(self, lost: str) -> ChangelingError:
        """The error for a slot that cannot be continued."""
        return ChangelingError(
            f"source {self._settings.name}: {lost}. Changes may be missing from there on: `changeling run --resnapshot` snapshots "
            "all tables again and continues"
        )

    def create_slot(self) -> ExportedSnapshot:
        """Creates the slot, in place of a lost one."""
        self._slot.drop(self._connected())
        return self._slot.create()

    def export_snapshot(self, *, for_reading: bool = False) -> ExportedSnapshot:
        """Exports a snapshot and its LSN, without moving the slot. `for_reading`: a run may export one at the same time."""
        suffix = f"read_{os.getpid()}" if for_reading else "snapshot"
        return Slot(self._settings.url, f"{self._slot.name[:45]}_{suffix}").create(temporary=True)

    def mark(self) -> None:
        """Writes a message into the server's log."""
        self._connected().execute("SELECT pg_logical_emit_message(true, 'changeling', 'mark')")

    def lock_tables(self, point: ExportedSnapshot, wanted: list[CatalogTable]) -> LockedTables | None:
        """The tables in a snapshot; None where one was dropped or rewritten since: the snapshot does not show its rows then.

        Until `unlock` they cannot be altered or dropped; writers are not blocked.
        """
        assert self._server is not None
        self.unlock()
        connection = self._locking = connect(self._settings.url)
        try:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(point.snapshot))
            for one in wanted:
                name = sql.Identifier(one.table.schema or "", one.table.name)
                connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(name))
            leaves = {one.table: catalog.leaves(connection, one.oid) for one in wanted}
            numbers = [leaf.oid for found in leaves.values() for leaf in found]
            if connection.execute(_REWRITTEN, (numbers,)).fetchone():
                self.unlock()
                return None
            found = catalog.relations(connection, wanted, stored_generated=self._server.publishes_generated)
            prints = fingerprints(connection, wanted, self._settings.publications)
            row = connection.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint").fetchone()
        except psycopg.errors.UndefinedTable:
            self.unlock()
            self.look()
            return None
        except psycopg.Error as error:
            self.unlock()
            point.close()
            raise unreachable(self._settings.url, error) from None
        assert row is not None
        named = {relation.table.spelled(): relation for relation in found}
        return LockedTables(named, leaves, prints, int(str(row[0])) * 1000)

    @property
    def locking(self) -> Connection | None:
        """The connection that has the locks of `lock_tables`, in a transaction that shows the snapshot."""
        return self._locking

    def unlock(self) -> None:
        """Releases the locks of `lock_tables`."""
        if self._locking is not None:
            with suppress(psycopg.Error):
                self._locking.close()
            self._locking = None

    def release(self, position: int) -> None:
        """Advances the slot to what is stored; raises `ChangelingError` where the slot was moved or lost."""
        status = self.status()
        if (lost := self.lost(status, position)) is not None or status is None:
            raise self.refused(lost or "")
        if status.confirmed < position and position > self._released:
            self._slot.advance(self._connected(), position)
            self._released = position
        self._alarm(status)

    def prints(self) -> dict[str, Fingerprint]:
        """The fingerprints of the tables now."""
        return fingerprints(self._connected(), self.found, self._settings.publications)

    def relations(self, found: Sequence[CatalogTable]) -> list[Relation]:
        """Tables as the catalog has them now."""
        assert self._server is not None
        return catalog.relations(self._connected(), found, stored_generated=self._server.publishes_generated)

    def inserted(self) -> int:
        """The end of the server's log, on disk or not."""
        row = self._connected().execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        return parse_lsn(row[0])

    def flushed(self) -> int:
        """The end of the server's log on disk."""
        row = self._connected().execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
        assert row is not None
        return parse_lsn(row[0])

    def present(self) -> int:
        """The end of the server's log; it waits until all of it is flushed."""
        wanted, end = self.inserted(), time.monotonic() + _FLUSH_SECONDS
        if self.flushed() < wanted:
            # What open transactions wrote is flushed with the next commit: this makes an empty one.
            self._connected().execute("SELECT pg_current_xact_id()")
        while (flushed := self.flushed()) < wanted and time.monotonic() < end:
            time.sleep(0.02)
        return max(flushed, wanted)

    def has_changes(self, upto: int) -> bool:
        """Whether a published transaction commits before an LSN."""
        return self._slot.has_changes(self._connected(), self.publications, upto)

    def commits_at(self, lsn: int, upto: int) -> bool:
        """Whether a published transaction commits exactly at an LSN before `upto`."""
        return self._slot.commits_at(self._connected(), self.publications, lsn, upto)

    def warnings(self) -> list[str]:
        """Warnings for the user, each returned once."""
        warnings, self._warnings = [*self._warnings, *self.chosen.warnings()], []
        return warnings

    def close(self) -> None:
        """Closes the connections."""
        self.unlock()
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None
        self.chosen.forget()

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._settings.url)
        return self._connection

    def _alarm(self, status: SlotStatus) -> None:
        if status.retained < max(self._settings.lag_alarm, 2 * self._alarmed):
            return
        self._alarmed = status.retained
        self._warnings.append(
            f"the server keeps {status.retained / 1024**3:.1f} GB of its log for the slot {self._slot.name}: this fills its disk "
            "if changes are written faster than they are read, or if a transaction stays open for long"
        )


_REWRITTEN = """
SELECT 1 FROM pg_class c WHERE c.oid = ANY(%s) AND c.relfilenode <> pg_relation_filenode(c.oid) LIMIT 1
"""
