"""The columns and keys of tables, as the catalog of a real server has them."""

import pytest

from changeling.model.table import TableName
from changeling.postgres import catalog
from changeling.postgres.relation import PgColumn, PgType, Relation
from tests.postgres.catalogs import INT4, TEXT, oid_of, relation, type_oid
from tests.postgres.server import Database


@pytest.fixture
def database(emptied: Database) -> Database:
    return emptied


def test_generated_columns_are_reported_if_they_are_stored_and_published(database: Database) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, a int GENERATED ALWAYS AS (id * 2) STORED, "
        "b int GENERATED ALWAYS AS (id * 3) VIRTUAL, c int GENERATED ALWAYS AS IDENTITY)"
    )
    reported = {
        stored: [column.name for column in relation(database, "t", stored_generated=stored).columns]
        for stored in (True, False)
    }
    assert reported == {True: ["id", "a", "c"], False: ["id", "c"]}


def test_dropped_columns_are_none(database: Database) -> None:
    database.execute(
        "CREATE TABLE t (a int, gone text, b text NOT NULL, last int)",
        "ALTER TABLE t ADD PRIMARY KEY (b, a)",
        "ALTER TABLE t DROP COLUMN gone, DROP COLUMN last, ADD COLUMN gone text",
    )
    assert relation(database, "t") == Relation(
        oid_of(database, "t"),
        TableName(database.name, "public", "t"),
        (
            PgColumn("a", INT4, -1, "integer", False),
            PgColumn("b", TEXT, -1, "text", False),
            PgColumn("gone", TEXT, -1, "text"),
        ),
        ("a", "b"),
    )


def test_a_table_without_columns_has_none(database: Database) -> None:
    database.execute("CREATE TABLE t ()", "CREATE TABLE u (a int)", "ALTER TABLE u DROP COLUMN a")
    assert [relation(database, name).columns for name in ("t", "u")] == [(), ()]


def test_a_column_may_be_null_while_its_constraint_is_not_valid(database: Database) -> None:
    database.execute(
        "CREATE TABLE t (a int, b int NOT NULL)",
        "INSERT INTO t VALUES (NULL, 1)",
        "ALTER TABLE t ADD CONSTRAINT filled NOT NULL a NOT VALID",
    )
    assert [column.nullable for column in relation(database, "t").columns] == [True, False]
    assert catalog.required(database.connection, oid_of(database, "t")) == {"b"}
    database.execute("UPDATE t SET a = 1", "ALTER TABLE t VALIDATE CONSTRAINT filled")
    assert [column.nullable for column in relation(database, "t").columns] == [False, False]


def test_types_are_reported_with_what_they_are_made_of(database: Database) -> None:
    database.execute(
        "CREATE EXTENSION vector",
        "CREATE SCHEMA other",
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE TYPE other.\"Mood\" AS ENUM ('sad')",
        "CREATE DOMAIN age AS int CHECK (VALUE > 0)",
        "CREATE DOMAIN young AS age CHECK (VALUE < 30)",
        "CREATE DOMAIN ages AS age[]",
        "CREATE DOMAIN amount AS numeric(12,2)",
        "CREATE TYPE pair AS (a int, b mood)",
        "CREATE TYPE spans AS RANGE (subtype = numeric)",
    )
    number = type_oid(database, "mood"), type_oid(database, "age")
    mood = PgType(number[0], "public", "mood", "enum")
    age = PgType(number[1], "public", "age", "domain", INT4)
    pair = PgType(type_oid(database, "pair"), "public", "pair", "composite")
    numeric = PgType(1700, "pg_catalog", "numeric")
    vector = PgType(type_oid(database, "vector"), "public", "vector")
    span = PgType(type_oid(database, "spans"), "public", "spans", "range", numeric)
    ages = PgType(type_oid(database, "age[]"), "public", "_age", "array", age)
    other = PgType(type_oid(database, 'other."Mood"'), "other", "Mood", "enum")

    def array(of: PgType, spelled: str) -> PgType:
        return PgType(type_oid(database, f"{spelled}[]"), of.schema, f"_{of.name}", "array", of)

    expected = [
        ("varchar(10)", PgType(1043, "pg_catalog", "varchar"), 14, "character varying(10)"),
        ("char(3)", PgType(1042, "pg_catalog", "bpchar"), 7, "character(3)"),
        ("numeric(10,2)", numeric, (10 << 16 | 2) + 4, "numeric(10,2)"),
        ("numeric", numeric, -1, "numeric"),
        ("numeric(10,2)[]", array(numeric, "numeric"), (10 << 16 | 2) + 4, "numeric(10,2)[]"),
        ("int[][]", array(INT4, "int"), -1, "integer[]"),
        ("timestamptz(3)", PgType(1184, "pg_catalog", "timestamptz"), 3, "timestamp(3) with time zone"),
        ("mood", mood, -1, "mood"),
        ('other."Mood"', other, -1, 'other."Mood"'),
        ("mood[]", array(mood, "mood"), -1, "mood[]"),
        ("age", age, -1, "age"),
        ("young", PgType(type_oid(database, "young"), "public", "young", "domain", age), -1, "young"),
        ("age[]", ages, -1, "age[]"),
        ("ages", PgType(type_oid(database, "ages"), "public", "ages", "domain", ages), -1, "ages"),
        ("amount", PgType(type_oid(database, "amount"), "public", "amount", "domain", numeric), -1, "amount"),
        ("pair", pair, -1, "pair"),
        ("pair[]", array(pair, "pair"), -1, "pair[]"),
        ("int4range", PgType(3904, "pg_catalog", "int4range", "range", INT4), -1, "int4range"),
        ("int4multirange", PgType(4451, "pg_catalog", "int4multirange", "multirange", INT4), -1, "int4multirange"),
        ("spans", span, -1, "spans"),
        ("spans[]", array(span, "spans"), -1, "spans[]"),
        ("vector(3)", vector, 3, "vector(3)"),
        ("vector[]", array(vector, "vector"), -1, "vector[]"),
        ("point", PgType(600, "pg_catalog", "point"), -1, "point"),
        ("name", PgType(19, "pg_catalog", "name"), -1, "name"),
        ("oidvector", PgType(30, "pg_catalog", "oidvector", "array", PgType(26, "pg_catalog", "oid")), -1, "oidvector"),
    ]
    columns = ", ".join(f"c{place} {declared}" for place, (declared, *_) in enumerate(expected))
    database.execute(f"CREATE TABLE t ({columns})")
    reported = [
        (column.type, column.typmod, column.spelled, column.nullable) for column in relation(database, "t").columns
    ]
    assert reported == [(kind, typmod, spelled, True) for _, kind, typmod, spelled in expected]


def test_a_type_that_is_dropped_takes_its_columns_along(database: Database) -> None:
    database.execute("CREATE TYPE mood AS ENUM ('sad')", "CREATE TABLE t (id int PRIMARY KEY, m mood, ms mood[])")
    mood = type_oid(database, "mood")
    database.execute("DROP TYPE mood CASCADE")
    assert [column.name for column in relation(database, "t").columns] == ["id"]
    assert catalog.types_of(database.connection, [mood, 23, 0]) == {mood: PgType(mood, "", ""), 23: INT4}


@pytest.mark.parametrize(
    ("statements", "identity", "key"),
    [
        (["CREATE TABLE t (a int, b int, c int, PRIMARY KEY (c, a))"], "default", ("a", "c")),
        (["CREATE TABLE t (a int, b int, PRIMARY KEY (b) INCLUDE (a))"], "default", ("b",)),
        (["CREATE TABLE t (a int, b int)"], "default", ()),
        (["CREATE TABLE t (a int NOT NULL UNIQUE)"], "default", ()),
        (["CREATE TABLE t (a int PRIMARY KEY DEFERRABLE)"], "default", ()),
        (["CREATE TABLE t (a int PRIMARY KEY DEFERRABLE)", "ALTER TABLE t REPLICA IDENTITY FULL"], "full", ()),
        (["CREATE TABLE t (a int PRIMARY KEY)", "ALTER TABLE t REPLICA IDENTITY FULL"], "full", ("a",)),
        (["CREATE TABLE t (a int)", "ALTER TABLE t REPLICA IDENTITY FULL"], "full", ()),
        (["CREATE TABLE t (a int PRIMARY KEY)", "ALTER TABLE t REPLICA IDENTITY NOTHING"], "nothing", ("a",)),
        (
            [
                "CREATE TABLE t (a int PRIMARY KEY, b int NOT NULL, c int NOT NULL, d int)",
                "CREATE UNIQUE INDEX identity_idx ON t (c, b) INCLUDE (d)",
                "ALTER TABLE t REPLICA IDENTITY USING INDEX identity_idx",
            ],
            "index",
            ("b", "c"),
        ),
        (
            [
                "CREATE TABLE t (a int PRIMARY KEY, b int NOT NULL)",
                "CREATE UNIQUE INDEX identity_idx ON t (b)",
                "ALTER TABLE t REPLICA IDENTITY USING INDEX identity_idx",
                "DROP INDEX identity_idx",
            ],
            "index",
            (),
        ),
        (
            ["CREATE TABLE t (a int PRIMARY KEY)", "ALTER TABLE t REPLICA IDENTITY USING INDEX t_pkey"],
            "index",
            ("a",),
        ),
    ],
)
def test_what_identifies_a_row(database: Database, statements: list[str], identity: str, key: tuple[str, ...]) -> None:
    database.execute(*statements)
    reported = relation(database, "t")
    assert (reported.identity, reported.key) == (identity, key)
