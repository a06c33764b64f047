"""Claims of logs on slots: one log a slot, whoever owns the publication."""

import threading
from uuid import uuid4

import pytest

from changeling.model.errors import ChangelingError
from changeling.postgres.claim import Claim
from changeling.postgres.connection import connect
from tests.postgres.roles import role
from tests.postgres.server import Database

ONE, OTHER = str(uuid4()), str(uuid4())


@pytest.fixture
def slot(emptied: Database) -> str:
    return f"slot_of_a_pipeline_with_a_long_name_{emptied.name}"


def claim(slot: str, reader: str, publication: str = "p") -> Claim:
    return Claim("pg", slot, (publication, f"{publication}_inserts"), reader)


def markers(database: Database) -> list[tuple]:
    return database.rows("SELECT slot_type, restart_lsn, active FROM pg_replication_slots WHERE plugin IS NULL")


def comments(database: Database) -> list[str | None]:
    rows = database.rows("SELECT obj_description(oid, 'pg_publication') FROM pg_publication ORDER BY pubname")
    return [text for (text,) in rows]


def way_out(message: str) -> list[str]:
    return [statement for statement in message.partition(", run ")[2].split(";") if statement.strip()]


def drop_markers(database: Database) -> None:
    database.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE plugin IS NULL AND NOT active"
    )


def test_the_owner_of_the_publication_claims_by_a_comment(emptied: Database, slot: str) -> None:
    emptied.execute("CREATE PUBLICATION p")
    assert not claim(slot, ONE).is_held(emptied.connection)
    for _ in range(2):
        claim(slot, ONE).take(emptied.connection, begun=False)
    assert comments(emptied) == [f"slot {slot} is read by the Changeling log {ONE.replace('-', '')}"]
    assert markers(emptied) == []
    assert claim(slot, ONE).is_held(emptied.connection)
    with pytest.raises(ChangelingError, match="is read by another pipeline"):
        claim(slot, OTHER).check(emptied.connection)


def test_a_comment_with_the_id_as_it_was_written_once_is_the_same_claim(emptied: Database, slot: str) -> None:
    emptied.execute(
        "CREATE PUBLICATION p", f"COMMENT ON PUBLICATION p IS 'slot {slot} is read by the Changeling log {ONE}'"
    )
    assert claim(slot, ONE).is_held(emptied.connection)
    assert claim(slot, OTHER).others(emptied.connection) == {ONE.replace("-", "")}


def test_who_does_not_own_the_publication_claims_by_a_slot_that_keeps_nothing(emptied: Database, slot: str) -> None:
    emptied.execute("CREATE PUBLICATION p")
    with role(emptied, "REPLICATION") as user:
        for _ in range(2):
            claim(slot, ONE).take(user.connection, begun=False)
        assert comments(emptied) == [None]
        assert markers(emptied) == [("physical", None, False)]
        assert claim(slot, ONE).is_held(user.connection)
        # The owner, who could write a comment, is refused all the same.
        for connection in (user.connection, emptied.connection):
            with pytest.raises(ChangelingError, match=r"source pg: the slot .* is read by another pipeline") as raised:
                claim(slot, OTHER).take(connection, begun=True)
        claim("another", OTHER).take(user.connection, begun=False)
        assert len(markers(emptied)) == 2
        emptied.execute(*way_out(str(raised.value)))
        claim(slot, OTHER).take(user.connection, begun=False)
        drop_markers(emptied)


def test_a_claim_is_found_whatever_publication_it_was_noted_on(emptied: Database, slot: str) -> None:
    emptied.execute("CREATE PUBLICATION p", "CREATE PUBLICATION q")
    claim(slot, ONE).take(emptied.connection, begun=False)
    with pytest.raises(ChangelingError, match="is read by another pipeline") as raised:
        claim(slot, OTHER, "q").check(emptied.connection)
    emptied.execute(*way_out(str(raised.value)))
    claim(slot, OTHER, "q").check(emptied.connection)


def test_a_comment_of_somebody_else_stays(emptied: Database, slot: str) -> None:
    emptied.execute("CREATE PUBLICATION p", "COMMENT ON PUBLICATION p IS 'for the warehouse'")
    claim(slot, ONE).take(emptied.connection, begun=False)
    assert comments(emptied) == ["for the warehouse"]
    assert claim(slot, ONE).is_held(emptied.connection)
    drop_markers(emptied)


def test_two_slots_of_one_publication_are_claimed_by_two_logs(emptied: Database, slot: str) -> None:
    emptied.execute("CREATE PUBLICATION p")
    claim(slot, ONE).take(emptied.connection, begun=False)
    claim(f"{slot}_2", OTHER).take(emptied.connection, begun=False)
    assert claim(slot, OTHER).others(emptied.connection) == {ONE.replace("-", "")}
    assert claim(f"{slot}_2", ONE).others(emptied.connection) == {OTHER.replace("-", "")}
    drop_markers(emptied)


def test_a_slot_that_exists_is_claimed_only_by_a_log_that_has_read_from_it(emptied: Database, slot: str) -> None:
    emptied.execute("CREATE PUBLICATION p", f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")
    with pytest.raises(ChangelingError, match=r"exists already, and this log has read nothing from it") as raised:
        claim(slot, ONE).take(emptied.connection, begun=False)
    assert (comments(emptied), markers(emptied)) == ([None], [])
    claim(slot, OTHER).take(emptied.connection, begun=True)
    # Killed between the slot and the first batch, it continues.
    claim(slot, OTHER).take(emptied.connection, begun=False)
    emptied.execute("COMMENT ON PUBLICATION p IS NULL", *way_out(str(raised.value)))
    claim(slot, ONE).take(emptied.connection, begun=False)


def test_of_logs_that_claim_at_once_one_is_first(emptied: Database, slot: str) -> None:
    emptied.execute("CREATE PUBLICATION p")
    with role(emptied, "REPLICATION") as user:
        refused: list[str] = []
        begin = threading.Barrier(4)

        def attempt() -> None:
            with connect(user.url) as connection:
                begin.wait()
                try:
                    claim(slot, str(uuid4())).take(connection, begun=False)
                except ChangelingError as error:
                    refused.append(str(error))

        threads = [threading.Thread(target=attempt) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(refused) == 3
        assert len(markers(emptied)) == 1
        drop_markers(emptied)


def test_where_no_slot_is_left_for_the_claim_the_owner_is_given_a_statement(emptied: Database, slot: str) -> None:
    emptied.execute("CREATE PUBLICATION p")
    ((free,),) = emptied.rows(
        "SELECT current_setting('max_replication_slots')::int - count(*) FROM pg_replication_slots"
    )
    emptied.execute(*(f"SELECT pg_create_physical_replication_slot('filler_{number}')" for number in range(free)))
    try:
        with role(emptied, "REPLICATION") as user:
            with pytest.raises(
                ChangelingError, match=r"raise max_replication_slots, or .* owner run COMMENT ON"
            ) as raised:
                claim(slot, ONE).take(user.connection, begun=False)
            emptied.execute(str(raised.value).partition("owner run ")[2])
            claim(slot, ONE).take(user.connection, begun=False)
            assert claim(slot, ONE).is_held(user.connection)
    finally:
        drop_markers(emptied)
