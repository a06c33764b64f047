"""Pipelines whose user owns neither the tables nor the publications."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from changeling.cli import main
from changeling.model.errors import ChangelingError, NotAllDropped
from tests.log.lakes import Shop
from tests.postgres.roles import Role, role
from tests.postgres.server import Database
from tests.sources.captures import assert_equal, capture

TABLES = (
    "CREATE SCHEMA billing",
    "CREATE TABLE billing.invoices (id int PRIMARY KEY, total int)",
    "INSERT INTO billing.invoices VALUES (1, 10)",
    "CREATE TABLE users (id int PRIMARY KEY, name text)",
    "INSERT INTO users VALUES (1, 'Ann'), (2, 'Bob')",
    "CREATE TABLE bag (a int)",
    "INSERT INTO bag VALUES (1), (1)",
)


def capture_as(user: Role, folder: Path, database: Database) -> Shop:
    return capture(folder, database, source={"url": user.url, "tables": ["public.*", "billing.*"]})


def statements(printed: str) -> list[str]:
    """The lines of a message that a person is to run."""
    return [line.strip() for line in printed.splitlines() if line.strip().endswith(";")]


def slots(database: Database) -> list[tuple]:
    return database.rows(
        "SELECT slot_name, confirmed_flush_lsn FROM pg_replication_slots "
        f"WHERE database = '{database.name}' OR (plugin IS NULL AND slot_name LIKE 'slot\\_{database.name}\\_%') ORDER BY 1"
    )


def test_all_that_is_missing_is_reported_at_once_and_a_second_pipeline_takes_nothing(
    spark: SparkSession, tmp_path: Path, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    database.execute(*TABLES)
    with role(database) as user:
        one, other = capture_as(user, tmp_path / "one", database), capture_as(user, tmp_path / "other", database)
        with pytest.raises(ChangelingError) as raised:
            one.pipeline.run(once=True)
        assert database.rows("SELECT 1 FROM pg_publication") == []
        # As they stand, in their order, by somebody who may: then nothing more is asked for.
        database.execute(*statements(str(raised.value)))
        one.pipeline.run(once=True)
        assert_equal(one, database, "users", "bag")

        before = slots(database)
        assert len(before) == 2
        with pytest.raises(ChangelingError, match=r"is read by another pipeline.*pg_drop_replication_slot"):
            other.pipeline.run(once=True)
        with pytest.raises(ChangelingError, match=r"is read by another pipeline"):
            other.pipeline.run(once=True, resnapshot=True)
        assert not [text for text in other.pipeline.remove() if "slot" in text or "publication" in text]
        assert slots(database) == before
        database.execute(
            "INSERT INTO users VALUES (3, 'Cy')", "DELETE FROM bag WHERE a = 1", "INSERT INTO bag VALUES (2)"
        )
        one.pipeline.run(once=True)
        assert_equal(one, database, "users", "bag")

        assert main(["remove", "--yes", "--pipeline", str(one.file)]) == 3
        printed = capsys.readouterr().err
        assert f"dropped slot slot_{database.name}, slot slot_{database.name}_" in printed
        assert statements(printed) == [
            f'DROP PUBLICATION "slot_{database.name}";',
            f'DROP PUBLICATION "slot_{database.name}_inserts";',
        ]
        assert slots(database) == []
        dropped = printed.partition("dropped ")[2].partition(";")[0].split(", ")
        assert {"asides", "batches", "changes", "points", "rejects", "schemas"} <= set(dropped)
        with pytest.raises(NotAllDropped):
            one.pipeline.remove()
        database.execute(*statements(printed))
        assert one.pipeline.remove() == []


def test_a_slot_that_no_log_has_claimed_is_not_taken_over(
    spark: SparkSession, tmp_path: Path, database: Database
) -> None:
    database.execute("CREATE TABLE users (id int PRIMARY KEY)")
    slot = f"slot_{database.name}"
    database.execute(f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')", "INSERT INTO users VALUES (1)")
    before = slots(database)
    made = capture(tmp_path, database)
    for resnapshot in (False, True):
        with pytest.raises(ChangelingError, match="exists already, and this log has read nothing from it"):
            made.pipeline.run(once=True, resnapshot=resnapshot)
    with pytest.raises(NotAllDropped, match=f"pg_drop_replication_slot.* = '{slot}'"):
        made.pipeline.remove()
    assert slots(database) == before


def test_a_log_that_has_lost_its_place_claims_nothing(spark: SparkSession, tmp_path: Path, database: Database) -> None:
    """Somebody else recreated the slot without a claim: a refused run must not take it from them."""
    database.execute("CREATE TABLE users (id int PRIMARY KEY)", "INSERT INTO users VALUES (1)")
    made, slot = capture(tmp_path, database), f"slot_{database.name}"
    made.pipeline.run(once=True)
    database.execute(
        f"SELECT pg_drop_replication_slot('{slot}')",
        f"COMMENT ON PUBLICATION {slot} IS NULL",
        "INSERT INTO users VALUES (2)",
        f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')",
    )
    with pytest.raises(ChangelingError, match="beyond what was stored"):
        made.pipeline.run(once=True)
    assert database.rows("SELECT obj_description(oid, 'pg_publication') FROM pg_publication") == [(None,), (None,)]
    assert [name for name, _ in slots(database)] == [slot]
