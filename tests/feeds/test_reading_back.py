"""Feeds are sources of other pipelines: what is read back from their files makes the same replica."""

from pathlib import Path
from typing import Any

import pytest

from tests.log.lakes import Shop, shop
from tests.replicas.shops import SOURCE, item

pytestmark = pytest.mark.usefixtures("spark")

COLUMNS = {"id": "int64", "name": "utf8", "n": "uint64", "price": "double", "at": "timestamp", "on": "boolean"}


def row(number: int, **values: Any) -> dict[str, Any]:
    given = {"id": number, "name": f'x\u00fc"{number}', "n": 2**64 - number, "price": 0.1 * number}
    return {**given, "at": f"2024-01-0{number % 9 + 1}T01:02:03.{number:06d}Z", "on": number % 2 == 0, **values}


def rows(made: Shop, table: str) -> list[dict[str, Any]]:
    found = made.pipeline.current(table)
    assert found is not None
    return sorted(found[0].to_pylist(), key=lambda one: one["id"])


def test_feeds_of_debezium_s_and_xtdb_s_kind_make_the_same_replica_again(tmp_path: Path) -> None:
    made = shop(tmp_path / "first", SOURCE)
    made.write("1.json", *(item(number, "insert", row(number), columns=COLUMNS) for number in range(1, 6)))
    made.pipeline.run(once=True)
    common = {"MODE": "NEW_AND_OLD_IMAGES", "INITIAL_SCAN": True}
    feeds = [
        {
            "name": name,
            "table": "public.users",
            "with": {"FORMAT": format, **common},
            "options": options,
            "topic": {"type": "files", "path": f"../{name}", "partitions": 2},
        }
        for name, format, options in (("deb", "debezium-json", {"schemas": True}), ("xt", "xtdb", {}))
    ]
    made = shop(tmp_path / "first", SOURCE, feeds=feeds)
    made.write(
        "2.json",
        item(6, "update", {"id": 1, "name": None}, {"id": 1}, columns=COLUMNS),
        item(7, "delete", None, {"id": 2}, columns=COLUMNS),
        item(8, "update", {"id": 30}, {"id": 3}, columns=COLUMNS),
        item(9, "insert", row(2, n=None), columns=COLUMNS),
    )
    made.pipeline.run(once=True)
    expected = rows(made, "public.users")
    assert [one["id"] for one in expected] == [1, 2, 4, 5, 30]

    again = shop(
        tmp_path / "second",
        {"name": "deb", "type": "files", "path": "../deb/**", "format": "debezium-json", "key": ["id"]},
        {"name": "xt", "type": "files", "path": "../xt/**", "format": "xtdb"},
        tables=[
            {
                "name": "users",
                "source": "xt",
                "key": ["_id"],
                "columns": {
                    "_id": "int64",
                    "id": "int64",
                    "name": "string",
                    "n": "uint64",
                    "price": "float64",
                    "at": "timestamptz",
                    "on": "bool",
                },
            }
        ],
    )
    again.pipeline.run(once=True)
    assert again.rejects() == []
    found = again.pipeline.current("users", source="deb")
    assert found is not None
    assert sorted(found[0].to_pylist(), key=lambda one: one["id"]) == expected
    found = again.pipeline.current("users", source="xt")
    assert found is not None
    documents = sorted(found[0].to_pylist(), key=lambda one: one["id"])
    assert [one.pop("_id") for one in documents] == [1, 2, 4, 5, 30]
    assert documents == expected
