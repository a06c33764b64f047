"""What comes late by another way than its source: rejects that are replayed, and a replica that is rebuilt."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.log.lakes import Shop, shop
from tests.replicas.shops import SOURCE, item, replica

pytestmark = pytest.mark.usefixtures("spark")

FEED = {
    "name": "f",
    "table": "users",
    "with": {
        "FORMAT": "JSON",
        "MODE": "NEW_AND_OLD_IMAGES",
        "VIRTUAL_TIMESTAMPS": True,
        "BARRIERS_INTERVAL": "PT1S",
    },
}
RULE = {"name": "users", "key": ["id"], "columns": {"id": "int64", "name": "string", "n": "int32"}}


def of_unknown_schema(*given: Any) -> str:
    """A change whose schema is a number that nobody has declared yet."""
    return json.dumps({**json.loads(item(*given)), "table_schema": {"SchemaID": 99}})


def records(made: Shop) -> list[Any]:
    return [json.loads(record.value or b"") for record in made.pipeline.read_feed("f")]


def test_rows_are_corrected_once_by_what_is_replayed_and_not_at_all_by_a_rebuild(tmp_path: Path) -> None:
    made = shop(tmp_path, SOURCE, feeds=[FEED])
    made.write(
        "1.json",
        item(1, "insert", {"id": 1, "name": "a", "n": 1}),
        of_unknown_schema(2, "insert", {"id": 2, "name": "late", "n": 2}),
        of_unknown_schema(3, "update", {"id": 1, "name": "late"}, {"id": 1}),
        item(4, "update", {"id": 1, "n": 4}, {"id": 1}),
        of_unknown_schema(5, "insert", {"id": 3, "name": "late", "n": 3}),
        item(6, "delete", None, {"id": 3}),
    )
    made.pipeline.run(once=True)
    first = records(made)
    assert [record["key"] for record in first[:-1]] == [[1], [1]]
    assert len(made.rejects()) == 3
    made = shop(tmp_path, SOURCE, feeds=[FEED], tables=[{**RULE, "id": 99}])
    assert made.pipeline.replay() == {"bus": (3, 0)}
    made.write("2.json", item(7, "update", {"id": 1, "n": 7}, {"id": 1}))
    made.pipeline.run(once=True)

    # Row 3 came and went: nothing is said of it.
    old, late, now = ({"name": name, "n": n} for name, n in (("a", 4), ("late", 4), ("late", 7)))
    last = first[-1]["resolved"]
    found = records(made)
    assert found[: len(first)] == first
    assert found[len(first) :] == [
        {"key": [1], "update": {}, "oldImage": old, "newImage": late, "ts": [last[0], last[1] + 1]},
        {"key": [2], "update": {}, "newImage": {"name": "late", "n": 2}, "ts": [last[0], last[1] + 1]},
        {"key": [1], "update": {}, "oldImage": late, "newImage": now, "ts": [1_700_000_007_000, last[1] + 2]},
        {"resolved": [1_700_000_007_000, last[1] + 2]},
    ]
    before = replica(made)
    made.pipeline.rebuild("users")
    made.pipeline.run(once=True)
    assert replica(made) == before
    # A point that corrects nothing is followed by a barrier.
    again = records(made)
    assert again[: len(found)] == found
    assert all("resolved" in record for record in again[len(found) :])
    assert not made.pipeline.verify_feed("f").faults
