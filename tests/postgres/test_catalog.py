"""Which tables a real server has, odd ones among them, and where their rows lie."""

import re

import pytest

from changeling.model.errors import UsageError
from changeling.model.table import TableName
from changeling.postgres import catalog
from changeling.postgres.catalog import CatalogTable, Leaf
from changeling.postgres.connection import connect
from changeling.postgres.relation import PgColumn, Relation
from tests.postgres.catalogs import INT4, found, oid_of, relation
from tests.postgres.roles import role
from tests.postgres.server import Database

LONG = "é" * 31 + "x"
"""As long as a name may be: 63 bytes."""


@pytest.fixture
def database(emptied: Database) -> Database:
    return emptied


def names(database: Database, *patterns: str) -> list[str]:
    return [f"{one.table.schema}.{one.table.name}" for one in found(database, *patterns)]


def tables_of_schemas(database: Database) -> None:
    database.execute(
        "CREATE SCHEMA shop",
        "CREATE SCHEMA pgx_shop",
        'CREATE SCHEMA "PG_shop"',
        "CREATE SCHEMA changeling",
        "CREATE SCHEMA changeling_too",
        *(
            f'CREATE TABLE "{schema}".{name} (id int PRIMARY KEY)'
            for schema in ("public", "shop", "pgx_shop", "PG_shop", "changeling", "changeling_too")
            for name in ("users", "orders")
        ),
    )


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["users"], ["public.users"]),
        (["*"], ["public.orders", "public.users"]),
        (["public.*"], ["public.orders", "public.users"]),
        (["shop.user?"], ["shop.users"]),
        (["shop.[!u]*"], ["shop.orders"]),
        (["*.users"], ["PG_shop.users", "changeling_too.users", "pgx_shop.users", "public.users", "shop.users"]),
        (["pg*.orders"], ["pgx_shop.orders"]),
        (["PG_shop.orders"], ["PG_shop.orders"]),
        (["changeling.*"], []),
        (["pg_catalog.*", "information_schema.*"], []),
        (
            ["users", "public.users", "*.users"],
            ["PG_shop.users", "changeling_too.users", "pgx_shop.users", "public.users", "shop.users"],
        ),
        (["Users", "PUBLIC.users"], []),
        (["shop.public.users"], []),
        ([], []),
    ],
)
def test_patterns_stand_for_tables_of_schemas(database: Database, patterns: list[str], expected: list[str]) -> None:
    tables_of_schemas(database)
    assert [f"{one.table.schema}.{one.table.name}" for one in catalog.tables(database.connection, patterns)] == expected


def test_a_pattern_may_name_the_database(database: Database) -> None:
    tables_of_schemas(database)
    assert names(database, f"{database.name}.shop.*") == ["shop.orders", "shop.users"]


def test_patterns_that_no_table_fits_are_reported(database: Database) -> None:
    tables_of_schemas(database)
    patterns = ["users", "nobody", "shop.*", "changeling.*", "other.public.users"]
    assert catalog.unmatched(found(database, *patterns), patterns) == ["nobody", "changeling.*", "other.public.users"]


def test_a_pattern_that_is_no_name_is_a_wrong_call(database: Database) -> None:
    database.execute("CREATE TABLE users (id int)")
    with pytest.raises(UsageError, match=re.escape("'a.b.c.d' is not a table name")):
        found(database, "a.b.c.d")


@pytest.mark.parametrize(
    "name",
    [
        "Users",
        'he said "no"',
        "a.b",
        "naïve café",
        "表",
        LONG,
        "100%",
        "a{b}",
        "it's",
        "a[1]",
        "sp ace",
        "new\nline",
        "a*b",
        "select",
    ],
)
def test_a_table_of_any_name_is_found_by_its_name(database: Database, name: str) -> None:
    quoted = name.replace('"', '""')
    database.execute(
        f'CREATE SCHEMA "{quoted}"',
        f'CREATE TABLE "{quoted}"."{quoted}" ("{quoted}" int PRIMARY KEY)',
        "CREATE TABLE plain (id int)",
    )
    table = TableName(database.name, name, name)
    oid = database.rows(
        "SELECT attrelid::oid FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid AND relkind = 'r' "
        f"WHERE attname = $odd${name}$odd$"
    )[0][0]
    chosen = catalog.tables(database.connection, [table.spelled()])
    assert chosen == [CatalogTable(oid, table, "default", False, True, True)]
    assert catalog.relations(database.connection, chosen, stored_generated=True) == [
        Relation(oid, table, (PgColumn(name, INT4, -1, "integer", False),), (name,))
    ]
    assert [(leaf.schema, leaf.name) for leaf in catalog.leaves(database.connection, oid)] == [(name, name)]


def test_only_tables_that_are_logged_are_found(database: Database) -> None:
    database.execute(
        "CREATE TABLE plain (id int PRIMARY KEY)",
        "CREATE VIEW a_view AS SELECT * FROM plain",
        "CREATE MATERIALIZED VIEW kept AS SELECT * FROM plain",
        "CREATE TEMP TABLE short (id int)",
        "CREATE UNLOGGED TABLE unlogged (id int)",
        "CREATE SEQUENCE numbers",
        "CREATE TYPE pair AS (a int, b int)",
        "CREATE FOREIGN DATA WRAPPER nothing",
        "CREATE SERVER far FOREIGN DATA WRAPPER nothing",
        "CREATE FOREIGN TABLE far_away (id int) SERVER far",
    )
    assert names(database) == ["public.plain"]
    database.execute("DROP FOREIGN DATA WRAPPER nothing CASCADE", "DROP TABLE short")


def test_tables_that_inherit_are_tables_of_their_own(database: Database) -> None:
    database.execute("CREATE TABLE parent (id int PRIMARY KEY)", "CREATE TABLE child (x int) INHERITS (parent)")
    assert names(database) == ["public.child", "public.parent"]
    parent = oid_of(database, "parent")
    assert catalog.leaves(database.connection, parent) == [Leaf(parent, "public", "parent", 0)]


def test_a_partitioned_table_is_one_whose_rows_lie_in_its_leaves(database: Database) -> None:
    database.execute(
        "CREATE SCHEMA cold",
        "CREATE TABLE sales (id int, at int, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)",
        "CREATE TABLE sales_new PARTITION OF sales FOR VALUES FROM (100) TO (200) PARTITION BY LIST (id)",
        "CREATE TABLE sales_one PARTITION OF sales_new FOR VALUES IN (1)",
        "CREATE TABLE sales_rest PARTITION OF sales_new DEFAULT",
        "CREATE TABLE cold.sales_old (at int NOT NULL, id int NOT NULL)",
        "INSERT INTO cold.sales_old SELECT 1, g FROM generate_series(1, 1000) g",
        "ALTER TABLE sales ATTACH PARTITION cold.sales_old FOR VALUES FROM (0) TO (100)",
        "INSERT INTO sales VALUES (1, 150)",
    )
    sales = oid_of(database, "sales")
    assert found(database) == [
        CatalogTable(sales, TableName(database.name, "public", "sales"), "default", True, True, True)
    ]
    assert catalog.leaves(database.connection, sales) == [
        Leaf(oid_of(database, "sales_one"), "public", "sales_one", 1),
        Leaf(oid_of(database, "sales_rest"), "public", "sales_rest", 0),
        Leaf(oid_of(database, "cold.sales_old"), "cold", "sales_old", 5),
    ]
    assert relation(database, "sales") == Relation(
        sales,
        TableName(database.name, "public", "sales"),
        (PgColumn("id", INT4, -1, "integer", False), PgColumn("at", INT4, -1, "integer", False)),
        ("id", "at"),
    )


def test_a_partitioned_table_without_partitions_has_no_leaves(database: Database) -> None:
    database.execute("CREATE TABLE sales (id int PRIMARY KEY) PARTITION BY HASH (id)")
    (one,) = found(database)
    assert (one.partitioned, one.lacking, catalog.leaves(database.connection, one.oid)) == (True, (), [])


@pytest.mark.parametrize(
    ("root", "leaf", "lacking"),
    [
        ("DEFAULT", "DEFAULT", False),
        ("DEFAULT", "FULL", False),
        ("DEFAULT", "NOTHING", True),
        ("DEFAULT", "USING INDEX t_1_b_idx", True),
        ("DEFAULT", "USING INDEX t_1_pkey", False),
        ("FULL", "DEFAULT", True),
        ("FULL", "FULL", False),
        ("USING INDEX identity_idx", "DEFAULT", True),
        ("USING INDEX identity_idx", "USING INDEX t_1_b_idx", False),
        ("NOTHING", "DEFAULT", True),
    ],
)
def test_a_partition_lacks_what_it_does_not_report_of_its_rows(
    database: Database, root: str, leaf: str, lacking: bool
) -> None:
    database.execute(
        "CREATE TABLE t (a int PRIMARY KEY, b int NOT NULL) PARTITION BY RANGE (a)",
        "CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (9)",
        "CREATE UNIQUE INDEX identity_idx ON t (b, a)",
        "CREATE UNIQUE INDEX t_1_b_idx ON t_1 (b, a)",
        f"ALTER TABLE t REPLICA IDENTITY {root}",
        f"ALTER TABLE t_1 REPLICA IDENTITY {leaf}",
    )
    (one,) = found(database)
    assert one.lacking == ((TableName(database.name, "public", "t_1"),) if lacking else ())


def test_partitions_of_a_table_without_a_key_lack_it(database: Database) -> None:
    database.execute(
        "CREATE TABLE t (a int) PARTITION BY RANGE (a)",
        "CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (9) PARTITION BY RANGE (a)",
        "CREATE TABLE t_2 PARTITION OF t_1 FOR VALUES FROM (0) TO (5)",
        "CREATE TABLE t_3 PARTITION OF t_1 FOR VALUES FROM (5) TO (9)",
        "ALTER TABLE t_2 REPLICA IDENTITY FULL",
    )
    (one,) = found(database)
    assert one.lacking == (TableName(database.name, "public", "t_3"),)


def test_rights_are_those_of_the_user_who_asks(database: Database) -> None:
    database.execute(
        "CREATE SCHEMA closed",
        "CREATE TABLE closed.t (id int)",
        "CREATE TABLE granted (id int)",
        "CREATE TABLE owned (id int)",
        "CREATE TABLE refused (id int)",
        "CREATE TABLE secured (id int)",
        "ALTER TABLE secured ENABLE ROW LEVEL SECURITY",
        "CREATE TABLE parts (id int) PARTITION BY LIST (id)",
        "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1)",
    )
    with role(database) as user:
        database.execute(
            f"GRANT SELECT ON closed.t, granted, secured, parts TO {user.name}",
            f"ALTER TABLE owned OWNER TO {user.name}",
        )
        reported = {
            one.table.name: (one.owned, one.readable)
            for one in catalog.tables(user.connection, ["public.*", "closed.*"])
        }
        database.execute(f"GRANT USAGE ON SCHEMA closed TO {user.name}", f"GRANT SELECT ON parts_1 TO {user.name}")
        readable = {one.table.name for one in catalog.tables(user.connection, ["*.*"]) if one.readable}
    assert reported == {
        "t": (False, False),
        "granted": (False, True),
        "owned": (True, True),
        "refused": (False, False),
        "secured": (False, False),
        "parts": (False, False),
    }
    assert readable == {"t", "granted", "owned", "parts"}


def test_relations_are_reported_in_the_order_asked_for_and_none_for_none(database: Database) -> None:
    database.execute("CREATE TABLE a (x int PRIMARY KEY)", "CREATE TABLE b (y int)", "CREATE TABLE c (z int)")
    first, second, third = found(database)
    asked = catalog.relations(database.connection, [third, first, second], stored_generated=True)
    assert [one.table.name for one in asked] == ["c", "a", "b"]
    assert catalog.relations(database.connection, [], stored_generated=True) == []


def test_a_table_that_is_gone_in_between_has_no_columns(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    (one,) = found(database)
    database.execute("DROP TABLE t")
    assert catalog.relations(database.connection, [one], stored_generated=True) == [
        Relation(one.oid, one.table, (), ())
    ]
    assert catalog.leaves(database.connection, one.oid) == []


def test_blocks_are_counted_as_they_are_on_disk(database: Database) -> None:
    database.execute("CREATE TABLE t (id int, x text)", "ALTER TABLE t ALTER x SET STORAGE PLAIN")
    database.execute("INSERT INTO t SELECT g, repeat('x', 5000) FROM generate_series(1, 30) g")
    with connect(database.url) as other:
        oid = oid_of(database, "t")
        assert catalog.leaves(other, oid) == [Leaf(oid, "public", "t", 30)]
