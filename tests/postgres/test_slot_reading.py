"""What a slot of a real server streams, and what it releases."""

import threading
from collections.abc import Callable
from contextlib import closing

import psycopg
import pytest
from psycopg import pq

from changeling.model.errors import ChangelingError
from changeling.postgres import slot as slots
from changeling.postgres.catalog import Connection
from changeling.postgres.connection import connect
from changeling.postgres.slot import Slot, parse_lsn
from tests.postgres.server import Database
from tests.postgres.slots import (
    EVERYTHING,
    commits,
    held,
    insert,
    inserted,
    kinds,
    now,
    read,
    slot_status,
    transaction_status,
)


@pytest.fixture
def database(emptied: Database) -> Database:
    """With a table that is published, and one that is not."""
    emptied.execute(
        "SET synchronous_commit = on",
        "CREATE TABLE t (id int PRIMARY KEY)",
        "CREATE TABLE other (id int PRIMARY KEY)",
        "CREATE PUBLICATION p FOR TABLE t",
    )
    return emptied


@pytest.fixture
def slot(database: Database) -> Slot:
    """One that stands where the database is now."""
    made = Slot(database.url, f"slot_{database.name}")
    made.create().close()
    return made


def test_what_is_read_is_not_taken(database: Database, slot: Slot) -> None:
    insert(database, 1)
    first = read(slot, database.connection)
    assert (kinds(first), inserted(first)) == ("BRIC", [1])
    assert slot.has_changes(database.connection, "p", EVERYTHING)
    assert read(slot, database.connection) == first


def test_a_transaction_is_reported_if_it_commits_before_the_place(database: Database, slot: Slot) -> None:
    insert(database, 1)
    insert(database, 2)
    insert(database, 3)
    _, second, third = commits(read(slot, database.connection))
    reported = {
        place: inserted(read(slot, database.connection, place))
        for place in (second, second + 1, third - 1, third, third + 1)
    }
    assert reported == {second: [1], second + 1: [1, 2], third - 1: [1, 2], third: [1, 2], third + 1: [1, 2, 3]}
    assert not slot.has_changes(database.connection, "p", commits(read(slot, database.connection))[0])


def test_advancing_releases_what_commits_before_the_place_and_of_no_more(database: Database, slot: Slot) -> None:
    with closing(connect(database.url)) as writer:
        insert(database, 1)
        writer.execute("BEGIN")
        writer.execute("INSERT INTO t VALUES (2)")
        insert(database, 3)
        between = now(database)
        writer.execute("COMMIT")
        insert(database, 4)
    first, _, second, _ = commits(read(slot, database.connection))
    slot.advance(database.connection, first)
    assert inserted(read(slot, database.connection)) == [1, 3, 2, 4]
    slot.advance(database.connection, first + 1)
    assert inserted(read(slot, database.connection)) == [3, 2, 4]
    slot.advance(database.connection, between)
    assert slot_status(slot, database).confirmed == between
    assert inserted(read(slot, database.connection)) == [2, 4]
    slot.advance(database.connection, second)
    slot.advance(database.connection, second)
    assert inserted(read(slot, database.connection)) == [2, 4]
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="cannot advance replication slot"):
        slot.advance(database.connection, first)
    assert slot_status(slot, database).confirmed == second


def test_a_slot_does_not_advance_beyond_what_there_is(database: Database, slot: Slot) -> None:
    insert(database, 1)
    end = now(database)
    slot.advance(database.connection, EVERYTHING)
    assert end <= slot_status(slot, database).confirmed <= now(database)
    insert(database, 2)
    assert inserted(read(slot, database.connection)) == [2]


def test_after_a_crash_of_a_reader_the_rest_is_reported_again(database: Database, slot: Slot) -> None:
    for number in range(10):
        insert(database, number)
    places = commits(read(slot, database.connection))
    taken: list[int] = []
    for place in (places[3], places[3], places[7], now(database)):
        taken += inserted(read(slot, database.connection, place))
        slot.advance(database.connection, place)
    assert taken == list(range(10))


def test_a_transaction_whose_commit_begins_a_page_of_the_wal_is_reported_once(database: Database, slot: Slot) -> None:
    for number in range(20):
        insert(database, 2 * number)
        _insert_and_commit_on_a_new_page(database, 2 * number + 1)
        *_, place = commits(read(slot, database.connection))
        if place % 8192 == 24:
            break
    else:
        pytest.fail("no commit began a page")
    number = 2 * number + 1
    assert inserted(read(slot, database.connection, place)) == list(range(number))
    slot.advance(database.connection, place)
    assert inserted(read(slot, database.connection, place)) == []
    assert inserted(read(slot, database.connection, place + 1)) == [number]


def _insert_and_commit_on_a_new_page(database: Database, number: int) -> None:
    """The WAL between the insert and the commit is filled to the end of the page, unless the server writes meanwhile."""

    def end() -> int:
        return parse_lsn(database.rows("SELECT pg_current_wal_insert_lsn()::text")[0][0])

    def fill(size: int) -> None:
        database.execute(f"SELECT pg_logical_emit_message(false, '', repeat('-', {size}))")

    database.execute("BEGIN", f"INSERT INTO t VALUES ({number})")
    fill(400)
    before = end()
    fill(400)
    around = end() - before - 400
    room = -end() % 8192
    if room > around + 8:
        fill(room - around)
    database.execute("COMMIT")


def nothing(database: Database) -> None:
    pass


def written_elsewhere(database: Database) -> None:
    with closing(connect(database.server.url)) as other:
        other.execute(
            "DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1); DROP TABLE t"
        )


def rolled_back(database: Database) -> None:
    database.execute("BEGIN", "INSERT INTO t VALUES (1)", "ROLLBACK")


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (nothing, False),
        (written_elsewhere, False),
        (rolled_back, False),
        (lambda database: insert(database, 1, table="other"), False),
        (
            lambda database: database.execute("CREATE TABLE more (id int)", "INSERT INTO more VALUES (1)", "VACUUM"),
            False,
        ),
        (lambda database: database.execute("UPDATE t SET id = 2"), False),
        (lambda database: database.execute("BEGIN", "INSERT INTO t VALUES (1)", "SAVEPOINT s", "COMMIT"), True),
        (lambda database: insert(database, 1), True),
        (lambda database: database.execute("TRUNCATE t"), True),
        (lambda database: database.execute("SELECT pg_logical_emit_message(true, 'a', 'b')"), True),
        (lambda database: database.execute("SELECT pg_logical_emit_message(false, 'a', 'b', true)"), True),
    ],
    ids=[
        "nothing",
        "other database",
        "rolled back",
        "other table",
        "schema",
        "no rows",
        "savepoint",
        "insert",
        "truncate",
        "message",
        "free message",
    ],
)
def test_there_are_changes_if_something_published_was_written(
    database: Database, slot: Slot, write: Callable[[Database], None], expected: bool
) -> None:
    start = now(database)
    write(database)
    end = now(database)
    assert slot.has_changes(database.connection, "p", end) is expected
    assert bool(read(slot, database.connection, end)) is expected
    assert not slot.has_changes(database.connection, "p", start)


def test_a_transaction_that_is_open_is_no_change_yet(database: Database, slot: Slot) -> None:
    with closing(connect(database.url)) as writer:
        writer.execute("BEGIN")
        writer.execute("INSERT INTO t VALUES (1)")
        assert not slot.has_changes(database.connection, "p", EVERYTHING)
        writer.execute("SET LOCAL synchronous_commit = on")
        writer.execute("COMMIT")
    assert slot.has_changes(database.connection, "p", EVERYTHING)


def test_several_publications_of_odd_names_are_reported_together(database: Database) -> None:
    database.execute('CREATE PUBLICATION "The ""other"", one" FOR TABLE other')
    slot = Slot(database.url, f"slot_{database.name}")
    slot.create().close()
    insert(database, 1)
    insert(database, 2, table="other")
    reported = [
        inserted([message for chunk in slot.messages(database.connection, names, EVERYTHING, 10) for message in chunk])
        for names in ("p", '"The ""other"", one"', '"p","The ""other"", one"')
    ]
    assert reported == [[1], [2], [1, 2]]


def test_of_a_publication_that_is_not_there_nothing_is_reported(database: Database, slot: Slot) -> None:
    insert(database, 1)
    assert not slot.has_changes(database.connection, "nobody", EVERYTHING)
    database.execute("DROP PUBLICATION p")
    insert(database, 2)
    database.execute("CREATE PUBLICATION p FOR TABLE t")
    insert(database, 3)
    assert inserted(read(slot, database.connection)) == [1, 3]


def test_a_large_transaction_comes_in_small_chunks(database: Database, slot: Slot) -> None:
    database.execute("INSERT INTO t SELECT generate_series(1, 100000)")
    sizes, messages = [], []
    for chunk in slot.messages(database.connection, "p", EVERYTHING, 7000):
        sizes.append(len(chunk))
        messages += chunk
    assert sizes == [7000] * 14 + [2003]
    assert inserted(messages) == list(range(1, 100001))
    assert kinds(messages) == "BR" + "I" * 100000 + "C"


@pytest.mark.parametrize("size", [1, 3, 4, 5])
def test_chunks_of_any_size_hold_the_same(database: Database, slot: Slot, size: int) -> None:
    insert(database, 1)
    insert(database, 2)
    whole = read(slot, database.connection)
    chunks = list(slot.messages(database.connection, "p", EVERYTHING, size))
    assert [message for chunk in chunks for message in chunk] == whole
    assert {len(chunk) for chunk in chunks[:-1]} <= {size}
    assert all(chunks)


def test_no_messages_are_no_chunks(database: Database, slot: Slot) -> None:
    assert list(slot.messages(database.connection, "p", EVERYTHING, 10)) == []
    assert transaction_status(database) == pq.TransactionStatus.IDLE


def test_who_stops_in_between_leaves_the_connection_as_it_was(database: Database, slot: Slot) -> None:
    insert(database, *range(100))
    chunks = slot.messages(database.connection, "p", EVERYTHING, 10)
    assert len(next(chunks)) == 10
    assert transaction_status(database) == pq.TransactionStatus.INTRANS
    chunks.close()  # type: ignore[attr-defined]
    assert transaction_status(database) == pq.TransactionStatus.IDLE
    assert inserted(read(slot, database.connection)) == list(range(100))


def test_an_error_in_between_leaves_the_connection_as_it_was(database: Database, slot: Slot) -> None:
    insert(database, *range(100))
    chunks = slot.messages(database.connection, "p", EVERYTHING, 10)
    next(chunks)
    with pytest.raises(psycopg.errors.DivisionByZero):
        database.execute("SELECT 1 / 0")
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        next(chunks)
    assert transaction_status(database) == pq.TransactionStatus.IDLE
    assert inserted(read(slot, database.connection)) == list(range(100))


@pytest.mark.parametrize(
    "ask",
    [
        lambda slot, connection: slot.has_changes(connection, "p", EVERYTHING),
        lambda slot, connection: list(slot.messages(connection, "p", EVERYTHING, 10)),
        lambda slot, connection: slot.advance(connection, 2**40),
        lambda slot, connection: slot.drop(connection),
    ],
    ids=["has_changes", "messages", "advance", "drop"],
)
def test_a_slot_that_another_reader_holds_is_waited_for_and_then_reported(
    database: Database, slot: Slot, ask: Callable[[Slot, Connection], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(database, 1)
    with held(database, slot) as let_go:
        monkeypatch.setattr(slots, "_BUSY_SECONDS", 0.0)
        pid = slot_status(slot, database).active_pid
        with pytest.raises(ChangelingError) as raised:
            ask(slot, database.connection)
        assert str(raised.value) == (
            f'replication slot "{slot.name}" is active for PID {pid}: somebody else reads it, perhaps another run on another machine'
        )
        assert transaction_status(database) == pq.TransactionStatus.IDLE
        monkeypatch.setattr(slots, "_BUSY_SECONDS", 10.0)
        later = threading.Timer(0.3, let_go)
        later.start()
        ask(slot, database.connection)
        later.join()


def test_two_readers_at_once_both_read_all(database: Database, slot: Slot) -> None:
    insert(database, *range(20000))
    found: list[list[int]] = []

    def reading() -> None:
        with closing(connect(database.url)) as connection:
            found.append(inserted(read(slot, connection)))

    readers = [threading.Thread(target=reading) for _ in range(3)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert found == [list(range(20000))] * 3
