"""Tables as described by the stream of a real server equal those of its catalog."""

import pytest

from changeling.postgres import catalog
from changeling.postgres.frames import relation as parse_relation
from changeling.postgres.relation import PgColumn, PgType, Relation
from changeling.postgres.slot import Slot
from changeling.postgres.table_versions import Resolver
from tests.postgres.server import Database

EVERYTHING = 2**63 - 1
TYPES = """
CREATE EXTENSION vector;
CREATE SCHEMA other;
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TYPE other."Mood" AS ENUM ('sad');
CREATE DOMAIN age AS int CHECK (VALUE > 0);
CREATE DOMAIN young AS age;
CREATE DOMAIN ages AS age[];
CREATE TYPE pair AS (a int, b mood);
CREATE TYPE spans AS RANGE (subtype = numeric);
"""
ALL_KINDS = (
    "b bool, i2 smallint, i8 bigint NOT NULL, n numeric, n2 numeric(10,2), v varchar(7), c char(3), t text, ts timestamptz(3), "
    'd interval, j jsonb, u uuid, p point, e mood, e2 other."Mood", dm age NOT NULL, dd young, da ages, co pair, r int4range, '
    "mr int4multirange, sp spans, ve vector(3), a1 int[], a2 numeric(4,1)[], a3 mood[], a4 age[], a5 pair[], a6 spans[], a7 vector[]"
)


@pytest.fixture
def database(emptied: Database) -> Database:
    emptied.execute("SET synchronous_commit = on")
    return emptied


class DescribedTables:
    """The tables that a slot describes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.execute(
            "CREATE PUBLICATION p FOR ALL TABLES WITH (publish_via_partition_root = true, publish_generated_columns = stored)"
        )
        self._slot = Slot(database.url, f"slot_{database.name}")
        self._slot.create().close()

    def relations(self) -> list[Relation]:
        resolver = Resolver(self._database.connection)
        chunks = list(self._slot.messages(self._database.connection, "p", EVERYTHING, 100))
        bodies = [message[1:] for chunk in chunks for message in chunk if message[:1] == b"R"]
        return [resolver(*parse_relation(body)) for body in bodies]


def of_catalog(database: Database) -> list[Relation]:
    found = catalog.tables(database.connection, ["*.*"])
    return catalog.relations(database.connection, found, stored_generated=True)


IDENTITIES = {
    "default": ["CREATE TABLE t (x text, b int, a int, PRIMARY KEY (a, b))"],
    "default with included columns": ["CREATE TABLE t (x text, a int, PRIMARY KEY (a) INCLUDE (x))"],
    "default without a key": ["CREATE TABLE t (x text)"],
    "deferrable key": ["CREATE TABLE t (x text, a int PRIMARY KEY DEFERRABLE)"],
    "full": ["CREATE TABLE t (x text, b int, a int, PRIMARY KEY (a, b))", "ALTER TABLE t REPLICA IDENTITY FULL"],
    "full with a deferrable key": [
        "CREATE TABLE t (x text, a int PRIMARY KEY DEFERRABLE)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
    ],
    "full without a key": ["CREATE TABLE t (x text)", "ALTER TABLE t REPLICA IDENTITY FULL"],
    "nothing": ["CREATE TABLE t (x text, a int PRIMARY KEY)", "ALTER TABLE t REPLICA IDENTITY NOTHING"],
    "index": [
        "CREATE TABLE t (x text, b int NOT NULL, a int PRIMARY KEY, c int NOT NULL)",
        "CREATE UNIQUE INDEX i ON t (c, b) INCLUDE (x)",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX i",
    ],
    "index that is gone": [
        "CREATE TABLE t (x text, a int NOT NULL CONSTRAINT u UNIQUE)",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX u",
        "ALTER TABLE t DROP CONSTRAINT u",
    ],
    "partitions": [
        "CREATE TABLE t (x text, a int PRIMARY KEY) PARTITION BY RANGE (a)",
        "CREATE TABLE t_1 (a int NOT NULL, gone int, x text)",
        "ALTER TABLE t_1 DROP COLUMN gone",
        "ALTER TABLE t ATTACH PARTITION t_1 DEFAULT",
    ],
    "generated columns": [
        "CREATE TABLE t (x text, s int GENERATED ALWAYS AS (a + 1) STORED, v int GENERATED ALWAYS AS (a + 2) VIRTUAL, "
        "a int DEFAULT 1 PRIMARY KEY)"
    ],
    "odd names": ['CREATE TABLE t (x text, "a ""b"".é" int DEFAULT 1 PRIMARY KEY)'],
    "dropped columns": ["CREATE TABLE t (gone int, x text, a int PRIMARY KEY)", "ALTER TABLE t DROP COLUMN gone"],
}


@pytest.mark.parametrize("statements", IDENTITIES.values(), ids=IDENTITIES)
def test_the_stream_and_the_catalog_agree(database: Database, statements: list[str]) -> None:
    database.execute(*statements)
    for name in "abc":
        if database.rows(f"SELECT 1 FROM pg_attribute WHERE attrelid = 't'::regclass AND attname = '{name}'"):
            database.execute(f"ALTER TABLE t ALTER {name} SET DEFAULT 1")
    described = DescribedTables(database)
    database.execute("INSERT INTO t (x) VALUES ('x')")
    # The stream describes a partition as well, though its changes are those of the root.
    assert [relation for relation in described.relations() if relation.table.name != "t_1"] == of_catalog(database)


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL", "USING INDEX i", "NOTHING"])
def test_types_of_all_kinds_are_reported_the_same(database: Database, identity: str) -> None:
    database.execute(TYPES, f"CREATE TABLE t (id int PRIMARY KEY, {ALL_KINDS})")
    database.execute("CREATE UNIQUE INDEX i ON t (i8, dm)", f"ALTER TABLE t REPLICA IDENTITY {identity}")
    described = DescribedTables(database)
    database.execute("INSERT INTO t (id, i8, dm) VALUES (1, 1, 1)")
    (relation,) = described.relations()
    assert [relation] == of_catalog(database)
    assert len(relation.columns) == 31
    assert relation.key == (("i8", "dm") if "INDEX" in identity else ("id",))


def test_several_tables_of_several_schemas_are_reported_each(database: Database) -> None:
    database.execute(
        "CREATE SCHEMA s",
        "CREATE TABLE a (id int PRIMARY KEY)",
        "CREATE TABLE s.a (id bigint PRIMARY KEY)",
        'CREATE TABLE "A.b" (id text PRIMARY KEY)',
    )
    described = DescribedTables(database)
    database.execute("INSERT INTO a VALUES (1)", "INSERT INTO s.a VALUES (1)", "INSERT INTO \"A.b\" VALUES ('1')")
    assert sorted(described.relations(), key=lambda one: one.oid) == sorted(
        of_catalog(database), key=lambda one: one.oid
    )


def test_an_older_version_of_a_table_is_reported_with_its_own_columns(database: Database) -> None:
    database.execute(
        "CREATE TYPE mood AS ENUM ('sad')", "CREATE TABLE t (id int PRIMARY KEY, m mood, ms mood[], x varchar(5))"
    )
    described = DescribedTables(database)
    database.execute("INSERT INTO t VALUES (1)")
    (first,) = of_catalog(database)
    mood, moods = (first.columns[place].type.oid for place in (1, 2))
    database.execute(
        "DROP TYPE mood CASCADE",
        "ALTER TABLE t ALTER x TYPE text, ADD COLUMN y int NOT NULL DEFAULT 1",
        "INSERT INTO t VALUES (2)",
    )
    (second,) = of_catalog(database)
    id_column, _, _, x_column = first.columns
    assert described.relations() == [
        Relation(
            first.oid,
            first.table,
            # A type that was dropped from the catalog has no name: the stream may have sent it.
            (
                id_column,
                PgColumn("m", PgType(mood, "", ""), -1, ""),
                PgColumn("ms", PgType(moods, "", ""), -1, ""),
                x_column,
            ),
            ("id",),
        ),
        second,
    ]


def test_a_key_of_today_is_none_of_a_version_that_lacks_its_columns(database: Database) -> None:
    database.execute("CREATE TABLE t (a int NOT NULL, b int)", "ALTER TABLE t REPLICA IDENTITY FULL")
    described = DescribedTables(database)
    database.execute("INSERT INTO t VALUES (1)")
    database.execute(
        "ALTER TABLE t ADD COLUMN c int NOT NULL DEFAULT 1, ADD PRIMARY KEY (a, c)", "INSERT INTO t VALUES (2)"
    )
    assert [(relation.key, len(relation.columns)) for relation in described.relations()] == [((), 2), (("a", "c"), 3)]


def test_a_table_that_is_gone_is_reported_as_the_stream_has_it(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, x text)", "CREATE TABLE u (id int PRIMARY KEY)")
    database.execute("ALTER TABLE u REPLICA IDENTITY FULL")
    described = DescribedTables(database)
    database.execute("INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)")
    u, t = sorted(of_catalog(database), key=lambda one: -one.oid)
    database.execute("DROP TABLE t, u")
    integer = PgColumn("id", u.columns[0].type, -1, "integer")
    assert described.relations() == [
        Relation(t.oid, t.table, (integer, t.columns[1]), ("id",)),
        Relation(u.oid, u.table, (integer,), (), "full"),
    ]


def test_a_type_is_asked_for_once(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    resolver = Resolver(database.connection)
    first = resolver(1, "public", "t", "d", [("id", 23, -1, True), ("x", 1043, 9, False)])
    assert first.columns == (
        PgColumn("id", PgType(23, "pg_catalog", "int4"), -1, "integer"),
        PgColumn("x", PgType(1043, "pg_catalog", "varchar"), 9, "character varying(5)"),
    )
    again = resolver(1, "public", "t", "d", [("x", 1043, 24, True)])
    assert (again.key, again.columns) == (
        ("x",),
        (PgColumn("x", PgType(1043, "pg_catalog", "varchar"), 24, "character varying(20)"),),
    )
