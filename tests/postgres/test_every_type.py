"""Values of every type, written to a real server and read back through its stream and as a snapshot."""

import json
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import sql

from changeling.model import canonical, json_text
from changeling.model.operation import Operation
from changeling.model.table import schema_from_json
from changeling.model.types import parse
from changeling.postgres.rows import read_rows
from changeling.postgres.types import schema_of
from demo.embedded_postgres import EmbeddedPostgres
from tests.postgres.every_type import LITERALS, TYPES, expected, literals
from tests.postgres.older_versions import OLDEST_AT_ONCE
from tests.postgres.replication import Replication
from tests.postgres.server import Database, started

# Nobody can write values of these.
INTERNAL = {
    "pg_node_tree",
    "pg_ndistinct",
    "pg_dependencies",
    "pg_mcv_list",
    "pg_brin_bloom_summary",
    "pg_brin_minmax_multi_summary",
    "gtsvector",
}
ROWS = max(len(literals) for literals in LITERALS.values()) + 1
Rows = dict[int, list[str | None]]
Given = dict[str, list[str]]


@pytest.fixture(scope="module", params=[None, *OLDEST_AT_ONCE])
def server(request: pytest.FixtureRequest, server: EmbeddedPostgres) -> Iterator[EmbeddedPostgres]:
    """The installed one, and older ones."""
    if request.param is None:
        yield server
        return
    with started(version=request.param) as made:
        yield made


@pytest.fixture
def given(database: Database) -> Given:
    """What the server takes, its types made."""
    vector = bool(database.rows("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"))
    database.execute(*TYPES, *(["CREATE EXTENSION vector"] if vector else []))
    return literals(database.connection.info.server_version, vector=vector, xml=has_xml(database))


@pytest.fixture
def replication(database: Database, given: Given) -> Replication:
    columns = [f"c{number} {kind}" for number, kind in enumerate(given)]
    database.execute(f"CREATE TABLE t (id int PRIMARY KEY, {', '.join(columns)})")
    database.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    return Replication(database, "FOR TABLE t")


def insert(database: Database, given: Given) -> None:
    """A row for each number of a literal, and one of NULLs after them."""
    for row in range(ROWS):
        values = [texts[row] if row < len(texts) else None for texts in given.values()]
        database.connection.execute(
            sql.SQL("INSERT INTO t VALUES ({})").format(sql.SQL(", ").join(map(sql.Literal, [row + 1, *values])))
        )


def has_xml(database: Database) -> bool:
    try:
        return bool(database.rows("SELECT '<a/>'::xml"))
    except psycopg.errors.FeatureNotSupported:
        return False


def update(database: Database, given: Given) -> None:
    """Each row becomes as the next one was."""
    names = ", ".join(f"c{number}" for number in range(len(given)))
    database.execute(f"UPDATE t SET ({names}) = (SELECT {names} FROM t o WHERE o.id = t.id % {ROWS} + 1)")


def printed(database: Database) -> Rows:
    """The values of each row as their types print them."""
    result = database.connection.execute("SELECT * FROM t ORDER BY id").pgresult
    assert result is not None
    rows: Rows = {}
    for row in range(result.ntuples):
        texts = [result.get_value(row, column) for column in range(result.nfields)]
        values = [None if text is None else text.decode() for text in texts]
        rows[int(values[0] or 0)] = values[1:]
    return rows


def snapshot(database: Database, replication: Replication) -> dict[int, str]:
    with database.connection.transaction():
        relation, leaf = replication.relation("t"), sql.Identifier("public", "t")
        found = list(read_rows(database.connection, relation, leaf))
    rows = [row for batch in found for row in batch.to_pylist()]
    return {json.loads(row["key"])["id"]: row["after"] for row in rows}


def interval_parts(database: Database) -> Callable[[str], tuple[int, int, int] | None]:
    def parts(text: str) -> tuple[int, int, int] | None:
        (row,) = database.rows(
            "SELECT isfinite(i), extract(year FROM i) * 12 + extract(month FROM i), extract(day FROM i), "
            "(extract(hour FROM i) * 3600 + extract(minute FROM i) * 60) * 1000000000 + extract(microseconds FROM i) * 1000 "
            f"FROM (SELECT '{text}'::interval AS i) x"
        )
        return (int(row[1]), int(row[2]), int(row[3])) if row[0] else None

    return parts


def test_every_type_is_reported_alike_by_the_stream_and_the_snapshot(
    database: Database, replication: Replication, given: Given
) -> None:
    insert(database, given)
    first, first_rows = printed(database), snapshot(database, replication)
    update(database, given)
    second, second_rows = printed(database), snapshot(database, replication)
    changes = replication.changes()
    inserts = {row: change.after for row, change in enumerate(changes[:ROWS], 1)}
    updates = {json.loads(change.key or "")["id"]: change for change in changes[ROWS:]}
    assert {change.op for change in updates.values()} == {Operation.UPDATE}
    assert inserts == first_rows
    assert {row: change.before for row, change in updates.items()} == first_rows
    assert {row: change.after for row, change in updates.items()} == second_rows

    schema = schema_from_json(changes[0].schema or "")
    parts = interval_parts(database)
    for texts, rows in ((first, first_rows), (second, second_rows)):
        for row, values in texts.items():
            members = json_text.members(rows[row])
            assert list(members) == [column.name for column in schema.columns]
            for column, text in zip(schema.columns[1:], values, strict=True):
                written = members[column.name]
                assert written == (b"null" if text is None else expected(column.type, text, parts)), column
                if text is not None:
                    check_reader(column.type, text, written)


def check_reader(kind: str, text: str, written: bytes) -> None:
    """The canonical reader returns what is written, or rejects it, and then it is the server's own text."""
    if written.startswith(b"[["):
        return
    try:
        assert canonical.reader(parse(kind))(written) == written
    except ValueError:
        assert json.loads(written) == text
        assert kind.startswith(("array", "date", "timestamp", "interval"))


def test_the_types_are_all_that_the_server_ships(database: Database, replication: Replication) -> None:
    shipped = {
        name
        for (name,) in database.rows(
            "SELECT typname FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace AND typtype IN ('b', 'r', 'm') "
            "AND (typcategory <> 'A' OR typname IN ('int2vector', 'oidvector'))"
        )
    }
    tested = {column.type.name for column in replication.relation("t").columns}
    assert shipped - tested == INTERNAL


def test_the_types_of_columns(replication: Replication, given: Given) -> None:
    schema = schema_of(replication.relation("t"))
    written = dict(zip(given, [column.type for column in schema.columns[1:]], strict=True))
    wanted = {
        "numeric(3,-2)": "decimal(5,0)",
        "numeric(3,5)": "decimal(5,5)",
        "numeric(6,2)[]": "array<decimal(6,2)>",
        "char(5)": "string",
        "cents": "int64",
        "short_numbers": "array<int32>",
        "pair": "string",
        "int2vector": "string",
        "vector(3)": "string",
        "vector(3)[]": "array<string>",
        "oid": "uint32",
    }
    wanted = {kind: name for kind, name in wanted.items() if kind in given}
    assert {kind: written[kind] for kind in wanted} == wanted
