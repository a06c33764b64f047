"""Rows of blocks, as a snapshot shows them."""

import json
from typing import Any

import psycopg
import pytest
from psycopg import sql

from changeling.model.errors import UsageError
from changeling.postgres import rows as rows_of_blocks
from changeling.postgres.column_rules import ColumnRules
from changeling.postgres.rows import ROWS, Blocks, read_rows
from tests.postgres.replication import Replication
from tests.postgres.server import Database

LEAF = sql.Identifier("public", "t")


@pytest.fixture
def replication(database: Database) -> Replication:
    return Replication(database)


def read(
    replication: Replication, first: int = 0, end: int | None = None, leaf: sql.Composable = LEAF, *more: Any
) -> list[dict[str, Any]]:
    connection = replication.database.connection
    with connection.transaction():
        batches = list(read_rows(connection, replication.relation("t"), leaf, Blocks(first, end), *more))
    for batch in batches:
        assert batch.schema == ROWS
        batch.validate(full=True)
    return [row for batch in batches for row in batch.to_pylist()]


def test_ranges_of_blocks_are_all_rows_in_their_order(
    database: Database, replication: Replication, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_of_blocks, "_ROWS_AT_ONCE", 300)
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, name text)",
        "INSERT INTO t SELECT i, repeat('x', i % 50) FROM generate_series(1, 2000) i",
        "DELETE FROM t WHERE id % 10 = 3",
        "UPDATE t SET name = NULL WHERE id % 7 = 0",
        "VACUUM ANALYZE t",
    )
    blocks = database.rows("SELECT pg_relation_size('t') / 8192")[0][0]
    expected = [number for (number,) in database.rows("SELECT id FROM t ORDER BY ctid")]
    assert blocks > 5
    found = []
    for first, end in ((0, 2), (2, 3), (3, blocks - 1), (blocks - 1, None), (blocks, None)):
        rows = read(replication, first, end)
        assert [row["number"] for row in rows] == list(range(1, len(rows) + 1))
        found += rows
    assert [json.loads(row["after"])["id"] for row in found] == expected
    assert [row["key"] for row in found] == [f'{{"id":{number}}}' for number in expected]


def test_a_range_is_scanned_by_places_whatever_else_is_cheaper(database: Database, replication: Replication) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, kind int)",
        "CREATE INDEX ON t (kind)",
        "INSERT INTO t SELECT 5000 - i, i % 500 FROM generate_series(1, 5000) i",
        "ANALYZE t",
    )
    expected = [number for (number,) in database.rows("SELECT id FROM t WHERE kind = 7 ORDER BY ctid")]
    rows = read(replication, 0, None, LEAF, None, "kind = 7 -- only these")
    assert [json.loads(row["after"])["id"] for row in rows] == expected
    with database.connection.transaction():
        batches = read_rows(database.connection, replication.relation("t"), LEAF)
        list(batches)
        plan = database.rows("EXPLAIN SELECT * FROM ONLY t WHERE ctid >= '(0,0)'::tid AND kind = 7")
    assert plan[0][0].startswith("Tid Range Scan")


def test_odd_names_and_texts(database: Database, replication: Replication) -> None:
    database.execute(
        'CREATE TABLE t ("I d" int PRIMARY KEY, "a""b" text, "ümlaut%s" bytea)',
        r"""INSERT INTO t VALUES
            (1, E'tab\t nl\n cr\r bs\b ff\f vt\x0b', '\x5c'), (2, E'\\', '\x'), (3, E'\\\\n', NULL), (4, '\N', NULL),
            (5, '', NULL), (6, NULL, NULL), (7, E'\\\n\\\\\t\\', NULL), (8, E'a\\', NULL), (9, E'\\tb', NULL)""",
    )
    found = [json.loads(row["after"]) for row in read(replication)]
    assert [row['a"b'] for row in found] == [
        "tab\t nl\n cr\r bs\b ff\f vt\x0b",
        "\\",
        "\\\\n",
        "\\N",
        "",
        None,
        "\\\n\\\\\t\\",
        "a\\",
        "\\tb",
    ]
    assert [row["ümlaut%s"] for row in found[:3]] == ["XA==", "", None]
    assert [row["I d"] for row in found] == list(range(1, 10))


def test_a_leaf_may_have_its_columns_in_another_order(database: Database, replication: Replication) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, name text) PARTITION BY LIST (id)",
        "CREATE TABLE leaf (gone int, name text, id int NOT NULL)",
        "ALTER TABLE leaf DROP gone",
        "ALTER TABLE t ATTACH PARTITION leaf FOR VALUES IN (1, 2)",
        "INSERT INTO t VALUES (1, 'a')",
    )
    assert [row["after"] for row in read(replication, leaf=sql.Identifier("public", "leaf"))] == ['{"id":1,"name":"a"}']


def test_children_are_not_read_with_their_parent(database: Database, replication: Replication) -> None:
    database.execute("CREATE TABLE t (id int)", "CREATE TABLE child () INHERITS (t)", "INSERT INTO child VALUES (1)")
    assert read(replication) == []


def test_rules_hide_columns_of_snapshots_too(database: Database, replication: Replication) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, a text, b text)", "INSERT INTO t VALUES (1, 'a', 'b')")
    rules = ColumnRules(exclude=("a",), mask=("b",))
    (row,) = read(replication, 0, None, LEAF, rules)
    assert row["after"] == '{"id":1,"b":"***"}'
    assert '"a"' not in row["schema"]
    with pytest.raises(UsageError, match="part of the key"):
        read(replication, 0, None, LEAF, ColumnRules(exclude=("id",)))


def test_a_table_without_columns_has_rows_all_the_same(database: Database, replication: Replication) -> None:
    database.execute("CREATE TABLE t ()", "INSERT INTO t DEFAULT VALUES", "INSERT INTO t DEFAULT VALUES")
    assert [(row["key"], row["after"]) for row in read(replication)] == [(None, "{}")] * 2


def test_an_error_of_the_server_is_reported_and_leaves_the_connection_usable(
    database: Database, replication: Replication
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 5000)")
    for condition, error in (("nonsense", psycopg.errors.UndefinedColumn), ("1 / (id - 4000) > -9", psycopg.DataError)):
        with pytest.raises(error):
            read(replication, 0, None, LEAF, None, condition)
        assert database.rows("SELECT 1") == [(1,)]


def test_rows_need_not_be_read_to_their_end(
    database: Database, replication: Replication, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_of_blocks, "_ROWS_AT_ONCE", 100)
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, a text)",
        "INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 50000) i",
    )
    database.execute("BEGIN")
    batches = read_rows(database.connection, replication.relation("t"), LEAF)
    assert next(batches).num_rows == 100
    batches.close()  # type: ignore[attr-defined]
    database.execute("ROLLBACK")
    assert database.rows("SELECT 1") == [(1,)]
