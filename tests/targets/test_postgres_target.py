"""Ownership of tables, what others do to the tables of a target, and the effect of replica maintenance on it."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from changeling.model.errors import ChangelingError
from changeling.pipelines.lakehouse import lake_of
from changeling.pipelines.loading import load
from changeling.replicas.maintenance import maintain
from changeling.replicas.shape import ReplicaColumn, Shape
from changeling.spark.adapter import run as run_kernel
from changeling.targets import postgres_target
from changeling.targets.postgres_target import _SETTINGS, PostgresTarget
from changeling.targets.staging_table import CopyKernel, stage
from tests.log.lakes import Shop, shop
from tests.postgres.server import Database
from tests.replicas.shops import SOURCE, bus, item
from tests.targets.postgres_targets import differing, mirror, run, step, there

BAG: dict[str, Any] = {"table": "bag", "columns": {"a": "int64"}, "key": ()}


def first(*numbers: int) -> list[str]:
    made = [item(number, "insert", {"id": number, "name": f"v{number}", "n": number}) for number in numbers]
    return [*made, *(item(number, "insert", {"a": number % 2}, order=1, **BAG) for number in numbers)]


@pytest.fixture(scope="module")
def pipeline(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """A pipeline at its first point; tests give it other databases, and no more records."""
    made = bus(tmp_path_factory.mktemp("ownership"))
    run(made, "a", *first(1, 2, 3))
    return made


def test_a_table_has_one_writer(pipeline: Shop, database: Database) -> None:
    step(mirror(pipeline, database, "users"))
    with pytest.raises(
        ChangelingError,
        match=r"^target 'other': table public.users is written by the target 'mirror' of pipeline 'shop'",
    ):
        mirror(pipeline, database, name="other").step()
    assert step(mirror(pipeline, database, "bag", name="other")).warnings == []
    lake = lake_of(load(pipeline.file))
    with pytest.raises(ChangelingError, match="of pipeline 'shop': a table has one writer"):
        PostgresTarget(lake, "mirror", database.url, ["*"], "mall").step()
    assert differing(pipeline, database) == {}
    # Another lake with a pipeline of the same name.
    database.execute("UPDATE changeling.points SET log = 'another' WHERE target = 'mirror'")
    with pytest.raises(ChangelingError, match="another pipeline named 'shop'"):
        mirror(pipeline, database, "users").step()
    with pytest.raises(ChangelingError, match="another pipeline named 'shop'"):
        mirror(pipeline, database, "users").remove()
    assert len(there(database, "users")) == 3


def test_a_table_that_was_there_is_not_written_over(pipeline: Shop, database: Database) -> None:
    database.execute("CREATE TABLE users (id bigint, name text, n integer)", "INSERT INTO users VALUES (7, 'own', 7)")
    target = mirror(pipeline, database)
    with pytest.raises(ChangelingError, match=r"^target 'mirror': table public.users existed before and has rows"):
        target.step()
    assert database.rows("SELECT id FROM users") == [(7,)]
    assert database.rows("SELECT to_regclass('bag')") == [(None,)]
    database.execute("DELETE FROM users")
    assert step(target).warnings == ["table public.users existed, empty and with the right columns: it is used"]
    assert differing(pipeline, database) == {}
    # What the target did not make it does not drop.
    assert target.remove() == ["public.bag"]
    assert len(there(database, "users")) == 3
    assert database.rows("SELECT to_regclass('bag'), to_regnamespace('changeling')") == [(None, None)]
    assert target.remove() == []


def test_all_that_a_target_made_is_removed_and_nothing_else(pipeline: Shop, database: Database) -> None:
    one, other = mirror(pipeline, database, "users"), mirror(pipeline, database, "bag", name="other")
    step(one)
    step(other)
    database.execute("CREATE VIEW shown AS SELECT * FROM users")
    with pytest.raises(ChangelingError, match=r"cannot drop table public\.users because other objects depend on it"):
        one.remove()
    assert len(there(database, "users")) == 3
    database.execute("DROP VIEW shown")
    assert one.remove() == ["public.users"]
    assert one.status() is None
    status = other.status()
    assert status is not None
    assert status.point == 1
    assert other.remove() == ["public.bag"]
    assert database.rows("SELECT nspname FROM pg_namespace WHERE nspname = 'changeling'") == []
    assert step(mirror(pipeline, database)).point.number == 1


def test_a_table_that_somebody_dropped_is_made_again(pipeline: Shop, database: Database) -> None:
    step(mirror(pipeline, database))
    database.execute("DROP TABLE users", "ALTER TABLE bag RENAME COLUMN a TO z")
    with pytest.raises(ChangelingError, match=r"column 'a' of table public\.bag no longer exists: somebody else"):
        mirror(pipeline, database).step()
    database.execute("ALTER TABLE bag RENAME COLUMN z TO a")
    report = step(mirror(pipeline, database))
    assert report.warnings == ["table public.users was dropped by somebody else: it is created again"]
    assert [str(moved.place) for moved in report.tables] == ["public.users"]
    assert differing(pipeline, database) == {}
    assert mirror(pipeline, database).step() is None


def test_a_table_that_somebody_recreated_gets_all_rows_and_stays_when_the_target_goes(
    spark: SparkSession, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bus(tmp_path)
    run(made, "a", *first(1, 2, 3))
    step(mirror(made, database))
    recreate = ("DROP TABLE users", "CREATE TABLE users (id bigint PRIMARY KEY, name text, n integer)")
    run(made, "b", item(4, "update", {"id": 1, "n": 11}, {"id": 1}), item(4, "insert", {"a": 4}, order=1, **BAG))

    # While a step is under way: nothing of it is kept.
    with monkeypatch.context() as patched:
        patched.setattr(
            postgres_target, "reach", lambda at: database.execute(*recreate) if at == "target.staged" else None
        )
        with pytest.raises(
            ChangelingError, match=r"table public\.users was recreated by somebody else during the step"
        ):
            mirror(made, database).step()
    assert (len(there(database, "users")), len(there(database, "bag"))) == (0, 3)

    database.execute(
        "INSERT INTO users VALUES (7, 'own', 7)", "DROP TABLE bag", "CREATE VIEW bag AS SELECT 1::bigint AS a"
    )
    with pytest.raises(
        ChangelingError, match=r"public\.bag was recreated by somebody else and is not an ordinary table"
    ):
        mirror(made, database).step()
    database.execute("DROP VIEW bag", "CREATE TABLE bag (a bigint)")
    target = mirror(made, database)
    report = step(target)
    assert report.warnings == [
        f"table public.{name} was recreated by somebody else: all of its rows are written" for name in ("bag", "users")
    ]
    assert [(moved.written, moved.deleted, moved.whole) for moved in report.tables] == [(4, 0, True), (3, 1, True)]
    assert differing(made, database) == {}
    assert mirror(made, database).step() is None

    # Also where the replica did not change, and each time. What the target makes itself is its own again.
    database.execute(*recreate, "DROP TABLE bag")
    run(made, "c", item(5, "insert", {"a": 5}, **BAG))
    assert step(target).warnings == [
        "table public.bag was dropped by somebody else: it is created again",
        "table public.users was recreated by somebody else: all of its rows are written",
    ]
    assert differing(made, database) == {}
    assert target.remove() == ["public.bag"]
    assert len(there(database, "users")) == 3


def test_a_unique_constraint_that_somebody_added_must_be_deferrable(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    made = bus(tmp_path)
    run(made, "a", *first(1, 2))
    target = mirror(made, database, "users")
    step(target)
    database.execute("CREATE UNIQUE INDEX one_n ON users (n)")
    run(made, "b", *(item(5, "update", {"id": own, "n": 3 - own}, {"id": own}, order=own) for own in (1, 2)))
    with pytest.raises(
        ChangelingError,
        match=r'^target .* constraint "one_n" .*\. \'one_n\' was added to table public\.users .* DEFERRABLE',
    ):
        target.step()
    database.execute("DROP INDEX one_n", "ALTER TABLE users ADD CONSTRAINT one_n UNIQUE (n) DEFERRABLE")
    step(target)
    assert database.rows("SELECT id, n FROM users ORDER BY id") == [(1, 2), (2, 1)]
    # Rows that the constraint does not allow at all are reported as PostgreSQL reports them.
    run(made, "c", item(6, "update", {"id": 1, "n": 1}, {"id": 1}))
    with pytest.raises(ChangelingError, match=r'unique constraint "one_n" DETAIL: Key \(n\)=\(1\) already exists\.$'):
        target.step()


def test_a_table_that_is_not_there_or_not_wanted_is_reported(pipeline: Shop, database: Database) -> None:
    report = step(mirror(pipeline, database, "users", "nowhere", "mall.*"))
    assert report.warnings == ["there is no replica of nowhere yet", "there is no replica of mall.* yet"]
    assert step(mirror(pipeline, database)).warnings == []
    assert mirror(pipeline, database, "bag").step() is None
    assert len(there(database, "users")) == 3


def test_a_server_that_is_away_is_named_without_the_password(pipeline: Shop) -> None:
    lake = lake_of(load(pipeline.file))
    target = PostgresTarget(lake, "away", "postgresql://anne:hunter2@127.0.0.1:1/shop", ["*"], "shop")
    for call in (target.step, target.status, target.remove):
        with pytest.raises(
            ChangelingError, match=r"^target 'away': PostgreSQL at 127\.0\.0\.1:1/shop: .*refused"
        ) as raised:
            call()
        assert "hunter2" not in str(raised.value)


def test_plans_of_spark_do_not_show_the_password(spark: SparkSession) -> None:
    shape = Shape((ReplicaColumn("1", "id", "int64"),))
    kernel = CopyKernel("postgresql://anne:hunter2@127.0.0.1:1/shop", psycopg.sql.Identifier("x"), shape)
    rows = spark.range(3).selectExpr("id AS c0", "1L AS n")
    planned = run_kernel(rows, kernel, pa.schema([("part", pa.int64())]))
    assert "hunter2" not in planned._jdf.queryExecution().toString()
    with pytest.raises(ChangelingError, match=r"PostgreSQL at 127\.0\.0\.1:1/shop: .*refused") as raised:
        stage(kernel.url, kernel.table, rows, shape)
    assert "hunter2" not in str(raised.value)


def test_what_others_write_stays_until_its_row_changes(
    spark: SparkSession, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bus(tmp_path)
    run(made, "a", *first(1, 2, 3, 4))
    target = mirror(made, database)
    step(target)
    database.execute(
        "UPDATE users SET name = 'theirs', n = 0 WHERE id < 3",
        "INSERT INTO users VALUES (99, 'own', 1)",
        "DELETE FROM users WHERE id = 4",
        "ALTER TABLE users ADD COLUMN seen boolean DEFAULT true",
        "DELETE FROM bag",
    )
    run(
        made,
        "b",
        item(5, "update", {"id": 1, "n": 11}, {"id": 1}),
        item(6, "delete", None, {"id": 4}),
        item(7, "delete", None, {"a": 1}, **BAG),
    )
    report = step(target)
    assert report.warnings == [
        "1 rows of public.bag that were to be deleted did not exist: somebody else changed the table",
        "1 rows of public.users that were to be deleted did not exist: somebody else changed the table",
    ]
    assert database.rows("SELECT * FROM users ORDER BY id") == [
        (1, "v1", 11, True),
        (2, "theirs", 0, True),
        (3, "v3", 3, True),
        (99, "own", 1, True),
    ]

    # Upkeep writes the rows of a replica into other files: nothing that the target has to do.
    lake = lake_of(load(made.file))
    rewrite = "CALL lake.system.rewrite_data_files(table => 'shop_replica.public__users', options => map('rewrite-all', 'true'))"
    lake.sql(rewrite)
    run(made, "c", item(8, "insert", {"id": 8, "name": "v8", "n": 8}))
    assert [(moved.written, moved.deleted, moved.whole) for moved in step(target).tables] == [(1, 0, False)]
    lake.sql(rewrite)
    run(made, "d", item(9, "delete", None, {"id": 8}))
    assert [(moved.written, moved.deleted, moved.whole) for moved in step(target).tables] == [(0, 1, False)]
    assert database.rows("SELECT name FROM users WHERE id = 2") == [("theirs",)]

    # Who holds a row is waited for, a while.
    run(made, "e", item(10, "update", {"id": 3, "n": 33}, {"id": 3}), item(10, "insert", {"a": 5}, order=1, **BAG))
    monkeypatch.setitem(_SETTINGS, "lock_timeout", "300ms")
    with psycopg.connect(database.url) as other:
        other.execute("UPDATE users SET n = 0 WHERE id = 3")
        with pytest.raises(ChangelingError, match=r"^target 'mirror': PostgreSQL at .* lock timeout"):
            target.step()
        other.rollback()
        other.execute("SELECT * FROM users")
        assert len(step(target).tables) == 2

    # The snapshot that the target is at is gone: all rows are compared, and those that differ are written.
    run(made, "f", item(11, "insert", {"a": 5}, **BAG), item(11, "insert", {"id": 11, "name": "v11", "n": 11}, order=1))
    run(made, "g", item(12, "insert", {"a": 5}, **BAG), item(12, "insert", {"id": 12, "name": "v12", "n": 12}, order=1))
    maintain(lake, timedelta(days=30), keep_snapshots=timedelta(0))
    moved = {str(one.place): (one.written, one.deleted, one.whole) for one in step(target).tables}
    assert moved == {"public.users": (3, 1, True), "public.bag": (6, 1, True)}
    assert differing(made, database) == {}
    made.pipeline.rebuild("users")
    report = step(target)
    assert (report.tables, differing(made, database)) == ([], {})


def test_two_tables_of_one_name_are_refused(spark: SparkSession, database: Database, tmp_path: Path) -> None:
    made = shop(tmp_path, *({**SOURCE, "name": name, "path": f"in/{name}*.json"} for name in ("one", "two")))
    made.write("one.json", item(1, "insert", {"id": 1, "name": "a", "n": 1}))
    run(made, "two", item(1, "insert", {"id": 1, "name": "b", "n": 1}))
    with pytest.raises(
        ChangelingError, match=r"public.users of source \w+ and public.users of source \w+ would both be"
    ):
        mirror(made, database).step()
