"""Rows of Arcion's snapshots have no cursor: they stand before every change that has one, wherever they come in."""

import json
from typing import Any

import pytest

import changeling
from changeling.envelope.scalar_cells import SCALARS
from changeling.formats.arcion import cursor
from changeling.model.position import encode

ROW = {"id": "1", "name": "n"}
COLUMNS = "id:string,name:string"
ENVELOPE = {
    "tableName": {"namespace": {"catalog": None, "schema": "tpch", "hash": 0}, "name": "region", "hash": 0},
    "opType": "I",
    "before": {"id": "null", "name": "null"},
    "after": ROW,
    "exists": {"id": "1", "name": "1"},
    "operationcount": "{}",
}


def changes(record: str, format: str, **options: Any) -> list[dict[str, Any]]:
    """The changes of a record that stands at place 12 of a file."""
    found, rejects = changeling.decode([record] * 13, format, table="tpch.region", key="id", **options)
    assert rejects.num_rows == 0
    rows: list[dict[str, Any]] = found.to_pylist()[12:]
    return rows


@pytest.mark.parametrize(
    ("format", "record", "options"),
    [
        ("arcion-json", json.dumps(ROW), {}),
        ("arcion-native", json.dumps(ROW), {}),
        ("arcion-csv", "1,n", {"columns": COLUMNS, "mode": "snapshot"}),
        ("arcion-json", json.dumps({**ENVELOPE, "cursor": "{}"}), {"mode": "snapshot"}),
    ],
    ids=["json", "native", "csv", "json-with-an-empty-cursor"],
)
def test_a_row_of_a_snapshot_stands_before_every_change(format: str, record: str, options: dict[str, Any]) -> None:
    (found,) = changes(record, format, **options)
    assert (found["op"], found["position"], found["arrived"]) == ("read", "010.010.010.0212", True)
    # A file or a partition of a large number as well.
    latest = encode(*cursor.before_arrival(found["op"]), 10**9, 10**12)
    for earliest in (
        {"log": "bin.000000", "position": 4},
        {"log": "bin.000001", "position": 4},
        {"dscId": 0, "mutId": 1},
    ):
        position = cursor.position(SCALARS, cursor.read(SCALARS, json.dumps(earliest).encode()))
        assert position is not None
        assert latest < position


def test_an_insert_with_a_cursor_is_no_row_of_a_snapshot() -> None:
    placed = {**ENVELOPE, "cursor": json.dumps({"log": "bin.000002", "position": 7})}
    (found,) = changes(json.dumps(placed), "arcion-json", mode="snapshot")
    assert (found["op"], found["position"], found["arrived"]) == ("insert", "012.017.010", False)
    (found,) = changes(json.dumps({**ENVELOPE, "cursor": "{}"}), "arcion-json")
    assert (found["op"], found["position"], found["arrived"]) == ("insert", "010.0212", True)


def test_a_row_of_a_snapshot_comes_back_as_it_was() -> None:
    given = json.dumps({**ENVELOPE, "cursor": "{}"})
    found, _ = changeling.decode([given], "arcion-json", key="id", mode="snapshot")
    written, rejects = changeling.encode(found, "arcion-json")
    assert rejects.num_rows == 0
    assert [json.loads(value) for value in written["value"].to_pylist()] == [json.loads(given)]
