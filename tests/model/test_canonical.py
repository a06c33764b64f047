"""The canonical convention: what dialects send for a type, and the one form that it becomes."""

import json

import pytest

from changeling.model.canonical import reader
from changeling.model.errors import Rejected, UsageError
from changeling.model.table import TableName, TableSchema, parse_columns, parse_schemas, schema_from_json
from changeling.model.types import decimal, parse

GOOD = [
    ("int8", "-128", "-128"),
    ("int64", '"9223372036854775807"', "9223372036854775807"),
    ("uint64", "18446744073709551615", "18446744073709551615"),
    ("int32", "7.0", "7"),
    ("bool", '"true"', "true"),
    ("bool", "0", "false"),
    ("float64", "0.10", "0.10"),
    ("float64", '"nan"', '"NaN"'),
    ("float64", '"-inf"', '"-Infinity"'),
    ("decimal(38,10)", '"1234567890123456789012345678.0123456789"', '"1234567890123456789012345678.0123456789"'),
    ("decimal(10,2)", "299.99", '"299.99"'),
    ("decimal(10,2)", '"25.50"', '"25.50"'),
    ("decimal(10,2)", "25.5000", '"25.5000"'),
    ("decimal(4,0)", "1e3", '"1000"'),
    ("decimal", '"NaN"', '"NaN"'),
    ("string", "12", '"12"'),
    ("bytes", '"AQID/w=="', '"AQID/w=="'),
    ("uuid", '"550E8400-E29B-41D4-A716-446655440000"', '"550e8400-e29b-41d4-a716-446655440000"'),
    ("date", '"2020-08-12T00:00:00.000000Z"', '"2020-08-12"'),
    ("time", '"10:15:30.500000"', '"10:15:30.500"'),
    ("time", '"24:00:00.000"', '"24:00:00"'),
    ("time", '"24:00+02"', '"24:00:00+02"'),
    ("timestamp", '"2023-12-25 10:15:30.100"', '"2023-12-25T10:15:30.100"'),
    ("timestamptz", '"2025-09-02T21:00:28+01:00"', '"2025-09-02T20:00:28Z"'),
    ("timestamptz", '"infinity"', '"infinity"'),
    ("duration", '"PT2H30M"', '"PT2H30M"'),
    ("duration", '"P3D"', '"P3D"'),
    ("interval", '{"months":6,"days":15,"nanos":0}', '{"months":6,"days":15,"nanos":0}'),
    ("interval", '"{\\"months\\":6}"', '{"months":6,"days":0,"nanos":0}'),
    ("json", '{"a":150.00}', '{"a":150.00}'),
    ("array<int32>", "[1,null,2]", "[1,null,2]"),
    ("array<array<string>>", '[["a"],[]]', '[["a"],[]]'),
]
BAD = [
    ("int8", "128"),
    ("uint8", "-1"),
    ("int32", "1.5"),
    ("int64", '"x"'),
    ("bool", '"yes"'),
    ("float64", '"one"'),
    ("float64", "1e400"),
    ("float32", "1e39"),
    ("decimal(5,2)", "1000.00"),
    ("decimal(5,2)", "1.001"),
    ("bytes", '"?"'),
    ("uuid", '"550e"'),
    ("date", '"2020-08-12T00:00:01Z"'),
    ("date", "18486"),
    ("time", '"25:00:00"'),
    ("time", '"24:59:59"'),
    ("time", '"24:00:01"'),
    ("time", '"24:00:60"'),
    ("time", '"24:01"'),
    ("time", '"24:00:00.000000001Z"'),
    ("timestamp", '"soon"'),
    ("duration", '"2h"'),
    ("duration", '"P"'),
    ("interval", '{"weeks":1}'),
    ("array<int32>", "5"),
    ("array<int32>", '["x"]'),
]


@pytest.mark.parametrize(("kind", "given", "expected"), GOOD)
def test_what_dialects_send_becomes_one_form(kind: str, given: str, expected: str) -> None:
    read = reader(parse(kind))
    assert read(given.encode()).decode() == expected
    assert read(expected.encode()).decode() == expected


@pytest.mark.parametrize(("kind", "given"), BAD)
def test_a_value_that_does_not_fit_is_rejected(kind: str, given: str) -> None:
    with pytest.raises(Rejected, match="is not a"):
        reader(parse(kind))(given.encode())


def test_type_names() -> None:
    assert str(parse("decimal(10, 2)")) == "decimal(10,2)"
    assert str(parse("ARRAY<Decimal(5,1)>")) == "array<decimal(5,1)>"
    with pytest.raises(UsageError, match="did you mean 'int64'"):
        parse("int46")
    with pytest.raises(UsageError):
        parse("decimal(2,3)")


def test_a_precision_that_no_name_can_hold_is_any_precision() -> None:
    for precision, scale in ((1010, 2), (10**22, 2), (0, 0), (5, 6), (5, -1)):
        assert parse(str(decimal(precision, scale))) == parse("decimal")
    assert parse(str(decimal(999, 999))) == decimal(999, 999)


def test_columns_as_a_user_writes_them() -> None:
    columns = parse_columns("id:int64, price:decimal(10,2),tags:array<string>,a:b:string")
    assert [(column.name, column.type) for column in columns] == [
        ("id", "int64"),
        ("price", "decimal(10,2)"),
        ("tags", "array<string>"),
        ("a:b", "string"),
    ]
    with pytest.raises(UsageError, match="name:type"):
        parse_columns("id")


def test_schema_files() -> None:
    text = b'[{"table":"a.b","columns":{"id":"int64"},"key":["id"],"id":7},{"columns":[{"name":"x","type":"json"}]}]'
    first, second = parse_schemas(text, "schemas.json")
    assert first == TableSchema(parse_columns("id:int64"), ("id",), TableName(None, "a", "b"), 7)
    assert second == TableSchema(parse_columns("x:json"))
    assert schema_from_json(first.to_json()) == first
    wire = {"columns": {"v": {"type": "timestamptz", "original_type": "Timestamp64"}}}
    assert parse_schemas(json.dumps(wire).encode(), "x")[0].columns[0].original_type == "Timestamp64"
    wrong_key = b'{"columns":{"id":"int64"},"key":["x"]}'
    for wrong in (b"", b"{", b"{}", b'{"columns":{"id":"int46"}}', b'{"columns":[1]}', wrong_key):
        with pytest.raises(UsageError):
            parse_schemas(wrong, "schemas.json")


def test_table_names() -> None:
    assert TableName.parse("users") == TableName(None, None, "users")
    assert TableName.parse("db.public.users") == TableName("db", "public", "users")
    assert TableName.parse('"a.b"."c/../d"') == TableName(None, "a.b", "c/../d")
    for wrong in ("", "a..b", "a.b.c.d"):
        with pytest.raises(UsageError):
            TableName.parse(wrong)
