import pytest

from changeling.model.table import Column, TableName, TableSchema
from changeling.postgres.column_rules import ColumnRules
from changeling.postgres.relation import PgColumn, PgType, Relation
from changeling.postgres.types import canonical_type, schema_of
from tests.postgres.replication import array_of, pg_type

TEXT = pg_type("text")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pg_type("int2"), "int16"),
        (pg_type("int4"), "int32"),
        (pg_type("int8"), "int64"),
        (pg_type("oid"), "uint32"),
        (pg_type("float4"), "float32"),
        (pg_type("numeric"), "decimal"),
        (pg_type("money"), "string"),
        (pg_type("bpchar"), "string"),
        (pg_type("bytea"), "bytes"),
        (pg_type("time"), "time"),
        (pg_type("timetz"), "string"),
        (pg_type("interval"), "interval"),
        (pg_type("jsonb"), "json"),
        (pg_type("inet"), "string"),
        (array_of(pg_type("timestamptz")), "array<timestamptz>"),
        (pg_type("int2vector", kind="array", element=pg_type("int2")), "string"),
        (PgType(1, "public", "hstore"), "json"),
        (PgType(1, "public", "vector"), "string"),
        (PgType(1, "public", "int4", "enum"), "string"),
        (PgType(1, "public", "int4"), "string"),
        (PgType(1, "public", "pair", "composite"), "string"),
        (PgType(1, "public", "cents", "domain", pg_type("int8")), "int64"),
        (PgType(1, "public", "deep", "domain", PgType(2, "public", "less", "domain", TEXT)), "string"),
        (array_of(PgType(1, "public", "cents", "domain", pg_type("int8"))), "array<int64>"),
        (PgType(1, "public", "many", "domain", array_of(pg_type("int4"))), "array<int32>"),
        (pg_type("int4range", kind="range", element=pg_type("int4")), "string"),
    ],
)
def test_a_type_has_one_canonical_type(kind: PgType, expected: str) -> None:
    assert str(canonical_type(kind)) == expected


@pytest.mark.parametrize(
    ("precision", "scale", "expected"),
    [
        (10, 2, "decimal(10,2)"),
        (5, 0, "decimal(5,0)"),
        (3, -2, "decimal(5,0)"),
        (3, 5, "decimal(5,5)"),
        (999, 1, "decimal(999,1)"),
        (1000, 1, "decimal"),
        (1, -1000, "decimal"),
        (1, 1000, "decimal"),
    ],
)
def test_a_decimal_holds_every_value_of_its_numeric(precision: int, scale: int, expected: str) -> None:
    typmod = (precision << 16 | scale & 0x7FF) + 4
    assert str(canonical_type(pg_type("numeric"), typmod)) == expected
    assert str(canonical_type(array_of(pg_type("numeric")), typmod)) == f"array<{expected}>"


def test_a_schema_has_the_columns_and_the_key_without_a_name() -> None:
    relation = Relation(
        7,
        TableName("db", "public", "t"),
        (
            PgColumn("id", pg_type("int8"), -1, "bigint", nullable=False),
            PgColumn("price", pg_type("numeric"), (10 << 16 | 2) + 4, "numeric(10,2)"),
            PgColumn("mail", TEXT, -1, "text"),
        ),
        ("id",),
    )
    price = Column("price", "decimal(10,2)", "numeric(10,2)")
    number = Column("id", "int64", "bigint", nullable=False)
    assert schema_of(relation) == TableSchema((number, price, Column("mail", "string", "text")), ("id",))
    hidden = schema_of(relation, ColumnRules(exclude=("mail",), hash=("price",)))
    assert hidden == TableSchema((number, Column("price", "string", "numeric(10,2)")), ("id",))


def test_a_key_with_missing_columns_is_none() -> None:
    relation = Relation(7, TableName("db", "public", "t"), (PgColumn("b", TEXT),), ("a", "b"))
    assert schema_of(relation).key == ()
