"""What is otherwise for a while and then as before, between two looks at the catalog: replicas stay equal to their tables."""

from pathlib import Path

from pyspark.sql import SparkSession

from changeling.log import log_tables
from changeling.postgres.connection import connect
from changeling.sources.postgres import PostgresSource
from changeling.sources.postgres_plan import Snapshot, Stream, parse_plan
from changeling.sources.postgres_settings import CaptureSettings, Requests
from tests.postgres.server import Database
from tests.sources.captures import assert_equal, capture


def test_what_returns_to_what_it_was_leaves_replicas_equal(
    spark: SparkSession, tmp_path: Path, database: Database
) -> None:
    database.execute(
        "CREATE SCHEMA other",
        "CREATE TABLE users (id int PRIMARY KEY, name text)",
        "INSERT INTO users VALUES (1, 'Ann'), (2, 'Bob')",
        "CREATE TABLE parts (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10)",
        "INSERT INTO parts VALUES (1, 'one'), (2, 'two')",
        "CREATE TABLE other.filled (id int PRIMARY KEY, v text)",
        "INSERT INTO other.filled VALUES (25, 'came along')",
    )
    made = capture(tmp_path, database)

    def agree() -> int:
        (totals,) = made.pipeline.run(once=True)
        assert_equal(made, database, "users", "parts")
        return totals.batches

    agree()
    database.execute(
        "ALTER TABLE parts ATTACH PARTITION other.filled FOR VALUES FROM (20) TO (30)",
        "INSERT INTO parts VALUES (26, 'new')",
        "UPDATE parts SET v = 'other' WHERE id = 25",
        "ALTER TABLE parts DETACH PARTITION other.filled",
        "ALTER TABLE users RENAME TO people",
        "UPDATE people SET name = 'Bo' WHERE id = 2",
        "ALTER TABLE people RENAME TO users",
    )
    agree()
    assert agree() == 0
    # Made and filled behind the last snapshot, known to the catalog at one look, and gone at the next one.
    database.execute(
        "CREATE TABLE parts_3 PARTITION OF parts FOR VALUES FROM (30) TO (40)", "INSERT INTO parts VALUES (31, 'x')"
    )
    agree()
    database.execute("INSERT INTO users VALUES (3, 'Cy')")
    assert agree() == 1
    database.execute("DROP TABLE parts_3")
    agree()
    database.execute(
        "ALTER TABLE parts DETACH PARTITION parts_1",
        "DELETE FROM parts_1 WHERE id = 2",
        "ALTER TABLE parts ATTACH PARTITION parts_1 FOR VALUES FROM (0) TO (10)",
    )
    agree()
    assert agree() == 0


def test_new_names_of_columns_are_shown_although_no_row_changed(
    spark: SparkSession, tmp_path: Path, database: Database
) -> None:
    database.execute(
        "CREATE TABLE users (id int PRIMARY KEY, name text)",
        "INSERT INTO users VALUES (1, 'Ann'), (2, 'Bob')",
        "CREATE TABLE items (id int PRIMARY KEY, note text, amount numeric(10,2))",
        "INSERT INTO items VALUES (1, 'x', 5)",
        "CREATE TABLE parts (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10)",
        "INSERT INTO parts VALUES (1, 'one')",
        "CREATE TABLE bag (a int, b numeric(10,2))",
        "ALTER TABLE bag REPLICA IDENTITY FULL",
        "INSERT INTO bag VALUES (1, 2), (1, 2)",
    )
    made = capture(tmp_path, database)
    made.pipeline.run(once=True)

    def agree(*statements: str) -> list[str]:
        """The kinds of the changes that came: a schema and nothing else where the rows are not read again."""
        before = max(row["batch"] for row in made.table(log_tables.CHANGES).to_pylist())
        database.execute(*statements)
        made.pipeline.run(once=True)
        assert_equal(made, database, "users", "items", "parts", "bag")
        return sorted(row["op"] for row in made.table(log_tables.CHANGES).to_pylist() if row["batch"] > before)

    assert agree(
        "ALTER TABLE users RENAME COLUMN name TO called",
        "ALTER TABLE items DROP COLUMN note",
        "ALTER TABLE parts RENAME COLUMN v TO w",
        "ALTER TABLE bag ADD COLUMN c int, ALTER COLUMN b TYPE numeric(12,2)",
    ) == ["ddl", "ddl", "ddl", "ddl"]
    assert agree("UPDATE users SET called = 'An' WHERE id = 1", "ALTER TABLE users RENAME called TO given") == [
        "ddl",
        "update",
    ]
    assert agree("INSERT INTO users VALUES (3, 'Cy')", "DELETE FROM parts") == ["delete", "insert"]
    assert [one.different for one in made.pipeline.verify()] == [0, 0, 0, 0]
    (totals,) = made.pipeline.run(once=True)
    assert totals.batches == 0
    assert made.pipeline.rebuild("public.users") == 3
    assert_equal(made, database, "users")


def test_a_new_name_is_shown_although_an_open_transaction_keeps_the_log_from_disk(
    tmp_path: Path, database: Database
) -> None:
    """The server flushes its log for a commit: what an open transaction wrote last may stay in memory for seconds."""
    database.execute("CREATE TABLE users (id int PRIMARY KEY, name text)", "CREATE TABLE other (id int PRIMARY KEY)")
    made = _snapshotted(tmp_path, database, "public.users")
    database.execute("SET synchronous_commit = on", "ALTER TABLE users RENAME name TO called")
    with connect(database.url) as writer:
        writer.execute("BEGIN")
        writer.execute("INSERT INTO other VALUES (1)")
        made.stop_at_present()
        plan = made.plan_next()
        assert plan is not None
        known = parse_plan(plan)
        assert isinstance(known, Stream)
        assert [one.table.name for one in known.altered] == ["users"]
    made.close()


def test_a_table_that_is_altered_in_a_run_does_not_hide_the_new_name_of_another(
    tmp_path: Path, database: Database
) -> None:
    """The run ends where the log ended when it began, so a look behind that says nothing about it."""
    database.execute(
        "CREATE TABLE users (id int PRIMARY KEY, name text)", "CREATE TABLE orders (id int PRIMARY KEY, note text)"
    )
    made = _snapshotted(tmp_path, database, "public.users", "public.orders", batch_bytes=4096)
    database.execute(
        "ALTER TABLE users RENAME name TO called",
        "INSERT INTO orders SELECT n, 'note' FROM generate_series(1, 1000) n",
    )
    made.stop_at_present()
    database.execute(
        "ALTER TABLE orders RENAME note TO remark",
        "INSERT INTO orders SELECT n, 'note' FROM generate_series(1001, 1100) n",
    )
    assert _altered(made) == ["users"]
    made.stop_at_present()
    assert _altered(made) == ["orders"]
    made.close()


def _altered(source: PostgresSource) -> list[str]:
    """Takes what there is, in several batches, and returns the tables that come with a new schema."""
    plans = []
    while (plan := source.plan_next()) is not None:
        source.remember(plan)
        plans.append(parse_plan(plan))
    streams = [plan for plan in plans if isinstance(plan, Stream)]
    assert len(streams) == len(plans) > 2
    return [one.table.name for plan in streams for one in plan.altered]


def _snapshotted(tmp_path: Path, database: Database, *tables: str, batch_bytes: int = 1 << 20) -> PostgresSource:
    slot = f"slot_{database.name}"
    settings = CaptureSettings("pg", database.url, tables, slot, slot, batch_bytes=batch_bytes)
    made = PostgresSource(settings, Requests(tmp_path / "requests"))
    while isinstance(parse_plan(plan := made.plan_next() or made.nothing()), Snapshot):
        made.remember(plan)
    return made
