"""Statements about databases, shown with PostgreSQL; each name begins with the numbers in the list of statements."""

import json
import time
from pathlib import Path
from typing import Any

import psycopg
from pyspark.sql import SparkSession

import changeling
from changeling.cli import main
from changeling.log import log_tables
from tests.log.lakes import shop
from tests.postgres.server import Database
from tests.replicas.shops import item, replica
from tests.sources.captures import capture


def rows_of(database: Database, name: str) -> list[dict[str, Any]]:
    cursor = database.connection.execute(f"SELECT * FROM {name}")
    names = [column.name for column in cursor.description or ()]
    return sorted((dict(zip(names, row, strict=True)) for row in cursor.fetchall()), key=repr)


def test_003_21_and_003_16_postgresql_is_source_and_target_and_both_gain_a_column(
    spark: SparkSession, tmp_path: Path, database: Database
) -> None:
    copy = Database(database.server)
    database.execute(
        "CREATE TABLE users (id int PRIMARY KEY, name text, at timestamptz)",
        "INSERT INTO users VALUES (1, 'Ann', '2024-01-01'), (2, 'Bob', NULL)",
    )
    target = {"name": "copy", "type": "postgres", "url": copy.url, "tables": ["public.*"]}
    made = capture(tmp_path, database, targets=[target])
    made.pipeline.run(once=True)
    assert rows_of(copy, "public.users") == rows_of(database, "public.users")
    database.execute(
        "ALTER TABLE users ADD COLUMN more int",
        "INSERT INTO users VALUES (3, 'Cy', NULL, 7)",
        "DELETE FROM users WHERE id = 1",
        "UPDATE users SET id = 20 WHERE id = 2",
    )
    made.pipeline.run(once=True)
    assert rows_of(copy, "public.users") == rows_of(database, "public.users")
    assert replica(made, "public__users") == rows_of(database, "public.users")
    assert main(["verify", "--pipeline", str(made.file)]) == 0
    (status,) = (row for row in made.pipeline.status() if row["kind"] == "target")
    assert (status["name"], status["last_error"]) == ("copy", None)
    dropped = made.pipeline.remove()
    assert "public.users of target copy" in dropped
    copy.drop()


def test_003_18_any_dialect_goes_into_the_target(spark: SparkSession, tmp_path: Path, database: Database) -> None:
    target = {"name": "copy", "type": "postgres", "url": database.url, "tables": ["*"]}
    sources: list[dict[str, Any]] = [
        {"name": "items", "type": "files", "path": "items/*.json", "format": "transferia"},
        {
            "name": "feed",
            "type": "files",
            "path": "feed/*.json",
            "format": "ydb-json",
            "table": "notes",
            "key": ["id"],
            "columns": {"id": "uint32", "text": "string"},
        },
    ]
    made = shop(tmp_path, *sources, targets=[target])
    for folder, lines in {
        "items": [
            item(1, "insert", {"id": 1, "name": "Ann", "n": 1}),
            item(2, "delete", None, {"id": 1}),
            item(3, "insert", {"id": 2, "name": "Bo", "n": None}),
        ],
        "feed": ['{"key":[1],"update":{"text":"a"}}', '{"key":[2],"update":{"text":"b"}}', '{"key":[1],"erase":{}}'],
    }.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.json").write_text("\n".join(lines) + "\n")
    made.pipeline.run(once=True)
    assert rows_of(database, "public.users") == replica(made, "public__users") == [{"id": 2, "name": "Bo", "n": None}]
    assert rows_of(database, "public.notes") == replica(made, "notes") == [{"id": 2, "text": "b"}]


def test_004_07_and_003_05_a_change_comes_when_its_transaction_commits_with_the_time_of_its_database(
    spark: SparkSession, tmp_path: Path, database: Database
) -> None:
    database.execute("CREATE TABLE users (id int PRIMARY KEY)")
    made = capture(tmp_path, database)
    made.pipeline.run(once=True)
    with psycopg.connect(database.url) as opened, psycopg.connect(database.url) as never:
        opened.execute("INSERT INTO users VALUES (1)")
        never.execute("INSERT INTO users VALUES (2)")
        database.execute("INSERT INTO users VALUES (3)")
        made.pipeline.run(once=True)
        assert [row["key"] for row in made.log() if row["op"] != "ddl"] == ['{"id":3}']
        never.rollback()
        opened.commit()
    (before,) = database.rows("SELECT extract(epoch FROM clock_timestamp()) * 1000000000")[0]
    time.sleep(1.1)
    made.pipeline.run(once=True)
    changes = {row["key"]: row for row in made.table(log_tables.CHANGES).to_pylist() if row["op"] != "ddl"}
    assert sorted(changes) == ['{"id":1}', '{"id":3}']
    assert changes['{"id":3}']["commit_time"] < changes['{"id":1}']["commit_time"] <= int(before)


def test_002_31_an_interval_of_postgresql_is_an_object_of_xtdb(
    spark: SparkSession, tmp_path: Path, database: Database
) -> None:
    database.execute("CREATE TABLE spans (id int PRIMARY KEY, span interval)")
    made = capture(tmp_path, database)
    made.pipeline.run(once=True)
    database.execute("INSERT INTO spans VALUES (1, '1 year 2 months 3 days 04:05:06.789')")
    made.pipeline.run(once=True)
    records, rejects = changeling.encode(made.pipeline.changes("spans"), "xtdb", drop="all")
    assert rejects.num_rows == 0
    (record,) = (json.loads(value) for value in records.column("value").to_pylist())
    after = json.loads(record["after"]) if isinstance(record["after"], str) else record["after"]
    assert after["span"] == {"months": 14, "days": 3, "nanos": 14_706_789_000_000}
