"""Slots of tests: what is written, and what the slot reports."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from psycopg import pq

from changeling.postgres.catalog import Connection
from changeling.postgres.connection import connect, connect_for_replication
from changeling.postgres.slot import ExportedSnapshot, Slot, SlotStatus, parse_lsn
from tests.postgres.server import Database

EVERYTHING = 2**63 - 1


def now(database: Database) -> int:
    return parse_lsn(database.rows("SELECT pg_current_wal_flush_lsn()::text")[0][0])


def transaction_status(database: Database) -> pq.TransactionStatus:
    return database.connection.info.transaction_status


def insert(database: Database, *ids: int, table: str = "t") -> None:
    database.execute(f"INSERT INTO {table} VALUES {', '.join(f'({number})' for number in ids)}")


def read(slot: Slot, connection: Connection, upto: int = EVERYTHING, size: int = 1000) -> list[bytes]:
    return [message for chunk in slot.messages(connection, "p", upto, size) for message in chunk]


def kinds(messages: list[bytes]) -> str:
    return "".join(chr(message[0]) for message in messages)


def inserted(messages: list[bytes]) -> list[int]:
    """The first column of inserted rows: behind the table's number, N and the count of columns, its kind and length."""
    return [int(message[13 : 13 + message[12]]) for message in messages if message[:1] == b"I"]


def commits(messages: list[bytes]) -> list[int]:
    """Where the transactions commit."""
    return [int.from_bytes(message[1:9]) for message in messages if message[:1] == b"B"]


def behind(messages: list[bytes], place: int) -> list[bytes]:
    """Those of transactions that commit from a place on."""
    found, commit = [], 0
    for message in messages:
        commit = int.from_bytes(message[1:9]) if message[:1] == b"B" else commit
        if commit >= place:
            found.append(message)
    return found


def slot_status(slot: Slot, database: Database) -> SlotStatus:
    found = slot.status(database.connection)
    assert found is not None
    return found


@contextmanager
def under(database: Database, point: ExportedSnapshot) -> Iterator[Connection]:
    """A connection that sees the database as it was at a point."""
    with closing(connect(database.url)) as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute(f"SET TRANSACTION SNAPSHOT '{point.snapshot}'")
        yield connection


def ids_under(database: Database, point: ExportedSnapshot) -> list[int]:
    with under(database, point) as connection:
        return [row[0] for row in connection.execute("SELECT id FROM t ORDER BY id").fetchall()]


@contextmanager
def held(database: Database, slot: Slot) -> Iterator[Callable[[], None]]:
    """Somebody else streams from the slot, until what is given is called."""
    other = connect_for_replication(database.url)
    command = f"START_REPLICATION SLOT {slot.name} LOGICAL 0/0 (proto_version '1', publication_names 'p')"
    assert other.exec_(command.encode()).status == pq.ExecStatus.COPY_BOTH
    try:
        yield other.finish
    finally:
        other.finish()
        eventually(lambda: _active_pid(slot, database) is None)


def _active_pid(slot: Slot, database: Database) -> int | None:
    found = slot.status(database.connection)
    return None if found is None else found.active_pid


def eventually(holds: Callable[[], bool]) -> None:
    for _ in range(500):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it never came to be")
