"""The six types of `dataworks-message`, both ways and with extremes."""

import json
from typing import Any

import msgspec
import pytest

import changeling
from changeling.conformance.cases import CASES, ROW, batch
from changeling.formats.encoding import typed
from changeling.model.change import Change
from changeling.model.table import Column, TableSchema

NAME = "dataworks-message"
MILLIS = 1590315269123
SOURCE = {"dbType": "mysql", "dbVersion": "8.0", "dbName": "shop", "schemaName": None, "tableName": "users"}
COLUMNS = [{"name": "id", "type": "LONG"}, {"name": "n", "type": "STRING"}]
TABLE = {"dataColumn": COLUMNS, "primaryKey": ["id"], "source": SOURCE}


def message(schema: Any = TABLE, **members: Any) -> str:
    """An insert with some members of its payload changed, or left out with `...`."""
    payload = {
        "before": None,
        "after": {"dataColumn": {"id": 1, "n": "a"}},
        "sequenceId": "7",
        "op": "INSERT",
        "timestamp": {"eventTime": MILLIS},
        **members,
    }
    found = {"schema": schema, "payload": {name: value for name, value in payload.items() if value is not ...}}
    return json.dumps({name: value for name, value in found.items() if value is not ...}, separators=(",", ":"))


def written(change: Change, **options: Any) -> list[dict[str, Any]]:
    records, rejects = changeling.encode(batch([change]), NAME, **options)
    assert rejects.to_pylist() == []
    return [json.loads(value) for value in records["value"].to_pylist()]


def test_each_wire_type_reads_as_a_canonical_one() -> None:
    values = {
        "BOOLEAN": True,
        "DATE": MILLIS,
        "BYTES": "AQID",
        "STRING": "x",
        "LONG": -(2**63),
        "DOUBLE": 0.1,
        "MONEY": 5,
    }
    schema = {**TABLE, "dataColumn": [{"name": kind, "type": kind} for kind in values], "primaryKey": []}
    changes, _ = changeling.decode([message(schema, after={"dataColumn": values})], NAME)
    found, rejects = typed(changes.to_batches()[0])
    assert rejects.num_rows == 0
    assert json.loads(found.column("after")[0].as_py()) == {**values, "DATE": "2020-05-24T10:14:29.123Z"}


@pytest.mark.parametrize(
    ("kind", "value", "wire"),
    [
        ("timestamptz", "2020-05-24T12:14:29.123+02:00", MILLIS),
        ("timestamp", "2020-05-24T10:14:29.123", MILLIS),
        ("date", "0001-01-01", -62135596800000),
        ("date", "9999-12-31", 253402214400000),
        ("timestamptz", "9999-12-31T23:59:59.999Z", 253402300799999),
        ("uint64", 2**64 - 1, "18446744073709551615"),
        ("int64", -(2**63), -(2**63)),
        ("decimal(38,10)", "0.1000000000", "0.1000000000"),
        ("float64", "NaN", "NaN"),
        ("time", "10:14:29.500", "10:14:29.500"),
        ("json", {"a": [1, None]}, '{"a":[1,null]}'),
        ("json", "text", '"text"'),
        ("array<json>", ["a", {"b": 1}], '["a",{"b":1}]'),
        ("interval", {"months": 1, "days": 2, "nanos": 3}, '{"months":1,"days":2,"nanos":3}'),
        ("bytes", "AQID/w==", "AQID/w=="),
    ],
)
def test_each_canonical_type_is_written_and_comes_back(kind: str, value: Any, wire: Any) -> None:
    schema = TableSchema((Column("v", kind),))
    change = msgspec.structs.replace(CASES["keyless insert"], after=json.dumps({"v": value}), schema=schema.to_json())
    (found,) = written(change)
    assert found["payload"]["after"]["dataColumn"] == {"v": wire}
    changes, _ = changeling.decode([json.dumps(found)], NAME, schemas=(schema,))
    back, rejects = typed(changes.to_batches()[0])
    assert rejects.num_rows == 0
    shown = json.loads(back.column("after")[0].as_py())["v"]
    assert shown == (value if kind != "timestamptz" or "+" not in value else "2020-05-24T10:14:29.123Z")


@pytest.mark.parametrize(
    ("value", "shortened"), [("2020-05-24T10:14:29.123456Z", MILLIS), ("infinity", None), ("0044-03-15 BC", None)]
)
def test_a_moment_that_milliseconds_cannot_tell_is_refused(value: str, shortened: int | None) -> None:
    change = msgspec.structs.replace(CASES["insert"], after=ROW.replace("2023-12-25T10:15:30.123Z", value))
    _, rejects = changeling.encode(batch([change]), NAME)
    assert rejects["feature"].to_pylist() == ["types"]
    assert rejects["reason"][0].as_py() == (
        f"dataworks-message cannot carry types: a DATE counts milliseconds since 1970, and column 'at' is \"{value}\""
    )
    (found,) = written(change, drop="types")
    assert found["payload"]["after"]["dataColumn"]["at"] == shortened


def test_a_date_that_is_none_is_rejected_by_its_type_and_not_before() -> None:
    schema = {**TABLE, "dataColumn": [{"name": "id", "type": "LONG"}, {"name": "n", "type": "DATE"}]}
    texts = [message(schema, after={"dataColumn": {"id": 1, "n": value}}) for value in (1.5, 10**16)]
    changes, rejects = changeling.decode(texts, NAME)
    assert rejects.num_rows == 0
    _, rejects = typed(changes.to_batches()[0])
    assert rejects["reason"].to_pylist() == [
        "column 'n': 1.5 is not a DATE, a whole number of milliseconds",
        "column 'n': the DATE 10000000000000000 lies outside the years 1 to 9999",
    ]
