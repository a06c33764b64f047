"""Attribute values: every type both ways with its extremes, values of unknown type, and what an AWS reader makes of them."""

import json
from typing import Any

import msgspec
import pytest

import changeling
from changeling.conformance.cases import batch
from changeling.formats.encoding import typed
from changeling.model import arrow_layouts
from changeling.model.table import Column, TableSchema
from tests.formats.test_ydb_dynamodb import NAME, TIME, change, read, stream_record, typed_change, write

TYPED = {
    "flag": ("bool", "false", {"BOOL": False}),
    "tiny": ("int8", "-128", {"N": "-128"}),
    "big": ("int64", "-9223372036854775808", {"N": "-9223372036854775808"}),
    "huge": ("uint64", "18446744073709551615", {"N": "18446744073709551615"}),
    "ratio": ("float64", "5e-120", {"N": "5e-120"}),
    "single": ("float32", "0.1", {"N": "0.1"}),
    "price": ("decimal(38,10)", f'"-{"9" * 28}.0000000001"', {"N": f"-{'9' * 28}.0000000001"}),
    "any": ("decimal", '"150.00"', {"N": "150.00"}),
    "text": ("string", '"null"', {"S": "null"}),
    "empty": ("string", '""', {"S": ""}),
    "raw": ("bytes", '"AQID/w=="', {"B": "AQID/w=="}),
    "day": ("date", '"0001-01-01"', {"S": "0001-01-01"}),
    "clock": ("time", '"23:59:59.999999999"', {"S": "23:59:59.999999999"}),
    "local": ("timestamp", '"9999-12-31T23:59:59.999999999"', {"S": "9999-12-31T23:59:59.999999999"}),
    "at": ("timestamptz", '"2023-12-25T10:15:30.123Z"', {"S": "2023-12-25T10:15:30.123Z"}),
    "took": ("duration", '"PT2H30M"', {"S": "PT2H30M"}),
    "span": (
        "interval",
        '{"months":1,"days":-2,"nanos":3}',
        {"M": {"months": {"N": "1"}, "days": {"N": "-2"}, "nanos": {"N": "3"}}},
    ),
    "ref": ("uuid", '"550e8400-e29b-41d4-a716-446655440000"', {"S": "550e8400-e29b-41d4-a716-446655440000"}),
    "doc": (
        "json",
        '{"a":[1,2.50,null,{"N":"x"}],"b":"é"}',
        {"M": {"a": {"L": [{"N": "1"}, {"N": "2.50"}, {"NULL": True}, {"M": {"N": {"S": "x"}}}]}, "b": {"S": "é"}}},
    ),
    "tags": ("array<string>", '["x","",null]', {"L": [{"S": "x"}, {"S": ""}, {"NULL": True}]}),
    "parts": ("array<bytes>", '["AQ=="]', {"L": [{"B": "AQ=="}]}),
    "grid": ("array<array<int32>>", "[[1],[]]", {"L": [{"L": [{"N": "1"}]}, {"L": []}]}),
}


def test_every_type_both_ways() -> None:
    row = typed_change({name: (kind, value) for name, (kind, value, _) in TYPED.items()})
    (record,) = write(row)
    assert record["dynamodb"]["NewImage"] == {"id": {"S": "x"}, **{name: wire for name, (_, _, wire) in TYPED.items()}}
    assert typed_row(record, row.schema) == row.after


def typed_row(record: dict[str, Any], schema: str | None) -> str | bytes | None:
    """The canonical image after the change of a record, by a schema."""
    options = {"table": "users", "schemas": (msgspec.json.decode(schema or "", type=TableSchema),)}
    changes, rejects = changeling.decode([json.dumps(record)], NAME, **options)
    assert rejects.to_pylist() == []
    shown, unfit = typed(changes.combine_chunks().to_batches()[0])
    assert unfit.to_pylist() == []
    return arrow_layouts.changes(shown)[0].after


def declared(**columns: str) -> str:
    return TableSchema(tuple(Column(name, kind) for name, kind in columns.items())).to_json()


def test_sets_and_numbers_as_others_spell_them_are_read_by_their_type() -> None:
    image = {
        "names": {"SS": ["a", "b"]},
        "sizes": {"NS": ["7.50", ".45e1"]},
        "blobs": {"BS": ["AQ=="]},
        "count": {"N": "+1.0E2"},
        "when": {"S": "2023-12-25 10:15:30+01:00"},
        "loose": {"S": "12"},
        "gone": {"NULL": True},
        "other": {"N": ".3321e1"},
    }
    schema = declared(
        names="array<string>",
        sizes="array<decimal(10,2)>",
        blobs="array<bytes>",
        count="int32",
        when="timestamptz",
        loose="int8",
        gone="int8",
    )
    assert typed_row(stream_record("INSERT", NewImage=image), schema) == (
        '{"names":["a","b"],"sizes":["7.50","4.5"],"blobs":["AQ=="],"count":100,'
        '"when":"2023-12-25T09:15:30Z","loose":12,"gone":null,"other":3.321}'
    )


@pytest.mark.parametrize(
    ("value", "kind", "reason"),
    [
        ({"B": "AQID"}, "string", "an attribute value of kind B is not a value of type string"),
        ({"S": "AQID"}, "bytes", "an attribute value of kind S is not a value of type bytes"),
        ({"L": [{"S": "AQID"}]}, "array<bytes>", "an attribute value of kind S is not a value of type array<bytes>"),
        ({"B": "***"}, "bytes", '"***" is not a value of type bytes (Base64 text)'),
        ({"N": "1.5"}, "int32", "1.5 is not a value of type int32"),
        ({"M": {}}, "date", "{} is not a value of type date"),
        ({"S": "x"}, "array<string>", None),
    ],
)
def test_values_that_do_not_fit_their_type_are_rejected(value: dict[str, Any], kind: str, reason: str | None) -> None:
    record = stream_record("INSERT", NewImage={"c": value})
    changes, _ = changeling.decode([json.dumps(record)], NAME, columns={"c": kind})
    _, unfit = typed(changes.combine_chunks().to_batches()[0])
    assert unfit.num_rows == 1
    if reason is not None:
        assert unfit["reason"][0].as_py() == f"column 'c': {reason}"


def test_an_event_of_xtdb_is_converted_without_a_schema() -> None:
    event = {
        "before": None,
        "after": '{"_id":"user-1","age":30,"score":1.50,"tags":["a",null],"on":true,"gone":null}',
        "source": {"tx_id": 5, "table": "users", "ts_ms": 1703505330000},
        "op": "c",
        "ts_ms": 1703505330000,
        "transaction": None,
    }
    changes, _ = changeling.decode([json.dumps(event)], "xtdb")
    records, rejects = changeling.encode(changes, NAME, drop="position")
    assert rejects.to_pylist() == []
    assert json.loads(records["value"][0].as_py())["dynamodb"] == {
        "ApproximateCreationDateTime": 1703505330,
        "Keys": {"_id": {"S": "user-1"}},
        "NewImage": {
            "_id": {"S": "user-1"},
            "age": {"N": "30"},
            "score": {"N": "1.50"},
            "tags": {"L": [{"S": "a"}, {"NULL": True}]},
            "on": {"BOOL": True},
            "gone": {"NULL": True},
        },
        "SequenceNumber": "000000000000000000001",
        "StreamViewType": "NEW_AND_OLD_IMAGES",
    }


def test_values_of_unknown_type_are_unwrapped_for_other_dialects() -> None:
    image = {
        "id": {"N": "1"},
        "s": {"S": 'q"'},
        "n": {"N": "150.00"},
        "e": {"N": ".45e1"},
        "b": {"B": "AQID"},
        "t": {"BOOL": True},
        "z": {"NULL": True},
        "m": {"M": {"a": {"L": [{"N": "1"}, {"NULL": True}]}}},
        "ss": {"SS": ["x"]},
        "ns": {"NS": ["1.0"]},
        "bs": {"BS": ["AQ=="]},
    }
    changes, _ = changeling.decode([json.dumps(stream_record("INSERT", NewImage=image))], NAME)
    records, rejects = changeling.encode(changes, "xtdb", drop="position")
    assert rejects.to_pylist() == []
    assert json.loads(records["value"][0].as_py())["after"] == (
        '{"_id":1,"id":1,"s":"q\\"","n":150.00,"e":4.5,"b":"AQID","t":true,"z":null,'
        '"m":{"a":[1,null]},"ss":["x"],"ns":[1.0],"bs":["AQ=="]}'
    )


def test_values_whose_type_the_user_lets_go_are_written_as_text() -> None:
    deep = "[" * 249 + "]" * 249
    row = typed_change(
        {
            "f": ("float64", '"-Infinity"'),
            "n": ("decimal", f'"{"9" * 39}.5"'),
            "ok": ("decimal", f'"{"9" * 28}.{"1" * 10}"'),
            "doc": ("json", deep),
            "in": ("json", '{"a":[1e200,"N"]}'),
        }
    )
    assert write(row, drop="types")[0]["dynamodb"]["NewImage"] == {
        "id": {"S": "x"},
        "f": {"S": "-Infinity"},
        "n": {"S": f"{'9' * 39}.5"},
        "ok": {"N": f"{'9' * 28}.{'1' * 10}"},
        "doc": {"S": deep},
        "in": {"M": {"a": {"L": [{"S": "1e200"}, {"S": "N"}]}}},
    }


def test_an_aws_reader_parses_what_is_written() -> None:
    """004-44: botocore reads the records as the answer of GetRecords, boto3 turns the images into Python values."""
    parsers = pytest.importorskip("botocore.parsers")
    session = pytest.importorskip("botocore.session").get_session()
    deserialize = pytest.importorskip("boto3.dynamodb.types").TypeDeserializer().deserialize
    shape = session.get_service_model("dynamodbstreams").operation_model("GetRecords").output_shape
    row = typed_change(
        {"n": ("decimal(20,2)", '"150.00"'), "b": ("bytes", '"AQID"'), "doc": ("json", '{"a":[1,null,"x"]}')},
        commit_time=TIME,
    )
    body = json.dumps({"Records": write(row)}).encode()
    parsed = parsers.create_parser("json").parse({"body": body, "headers": {}, "status_code": 200}, shape)
    record = parsed["Records"][0]
    assert record["dynamodb"]["ApproximateCreationDateTime"].timestamp() == pytest.approx(1703505330.123)
    assert record["dynamodb"]["StreamViewType"] == "NEW_IMAGE"
    image = {name: deserialize(value) for name, value in record["dynamodb"]["NewImage"].items()}
    assert image["id"] == "x"
    assert str(image["n"]) == "150.00"
    assert image["b"].value == b"\x01\x02\x03"
    assert image["doc"] == {"a": [1, None, "x"]}


@pytest.mark.parametrize(
    ("nanos", "seconds"),
    [
        (0, "0"),
        (TIME // 10**9 * 10**9, "1703505330"),
        (TIME, "1703505330.123"),
        (TIME + 1, "1703505330.123000001"),
        (-1_500_000_000, "-1.500"),
        (2**63 - 1, "9223372036.854775807"),
        (-(2**63), "-9223372036.854775808"),
    ],
)
def test_times_are_seconds_with_every_digit(nanos: int, seconds: str) -> None:
    records, rejects = changeling.encode(batch([change("delete", commit_time=nanos)]), NAME)
    assert rejects.to_pylist() == []
    text = records["value"][0].as_py().decode()
    assert f'"ApproximateCreationDateTime":{seconds},' in text
    assert read(text, table="users")[0].commit_time == nanos


def test_times_can_be_written_as_ydb_counts_them() -> None:
    (record,) = write(change("delete", commit_time=TIME), time_unit="milliseconds")
    assert record["dynamodb"]["ApproximateCreationDateTime"] == 1703505330123
    assert read(record, table="users")[0].commit_time == TIME
