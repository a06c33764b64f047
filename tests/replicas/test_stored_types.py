"""How canonical types are stored, and which of them become others in place."""

import pyarrow as pa
import pytest

from changeling.model.types import SIMPLE, parse
from changeling.replicas.stored_types import arrow_type, is_promotion, sql_type

STORED = [
    ("bool", pa.bool_(), "BOOLEAN"),
    ("int8", pa.int32(), "INT"),
    ("int16", pa.int32(), "INT"),
    ("int32", pa.int32(), "INT"),
    ("uint8", pa.int32(), "INT"),
    ("uint16", pa.int32(), "INT"),
    ("int64", pa.int64(), "BIGINT"),
    ("uint32", pa.int64(), "BIGINT"),
    ("uint64", pa.decimal128(20, 0), "DECIMAL(20,0)"),
    ("float32", pa.float32(), "FLOAT"),
    ("float64", pa.float64(), "DOUBLE"),
    ("decimal", pa.string(), "STRING"),
    ("decimal(10,2)", pa.decimal128(10, 2), "DECIMAL(10,2)"),
    ("decimal(38,38)", pa.decimal128(38, 38), "DECIMAL(38,38)"),
    ("decimal(39,2)", pa.string(), "STRING"),
    ("string", pa.string(), "STRING"),
    ("bytes", pa.binary(), "BINARY"),
    ("date", pa.date32(), "DATE"),
    ("time", pa.string(), "STRING"),
    ("timestamp", pa.timestamp("us"), "TIMESTAMP_NTZ"),
    ("timestamptz", pa.timestamp("us", "UTC"), "TIMESTAMP"),
    ("duration", pa.string(), "STRING"),
    ("interval", pa.string(), "STRING"),
    ("uuid", pa.string(), "STRING"),
    ("json", pa.string(), "STRING"),
    ("array<uint64>", pa.list_(pa.decimal128(20, 0)), "ARRAY<DECIMAL(20,0)>"),
    ("array<array<decimal(5,1)>>", pa.list_(pa.list_(pa.decimal128(5, 1))), "ARRAY<ARRAY<DECIMAL(5,1)>>"),
]


@pytest.mark.parametrize(("name", "arrow", "sql"), STORED)
def test_a_type_is_stored_so(name: str, arrow: pa.DataType, sql: str) -> None:
    assert arrow_type(parse(name)) == arrow
    assert sql_type(parse(name)) == sql


def test_every_type_is_stored_somehow() -> None:
    assert {name for name, _, _ in STORED} >= set(SIMPLE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int8", "int32"),
        ("int32", "int8"),
        ("int32", "int64"),
        ("uint16", "uint32"),
        ("float32", "float64"),
        ("decimal(10,2)", "decimal(12,2)"),
        ("uint64", "decimal(38,0)"),
        ("decimal(40,2)", "string"),
        ("array<int8>", "array<int32>"),
    ],
)
def test_these_become_another_in_place(old: str, new: str) -> None:
    assert is_promotion(parse(old), parse(new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int64", "int32"),
        ("float64", "float32"),
        ("int32", "float64"),
        ("int32", "string"),
        ("int64", "uint64"),
        ("decimal(12,2)", "decimal(10,2)"),
        ("decimal(10,2)", "decimal(12,3)"),
        ("decimal(38,2)", "decimal(39,2)"),
        ("date", "timestamp"),
        ("timestamp", "timestamptz"),
        ("array<int32>", "array<int64>"),
        ("int32", "array<int32>"),
    ],
)
def test_these_do_not(old: str, new: str) -> None:
    assert not is_promotion(parse(old), parse(new))
