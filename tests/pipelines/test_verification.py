"""`verify` finds the differences between a database and its replicas, reports all of them, and repairs them."""

import json
import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from changeling.cli import main
from changeling.pipelines import verification
from changeling.pipelines.lakehouse import lake_of
from changeling.pipelines.loading import load
from changeling.sources.postgres_point import TablesAtPoint
from tests.postgres.server import Database
from tests.sources.captures import assert_equal, capture


@pytest.fixture
def users(database: Database) -> Database:
    database.execute(
        "CREATE TABLE users (id int PRIMARY KEY, name text, at timestamp)",
        "INSERT INTO users SELECT g, 'n' || g, '2024-01-01' FROM generate_series(1, 300) g",
        "CREATE TABLE bag (a int, b text)",
        "ALTER TABLE bag REPLICA IDENTITY FULL",
        "INSERT INTO bag VALUES (1, 'x'), (1, 'x'), (2, NULL)",
    )
    return database


def test_equal_tables_are_reported_so_and_what_differs_is_reported_whole_and_repaired(
    spark: SparkSession, tmp_path: Path, users: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    made = capture(tmp_path, users)
    # What no run has captured yet is captured first.
    users.execute("UPDATE users SET name = 'other' WHERE id < 7")
    assert main(["verify", "--pipeline", str(made.file)]) == 0
    own = f"pg: {users.name}.public"
    equal = [f"equal                   3 rows  {own}.bag", f"equal                 300 rows  {own}.users"]
    assert capsys.readouterr().out.splitlines() == equal
    lake = lake_of(load(made.file))
    lake.sql("UPDATE lake.shop_replica.public__users SET name = 'forged' WHERE id = 7")
    lake.sql("DELETE FROM lake.shop_replica.public__users WHERE id = 8")
    lake.sql("INSERT INTO lake.shop_replica.public__users VALUES (999, 'ghost', NULL)")
    lake.sql("INSERT INTO lake.shop_replica.public__bag VALUES (2, NULL)")
    assert main(["verify", "--json", "--pipeline", str(made.file)]) == 5
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    row = {"id": 7, "name": "n7", "at": "2024-01-01T00:00:00"}
    whose = {"database": users.name, "source_name": "pg"}
    assert [{name: line.pop(name) for name in whose} for line in lines] == [whose] * 4
    assert sorted(lines, key=repr) == sorted(
        [
            {"table": "public.users", "key": {"id": 7}, "source": row, "replica": {**row, "name": "forged"}},
            {
                "table": "public.users",
                "key": {"id": 8},
                "source": {"id": 8, "name": "n8", "at": "2024-01-01T00:00:00"},
                "replica": None,
            },
            {
                "table": "public.users",
                "key": {"id": 999},
                "source": None,
                "replica": {"id": 999, "name": "ghost", "at": None},
            },
            {
                "table": "public.bag",
                "key": None,
                "source": {"a": 2, "b": None},
                "replica": {"a": 2, "b": None, "times": 2},
            },
        ],
        key=repr,
    )
    assert main(["verify", "--repair", "--pipeline", str(made.file)]) == 0
    capsys.readouterr()
    assert main(["verify", "--pipeline", str(made.file)]) == 0
    assert capsys.readouterr().out.splitlines() == equal
    assert_equal(made, users, "users", "bag")


def test_a_run_that_goes_on_is_compared_while_writes_go_on(
    spark: SparkSession, tmp_path: Path, users: Database
) -> None:
    made = capture(tmp_path, users, settle="100ms")
    stop, leave = threading.Event(), threading.Event()
    run = threading.Thread(target=lambda: made.pipeline.run(stop=stop))

    def write() -> None:
        number = 1000
        while not leave.is_set():
            number += 1
            users.execute(f"INSERT INTO users VALUES ({number})", f"DELETE FROM users WHERE id = {number - 500}")
            time.sleep(0.02)

    writer = threading.Thread(target=write)
    run.start()
    writer.start()
    try:
        while not any(row["kind"] == "source" and row["batch"] for row in made.pipeline.status()):
            time.sleep(0.2)
        equal = [("bag", 0), ("users", 0)]
        assert [(str(one.table.name), one.different) for one in made.pipeline.verify()] == equal
        leave.set()
        writer.join()
        # Nobody writes any more but the comparison itself.
        assert [(str(one.table.name), one.different) for one in made.pipeline.verify()] == equal
        assert made.pipeline.snapshot(["users"]) == [f"{users.name}.public.users"]
    finally:
        leave.set()
        writer.join()
        stop.set()
        run.join()
    made.pipeline.run(once=True)
    assert_equal(made, users, "users", "bag")


def test_a_pipeline_without_a_database_has_nothing_to_compare(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text("name: s\nwarehouse: ./lake\nsources: [{name: a, type: files, path: x, format: xtdb}]\n")
    assert main(["verify", "--pipeline", str(file)]) == 2
    assert "has no source of type postgres" in capsys.readouterr().err


def test_tables_that_are_altered_in_between_are_compared_again(
    spark: SparkSession, tmp_path: Path, users: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the first look at the log and before the point, where no run can have seen it yet."""
    made = capture(tmp_path, users)
    made.pipeline.run(once=True)
    altering = iter(
        (
            ["ALTER TABLE users ADD COLUMN extra int DEFAULT 5", "ALTER TABLE bag RENAME COLUMN b TO c"],
            ["ALTER TABLE users ALTER COLUMN name TYPE text USING upper(name)"],
            ["CREATE TABLE passing (id int PRIMARY KEY)", "DROP TABLE bag"],
        )
    )
    entered = TablesAtPoint.__enter__

    def enter(point: TablesAtPoint) -> TablesAtPoint:
        users.execute(*next(altering, []))
        return entered(point)

    monkeypatch.setattr(TablesAtPoint, "__enter__", enter)
    # However slow the machine is, three times are not too often.
    monkeypatch.setattr(verification, "_ALTERING_SECONDS", 0)
    found = [(one.table.name, one.rows, one.different) for one in made.pipeline.verify()]
    assert next(altering, None) is None
    assert ("users", 300, 0) in found
    assert [one for one in found if one[2]] == []
    assert_equal(made, users, "users")
    # What really differs is reported at once.
    lake_of(load(made.file)).sql("DELETE FROM lake.shop_replica.public__users WHERE id = 8")
    assert [one.different for one in made.pipeline.verify(["users"])] == [1]
