"""Stored columns as JSON: the canonical form of every type, one object for each row."""

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from changeling.model.types import Type, parse
from changeling.replicas.json_output import json_column, lines
from changeling.replicas.stored_types import arrow_type

SHOWN: list[tuple[str, Any, str]] = [
    ("bool", True, "true"),
    ("int8", -5, "-5"),
    ("int64", -(2**63), "-9223372036854775808"),
    ("uint64", Decimal(2**64 - 1), "18446744073709551615"),
    ("uint64", Decimal(100), "100"),
    ("float32", 0.1, "0.1"),
    ("float64", 0.1, "0.1"),
    ("float64", 150.0, "150.0"),
    ("float64", float("nan"), '"NaN"'),
    ("float32", float("inf"), '"Infinity"'),
    ("float64", float("-inf"), '"-Infinity"'),
    ("decimal(10,2)", Decimal("150"), '"150.00"'),
    ("decimal(20,10)", Decimal("0"), '"0.0000000000"'),
    ("decimal", "1e5", '"1e5"'),
    ("string", 'a"b\n', '"a\\"b\\n"'),
    ("bytes", b"\x01\x02\x03\xff", '"AQID/w=="'),
    ("date", 0, '"1970-01-01"'),
    ("date", -719162, '"0001-01-01"'),
    ("time", "10:15:30.500", '"10:15:30.500"'),
    ("timestamp", 0, '"1970-01-01T00:00:00"'),
    ("timestamp", 123_000, '"1970-01-01T00:00:00.123"'),
    ("timestamp", 1_000, '"1970-01-01T00:00:00.001"'),
    ("timestamp", 1, '"1970-01-01T00:00:00.000001"'),
    ("timestamptz", 1_704_164_645_123_000, '"2024-01-02T03:04:05.123Z"'),
    ("timestamptz", 1_704_164_645_100_100, '"2024-01-02T03:04:05.100100Z"'),
    ("timestamptz", -62_135_596_800_000_000, '"0001-01-01T00:00:00Z"'),
    ("duration", "PT2H30M", '"PT2H30M"'),
    ("interval", '{"months":6,"days":15,"nanos":0}', '{"months":6,"days":15,"nanos":0}'),
    ("uuid", "550e8400-e29b-41d4-a716-446655440000", '"550e8400-e29b-41d4-a716-446655440000"'),
    ("json", '{"a": [150.00,\n1E5]}', '{"a":[150.00,1E5]}'),
    ("json", "null", "null"),
    ("json", '"x"', '"x"'),
    ("json", "{oops", '"{oops"'),
    ("json", "[" * 3000, '"' + "[" * 3000 + '"'),
    ("array<decimal(5,1)>", [Decimal(1), None], '["1.0",null]'),
    ("array<array<string>>", [["a"], [], None], '[["a"],[],null]'),
]


@pytest.mark.parametrize(("name", "value", "text"), SHOWN)
def test_a_value_is_shown_so(name: str, value: Any, text: str) -> None:
    kind = parse(name)
    stored = pa.array([None, value, None], arrow_type(kind))
    assert json_column(stored, kind) == [b"null", text.encode(), b"null"]
    assert json_column(stored.slice(1), kind) == [text.encode(), b"null"]
    assert json_column(pa.chunked_array([stored, stored.slice(1, 1)]), kind) == [
        *(b"null", text.encode(), b"null", text.encode())
    ]
    assert json_column(pa.chunked_array([], stored.type), kind) == []


def test_texts_of_long_offsets_and_other_zones_are_shown_alike() -> None:
    assert json_column(pa.array(["a"], pa.large_string()), Type("string")) == [b'"a"']
    assert json_column(pa.array([0], pa.timestamp("us", "Europe/Paris")), Type("timestamptz")) == [
        b'"1970-01-01T00:00:00Z"'
    ]
    items = pa.large_list(pa.field("element", pa.int64()))
    assert json_column(pa.array([[1, None]], items), parse("array<int64>")) == [b"[1,null]"]


def test_rows_are_objects_in_one_line() -> None:
    table = pa.table(
        {
            "id": pa.array([1, 2], pa.int64()),
            'odd "name"': pa.array(["x\ny", None]),
            "doc": pa.array(['{"b": 1,\n "a": 2.50}', None]),
        }
    )
    kinds = {"id": Type("int64"), "doc": Type("json")}
    assert list(lines(table, kinds)) == [
        b'{"id":1,"odd \\"name\\"":"x\\ny","doc":{"b":1,"a":2.50}}',
        b'{"id":2,"odd \\"name\\"":null,"doc":null}',
    ]
    assert list(lines(pa.concat_tables([table, table]), kinds)) == list(lines(table, kinds)) * 2
    assert list(lines(table.slice(0, 0), kinds)) == []


def test_a_column_without_a_kind_is_shown_by_its_arrow_type() -> None:
    columns = {
        "bool": (pa.bool_(), True, True),
        "unsigned": (pa.uint64(), 2**64 - 1, 2**64 - 1),
        "float": (pa.float32(), 0.1, 0.1),
        "nan": (pa.float64(), float("nan"), "NaN"),
        "decimal": (pa.decimal128(10, 2), Decimal("1.5"), "1.50"),
        "text": (pa.large_string(), "é", "é"),
        "bytes": (pa.binary(), b"\x01", "AQ=="),
        "date": (pa.date32(), 0, "1970-01-01"),
        "naive": (pa.timestamp("us"), 500_000, "1970-01-01T00:00:00.500"),
        "nanos": (pa.timestamp("ns", "UTC"), 1, "1970-01-01T00:00:00.000000001Z"),
        "list": (pa.list_(pa.decimal128(5, 1)), [Decimal(1), None], ["1.0", None]),
        "ints": (pa.list_(pa.int8()), [1, None], [1, None]),
        "struct": (pa.struct({"a": pa.int8(), "b": pa.date32()}), {"a": 1, "b": None}, {"a": 1, "b": None}),
        "nothing": (pa.null(), None, None),
    }
    table = pa.table({name: pa.array([value, None], kind) for name, (kind, value, _) in columns.items()})
    first, second = map(json.loads, lines(table, {}))
    assert first == {name: shown for name, (_, _, shown) in columns.items()}
    assert second == dict.fromkeys(columns)
