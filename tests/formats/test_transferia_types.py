"""Transferia's types: values of every source read to canonical ones, and canonical ones restored from both shapes."""

import json

import pytest

import changeling
from changeling.conformance.cases import KEY, ROW, SCHEMA, batch
from changeling.formats.encoding import typed
from changeling.model.change import Change
from changeling.model.operation import Image, Operation
from changeling.model.table import Column, TableSchema
from tests.formats.test_transferia import PLACE, item, refused, text

TYPED = [
    ("int8", "", "-128", "-128", "int8"),
    ("uint64", "ydb:Uint64", "18446744073709551615", "18446744073709551615", "uint64"),
    ("int64", "pg:bigint", '"-9223372036854775808"', "-9223372036854775808", "int64"),
    ("double", "pg:numeric(38,10)", "1234567890123456789012345678.0123456789", '"1234567890123456789012345678.0123456789"', "decimal(38,10)"),
    ("double", "mysql:decimal(65,30) unsigned", '"1.50"', '"1.50"', "decimal(65,30)"),
    ("double", "pg:numeric(5,-2)", "12300", '"12300"', "decimal"),
    ("utf8", "ydb:Decimal(22,9)", '"234.000000000"', '"234.000000000"', "decimal(22,9)"),
    ("utf8", "ydb:DyNumber", "123", '"123"', "decimal"),
    ("any", "ch:Nullable(Decimal(10,2))", '"1.20"', '"1.20"', "decimal(10,2)"),
    ("double", "pg:real", '"NaN"', '"NaN"', "float32"),
    ("boolean", "", "true", "true", "bool"),
    ("string", "pg:bytea", '"AQID/w=="', '"AQID/w=="', "bytes"),
    ("string", "mysql:varbinary(5)", '"n58="', '"n58="', "bytes"),
    ("string", "ydb:String", '"AQ=="', '"AQ=="', "bytes"),
    ("string", "", '"plain"', '"plain"', "string"),
    ("date", "pg:date", '"1999-01-08T00:00:00+03:00"', '"1999-01-08"', "date"),
    ("date", "", '"2020-02-29"', '"2020-02-29"', "date"),
    ("timestamp", "pg:timestamp(6) without time zone", '"2004-10-19T10:23:54.987654+04:00"', '"2004-10-19T10:23:54.987654"', "timestamp"),
    ("timestamp", "mysql:datetime(6)", '"2020-01-01T15:10:10.123456Z"', '"2020-01-01T15:10:10.123456"', "timestamp"),
    ("timestamp", "mysql:timestamp", '"1999-01-01T00:00:01Z"', '"1999-01-01T00:00:01Z"', "timestamptz"),
    ("datetime", "ydb:Datetime", '"2020-02-02T10:02:22Z"', '"2020-02-02T10:02:22Z"', "timestamptz"),
    ("interval", "ydb:Interval", "123000", '"PT0.000123S"', "duration"),
    ("interval", "", "-5400000000000", '"PT-1H-30M"', "duration"),
    ("utf8", "pg:interval", '"-1 years 2 mons -3 days -04:05:06.7"', '{"months":-10,"days":-3,"nanos":-14706700000000}', "interval"),
    ("utf8", "pg:time(1) with time zone", '"13:30:25.5-04"', '"13:30:25.500-04"', "time"),
    ("utf8", "pg:uuid", '"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"', '"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"', "uuid"),
    ("any", "pg:integer[]", '["1",null,2]', "[1,null,2]", "array<int32>"),
    ("any", "pg:timestamp with time zone[]", '["2004-10-19T12:23:54+04:00"]', '["2004-10-19T08:23:54Z"]', "array<timestamptz>"),
    ("any", "changeling:array<uint64>", "[18446744073709551615]", "[18446744073709551615]", "array<uint64>"),
    ("any", "pg:USER-DEFINED:mood", '"happy"', '"happy"', "string"),
    ("any", "mongo:bson", '{"a":1}', '{"a":1}', "json"),
    ("data", "orig", '"as it stands"', '"as it stands"', "json"),
]  # fmt: skip


@pytest.mark.parametrize(("wire", "original", "value", "canonical", "kind"), TYPED)
def test_values_of_every_source_read_to_canonical_ones(
    wire: str, original: str, value: str, canonical: str, kind: str
) -> None:
    """003-13: types come from the record's schema, and `--typed` shows canonical values."""
    columns = [{"name": "c", "type": wire, "original_type": original}]
    given = text(item(columnnames=["c"], columnvalues=["@"], table_schema=columns)).replace('"@"', value)
    changes, _ = changeling.decode([given], "transferia")
    found, rejects = typed(changes.combine_chunks().to_batches()[0])
    assert rejects.to_pylist() == []
    assert found["after"][0].as_py() == f'{{"c":{canonical}}}'
    assert json.loads(changes["schema"][0].as_py())["columns"][0]["type"] == kind


EXTREMES = {
    "bool": "false",
    "int8": "-128",
    "uint64": "18446744073709551615",
    "float32": '"-Infinity"',
    "float64": "1e-320",
    "decimal(5,2)": '"-999.99"',
    "decimal": '"NaN"',
    "string": '"\\u0000\\\\ \\"é"',
    "bytes": '""',
    "date": '"0001-01-01"',
    "time": '"23:59:59.999999999"',
    "timestamp": '"9999-12-31T23:59:59.999999999"',
    "timestamptz": '"0001-01-01T00:00:00Z"',
    "duration": '"PT-0.000000001S"',
    "interval": '{"months":-1,"days":2,"nanos":-1}',
    "uuid": '"00000000-0000-0000-0000-000000000000"',
    "json": '"123"',
    "array<decimal(5,2)>": '["1.50",null]',
    "array<uint8>": "[255]",
    "array<array<int32>>": "[[1],[2,3]]",
}


@pytest.mark.parametrize("kind", EXTREMES)
@pytest.mark.parametrize("shape", ["item", "seed"])
def test_canonical_values_come_back_from_both_shapes_with_their_types(shape: str, kind: str) -> None:
    schema = TableSchema((Column("_id", "string"), Column("c", kind)), ("_id",))
    after = f'{{"_id":"o-1","c":{EXTREMES[kind]}}}'
    change = Change(
        op=Operation.INSERT, table=PLACE, key=KEY, after=after, after_image=Image.FULL, schema=schema.to_json()
    )
    records, rejects = changeling.encode(batch([change]), "transferia", shape=shape)
    assert rejects.to_pylist() == []
    changes, _ = changeling.decode(records, "transferia")
    assert json.loads(changes["schema"][0].as_py())["columns"][1]["type"] == kind
    found, rejects = typed(changes.combine_chunks().to_batches()[0])
    assert rejects.num_rows == 0
    assert json.loads(found["after"][0].as_py(), parse_float=str) == json.loads(after, parse_float=str)


@pytest.mark.parametrize("value", ['"P1Y"', '"P1M"', '"PT0.0000000001S"', '"P200000D"'])
def test_a_duration_that_nanoseconds_cannot_tell_is_refused(value: str) -> None:
    schema = TableSchema((Column("_id", "string"), Column("c", "duration")), ("_id",))
    change = Change(
        op=Operation.INSERT,
        table=PLACE,
        key=KEY,
        after=f'{{"_id":"o-1","c":{value}}}',
        after_image=Image.FULL,
        schema=schema.to_json(),
    )
    assert refused(batch([change]))[0] == "types"


def test_rows_of_all_types_come_back_through_the_seed_shape() -> None:
    """003-09: `Values` are in the order of the schema's columns."""
    change = Change(
        op=Operation.INSERT, table=PLACE, key=KEY, after=ROW, after_image=Image.FULL, schema=SCHEMA.to_json()
    )
    records, _ = changeling.encode(batch([change]), "transferia", shape="seed")
    columns = json.loads(records["value"][0].as_py())["TableSchema"]
    assert [column["name"] for column in columns] == [column.name for column in SCHEMA.columns]
    changes, _ = changeling.decode(records, "transferia")
    assert json.loads(typed(changes.to_batches()[0])[0]["after"][0].as_py()) == json.loads(ROW)
