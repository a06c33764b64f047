"""Debezium's and Connect's logical types both ways, with extremes."""

import json
from typing import Any

import pyarrow as pa
import pytest

import changeling
from changeling.formats.debezium_json.types import DECIMAL, LOGICAL, TYPES, parse, wire_name
from changeling.formats.encoding import typed
from changeling.model import arrow_layouts, types
from changeling.model.change import Change
from changeling.model.errors import CannotCarry, Rejected
from changeling.model.operation import Image, Operation
from changeling.model.position import encode as position
from changeling.model.table import Column, TableName, TableSchema, schema_from_json

BOTH_WAYS = [
    ("io.debezium.time.Date", "date", "0", '"1970-01-01"'),
    ("io.debezium.time.Date", "date", "-719162", '"0001-01-01"'),
    ("io.debezium.time.Date", "date", "2932896", '"9999-12-31"'),
    ("io.debezium.time.Time", "time", "1", '"00:00:00.001"'),
    ("io.debezium.time.MicroTime", "time", "86399999999", '"23:59:59.999999"'),
    ("io.debezium.time.MicroTime", "time", "86400000000", '"24:00:00"'),
    ("io.debezium.time.NanoTime", "time", "1", '"00:00:00.000000001"'),
    ("io.debezium.time.Timestamp", "timestamp", "-1", '"1969-12-31T23:59:59.999"'),
    ("io.debezium.time.MicroTimestamp", "timestamp", "1529507596945104", '"2018-06-20T15:13:16.945104"'),
    ("io.debezium.time.MicroTimestamp", "timestamp", "9223372036825200000", '"infinity"'),
    ("io.debezium.time.MicroTimestamp", "timestamp", "-9223372036832400000", '"-infinity"'),
    ("io.debezium.time.NanoTimestamp", "timestamp", "9223372036854775807", '"2262-04-11T23:47:16.854775807"'),
    (
        "io.debezium.time.ZonedTimestamp",
        "timestamptz",
        '"2018-06-20T13:13:16.945104Z"',
        '"2018-06-20T13:13:16.945104Z"',
    ),
    ("io.debezium.time.ZonedTime", "time", '"10:15:30+02:00"', '"10:15:30+02:00"'),
    ("io.debezium.time.IsoDate", "date", '"2020-02-29Z"', '"2020-02-29"'),
    ("io.debezium.time.IsoTime", "time", '"10:15:30Z"', '"10:15:30"'),
    ("io.debezium.time.IsoTimestamp", "timestamp", '"2020-02-29T10:15:30.123Z"', '"2020-02-29T10:15:30.123"'),
    ("io.debezium.time.Year", "int32", "2020", "2020"),
    ("io.debezium.time.Interval", "interval", '"P1Y2M3DT4H5M6.78S"', '{"months":14,"days":3,"nanos":14706780000000}'),
    (
        "io.debezium.time.Interval",
        "interval",
        '"P-1Y-2M-3DT-4H-5M-6.78S"',
        '{"months":-14,"days":-3,"nanos":-14706780000000}',
    ),
    ("io.debezium.time.Interval", "interval", '"P0Y0M0DT0H0M0S"', '{"months":0,"days":0,"nanos":0}'),
    ("io.debezium.time.Interval", "interval", '"P0Y0M0DT0H0M-0.5S"', '{"months":0,"days":0,"nanos":-500000000}'),
    ("io.debezium.time.MicroDuration", "duration", "9000000000", '"PT2H30M"'),
    ("io.debezium.time.MicroDuration", "duration", "-300500", '"PT-0.3005S"'),
    ("io.debezium.time.MicroDuration", "duration", "0", '"PT0S"'),
    ("io.debezium.time.NanoDuration", "duration", "1", '"PT0.000000001S"'),
    (
        "io.debezium.data.Uuid",
        "uuid",
        '"550e8400-e29b-41d4-a716-446655440000"',
        '"550e8400-e29b-41d4-a716-446655440000"',
    ),
    ("io.debezium.data.Json", "json", '"{\\"a\\":[1,2.50,null]}"', '{"a":[1,2.50,null]}'),
    ("io.debezium.data.Json", "json", '"\\"text\\""', '"text"'),
    ("io.debezium.data.Xml", "string", '"<a/>"', '"<a/>"'),
    ("io.debezium.data.Enum", "string", '"ok"', '"ok"'),
    ("io.debezium.data.EnumSet", "string", '"a,b"', '"a,b"'),
    ("io.debezium.data.Ltree", "string", '"a.b"', '"a.b"'),
    ("io.debezium.data.TsVector", "string", "\"'a':1\"", "\"'a':1\""),
    ("io.debezium.data.Bits", "bytes", '"AQ=="', '"AQ=="'),
    ("io.debezium.data.Bits", "bytes", '"xwcAAAAAAAA="', '"AAAAAAAAB8c="'),
    ("io.debezium.data.Bits", "bytes", '"nwA="', '"AJ8="'),
    ("array<io.debezium.data.Bits>", "array<bytes>", '["nwA=",null]', '["AJ8=",null]'),
    ("io.debezium.data.VariableScaleDecimal", "decimal", '{"scale":3,"value":"AeJA"}', '"123.456"'),
    ("io.debezium.data.VariableScaleDecimal", "decimal", '{"scale":0,"value":"AA=="}', '"0"'),
    ("io.debezium.data.geometry.Point", "json", '{"x":1.0,"y":2.50}', '{"x":1.0,"y":2.50}'),
    ("io.debezium.data.geometry.Geometry", "json", '{"wkb":"AQ==","srid":4326}', '{"wkb":"AQ==","srid":4326}'),
    (f"{DECIMAL}(2)", "decimal(5,2)", '"AN8="', '"2.23"'),
    (f"{DECIMAL}(2)", "decimal(5,2)", '"/yE="', '"-2.23"'),
    (f"{DECIMAL}(0)", "decimal(20,0)", '"AP//////////"', '"18446744073709551615"'),
    (f"{DECIMAL}(0)", "uint64", '"AP//////////"', "18446744073709551615"),
    (f"{DECIMAL}(0)", "decimal", '"gA=="', '"-128"'),
    (f"{DECIMAL}(0)", "decimal", '"AIA="', '"128"'),
    (f"{DECIMAL}(-2)", "decimal(7,0)", '"ew=="', '"12300"'),
    (f"{DECIMAL}(10)", "decimal(38,10)", '"CUmw9vACMxPESZBOzGdFFQ=="', '"1234567890123456789012345678.0123456789"'),
    ("org.apache.kafka.connect.data.Date", "date", "18321", '"2020-02-29"'),
    ("org.apache.kafka.connect.data.Time", "time", "36930123", '"10:15:30.123"'),
    ("org.apache.kafka.connect.data.Timestamp", "timestamp", "1703505330123", '"2023-12-25T11:55:30.123"'),
    ("org.apache.kafka.connect.data.Timestamp", "timestamptz", "1703505330123", '"2023-12-25T11:55:30.123Z"'),
    ("boolean", "bool", "true", "true"),
    ("int8", "int8", "-128", "-128"),
    ("int64", "int64", "-9223372036854775808", "-9223372036854775808"),
    ("double", "float64", '"NaN"', '"NaN"'),
    ("string", "string", '"x"', '"x"'),
    ("bytes", "bytes", '"AQID/w=="', '"AQID/w=="'),
    ("array<io.debezium.time.Date>", "array<date>", "[0,null,18321]", '["1970-01-01",null,"2020-02-29"]'),
    (f"array<{DECIMAL}(1)>", "array<decimal>", '["DQ=="]', '["1.3"]'),
]


@pytest.mark.parametrize(("wire", "kind", "value", "canonical"), BOTH_WAYS)
def test_values_both_ways(wire: str, kind: str, value: str, canonical: str) -> None:
    parsed = types.parse(kind)
    assert TYPES.reader(parsed, wire)(value.encode()).decode() == canonical
    write = TYPES.writer(parsed, wire)
    written = canonical.encode() if write is None else write(canonical.encode())
    assert json.loads(written) == json.loads(value)


def test_every_logical_type_is_shown_above_or_has_no_values_of_its_own() -> None:
    shown = {wire.partition("(")[0] for wire, *_ in BOTH_WAYS}
    assert LOGICAL.keys() - shown == {"io.debezium.data.geometry.Geography"}


@pytest.mark.parametrize(
    ("wire", "kind", "value", "canonical"),
    [
        ("io.debezium.time.MicroDuration", "duration", "9000000000.0", '"PT2H30M"'),
        ("io.debezium.time.MicroDuration", "duration", "1.5E6", '"PT1.5S"'),
        ("io.debezium.time.ZonedTimestamp", "timestamptz", '"2011-12-03T10:15:30+01:00"', '"2011-12-03T09:15:30Z"'),
        ("io.debezium.time.ZonedTimestamp", "timestamptz", '"+292278994-08-16T23:00:00Z"', '"infinity"'),
        (f"{DECIMAL}(2)", "decimal", "150.00", '"150.00"'),
        ("io.debezium.data.Json", "json", '{"a":1}', '{"a":1}'),
        ("io.debezium.time.Date", "int32", "18321", "18321"),
        ("io.debezium.time.Date", "string", "18321", '"2020-02-29"'),
        ("IO.DEBEZIUM.TIME.DATE", "date", "18321", '"2020-02-29"'),
        ("double", "decimal(10,2)", "12.50", '"12.50"'),
        ("string", "decimal(10,2)", '"12.50"', '"12.50"'),
    ],
)
def test_other_forms_are_read_too(wire: str, kind: str, value: str, canonical: str) -> None:
    assert TYPES.reader(types.parse(kind), wire)(value.encode()).decode() == canonical


@pytest.mark.parametrize(
    ("wire", "kind", "value", "expected"),
    [
        (None, "date", "18321", "give the column's original_type in a schema file, such as io.debezium.time.Date"),
        (None, "timestamp", "1529507596945104", "such as io.debezium.time.MicroTimestamp"),
        (None, "decimal(5,2)", '"AN8="', f"such as {DECIMAL}(2)"),
        (None, "json", '"{"', "is not JSON text"),
        ("io.debezium.time.Date", "date", "2932897", "lies outside the years 1 to 9999"),
        ("io.debezium.time.Date", "date", "1.5", "1.5 is not a whole number"),
        ("io.debezium.time.MicroTime", "time", "-1", "is not a time of day"),
        ("io.debezium.time.MicroTime", "time", "3020399000000", "is not a time of day"),
        ("io.debezium.time.Interval", "interval", '"P1.5D"', "has a part of a month, a day"),
        (f"{DECIMAL}(2)", "decimal", '"!"', "'!' is not the Base64 of a decimal"),
        (f"{DECIMAL}(2)", "decimal(3,2)", '"A+g="', "is not a value of type decimal(3,2)"),
        ("io.debezium.data.VariableScaleDecimal", "decimal", '{"scale":1}', "not a VariableScaleDecimal"),
    ],
)
def test_what_is_no_value_is_rejected_with_advice(wire: str | None, kind: str, value: str, expected: str) -> None:
    with pytest.raises(Rejected) as error:
        TYPES.reader(types.parse(kind), wire)(value.encode())
    assert expected in str(error.value)


def test_a_decimal_without_its_scale_is_refused_by_name() -> None:
    with pytest.raises(Rejected, match="lacks its scale"):
        TYPES.reader(types.parse("decimal"), DECIMAL)


@pytest.mark.parametrize(
    ("wire", "kind", "canonical"),
    [
        ("io.debezium.time.MicroTimestamp", "timestamp", '"2020-01-01T00:00:00.000000001"'),
        ("org.apache.kafka.connect.data.Timestamp", "timestamp", '"2020-01-01T00:00:00.0001"'),
        ("io.debezium.time.Date", "date", '"0044-03-15 BC"'),
        ("io.debezium.time.MicroTime", "time", '"10:15:30+02:00"'),
        ("io.debezium.time.MicroDuration", "duration", '"P1M"'),
        ("io.debezium.time.MicroDuration", "duration", '"PT0.0000001S"'),
        (f"{DECIMAL}(2)", "decimal", '"NaN"'),
        (f"{DECIMAL}(2)", "decimal", '"0.001"'),
    ],
)
def test_what_a_type_cannot_hold_is_refused(wire: str, kind: str, canonical: str) -> None:
    write = TYPES.writer(types.parse(kind), wire)
    assert write is not None
    with pytest.raises(CannotCarry) as error:
        write(canonical.encode())
    assert error.value.feature == "types"


@pytest.mark.parametrize("times", ["isostring", "adaptive", "connect"])
@pytest.mark.parametrize("decimals", ["string", "precise"])
def test_every_canonical_type_has_a_wire_type(times: Any, decimals: Any) -> None:
    for name in [*types.SIMPLE, "decimal(10,2)", "array<array<date>>"]:
        assert parse(wire_name(types.parse(name), times, decimals)) is not None, name


ALL = {
    "id": ("int64", "7"),
    "flag": ("bool", "true"),
    "u8": ("uint8", "255"),
    "u32": ("uint32", "4294967295"),
    "u64": ("uint64", "18446744073709551615"),
    "f": ("float32", "0.1"),
    "price": ("decimal(38,10)", '"1234567890123456789012345678.0123456789"'),
    "any": ("decimal", '"150.00"'),
    "blob": ("bytes", '"AQID/w=="'),
    "day": ("date", '"2020-02-29"'),
    "at": ("timestamp", '"2020-02-29T10:15:30.123"'),
    "zoned": ("timestamptz", '"2020-02-29T10:15:30.123456789Z"'),
    "clock": ("time", '"10:15:30.123"'),
    "took": ("duration", '"PT2H30M"'),
    "span": ("interval", '{"months":14,"days":3,"nanos":0}'),
    "ref": ("uuid", '"550e8400-e29b-41d4-a716-446655440000"'),
    "doc": ("json", '{"a":[1,2.50,null]}'),
    "days": ("array<date>", '["2020-02-29",null]'),
    "huge": ("array<uint64>", "[18446744073709551615]"),
}


@pytest.mark.parametrize(
    "options",
    [{}, *({"times": t, "decimals": d} for t in ("isostring", "adaptive", "connect") for d in ("string", "precise"))],
)
def test_rows_with_the_schema_part_come_back_with_their_types(options: dict[str, str]) -> None:
    """The schema part alone gives the reader all types: --columns is not needed."""
    schema = TableSchema(tuple(Column(name, kind) for name, (kind, _) in ALL.items()), ("id",))
    row = "{" + ",".join(f'"{name}":{value}' for name, (_, value) in ALL.items()) + "}"
    change = Change(
        op=Operation.INSERT,
        table=TableName("shop", "public", "all"),
        key='{"id":7}',
        after=row,
        after_image=Image.FULL,
        position=position(0, 0),
        schema=schema.to_json(),
    )
    batch = arrow_layouts.changes_batch(
        [change], pa.array([{"ordinal": 0, "record": 0}], arrow_layouts.ORIGIN), "s", "canonical"
    )
    records, rejects = changeling.encode(batch, "debezium-json", schemas=True, **options)
    assert rejects.to_pylist() == []
    changes, rejects = changeling.decode(records, "debezium-json")
    assert rejects.to_pylist() == []
    back, rejected = typed(changes.to_batches()[0])
    assert rejected.to_pylist() == []
    found = arrow_layouts.changes(back)[0]
    assert found.after == row
    assert found.key == '{"id":7}'
    read_schema = schema_from_json(found.schema or "")
    assert read_schema.key == ("id",)
    assert {column.name: column.type for column in read_schema.columns} == {
        name: kind for name, (kind, _) in ALL.items()
    }


def test_the_schema_part_as_a_connector_with_default_settings_writes_it() -> None:
    schema = TableSchema((Column("id", "int32"), Column("price", "decimal(10,2)"), Column("day", "date")), ("id",))
    change = Change(
        op=Operation.INSERT,
        table=TableName("shop", None, "items"),
        key='{"id":7}',
        after='{"id":7,"price":"2.23","day":"2020-02-29"}',
        after_image=Image.FULL,
        position=position(0, 0),
        schema=schema.to_json(),
    )
    batch = arrow_layouts.changes_batch(
        [change], pa.array([{"ordinal": 0, "record": 0}], arrow_layouts.ORIGIN), "s", "canonical"
    )
    records, _ = changeling.encode(batch, "debezium-json", schemas=True)
    value, key = json.loads(records["value"][0].as_py()), json.loads(records["key"][0].as_py())
    id_field = {"type": "int32", "optional": False, "field": "id"}
    assert value["payload"]["after"] == {"id": 7, "price": "AN8=", "day": 18321}
    assert value["schema"]["name"] == "changeling.shop.items.Envelope"
    assert value["schema"]["fields"][1] == {
        "type": "struct",
        "fields": [
            id_field,
            {
                "type": "bytes",
                "name": DECIMAL,
                "version": 1,
                "parameters": {"scale": "2", "connect.decimal.precision": "10"},
                "optional": True,
                "field": "price",
            },
            {"type": "int32", "name": "io.debezium.time.Date", "version": 1, "optional": True, "field": "day"},
        ],
        "name": "changeling.shop.items.Value",
        "optional": True,
        "field": "after",
    }
    assert key == {
        "schema": {"type": "struct", "fields": [id_field], "name": "changeling.shop.items.Key", "optional": False},
        "payload": {"id": 7},
    }
