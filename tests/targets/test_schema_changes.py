"""Tables of PostgreSQL are altered from one shape to another, with their rows. Without Spark."""

import pytest

from changeling.model.errors import ChangelingError
from changeling.model.table import TableName
from changeling.replicas.replica_reader import Identity
from changeling.replicas.shape import ReplicaColumn, Shape
from changeling.targets.schema_changes import (
    add_key,
    alter,
    check_fits,
    check_unchanged,
    create,
    drop_key,
    existing_tables,
    is_kept,
)
from changeling.targets.table_mapping import TargetTable, Wanted, check_columns, target_table_of, target_tables_of
from tests.postgres.server import Database

T = TargetTable("s p", 'we"ird')


def shape(*columns: str, key: tuple[str, ...] = ()) -> Shape:
    """Columns as `id:name:type`."""
    return Shape(tuple(ReplicaColumn(*column.split(":")) for column in columns), key)


def made(database: Database, place: TargetTable, of: Shape) -> None:
    create(database.connection, place, of)
    add_key(database.connection, place, of)


def test_a_table_has_the_columns_of_its_shape(database: Database) -> None:
    of = shape("1:Id:int64", "2:a%s:string", '3:"x"\\:decimal(10,2)', "4:é:json", key=("4", "1"))
    assert create(database.connection, T, of) is True
    add_key(database.connection, T, of)
    (found,) = existing_tables(database.connection, [T]).values()
    assert found.columns == {"Id": "bigint", "a%s": "text", '"x"\\': "numeric(10,2)", "é": "text"}
    assert (found.key, found.is_table) == (("é", "Id"), True)
    assert create(database.connection, TargetTable("s p", "other"), of) is False
    assert existing_tables(database.connection, [TargetTable("no", "such"), T]) == {T: found}


def test_columns_change_and_rows_stay(database: Database) -> None:
    old = shape(
        "1:id:int32", "2:a:int16", "3:b:string", "4:c:float32", "5:d:decimal(10,2)", "6:e:array<int32>", key=("1",)
    )
    new = shape(
        "1:number:int64",
        "2:b:int32",
        "3:a:string",
        "5:d:decimal",
        "6:e:array<int64>",
        "7:c:json",
        "8:é %:date",
        key=("1",),
    )
    made(database, T, old)
    name = '"s p"."we""ird"'
    database.execute(f"INSERT INTO {name} VALUES (1, 2, 'three', 4, 5.50, '{{6,NULL}}')")
    assert is_kept(old, new)
    alter(database.connection, T, old, new)
    assert database.rows(f'SELECT number, a, b, c, d::text, e, "é %" FROM {name}') == [
        (1, "three", 2, None, "5.50", [6, None], None)
    ]
    check_unchanged(T, existing_tables(database.connection, [T])[T], new)


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        ("int32", "int64", True),
        ("int64", "decimal", True),
        ("uint32", "int64", True),
        ("decimal(10,2)", "decimal(12,4)", True),
        ("decimal(60,2)", "decimal", True),
        ("float32", "float64", True),
        ("int64", "json", False),
        ("string", "json", False),
        ("json", "string", False),
        ("int64", "int32", False),
        ("array<array<int32>>", "array<array<int64>>", False),
    ],
)
def test_rows_are_kept_where_a_type_is_widened(old: str, new: str, kept: bool, database: Database) -> None:
    before, after = shape("1:id:int32", f"2:v:{old}"), shape("1:id:int32", f"2:v:{new}")
    assert is_kept(before, after) is kept
    made(database, T, before)
    alter(database.connection, T, before, after)
    check_unchanged(T, existing_tables(database.connection, [T])[T], after)


def test_a_key_is_another_one(database: Database) -> None:
    old = shape("1:a:int32", "2:b:int32", "3:c:json", key=("1", "2"))
    new = shape("1:a:int32", "2:b:int32", "3:c:json", key=("3",))
    assert not is_kept(old, new)
    made(database, T, old)
    there = existing_tables(database.connection, [T])[T]
    assert there.constraint is not None
    drop_key(database.connection, T, there.constraint, old)
    alter(database.connection, T, old, new)
    add_key(database.connection, T, new)
    database.execute("""INSERT INTO "s p"."we""ird" VALUES (NULL, NULL, '{}')""")
    assert existing_tables(database.connection, [T])[T].key == ("c",)
    assert not is_kept(new, shape("1:a:int32"))
    assert is_kept(new, shape("1:z:int32", "3:key:json", key=("3",)))


def test_what_somebody_else_altered_is_reported(database: Database) -> None:
    of = shape("1:id:int64", "2:v:string", key=("1",))
    made(database, T, of)
    name = '"s p"."we""ird"'
    database.execute(f"ALTER TABLE {name} ADD COLUMN own int DEFAULT 7", f"CREATE INDEX ON {name} (v)")
    check_unchanged(T, existing_tables(database.connection, [T])[T], of)
    database.execute(f"ALTER TABLE {name} ALTER COLUMN v TYPE varchar(10)")
    with pytest.raises(
        ChangelingError, match=r"'v' of table .* was text and is character varying\(10\): somebody else"
    ):
        check_unchanged(T, existing_tables(database.connection, [T])[T], of)
    database.execute(f"ALTER TABLE {name} DROP COLUMN v")
    with pytest.raises(ChangelingError, match=r"'v' of table .* no longer exists"):
        check_unchanged(T, existing_tables(database.connection, [T])[T], of)


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("CREATE TABLE public.t (id bigint PRIMARY KEY, v text)", None),
        ("CREATE TABLE public.t (v text, id bigint)", None),
        ("CREATE TABLE public.t (id bigint PRIMARY KEY, v text); INSERT INTO public.t VALUES (1, 'x')", "has rows"),
        (
            "CREATE TABLE public.t (id bigint, v text PRIMARY KEY)",
            r"has the primary key \(v\), the replica's is \(id\)",
        ),
        ("CREATE TABLE public.t (id int PRIMARY KEY, v text)", "'id' is integer, the replica's is bigint"),
        ("CREATE TABLE public.t (id bigint PRIMARY KEY)", "'v' is missing, the replica's is text"),
        ("CREATE TABLE public.t (id bigint PRIMARY KEY, v text, w text)", "'w' is text, the replica's is none"),
        ("CREATE VIEW public.t AS SELECT 1::bigint AS id, ''::text AS v", "is not an ordinary table"),
    ],
)
def test_a_table_of_somebody_else_is_left_alone(statement: str, problem: str | None, database: Database) -> None:
    place, of = TargetTable("public", "t"), shape("1:id:int64", "2:v:string", key=("1",))
    database.execute(statement)
    there = existing_tables(database.connection, [place])[place]
    if problem is None:
        check_fits(database.connection, place, there, of)
        return
    with pytest.raises(ChangelingError, match=f"table public.t existed before and .*{problem}"):
        check_fits(database.connection, place, there, of)


def test_places_of_tables() -> None:
    assert target_table_of(TableName("db", "s", "t")) == TargetTable("s", "t")
    assert target_table_of(TableName("db", None, "t")) == TargetTable("public", "t")
    assert str(TargetTable("s", "a.b")) == 's."a.b"'
    target_table_of(TableName(None, "ü" * 31, "t" * 63))
    for table, problem in [
        (TableName(None, "ü" * 32, "t"), "has 64 bytes, and PostgreSQL allows 63"),
        (TableName(None, None, "t" * 64), "has 64 bytes"),
        (TableName(None, None, "a\0b"), "is not a valid name in PostgreSQL"),
        (TableName(None, "", "t"), "is not a valid name in PostgreSQL"),
        (TableName(None, "changeling", "points"), "is reserved"),
        (TableName(None, "pg_catalog", "pg_class"), "is reserved"),
    ]:
        with pytest.raises(ChangelingError, match=problem):
            target_table_of(table)
    with pytest.raises(ChangelingError, match="has 70 bytes"):
        check_columns(T, shape(f"1:{'c' * 70}:int32"))
    with pytest.raises(ChangelingError, match="PostgreSQL has a system column of that name"):
        check_columns(T, shape("1:xmin:int32"))
    with pytest.raises(
        ChangelingError, match=r"a\.s\.t of source x and b\.s\.t of source x would both be the table s\.t"
    ):
        target_tables_of([Identity("x", TableName(catalog, "s", "t")) for catalog in ("a", "b")])


def test_tables_are_chosen_by_names_and_patterns() -> None:
    users, orders = TableName("db", "public", "users"), TableName(None, None, "orders[1]")
    assert Wanted(["*"]).has(users)
    assert Wanted(["public.*"]).has(users)
    assert Wanted(["public.*"]).has(orders)
    assert Wanted(["db.pub*.*ser*"]).has(users)
    assert Wanted(["users"]).has(users)
    assert Wanted(["orders[1]"]).has(orders)
    assert not Wanted(["other.users", "user", "x.*.*", "Users"]).has(users)
    assert Wanted(["users", "nope", "public.x*"]).without([users]) == ["nope", "public.x*"]
