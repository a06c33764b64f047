"""Slots of a real server: what they begin with, and their status."""

import re
import threading
import time
from contextlib import closing

import psycopg
import pytest
from psycopg import pq

from changeling.model.errors import ChangelingError, UsageError
from changeling.postgres import slot as slots
from changeling.postgres.connection import connect
from changeling.postgres.slot import ExportedSnapshot, Slot, SlotStatus, parse_lsn
from tests.postgres.server import Database
from tests.postgres.slots import (
    behind,
    eventually,
    held,
    ids_under,
    insert,
    inserted,
    kinds,
    now,
    read,
    slot_status,
    transaction_status,
    under,
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


def test_the_snapshot_shows_what_was_before_and_the_stream_has_what_came_after(database: Database) -> None:
    insert(database, 1, 2)
    slot = Slot(database.url, f"slot_{database.name}")
    point = slot.create()
    insert(database, 3, 4)
    database.execute("DELETE FROM t WHERE id = 1")
    assert ids_under(database, point) == [1, 2]
    reported = read(slot, database.connection)
    assert (kinds(reported), inserted(reported)) == ("BRIICBDC", [3, 4])
    alive = [point.alive]
    point.close()
    assert [*alive, point.alive] == [True, False]
    eventually(lambda: not _is_there(database, point))


def _is_there(database: Database, point: ExportedSnapshot) -> bool:
    try:
        return bool(ids_under(database, point))
    except psycopg.errors.UndefinedObject:
        return False


@pytest.mark.parametrize("temporary", [False, True])
def test_while_others_write_every_row_is_either_in_the_snapshot_or_behind_the_point(
    database: Database, slot: Slot, temporary: bool
) -> None:
    stopped = threading.Event()
    failures: list[BaseException] = []

    def write(first: int) -> None:
        try:
            with closing(connect(database.url)) as connection:
                number = first
                while not stopped.is_set():
                    connection.execute("BEGIN")
                    connection.execute(f"INSERT INTO t VALUES ({number}), ({number + 1})")
                    if number % 3:
                        connection.execute(f"INSERT INTO t VALUES ({number + 2})")
                    connection.execute("ROLLBACK" if number % 7 == 0 else "COMMIT")
                    number += 3
        except BaseException as error:
            failures.append(error)

    writers = [threading.Thread(target=write, args=(first,)) for first in (0, 1_000_000, 2_000_000)]
    for writer in writers:
        writer.start()
    other = Slot(database.url, f"slot_{database.name}_too")
    points = []
    for _ in range(3):
        time.sleep(0.1)
        point = other.create(temporary=temporary)
        points.append((point.lsn, ids_under(database, point)))
        if temporary:
            point.close()
        else:
            time.sleep(0.1)
            point.close()
            break
    stopped.set()
    for writer in writers:
        writer.join()
    assert failures == []
    # Others may not wait until their rows are on disk; this one does, and so theirs are.
    insert(database, 9_000_000)
    rows = [row[0] for row in database.rows("SELECT id FROM t ORDER BY id")]
    reported = read(slot, database.connection)
    assert sorted(inserted(reported)) == rows
    for place, snapshot in points:
        assert snapshot
        assert sorted([*snapshot, *inserted(behind(reported, place))]) == rows
    if not temporary:
        assert sorted([*points[0][1], *inserted(read(other, database.connection))]) == rows


def test_a_transaction_that_is_open_at_the_beginning_is_waited_for(database: Database) -> None:
    with closing(connect(database.url)) as writer:
        writer.execute("BEGIN")
        writer.execute("INSERT INTO t VALUES (1)")
        commit = threading.Timer(0.3, writer.execute, ["COMMIT"])
        commit.start()
        slot = Slot(database.url, f"slot_{database.name}")
        point = slot.create()
        commit.join()
    assert ids_under(database, point) == [1]
    assert read(slot, database.connection) == []
    point.close()


def test_a_snapshot_outlives_the_patience_of_a_database(database: Database) -> None:
    insert(database, 1)
    database.execute(
        f"ALTER DATABASE {database.name} SET idle_in_transaction_session_timeout = '50ms'",
        f"ALTER DATABASE {database.name} SET idle_session_timeout = '50ms'",
        f"ALTER DATABASE {database.name} SET transaction_timeout = '50ms'",
    )
    try:
        point = Slot(database.url, f"slot_{database.name}").create()
        with under(database, point) as connection:
            time.sleep(0.2)
            assert connection.execute("SELECT id FROM t").fetchall() == [(1,)]
        assert ids_under(database, point) == [1]
        point.close()
    finally:
        database.execute(f"ALTER DATABASE {database.name} RESET ALL")


def test_a_temporary_slot_vanishes_with_its_connection(database: Database) -> None:
    slot = Slot(database.url, f"slot_{database.name}")
    point = slot.create(temporary=True)
    assert slot_status(slot, database).confirmed == point.lsn
    point.close()
    eventually(lambda: slot.status(database.connection) is None)


def test_how_a_slot_stands(database: Database) -> None:
    slot = Slot(database.url, f"slot_{database.name}")
    assert slot.status(database.connection) is None
    point = slot.create()
    point.close()
    eventually(lambda: slot_status(slot, database).active_pid is None)
    before = now(database)
    reported = slot_status(slot, database)
    kept = parse_lsn(
        database.rows(f"SELECT restart_lsn::text FROM pg_replication_slots WHERE slot_name = '{slot.name}'")[0][0]
    )
    assert reported == SlotStatus(point.lsn, None, None, reported.retained)
    assert before - kept <= reported.retained <= now(database) - kept
    insert(database, *range(1000))
    assert slot_status(slot, database).retained > reported.retained + 50_000
    assert slot_status(slot, database).confirmed == point.lsn
    with held(database, slot):
        assert isinstance(slot_status(slot, database).active_pid, int)


@pytest.mark.parametrize(
    ("setting", "why"),
    [("max_slot_wal_keep_size = '1MB'", "wal_removed"), ("idle_replication_slot_timeout = '1s'", "idle_timeout")],
)
def test_a_slot_that_the_server_gave_up_is_lost(database: Database, slot: Slot, setting: str, why: str) -> None:
    insert(database, 1)
    try:
        database.execute(f"ALTER SYSTEM SET {setting}", "SELECT pg_reload_conf()")
        for number in range(4):
            insert(database, 10 + number)
            database.execute("SELECT pg_switch_wal()")
        if why == "idle_timeout":
            time.sleep(1.1)
        database.execute("CHECKPOINT")
        lost = slot_status(slot, database)
    finally:
        database.execute(f"ALTER SYSTEM RESET {setting.split()[0]}", "SELECT pg_reload_conf()")
    assert lost == SlotStatus(lost.confirmed, None, why, lost.retained)
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        read(slot, database.connection)
    assert transaction_status(database) == pq.TransactionStatus.IDLE
    slot.drop(database.connection)
    slot.create().close()
    assert slot_status(slot, database).lost is None


def test_a_slot_of_another_database_is_refused(database: Database, slot: Slot) -> None:
    with closing(connect(database.server.url)) as other:
        for ask in (slot.status, slot.drop):
            with pytest.raises(ChangelingError) as raised:
                ask(other)
            assert str(raised.value) == (
                f"slot {slot.name} belongs to pgoutput in database {database.name}: choose another name with `slot:`"
            )
    assert slot.status(database.connection) is not None


def test_a_slot_of_physical_replication_is_refused(database: Database) -> None:
    slot = Slot(database.url, f"physical_{database.name}")
    database.execute(f"SELECT pg_create_physical_replication_slot('{slot.name}')")
    try:
        with pytest.raises(ChangelingError) as raised:
            slot.drop(database.connection)
    finally:
        database.execute(f"SELECT pg_drop_replication_slot('{slot.name}')")
    assert str(raised.value) == f"slot {slot.name} belongs to physical replication: choose another name with `slot:`"


def test_a_temporary_slot_may_follow_another_of_its_name_at_once(database: Database) -> None:
    slot = Slot(database.url, f"slot_{database.name}")
    places = []
    for number in range(5):
        insert(database, number)
        point = slot.create(temporary=True)
        places.append((len(ids_under(database, point)), point.lsn))
        point.close()
    assert [count for count, _ in places] == [1, 2, 3, 4, 5]
    assert sorted(places) == places


def test_a_name_that_is_taken_is_reported(database: Database, slot: Slot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "_BUSY_SECONDS", 0.2)
    before = slot.status(database.connection)
    for temporary in (False, True):
        with pytest.raises(ChangelingError) as raised:
            slot.create(temporary=temporary)
        assert str(raised.value) == (
            f'slot {slot.name} cannot be created: replication slot "{slot.name}" already exists'
        )
    after = slot.status(database.connection)
    assert before is not None
    assert after is not None
    assert after.confirmed == before.confirmed


@pytest.mark.parametrize("name", ["Upper", 'a"b', "a b", "a" * 64, "é", "", "a\n"])
def test_a_name_that_the_server_would_not_take_is_a_wrong_call(database: Database, name: str) -> None:
    with pytest.raises(
        UsageError, match=re.escape(f"{name!r} is not a slot name: use up to 63 of a to z, 0 to 9 and _")
    ):
        Slot(database.url, name).create()


def test_a_name_may_have_63_letters(database: Database) -> None:
    slot = Slot(database.url, "a" * 63)
    point = slot.create(temporary=True)
    assert slot_status(slot, database).confirmed == point.lsn
    point.close()


def test_a_server_without_room_for_another_slot_says_what_to_do(database: Database) -> None:
    made: list[str] = []
    try:
        while True:
            database.execute(f"SELECT pg_create_physical_replication_slot('full_{len(made)}')")
            made.append(f"full_{len(made)}")
    except psycopg.errors.ConfigurationLimitExceeded:
        with pytest.raises(ChangelingError) as raised:
            Slot(database.url, "one_more").create()
    finally:
        for name in made:
            database.execute(f"SELECT pg_drop_replication_slot('{name}')")
    assert str(raised.value) == (
        "slot one_more cannot be created: all replication slots are in use; raise max_replication_slots, or drop slots that nobody reads"
    )


def test_dropping_a_slot_that_is_not_there_does_nothing(database: Database, slot: Slot) -> None:
    slot.drop(database.connection)
    assert slot.status(database.connection) is None
    slot.drop(database.connection)


def test_a_transaction_that_stays_open_is_named(emptied: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("changeling.postgres.slot._OPEN_SECONDS", 1)
    emptied.execute("CREATE TABLE one (id int)")
    with psycopg.connect(emptied.url) as opened:
        opened.execute("INSERT INTO one VALUES (1)")
        place = f"process {opened.info.backend_pid} of postgres in {emptied.name} since"
        with pytest.raises(ChangelingError, match=f"only be created when no older transaction is open: {place}"):
            Slot(emptied.url, "patient").create(temporary=True)
        opened.rollback()
    assert Slot(emptied.url, "patient").status(emptied.connection) is None
