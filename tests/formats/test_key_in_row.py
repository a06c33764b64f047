"""Records that carry their key twice: they are rejected where the two are of different rows."""

import json
from typing import Any

import pytest

import changeling

SOURCE = {"connector": "postgresql", "db": "shop", "schema": "public", "table": "items", "lsn": 7, "ts_ms": 1000}


def debezium(key: Any, row: Any, op: str = "u") -> dict[str, str]:
    images = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    return {"value": json.dumps({**images, "source": SOURCE, "op": op}), "key": json.dumps(key)}


def ydb(key: Any, row: Any) -> dict[str, str]:
    return {"value": json.dumps({"payload": {"op": "u", "after": row}}), "key": json.dumps({"payload": key})}


def stream(key: Any, row: Any) -> str:
    body = {"Keys": {"id": {"N": key}}, "NewImage": {"n": {"N": "9"}, "id": {"N": row}}, "SequenceNumber": "1"}
    return json.dumps({"eventName": "MODIFY", "dynamodb": body})


def changefeed(key: Any, row: Any) -> str:
    return json.dumps({"key": [key], "update": {}, "newImage": {"id": row, "n": 9}})


OPTIONS: dict[str, dict[str, str]] = {
    "debezium-json": {},
    "ydb-debezium": {"table": "t"},
    "ydb-dynamodb": {"table": "t"},
    "ydb-json": {"table": "t", "key": "id"},
}


@pytest.mark.parametrize(
    ("dialect", "record", "shown"),
    [
        ("debezium-json", debezium({"id": 1}, {"n": 9, "id": 2}), ("id", "1", "2")),
        ("debezium-json", debezium({"id": 1}, {"id": 10}), ("id", "1", "10")),
        ("debezium-json", debezium({"id": 1}, {"id": 2, "n": None}, "d"), ("id", "1", "2")),
        ("debezium-json", debezium({"a": "x", "b": 1}, {"a": "x", "b": None}), ("b", "1", "null")),
        ("ydb-debezium", ydb({"id": 1}, {"id": 2, "n": 9}), ("id", "1", "2")),
        ("ydb-dynamodb", stream("1", "2"), ("id", '{"N":"1"}', '{"N": "2"}')),
        ("ydb-json", changefeed(1, 2), ("id", "1", "2")),
    ],
)
def test_a_key_that_contradicts_its_row_is_rejected(dialect: str, record: Any, shown: tuple[str, str, str]) -> None:
    changes, rejects = changeling.decode([record], dialect, **OPTIONS[dialect])
    name, key, row = shown
    assert changes.num_rows == 0
    assert rejects["reason"].to_pylist() == [
        f"the key says that {name} is {key}, and the row says that it is {row}: they are not of the same row"
    ]


@pytest.mark.parametrize(
    ("dialect", "record"),
    [
        ("debezium-json", debezium({"id": 1}, {"id": 1, "n": 2})),
        ("debezium-json", debezium({"id": 1}, {"id": 1.0, "n": 2})),
        ("debezium-json", debezium({"id": "1"}, {"n": 2, "id": 1})),
        ("debezium-json", debezium({"id": 1, "partition": 7}, {"id": 1})),
        ("ydb-debezium", ydb({"id": 1}, {"n": 2})),
        ("ydb-dynamodb", stream("1", "1.0")),
        ("ydb-json", changefeed(1, 1)),
    ],
)
def test_one_that_says_the_same_in_other_words_is_not(dialect: str, record: Any) -> None:
    changes, rejects = changeling.decode([record], dialect, **OPTIONS[dialect])
    assert (changes.num_rows, rejects.num_rows) == (1, 0)
