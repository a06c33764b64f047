"""A real database captured: its replicas are what its tables are, whatever happens to them."""

import threading
import time
from datetime import UTC
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from changeling.iceberg.failpoints import FailpointReached
from changeling.log import log_tables
from changeling.model.errors import ChangelingError, UsageError
from changeling.pipelines.lakehouse import tables_of
from changeling.pipelines.listener import Listener
from changeling.pipelines.loading import load
from changeling.postgres.connection import connect
from changeling.sources.source import PlanSize
from tests.postgres.server import Database
from tests.sources.captures import assert_equal, capture, replica, source

USERS = "CREATE TABLE users (id bigint PRIMARY KEY, name text, amount numeric(12,2), at timestamptz, note text)"
ROWS = "INSERT INTO users SELECT g, 'name ' || g, g / 7.0, '2024-01-01'::timestamptz + g * interval '1 s' FROM generate_series(1, 500) g"


def confirmed(database: Database, slot: str) -> str:
    return str(database.rows(f"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{slot}'")[0][0])


def test_a_snapshot_then_every_change(spark: SparkSession, tmp_path: Path, database: Database) -> None:
    database.execute(USERS, ROWS, "CREATE TABLE empty (id int PRIMARY KEY, x text)")
    made = capture(tmp_path, database)
    (totals,) = made.pipeline.run(once=True)
    # The rows of one table, and the schema of the other.
    assert (totals.read, totals.rejected) == (500 + 1, 0)
    assert_equal(made, database, "users", "empty")
    begun = confirmed(database, f"slot_{database.name}")
    database.execute(
        "UPDATE users SET name = 'changed' WHERE id % 7 = 0",
        "DELETE FROM users WHERE id % 11 = 0",
        "UPDATE users SET id = id + 10000 WHERE id % 13 = 0",
        "INSERT INTO empty VALUES (1, NULL), (2, '')",
        "BEGIN; INSERT INTO users VALUES (7777, 'never'); ROLLBACK",
        "BEGIN; INSERT INTO users VALUES (1000, 'a'); SAVEPOINT s; INSERT INTO users VALUES (1001, 'b'); ROLLBACK TO s; COMMIT",
    )
    made.pipeline.run(once=True)
    assert_equal(made, database, "users", "empty")
    assert confirmed(database, f"slot_{database.name}") > begun
    database.execute("TRUNCATE users", "INSERT INTO users VALUES (1, 'again')")
    made.pipeline.run(once=True)
    assert_equal(made, database, "users", "empty")
    (totals,) = made.pipeline.run(once=True)
    assert totals.batches == 0


def test_tables_that_come_later_are_snapshotted_and_followed(
    spark: SparkSession, tmp_path: Path, database: Database
) -> None:
    database.execute(USERS, "INSERT INTO users VALUES (1, 'Ann')")
    made = capture(tmp_path, database)
    made.pipeline.run(once=True)
    database.execute(
        "CREATE TABLE bag (a int, b text)",
        "ALTER TABLE bag REPLICA IDENTITY FULL",
        "INSERT INTO bag VALUES (1, 'x'), (1, 'x'), (2, NULL)",
        "UPDATE users SET name = 'Bo'",
    )
    made.pipeline.run(once=True)
    assert_equal(made, database, "users", "bag")
    database.execute("DELETE FROM bag WHERE ctid = (SELECT min(ctid) FROM bag)", "INSERT INTO bag VALUES (2, NULL)")
    made.pipeline.run(once=True)
    assert_equal(made, database, "users", "bag")


ALTERATIONS = (
    "ALTER TABLE {} ADD COLUMN extra int DEFAULT 5",
    "ALTER TABLE {} ADD COLUMN extra text",
    "ALTER TABLE {} ADD COLUMN extra uuid NOT NULL DEFAULT gen_random_uuid()",
    "ALTER TABLE {} DROP COLUMN note",
    "ALTER TABLE {} RENAME COLUMN name TO called",
    "ALTER TABLE {} ALTER COLUMN amount TYPE numeric(20,4)",
    "ALTER TABLE {} ALTER COLUMN amount TYPE text USING 'about ' || amount",
    "ALTER TABLE {} ALTER COLUMN amount TYPE int USING amount",
    "ALTER TABLE {} DROP CONSTRAINT {}_pkey, ADD PRIMARY KEY (name)",
    "DROP TABLE {}; CREATE TABLE {} (id int PRIMARY KEY, other text); INSERT INTO {} VALUES (1, 'new')",
)


@pytest.mark.parametrize(
    "statements", [ALTERATIONS, *(pytest.param((one,), marks=pytest.mark.soak) for one in ALTERATIONS)]
)
def test_tables_that_are_altered_stay_equal(
    statements: tuple[str, ...], spark: SparkSession, tmp_path: Path, database: Database
) -> None:
    names = {f"users_{number}": statement for number, statement in enumerate(statements)}
    for name in names:
        database.execute(USERS.replace("users", name))
        database.execute(f"INSERT INTO {name} SELECT g, 'n' || g, g FROM generate_series(1, 5) g")
    made = capture(tmp_path, database)
    made.pipeline.run(once=True)
    for name, statement in names.items():
        database.execute(f"UPDATE {name} SET note = 'before' WHERE id = 1")
        database.execute(*statement.replace("{}", name).split("; "))
        if not statement.startswith("DROP"):
            database.execute(
                f"UPDATE {name} SET id = id + 100 WHERE id = 2", f"INSERT INTO {name} SELECT * FROM {name} WHERE false"
            )
    made.pipeline.run(once=True)
    made.pipeline.run(once=True)
    assert_equal(made, database, *names)


def test_an_unchanged_large_value_is_absent_and_stays(spark: SparkSession, tmp_path: Path, database: Database) -> None:
    database.execute(USERS, "ALTER TABLE users ALTER COLUMN note SET STORAGE EXTERNAL")
    made = capture(tmp_path, database)
    database.execute("INSERT INTO users VALUES (1, 'Ann', 1, NULL, repeat('long', 5000))")
    made.pipeline.run(once=True)
    database.execute("UPDATE users SET amount = 2")
    made.pipeline.run(once=True)
    changes = [row for row in made.table(log_tables.CHANGES).to_pylist() if row["op"] == "update"]
    assert [(row["after"], row["after_image"]) for row in changes] == [
        ('{"id":1,"name":"Ann","amount":"2.00","at":null}', "partial")
    ]
    assert_equal(made, database, "users")


def test_a_slot_that_is_gone_is_refused_and_a_new_snapshot_goes_on(
    spark: SparkSession, tmp_path: Path, database: Database
) -> None:
    database.execute(USERS, "INSERT INTO users VALUES (1, 'Ann'), (2, 'Bob')")
    made = capture(tmp_path, database)
    made.pipeline.run(once=True)
    database.execute(f"SELECT pg_drop_replication_slot('slot_{database.name}')")
    database.execute("DELETE FROM users WHERE id = 1", "INSERT INTO users VALUES (3, 'Cy')")
    with pytest.raises(ChangelingError, match=r"the slot slot_test_\d+ is gone.*--resnapshot"):
        made.pipeline.run(once=True)
    made.pipeline.run(once=True, resnapshot=True)
    assert_equal(made, database, "users")
    database.execute("UPDATE users SET name = 'Bo' WHERE id = 2")
    made.pipeline.run(once=True)
    assert_equal(made, database, "users")


def now(database: Database) -> str:
    """The server's clock; what follows is later by it."""
    ((timestamp,),) = database.rows("SELECT clock_timestamp()")
    time.sleep(0.01)
    return str(timestamp.astimezone(UTC).isoformat())


def test_a_time_at_which_a_table_is_not_known_is_refused(
    spark: SparkSession, tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute(
        "CREATE TABLE parts (id int, region text, PRIMARY KEY (id, region)) PARTITION BY LIST (region)",
        "CREATE TABLE parts_eu PARTITION OF parts FOR VALUES IN ('eu')",
        "CREATE TABLE parts_us PARTITION OF parts FOR VALUES IN ('us')",
        "INSERT INTO parts VALUES (1, 'eu'), (2, 'us')",
    )
    made = capture(tmp_path, database, source={"batch_bytes": 20_000})
    monkeypatch.setenv("CHANGELING_FAILPOINT", "plan.after@2")
    with pytest.raises(FailpointReached):
        made.pipeline.run(once=True)
    monkeypatch.delenv("CHANGELING_FAILPOINT")
    assert [row["op"] for row in made.table(log_tables.CHANGES).to_pylist()] == ["read"]
    half = now(database)
    database.execute("INSERT INTO parts VALUES (3, 'eu')")
    made.pipeline.run(once=True)
    whole, rows = now(database), source(database, "parts")
    database.execute("INSERT INTO parts VALUES (4, 'us')")
    made.pipeline.run(once=True)
    database.execute(f"SELECT pg_drop_replication_slot('slot_{database.name}')", "DELETE FROM parts WHERE id = 1")
    lost = now(database)
    made.pipeline.run(once=True, resnapshot=True)
    found, after = now(database), source(database, "parts")
    database.execute("DELETE FROM parts WHERE id = 2")
    made.pipeline.run(once=True)
    with pytest.raises(UsageError, match=r"lies before the snapshot that test_\d+\.public\.parts is known from"):
        made.pipeline.replica("public.parts", as_of=half)
    with pytest.raises(UsageError, match=r"changes of test_\d+\.public\.parts were lost with the slot of its source"):
        made.pipeline.replica("public.parts", as_of=lost)
    for timestamp, then in ((whole, rows), (found, after)):
        state = made.pipeline.replica("public.parts", as_of=timestamp).toArrow().to_pylist()
        assert sorted(state, key=repr) == then


def test_a_slot_that_somebody_else_read_is_refused(spark: SparkSession, tmp_path: Path, database: Database) -> None:
    database.execute(USERS)
    made = capture(tmp_path, database)
    made.pipeline.run(once=True)
    database.execute("SET synchronous_commit = on", "INSERT INTO users VALUES (1, 'Ann')")
    database.execute(f"SELECT pg_replication_slot_advance('slot_{database.name}', pg_current_wal_lsn())")
    with pytest.raises(ChangelingError, match="somebody else read it"):
        made.pipeline.run(once=True)


def test_what_is_left_out_is_nowhere(spark: SparkSession, tmp_path: Path, database: Database) -> None:
    database.execute(
        "CREATE TABLE users (id int PRIMARY KEY, name text, secret text, mail text, region text)",
        "ALTER TABLE users REPLICA IDENTITY FULL",
        "INSERT INTO users VALUES (1, 'Ann', 'hush-1', 'a@b', 'EU'), (2, 'Bob', 'hush-2', 'b@b', 'US')",
    )
    rule = {"name": "public.users", "exclude": ["secret"], "mask": ["name"], "hash": ["mail"], "where": "region = 'EU'"}
    made = capture(tmp_path, database, tables=[rule])
    made.pipeline.run(once=True)
    database.execute(
        "INSERT INTO users VALUES (3, 'Cy', 'hush-3', 'c@b', 'EU'), (4, 'Di', 'hush-4', NULL, 'US')",
        "UPDATE users SET region = 'EU' WHERE id = 2",
        "UPDATE users SET region = 'US' WHERE id = 1",
    )
    made.pipeline.run(once=True)
    kept = replica(made, "users")
    assert [(row["id"], row["name"], row["region"], len(row["mail"])) for row in kept] == [
        (2, "***", "EU", 64),
        (3, "***", "EU", 64),
    ]
    assert "secret" not in kept[0]
    text = str(made.table(log_tables.CHANGES).to_pylist())
    assert "hush" not in text
    assert "Ann" not in text
    assert "a@b" not in text


def test_removing_the_pipeline_drops_slot_and_publication(
    spark: SparkSession, tmp_path: Path, database: Database
) -> None:
    database.execute(USERS)
    made = capture(tmp_path, database)
    made.pipeline.run(once=True)
    slot = f"slot_{database.name}"
    dropped = made.pipeline.remove()
    assert dropped[:2] == [f"slot {slot}", f"publication {slot}"]
    assert database.rows("SELECT * FROM pg_publication") == []
    assert database.rows(f"SELECT * FROM pg_replication_slots WHERE slot_name = '{slot}'") == []


def test_a_table_that_cannot_be_captured_is_reported_with_the_way_out(
    spark: SparkSession, tmp_path: Path, database: Database
) -> None:
    database.execute("CREATE TABLE bag (a int)", "INSERT INTO bag VALUES (1)")
    made = capture(tmp_path, database)
    with pytest.raises(ChangelingError, match=r'ALTER TABLE "public"\."bag" REPLICA IDENTITY FULL'):
        made.pipeline.run(once=True)
    database.execute("UPDATE bag SET a = 2")
    inserts = capture(tmp_path, database, source={"without_identity": "inserts"})
    inserts.pipeline.run(once=True)
    database.execute("INSERT INTO bag VALUES (3)", "UPDATE bag SET a = 4 WHERE a = 3", "DELETE FROM bag WHERE a = 2")
    inserts.pipeline.run(once=True)
    assert replica(inserts, "bag") == [{"a": 2}, {"a": 3}]
    assert source(database, "bag") == [{"a": 4}]


def test_a_publication_of_others_may_publish_more_than_is_captured(
    spark: SparkSession, tmp_path: Path, database: Database
) -> None:
    database.execute(
        "CREATE TABLE users (id int PRIMARY KEY, name text)",
        "CREATE TABLE secrets (id int PRIMARY KEY, name text)",
        "CREATE PUBLICATION theirs FOR ALL TABLES WITH (publish_via_partition_root = true)",
    )
    made = capture(tmp_path, database, source={"tables": ["public.users"], "publication": "theirs"})
    made.pipeline.run(once=True)
    database.execute(
        "BEGIN; INSERT INTO users VALUES (1, 'Ann'); INSERT INTO secrets VALUES (1, 'hush'); COMMIT",
        "INSERT INTO secrets VALUES (2, 'hush')",
    )
    made.pipeline.run(once=True)
    assert_equal(made, database, "users")
    log = made.log()
    assert [(row["op"], row["table"]["name"]) for row in log if row["table"]] == [("ddl", "users"), ("insert", "users")]
    assert "hush" not in str(log)
    assert [row["transaction"]["complete"] for row in log if row["op"] == "commit"] == [True, True]


def test_a_table_that_was_not_published_for_a_while_is_snapshotted_again(
    spark: SparkSession, tmp_path: Path, database: Database
) -> None:
    database.execute(USERS, "INSERT INTO users VALUES (1, 'Ann'), (2, 'Bob')")
    made = capture(tmp_path, database)
    made.pipeline.run(once=True)
    database.execute(f"ALTER PUBLICATION slot_{database.name} DROP TABLE users")
    database.execute("DELETE FROM users WHERE id = 1", "INSERT INTO users VALUES (3, 'Cy')")
    made.pipeline.run(once=True)
    assert_equal(made, database, "users")


def test_a_partitioned_table_without_partitions_is_done(
    spark: SparkSession, tmp_path: Path, database: Database
) -> None:
    database.execute("CREATE TABLE parts (id int, r text, PRIMARY KEY (id, r)) PARTITION BY LIST (r)")
    made = capture(tmp_path, database)
    made.pipeline.run(once=True)
    (totals,) = made.pipeline.run(once=True)
    assert totals.batches == 0
    database.execute(
        "CREATE TABLE parts_eu PARTITION OF parts FOR VALUES IN ('eu')", "INSERT INTO parts VALUES (1, 'eu')"
    )
    made.pipeline.run(once=True)
    assert_equal(made, database, "parts")


def test_tables_without_rows_have_replicas_of_their_columns(
    spark: SparkSession, tmp_path: Path, database: Database
) -> None:
    database.execute(
        "CREATE TABLE users (id int PRIMARY KEY, v text)",
        "CREATE TABLE bag (a int)",
        "ALTER TABLE bag REPLICA IDENTITY FULL",
    )
    made = capture(tmp_path, database)
    made.pipeline.run(once=True)
    assert_equal(made, database, "users", "bag")
    assert made.pipeline.rows("public.users", as_of="2100-01-01T00:00:00Z").column_names == ["id", "v"]
    assert {str(one.table.name): one.different for one in made.pipeline.verify()} == {"users": 0, "bag": 0}
    database.execute("INSERT INTO users VALUES (1, 'a')", "INSERT INTO bag VALUES (1), (1)")
    made.pipeline.run(once=True)
    database.execute("TRUNCATE users, bag", "ALTER TABLE users ADD COLUMN z int DEFAULT 3")
    made.pipeline.run(once=True)
    assert_equal(made, database, "users", "bag")
    columns = tables_of(load(made.file)).in_namespace("shop_replica").load("public__users")
    assert columns is not None
    assert columns.scan().to_arrow().column_names == ["id", "v", "z"]


def test_keys_without_digits_are_keys_of_their_own(spark: SparkSession, tmp_path: Path, database: Database) -> None:
    database.execute(
        "CREATE TABLE odd (k numeric PRIMARY KEY, v text)",
        "INSERT INTO odd VALUES (0, 'zero'), ('NaN', 'nan'), ('Infinity', 'up'), (1.50, 'some')",
    )
    made = capture(tmp_path, database)
    made.pipeline.run(once=True)
    database.execute(
        "INSERT INTO odd VALUES ('-Infinity', 'down')",
        "UPDATE odd SET v = 'none' WHERE k = 'NaN'",
        "DELETE FROM odd WHERE k = 'Infinity'",
    )
    made.pipeline.run(once=True)
    assert replica(made, "odd") == [
        {"k": "-Infinity", "v": "down"},
        {"k": "0", "v": "zero"},
        {"k": "1.5", "v": "some"},
        {"k": "NaN", "v": "none"},
    ]


def test_partitions_that_come_with_rows_and_go_with_them_are_followed(
    spark: SparkSession, tmp_path: Path, database: Database
) -> None:
    database.execute(
        "CREATE TABLE parts (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (10) TO (20)",
        "INSERT INTO parts SELECT g, 'v' FROM generate_series(0, 19) g",
    )
    made = capture(tmp_path, database, source={"tables": ["public.parts"]})
    made.pipeline.run(once=True)
    database.execute(
        "DROP TABLE parts_1",
        "CREATE TABLE filled (id int PRIMARY KEY, v text)",
        "INSERT INTO filled VALUES (25, 'came along')",
        "ALTER TABLE parts ATTACH PARTITION filled FOR VALUES FROM (20) TO (30)",
        "UPDATE parts SET v = 'w' WHERE id = 12",
    )
    made.pipeline.run(once=True)
    assert_equal(made, database, "parts")


def test_who_comes_to_alter_a_table_is_let_through(spark: SparkSession, tmp_path: Path, database: Database) -> None:
    database.execute(USERS, "INSERT INTO users SELECT g, 'n' FROM generate_series(1, 1000) g")
    made = capture(tmp_path, database)
    seen = threading.Event()

    class Listening(Listener):
        def on_batch_start(self, source: str, batch: int, size: PlanSize) -> None:
            seen.set()
            time.sleep(1)

    def truncate() -> None:
        seen.wait()
        with connect(database.url) as other:
            other.execute("TRUNCATE users")
            other.execute("INSERT INTO users VALUES (1, 'after')")

    other = threading.Thread(target=truncate)
    other.start()
    made.pipeline.run(once=True, listener=Listening())
    other.join(60)
    assert not other.is_alive()
    made.pipeline.run(once=True)
    assert_equal(made, database, "users")


def test_a_new_table_that_must_wait_holds_up_no_other(
    spark: SparkSession, tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("changeling.postgres.slot._OPEN_SECONDS", 1)
    database.execute(USERS)
    made = capture(tmp_path, database)
    made.pipeline.run(once=True)
    with connect(database.url) as other:
        other.execute("BEGIN")
        other.execute("INSERT INTO users VALUES (2, 'open')")
        database.execute("CREATE TABLE later (id int PRIMARY KEY)", "INSERT INTO later VALUES (1)")
        database.execute("INSERT INTO users VALUES (1, 'Ann')")
        made.pipeline.run(once=True)
        assert [row["id"] for row in replica(made, "users")] == [1]
        other.execute("COMMIT")
    made.pipeline.run(once=True)
    assert_equal(made, database, "users", "later")
