"""Values on their way from one dialect into another, by the column's type. Row ids are the checklist's."""

import json
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import changeling
from changeling.conformance.cases import CASES, batch
from changeling.envelope.canonical_cells import are_canonical
from changeling.formats import registry
from changeling.formats.capabilities import FEATURES
from changeling.model.errors import CannotCarry
from changeling.model.table import Column, TableSchema
from changeling.model.types import parse

ARCION = (
    '{"tableName":{"namespace":{"catalog":null,"schema":"s","hash":1},"name":"t","hash":2},"opType":"I",'
    '"cursor":"{\\"timestamp\\":1}","before":{"id":"null","v":"null"},"after":{"id":"1","v":%s},'
    '"exists":{"id":"1","v":"1"},"operationcount":"{}"}'
)


def through(record: str, source: str, target: str, kind: str, **options: Any) -> dict[str, Any]:
    """The one record that `record` becomes in `target`, where `v` is of that type."""
    columns = f"id:int64,v:{kind}"
    changes, rejects = changeling.decode([record], source, table="t", key="id", columns=columns, **options)
    assert rejects.to_pylist() == []
    records, rejects = changeling.encode(changes, target, drop="all")
    assert rejects.to_pylist() == []
    found: dict[str, Any] = json.loads(records["value"][0].as_py())
    return found


@pytest.mark.parametrize(
    ("row", "kind", "wire", "document"),
    [
        ("002-26", "timestamptz", '"2023-12-25T15:30:00.000000Z"', "2023-12-25T15:30:00Z"),
        ("002-26", "timestamptz", '"2023-12-25T10:15:30.123000Z"', "2023-12-25T10:15:30.123Z"),
        ("002-26", "date", '"2020-08-12T00:00:00.000000Z"', "2020-08-12"),
        ("002-27", "decimal(10,2)", '"999.95"', "999.95"),
        ("002-28", "bytes", '"AQID/w=="', "AQID/w=="),
        ("002-29", "uuid", '"550e8400-e29b-41d4-a716-446655440000"', "550e8400-e29b-41d4-a716-446655440000"),
        ("002-30", "duration", "9000000000", "PT2H30M"),
        ("002-31", "interval", '{"months":6,"days":15,"nanos":0}', {"months": 6, "days": 15, "nanos": 0}),
        ("002-32", "json", '{"a":[1,{"b":null}]}', {"a": [1, {"b": None}]}),
        ("002-33", "bool", "true", True),
        ("002-33", "float64", '"nan"', "NaN"),
        ("002-33", "uint64", "18446744073709551615", 18446744073709551615),
    ],
)
def test_from_ydb_into_documents(row: str, kind: str, wire: str, document: Any) -> None:
    found = through(f'{{"key":[1],"update":{{}},"newImage":{{"v":{wire}}}}}', "ydb-json", "xtdb", kind)
    assert json.loads(found["after"]) == {"_id": 1, "v": document}


@pytest.mark.parametrize(
    ("kind", "wire", "changefeed"),
    [
        ("int32", '"101"', 101),
        ("bool", '"true"', True),
        ("decimal(38,10)", '"1234567890123456789012345678.0123456789"', "1234567890123456789012345678.0123456789"),
        ("timestamptz", '"2023-12-25 10:15:30.123"', "2023-12-25T10:15:30.123000Z"),
        ("date", '"2020-08-12"', "2020-08-12T00:00:00.000000Z"),
        ("uuid", '"550E8400-E29B-41D4-A716-446655440000"', "550e8400-e29b-41d4-a716-446655440000"),
        ("duration", '"PT-0.3005S"', -300500),
        ("json", '"{\\"a\\":1.50}"', {"a": 1.50}),
        ("array<int32>", '"[1,null]"', [1, None]),
        ("string", '"null"', None),
    ],
)
def test_from_arcions_texts_into_a_changefeed(kind: str, wire: str, changefeed: Any) -> None:
    found = through(ARCION % wire, "arcion-json", "ydb-json", kind)
    assert found == {"key": [1], "update": {}, "newImage": {"v": changefeed}}


@pytest.mark.parametrize(
    ("wire", "text"), [("101", "101"), ("true", "true"), ("150.00", "150.00"), ('"x"', "x"), ("null", "null")]
)
def test_000_40_images_of_arcion_hold_every_value_as_text(wire: str, text: str) -> None:
    changes, _ = changeling.decode([f'{{"key":[1],"update":{{"v":{wire}}}}}'], "ydb-json", table="t", key="id")
    records, rejects = changeling.encode(changes, "arcion-json")
    assert rejects.num_rows == 0
    found = json.loads(records["value"][0].as_py())
    assert (found["after"]["v"], found["exists"]["v"]) == (text, "1")


@pytest.mark.parametrize("target", [name for name in registry.names() if name != "debezium-json"])
def test_the_json_value_null_is_refused_by_name_where_it_would_become_null(target: str) -> None:
    """A dialect either gives it back, or names it."""
    source = {"connector": "postgresql", "db": "d", "schema": "s", "table": "t", "lsn": 7, "ts_ms": 1000}
    event = {"before": None, "after": {"id": 1, "v": "null"}, "source": source, "op": "c"}
    record = {"value": json.dumps(event), "key": '{"id":1}'}
    given = {"table": "t", "key": "id", "columns": "id:int64,v:json"}
    changes, _ = changeling.decode([record], "debezium-json", **given)
    others = ",".join(feature for feature in FEATURES if feature not in ("types", "null-text"))
    records, rejects = changeling.encode(changes, target, drop=others)
    if rejects.num_rows:
        assert rejects["feature"].to_pylist() == ["null-text" if "arcion" in target else "types"]
        records, _ = changeling.encode(changes, target, drop="all")
        assert records.num_rows == 1
        return
    back, rejects = changeling.decode(records.select(["value", "key", "headers", "topic"]).to_pylist(), target, **given)
    events, _ = changeling.encode(back, "debezium-json", drop="all")
    assert json.loads(events["value"][0].as_py())["after"] == {"id": 1, "v": "null"}


@pytest.mark.parametrize(
    ("kind", "original", "value", "declared"),
    [
        ("time", "timetz", '"10:15:30+02:00"', "pg:time with time zone"),
        ("time", "io.debezium.time.ZonedTime", '"10:15:30Z"', "pg:time with time zone"),
        ("time", "time", '"10:15:30"', "pg:time without time zone"),
        ("array<time>", "array<io.debezium.time.ZonedTime>", '["10:15:30Z"]', "pg:time with time zone[]"),
    ],
)
def test_a_time_with_a_zone_is_declared_as_one_to_transferia(
    kind: str, original: str, value: str, declared: str
) -> None:
    schema = TableSchema((Column("v", kind, original),), ()).to_json()
    change = msgspec.structs.replace(CASES["keyless insert"], after=f'{{"v":{value}}}', schema=schema)
    records, rejects = changeling.encode(batch([change]), "transferia")
    assert rejects.num_rows == 0
    (column,) = json.loads(records["value"][0].as_py())["table_schema"]
    assert column["original_type"] == declared


def test_binary_records_are_refused_by_name() -> None:
    _, rejects = changeling.decode([b"\x00\x00\x00\x00\x07\x02\xfe"], "debezium-json")
    assert "Avro" in rejects["reason"][0].as_py()


CANONICAL_VALUES = {
    "date": ['"2026-11-18"', '"0001-02-03"'],
    "time": ['"10:15:30"', '"10:15:30.120"'],
    "timestamp": ['"2026-11-18T10:15:30"', '"2026-11-18T10:15:30.120"', '"2026-11-18T10:15:30.000001"'],
    "timestamptz": ['"2026-11-18T10:15:30Z"', '"2026-11-18T10:15:30.120Z"', '"1026-11-18T10:15:30.000000001Z"'],
    "decimal(10,2)": ['"0"', '"-12.30"', '"NaN"'],
    "decimal": ['"0"', '"-12.30"', '"Infinity"'],
    "float64": ["0", "-1.5", '"NaN"', "1e300"],
    "float32": ["0", "-1.5", '"-Infinity"'],
    "int64": ["0", "-7"],
    "bool": ["true", "false"],
    "string": ['"a"', '""'],
    "bytes": ['"AQID/w=="'],
    "json": ["{}", "[1.50]"],
    "uuid": ['"550e8400-e29b-41d4-a716-446655440000"'],
}


@pytest.mark.parametrize("name", registry.names())
@pytest.mark.parametrize("kind", CANONICAL_VALUES)
def test_columns_of_canonical_values_are_spelled_as_each_value(kind: str, name: str) -> None:
    types, column = registry.get(name).types, parse(kind)
    values = pa.array([value.encode() for value in CANONICAL_VALUES[kind]])
    plain = values.filter(pa.array(are_canonical(values, column)))
    one, many = types.writer(column), types.column_writer(column)
    spelled = plain if many is None else many(plain)
    for value, found in zip(plain.to_pylist(), spelled.to_pylist(), strict=True):
        if found is None:
            with pytest.raises(CannotCarry):
                (one or bytes)(value)
        else:
            assert found == (value if one is None else one(value))
