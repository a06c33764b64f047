"""A replication slot: the server keeps from there on what was not taken yet."""

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import msgspec
import psycopg
from psycopg import pq, sql
from psycopg.pq.abc import PGconn, PGresult

from changeling.model.errors import ChangelingError, UsageError
from changeling.postgres import lsn
from changeling.postgres.catalog import Connection
from changeling.postgres.connection import connect, connect_for_replication

_PLUGIN = "pgoutput"
_NAME = re.compile("[a-z0-9_]{1,63}")
"""The server cuts longer ones off without a word."""
_TAKEN = psycopg.errors.DuplicateObject.sqlstate
_NOT_FREE = "55P03"
_OPEN_SECONDS = 30
"""So long the server may wait for transactions that are older than a slot."""
_OLDEST = """
SELECT pid, usename, datname, xact_start FROM pg_stat_activity
WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 3
"""
_BUSY_SECONDS = 15.0
"""So long a slot may be held by a reader that was cut off, before it is taken for somebody else's."""


class Standing(msgspec.Struct, frozen=True):
    """How a slot stands."""

    confirmed: int
    """Transactions that commit before this are gone."""
    active_pid: int | None
    lost: str | None
    """Why the server gave it up; None while it has not."""
    behind: int
    """Bytes of the log that the server keeps for it."""


@dataclass
class ExportedPoint:
    """A point of the log, and the snapshot that shows the database there; it lives as long as its connection."""

    lsn: int
    snapshot: str
    _connection: PGconn

    def close(self) -> None:
        """Lets the snapshot go."""
        self._connection.finish()

    @property
    def alive(self) -> bool:
        """Whether the connection is still there, as far as it is known."""
        return self._connection.status == pq.ConnStatus.OK


class Slot:
    """A logical slot of pgoutput, by its name."""

    def __init__(self, url: str, name: str) -> None:
        self._url, self.name = url, name

    def standing(self, connection: Connection) -> Standing | None:
        """How it stands; None where there is no such slot. Raises `ChangelingError` where it is one of another kind."""
        query = "SELECT to_jsonb(s), pg_current_wal_lsn()::text FROM pg_replication_slots s WHERE slot_name = %s"
        row = connection.execute(query, (self.name,)).fetchone()
        if row is None:
            return None
        told: dict[str, Any] = row[0]
        if told["plugin"] != _PLUGIN or told["database"] != connection.info.dbname:
            whose = f"{told['plugin']} in database {told['database']}" if told["plugin"] else "physical replication"
            raise ChangelingError(f"slot {self.name} is one of {whose}: choose another name with `slot:`")
        why = told.get("invalidation_reason") or ("wal_removed" if told["wal_status"] == "lost" else None)
        if told.get("conflicting") and why is None:
            why = "conflict with recovery"
        kept = lsn.parse(told["restart_lsn"]) if told["restart_lsn"] else 0
        confirmed = lsn.parse(told["confirmed_flush_lsn"]) if told["confirmed_flush_lsn"] else 0
        return Standing(confirmed, told["active_pid"], why, lsn.parse(row[1]) - kept if kept else 0)

    def create(self, *, temporary: bool = False) -> ExportedPoint:
        """Makes the slot; the database as it is where the slot begins is exported."""
        if not _NAME.fullmatch(self.name):
            raise UsageError(f"{self.name!r} is no name of a slot: write up to 63 of a to z, 0 to 9 and _")
        kind = "TEMPORARY LOGICAL" if temporary else "LOGICAL"
        command = f'CREATE_REPLICATION_SLOT "{self.name}" {kind} {_PLUGIN} EXPORT_SNAPSHOT'.encode()
        connection = connect_for_replication(self._url)
        connection.exec_(f"SET lock_timeout = '{_OPEN_SECONDS}s'".encode())
        result = connection.exec_(command)
        end = time.monotonic() + _BUSY_SECONDS
        # One that was temporary, too, goes only when the server has seen that its connection is closed.
        while temporary and _field(result, pq.DiagnosticField.SQLSTATE) == _TAKEN and time.monotonic() < end:
            time.sleep(0.1)
            result = connection.exec_(command)
        if result.status != pq.ExecStatus.TUPLES_OK:
            told = _field(result, pq.DiagnosticField.MESSAGE_PRIMARY) or "the connection was lost"
            connection.finish()
            if _field(result, pq.DiagnosticField.SQLSTATE) == _NOT_FREE:
                raise ChangelingError(
                    f"slot {self.name} can only begin when no older transaction is open: {self._open()}"
                )
            hint = "; raise max_replication_slots, or drop slots that nobody reads" if "in use" in told else ""
            raise ChangelingError(f"slot {self.name} cannot be made: {told}{hint}")
        place, snapshot = ((result.get_value(0, column) or b"").decode() for column in (1, 2))
        return ExportedPoint(lsn.parse(place), snapshot, connection)

    def _open(self) -> str:
        """The oldest transactions, for people."""
        with connect(self._url) as connection:
            rows = connection.execute(_OLDEST).fetchall()
            prepared = connection.execute("SELECT gid FROM pg_prepared_xacts ORDER BY prepared LIMIT 3").fetchall()
        told = [
            f"process {pid} of {user} in {database} since {since:%Y-%m-%d %H:%M:%S}"
            for pid, user, database, since in rows
        ]
        told += [f"the prepared one {gid!r} (COMMIT or ROLLBACK PREPARED ends it)" for (gid,) in prepared]
        return f"{', '.join(told) or 'one has ended just now'}; wait for its end, or end it with pg_terminate_backend"

    def has_changes(self, connection: Connection, publications: str, upto: int) -> bool:
        """Whether anything that is published commits before a place."""
        query = sql.SQL("SELECT 1 FROM {} LIMIT 1").format(self.peek(publications, upto, 1))
        return self._unhurried(lambda: connection.execute(query).fetchone()) is not None

    def commits_at(self, connection: Connection, publications: str, place: int, upto: int) -> bool:
        """Whether anything that is published commits at a place, which lies before `upto`."""
        begin = b"B" + place.to_bytes(8)
        query = sql.SQL("SELECT 1 FROM {} WHERE substring(data FOR 9) = {} LIMIT 1").format(
            self.peek(publications, upto), begin
        )
        return self._unhurried(lambda: connection.execute(query).fetchone()) is not None

    def peek(self, publications: str, upto: int, changes: int | None = None) -> sql.Composed:
        """What the slot tells of transactions that commit before a place, as rows of (lsn, xid, data); nothing is taken."""
        return sql.SQL(
            "pg_logical_slot_peek_binary_changes({}, {}, {}, 'proto_version', '1', 'publication_names', {}, 'messages', 'true')"
        ).format(self.name, lsn.spell(upto), changes, publications)

    def messages(self, connection: Connection, publications: str, upto: int, size: int) -> Iterator[list[bytes]]:
        """The messages of transactions that commit before a place, so many at a time; nothing is taken.

        The server keeps what is not fetched yet in files: a transaction may be larger than any memory.
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

            cursor, rows = self._unhurried(begin)
            while rows:
                yield [row[0] for row in rows]
                rows = cursor.fetchmany(size)

    def advance(self, connection: Connection, to: int) -> None:
        """Lets go of all that commits before a place."""
        self._unhurried(
            lambda: connection.execute("SELECT pg_replication_slot_advance(%s, %s)", (self.name, lsn.spell(to)))
        )

    def drop(self, connection: Connection) -> None:
        """Drops it, where there is one."""
        if self.standing(connection) is not None:
            self._unhurried(lambda: connection.execute("SELECT pg_drop_replication_slot(%s)", (self.name,)))

    def _unhurried(self, ask: Any) -> Any:
        """Asks again while a reader that was cut off still holds the slot."""
        end = time.monotonic() + _BUSY_SECONDS
        while True:
            try:
                return ask()
            except psycopg.errors.ObjectInUse as error:
                if time.monotonic() > end:
                    raise ChangelingError(
                        f"{' '.join(str(error).split())}: somebody else reads it, perhaps another run on another machine"
                    ) from None
                time.sleep(0.2)


def _field(result: PGresult, field: pq.DiagnosticField) -> str:
    return (result.error_field(field) or b"").decode(errors="replace")
