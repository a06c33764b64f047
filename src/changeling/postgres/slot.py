"""A logical replication slot: the server keeps the WAL from its confirmed position on."""

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import psycopg
from psycopg import pq, sql
from psycopg.pq.abc import PGconn, PGresult

from changeling.model.errors import ChangelingError, UsageError
from changeling.postgres.catalog import Connection
from changeling.postgres.connection import connect, connect_for_replication

_PLUGIN = "pgoutput"
_NAME = re.compile("[a-z0-9_]{1,63}")
"""The server silently truncates longer names."""
_TAKEN = psycopg.errors.DuplicateObject.sqlstate
_TOO_MANY = psycopg.errors.ConfigurationLimitExceeded.sqlstate
_NOT_FREE = "55P03"
_OPEN_SECONDS = 30
"""How long the server may wait for transactions that are older than a new slot."""
_OLDEST = """
SELECT pid, usename, datname, xact_start FROM pg_stat_activity
WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 3
"""
_WAL_PAGE = 8192
_PAGE_HEADERS = (24, 40)
"""Sizes of the header that a page of WAL begins with; the larger one stands at the beginning of a segment."""
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
"""PostgreSQL's times are counted from it."""
_BUSY_SECONDS = 15.0
"""How long an interrupted reader may still hold the slot before it counts as another reader's."""


def parse_lsn(text: str) -> int:
    """The number of an LSN that is written as `16/B374D848`."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)


def format_lsn(lsn: int) -> str:
    """The text of an LSN, such as `16/B374D848`."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


class SlotStatus(msgspec.Struct, frozen=True):
    """The state of a slot as the server reports it."""

    confirmed: int
    """`confirmed_flush_lsn`: transactions that commit before it are no longer available."""
    active_pid: int | None
    lost: str | None
    """Why the server invalidated the slot; None while it is valid."""
    retained: int
    """Bytes of WAL that the server keeps for it."""


@dataclass
class ExportedSnapshot:
    """An exported snapshot and the LSN that it shows the database at; it lives as long as its connection."""

    lsn: int
    snapshot: str
    _connection: PGconn

    def close(self) -> None:
        """Releases the snapshot."""
        self._connection.finish()

    @property
    def alive(self) -> bool:
        """Whether the connection is still open, as far as is known."""
        return self._connection.status == pq.ConnStatus.OK


class Slot:
    """A logical slot of pgoutput, by its name."""

    def __init__(self, url: str, name: str) -> None:
        self._url, self.name = url, name

    def status(self, connection: Connection) -> SlotStatus | None:
        """Its state; None where no such slot exists. Raises `ChangelingError` where the slot is of another kind."""
        query = "SELECT to_jsonb(s), pg_current_wal_lsn()::text FROM pg_replication_slots s WHERE slot_name = %s"
        row = connection.execute(query, (self.name,)).fetchone()
        if row is None:
            return None
        reported: dict[str, Any] = row[0]
        if reported["plugin"] != _PLUGIN or reported["database"] != connection.info.dbname:
            whose = (
                f"{reported['plugin']} in database {reported['database']}"
                if reported["plugin"]
                else "physical replication"
            )
            raise ChangelingError(f"slot {self.name} belongs to {whose}: choose another name with `slot:`")
        why = reported.get("invalidation_reason") or ("wal_removed" if reported["wal_status"] == "lost" else None)
        if reported.get("conflicting") and why is None:
            why = "conflict with recovery"
        kept = parse_lsn(reported["restart_lsn"]) if reported["restart_lsn"] else 0
        confirmed = parse_lsn(reported["confirmed_flush_lsn"]) if reported["confirmed_flush_lsn"] else 0
        return SlotStatus(confirmed, reported["active_pid"], why, parse_lsn(row[1]) - kept if kept else 0)

    def create(self, *, temporary: bool = False) -> ExportedSnapshot:
        """Creates the slot and exports a snapshot of the database at the LSN where the slot begins."""
        if not _NAME.fullmatch(self.name):
            raise UsageError(f"{self.name!r} is not a slot name: use up to 63 of a to z, 0 to 9 and _")
        kind = "TEMPORARY LOGICAL" if temporary else "LOGICAL"
        command = f'CREATE_REPLICATION_SLOT "{self.name}" {kind} {_PLUGIN} EXPORT_SNAPSHOT'.encode()
        connection = connect_for_replication(self._url)
        connection.exec_(f"SET lock_timeout = '{_OPEN_SECONDS}s'".encode())
        result = connection.exec_(command)
        end = time.monotonic() + _BUSY_SECONDS
        # A temporary slot is dropped only once the server has noticed that its connection is closed.
        while temporary and _field(result, pq.DiagnosticField.SQLSTATE) == _TAKEN and time.monotonic() < end:
            time.sleep(0.1)
            result = connection.exec_(command)
        if result.status != pq.ExecStatus.TUPLES_OK:
            message = _field(result, pq.DiagnosticField.MESSAGE_PRIMARY) or "the connection was lost"
            code = _field(result, pq.DiagnosticField.SQLSTATE)
            connection.finish()
            if code == _NOT_FREE:
                raise ChangelingError(
                    f"slot {self.name} can only be created when no older transaction is open: {self._open()}"
                )
            hint = "; raise max_replication_slots, or drop slots that nobody reads" if code == _TOO_MANY else ""
            raise ChangelingError(f"slot {self.name} cannot be created: {message}{hint}")
        place, snapshot = ((result.get_value(0, column) or b"").decode() for column in (1, 2))
        return ExportedSnapshot(parse_lsn(place), snapshot, connection)

    def _open(self) -> str:
        """The oldest open transactions, as text for a message."""
        with connect(self._url) as connection:
            rows = connection.execute(_OLDEST).fetchall()
            prepared = connection.execute("SELECT gid FROM pg_prepared_xacts ORDER BY prepared LIMIT 3").fetchall()
        open_ones = [
            f"process {pid} of {user} in {database} since {since:%Y-%m-%d %H:%M:%S}"
            for pid, user, database, since in rows
        ]
        open_ones += [f"the prepared one {gid!r} (COMMIT or ROLLBACK PREPARED ends it)" for (gid,) in prepared]
        return (
            f"{', '.join(open_ones) or 'one has ended just now'}; wait for its end, or end it with pg_terminate_backend"
        )

    def has_changes(self, connection: Connection, publications: str, upto: int) -> bool:
        """Whether any published transaction commits before an LSN."""
        query = sql.SQL("SELECT 1 FROM {} LIMIT 1").format(self.peek(publications, upto, 1))
        return self._retry_while_busy(lambda: connection.execute(query).fetchone()) is not None

    def commits_at(self, connection: Connection, publications: str, lsn: int, upto: int) -> bool:
        """Whether a published transaction commits exactly at an LSN, which lies before `upto`."""
        begin = b"B" + lsn.to_bytes(8)
        query = sql.SQL("SELECT 1 FROM {} WHERE substring(data FOR 9) = {} LIMIT 1").format(
            self.peek(publications, upto), begin
        )
        return self._retry_while_busy(lambda: connection.execute(query).fetchone()) is not None

    def first_commit(self, connection: Connection, publications: str, position: int) -> datetime | None:
        """When the first published transaction committed that is not before a position; None where there is none."""
        row = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
        assert row is not None
        end = parse_lsn(row[0])
        if not self.has_changes(connection, publications, end):
            return None
        query = sql.SQL(
            "SELECT data FROM {} WHERE get_byte(data, 0) = 66 AND substring(data FROM 2 FOR 8) >= {} LIMIT 1"
        )
        # The first one is enough, unless a run ended before it could advance the slot.
        for changes in (1, None):
            asked = query.format(self.peek(publications, end, changes), position.to_bytes(8))
            found = self._retry_while_busy(lambda asked=asked: connection.execute(asked, binary=True).fetchone())
            if found is not None:
                return _EPOCH + timedelta(microseconds=int.from_bytes(found[0][9:17], signed=True))
        return None

    def peek(self, publications: str, upto: int, changes: int | None = None) -> sql.Composed:
        """The slot's messages of transactions that commit before an LSN, as rows of (lsn, xid, data); nothing is consumed."""
        return sql.SQL(
            "pg_logical_slot_peek_binary_changes({}, {}, {}, 'proto_version', '1', 'publication_names', {}, 'messages', 'true')"
        ).format(self.name, format_lsn(_end_of_previous_record(upto)), changes, publications)

    def messages(self, connection: Connection, publications: str, upto: int, size: int) -> Iterator[list[bytes]]:
        """The messages of transactions that commit before an LSN, `size` at a time; nothing is consumed.

        The server spills what is not fetched yet to files, so a transaction may be larger than memory.
        """
        query = sql.SQL("SELECT data FROM {}").format(self.peek(publications, upto))
        with ExitStack() as opened:

            def begin() -> tuple[psycopg.ServerCursor[Any], list[tuple[bytes]]]:
                with ExitStack() as begun:
                    begun.enter_context(connection.transaction())
                    cursor = begun.enter_context(connection.cursor("changeling_messages", binary=True))
                    rows = cursor.execute(query).fetchmany(size)
                    opened.enter_context(begun.pop_all())
                return cursor, rows

            cursor, rows = self._retry_while_busy(begin)
            while rows:
                yield [row[0] for row in rows]
                rows = cursor.fetchmany(size)

    def advance(self, connection: Connection, to: int) -> None:
        """Confirms everything that commits before an LSN; the server may discard it."""
        self._retry_while_busy(
            lambda: connection.execute("SELECT pg_replication_slot_advance(%s, %s)", (self.name, format_lsn(to)))
        )

    def drop(self, connection: Connection) -> None:
        """Drops the slot if it exists."""
        if self.status(connection) is not None:
            self._retry_while_busy(lambda: connection.execute("SELECT pg_drop_replication_slot(%s)", (self.name,)))

    def _retry_while_busy(self, query: Any) -> Any:
        """Tries again while an interrupted reader still holds the slot."""
        end = time.monotonic() + _BUSY_SECONDS
        while True:
            try:
                return query()
            except psycopg.errors.ObjectInUse as error:
                if time.monotonic() > end:
                    raise ChangelingError(
                        f"{' '.join(str(error).split())}: somebody else reads it, perhaps another run on another machine"
                    ) from None
                time.sleep(0.2)


def _end_of_previous_record(lsn: int) -> int:
    """The place before a record's own where the record before it ends, which lies in front of the header of a page.

    The server stops reading at the first record that ends at the given place or after it: where a record is the first
    of its page, the one before ends in front of the header, so that the server would read on.
    """
    return lsn - lsn % _WAL_PAGE if lsn % _WAL_PAGE in _PAGE_HEADERS else lsn


def _field(result: PGresult, field: pq.DiagnosticField) -> str:
    return (result.error_field(field) or b"").decode(errors="replace")
