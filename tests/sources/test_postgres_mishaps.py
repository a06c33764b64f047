"""What others do to a captured database behind the pipeline's back: nothing is lost or ignored silently."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from changeling.iceberg.failpoints import FailpointReached
from changeling.log import log_tables
from changeling.model.errors import ChangelingError, UsageError
from changeling.model.position import encode
from changeling.pipelines.listener import Listener
from changeling.sources.postgres import PostgresSource
from changeling.sources.postgres_plan import Snapshot, Stream, parse_plan
from changeling.sources.postgres_reading import StreamReader, Tables
from changeling.sources.postgres_settings import CaptureSettings, Requests
from tests.postgres.server import Database
from tests.sources.captures import assert_equal, capture, replica

USERS = ("CREATE TABLE users (id int PRIMARY KEY, name text)", "INSERT INTO users VALUES (1, 'Ann'), (2, 'Bob')")


class Heard(Listener):
    """Notes what a user is warned of."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def on_warning(self, source: str, text: str) -> None:
        self.warnings.append(text)


def advance(database: Database, slot: str) -> None:
    database.execute(f"SELECT pg_replication_slot_advance('{slot}', pg_current_wal_insert_lsn())")


def test_a_slot_that_is_moved_while_a_run_goes_on_is_refused(tmp_path: Path, database: Database) -> None:
    database.execute(*USERS)
    settings = CaptureSettings("pg", database.url, ("public.*",), f"slot_{database.name}", f"slot_{database.name}")
    made = PostgresSource(settings, Requests(tmp_path / "requests"))
    plan = made.plan_next()
    assert plan is not None
    made.remember(plan)
    assert made.plan_next() is None
    database.execute("SET synchronous_commit = on", "INSERT INTO users VALUES (3, 'Cy')")
    advance(database, settings.slot)
    with pytest.raises(ChangelingError, match=r"somebody else read it.*--resnapshot"):
        made.plan_next()
    made.close()
    ((place,),) = database.rows(
        f"SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = '{settings.slot}'"
    )
    database.execute("INSERT INTO users VALUES (4, 'Di')")
    reader = StreamReader(
        Tables("pg", database.url, ("public.*",)),
        settings.slot,
        settings.publication,
        Stream("", int(place) - 1, int(place) + 10_000_000),
    )
    with pytest.raises(ChangelingError, match="was moved, dropped or recreated while it was read"):
        list(reader([pa.record_batch([[0]], names=["id"])]))


def test_a_log_that_ends_with_an_emptied_table_is_known_to_the_server(tmp_path: Path, database: Database) -> None:
    """Where an empty table comes later, the last position is that of its snapshot, where no transaction commits."""
    database.execute(*USERS)
    settings = CaptureSettings("pg", database.url, ("public.*",), f"slot_{database.name}", f"slot_{database.name}")
    first = PostgresSource(settings, Requests(tmp_path / "requests"))
    plan = first.plan_next()
    assert plan is not None
    first.remember(plan)
    database.execute("CREATE TABLE later (id int PRIMARY KEY)")
    added = first.plan_next()
    assert added is not None
    first.remember(added)
    first.close()
    known = parse_plan(added)
    assert isinstance(known, Snapshot)
    for stored in (encode(known.point, 0), encode(known.point, 0, 0)):
        made = PostgresSource(settings, Requests(tmp_path / "requests"), stored=stored)
        made.remember(plan)
        made.remember(added)
        assert made.plan_next() is None
        made.close()
    made = PostgresSource(settings, Requests(tmp_path / "requests"), stored=encode(known.point, 1))
    made.remember(plan)
    made.remember(added)
    with pytest.raises(ChangelingError, match="does not know the last transaction"):
        made.plan_next()
    made.close()


def test_a_batch_whose_slot_was_lost_does_not_hold_up_a_new_snapshot(
    spark: SparkSession, tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute(*USERS)
    made = capture(tmp_path, database)
    made.pipeline.run(once=True)
    database.execute("INSERT INTO users VALUES (3, 'Cy')")
    monkeypatch.setenv("CHANGELING_FAILPOINT", "plan.after@1")
    with pytest.raises(FailpointReached):
        made.pipeline.run(once=True)
    monkeypatch.delenv("CHANGELING_FAILPOINT")
    database.execute(f"SELECT pg_drop_replication_slot('slot_{database.name}')", "DELETE FROM users WHERE id = 1")
    with pytest.raises(ChangelingError, match=r"is gone.*--resnapshot"):
        made.pipeline.run(once=True)
    made.pipeline.run(once=True, resnapshot=True)
    assert_equal(made, database, "users")


def test_one_slot_is_read_for_one_log(spark: SparkSession, tmp_path: Path, database: Database) -> None:
    database.execute(*USERS)
    one, other = capture(tmp_path / "one", database), capture(tmp_path / "other", database)
    one.pipeline.run(once=True)
    with pytest.raises(ChangelingError, match=r"is read by another pipeline.*pg_drop_replication_slot"):
        other.pipeline.run(once=True)
    assert not [text for text in other.pipeline.remove() if "slot" in text or "publication" in text]
    database.execute("INSERT INTO users VALUES (3, 'Cy')")
    one.pipeline.run(once=True)
    assert_equal(one, database, "users")
    with pytest.raises(ChangelingError, match=r"this pipeline has none.*DROP PUBLICATION"):
        other.pipeline.remove()
    assert [text for text in one.pipeline.remove() if text.startswith("slot")] == [f"slot slot_{database.name}"]


def test_a_rule_that_names_no_column_is_refused(spark: SparkSession, tmp_path: Path, database: Database) -> None:
    database.execute(
        "CREATE TABLE users (id int PRIMARY KEY, password text, phone text)",
        "INSERT INTO users VALUES (1, 'SECRET', '5')",
    )
    made = capture(tmp_path, database, tables=[{"name": "public.users", "exclude": ["pasword"]}])
    with pytest.raises(UsageError, match=r"users has no column 'pasword', which a rule names: did you mean 'password'"):
        made.pipeline.run(once=True)
    made = capture(tmp_path, database, tables=[{"name": "public.users", "exclude": ["password"]}])
    made.pipeline.run(once=True)
    database.execute("ALTER TABLE users RENAME password TO pw", "UPDATE users SET phone = '6'")
    with pytest.raises(UsageError, match=r"has no column 'password', which a rule names: it is called 'pw' now"):
        made.pipeline.run(once=True)
    made = capture(tmp_path, database, tables=[{"name": "public.users", "exclude": ["pw"]}])
    made.pipeline.run(once=True)
    database.execute(
        "UPDATE users SET pw = 'SECRET too'",
        "ALTER TABLE users RENAME pw TO pass",
        "UPDATE users SET phone = '7'",
    )
    made = capture(tmp_path, database, tables=[{"name": "public.users", "exclude": ["pass"]}])
    with pytest.raises(ChangelingError, match=r"names the column 'pass'.*where it has 'pw'.*\[pass\*, pw\*\]"):
        made.pipeline.run(once=True)
    made = capture(tmp_path, database, tables=[{"name": "public.users", "exclude": ["pass*", "pw*"]}])
    made.pipeline.run(once=True)
    assert replica(made, "users") == [{"id": 1, "phone": "7"}]
    assert "SECRET" not in str(made.table(log_tables.CHANGES).to_pylist())
    database.execute("ALTER TABLE users DROP COLUMN pass", "UPDATE users SET phone = '8'")
    made.pipeline.run(once=True)
    assert replica(made, "users") == [{"id": 1, "phone": "8"}]


def test_a_table_that_was_published_otherwise_for_a_while_is_snapshotted_again(
    spark: SparkSession, tmp_path: Path, database: Database
) -> None:
    database.execute(*USERS)
    made = capture(tmp_path, database)
    made.pipeline.run(once=True)
    name = f"slot_{database.name}"
    database.execute(
        f"ALTER PUBLICATION {name} DROP TABLE users",
        "DELETE FROM users WHERE id = 1",
        f"ALTER PUBLICATION {name} ADD TABLE users",
        "UPDATE users SET name = 'Bo' WHERE id = 2",
    )
    made.pipeline.run(once=True)
    assert_equal(made, database, "users")
    database.execute(
        f"ALTER PUBLICATION {name} SET (publish = 'insert')",
        "UPDATE users SET name = 'B' WHERE id = 2",
        f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate')",
    )
    made.pipeline.run(once=True)
    assert_equal(made, database, "users")
    (totals,) = made.pipeline.run(once=True)
    assert totals.batches == 0


def test_tables_that_go_and_tables_without_columns_are_reported(
    spark: SparkSession, tmp_path: Path, database: Database
) -> None:
    database.execute(
        *USERS, "CREATE TABLE zero ()", "ALTER TABLE zero REPLICA IDENTITY FULL", "INSERT INTO zero DEFAULT VALUES"
    )
    made, heard = capture(tmp_path, database), Heard()
    made.pipeline.run(once=True, listener=heard)
    assert heard.warnings == [f"{database.name}.public.zero has no columns: it is captured once it has some"]
    assert_equal(made, database, "users")
    database.execute("ALTER TABLE zero ADD COLUMN a int DEFAULT 5", "DROP TABLE users")
    heard.warnings.clear()
    made.pipeline.run(once=True, listener=heard)
    assert_equal(made, database, "zero")
    assert [text.split(" (")[0] for text in heard.warnings] == [
        f"{database.name}.public.users is no longer among the tables that are captured"
    ]
    assert replica(made, "users") == [{"id": 1, "name": "Ann"}, {"id": 2, "name": "Bob"}]
