"""Feeds as runs publish them, in several dialects, verified after each run: late changes, key changes, new columns, a truncate."""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.replicas.shops import USERS, bus, item

PUBLIC = "public.users"
JSON = {"FORMAT": "JSON", "VIRTUAL_TIMESTAMPS": True, "BARRIERS_INTERVAL": "PT1S", "TOPIC_MIN_ACTIVE_PARTITIONS": 3}
FEEDS: list[dict[str, Any]] = [
    {"name": "updates", "with": {**JSON, "MODE": "UPDATES", "INITIAL_SCAN": True, "SCHEMA_CHANGES": True}},
    {"name": "images", "with": {**JSON, "MODE": "NEW_AND_OLD_IMAGES"}},
    {"name": "documents", "with": {"FORMAT": "xtdb", "MODE": "NEW_AND_OLD_IMAGES"}},
    {"name": "events", "with": {"FORMAT": "debezium-json", "MODE": "NEW_IMAGE"}},
]
WIDER = {**USERS, "extra": "utf8"}


def user(key: int, n: int) -> dict[str, Any]:
    return {"id": key, "name": f"user {key}", "n": n}


STEPS = [
    [item(number, "insert", user(number, number)) for number in range(1, 9)],
    [
        item(10, "update", {"id": 1, "n": 100}, {"id": 1}),
        item(10, "update", {"id": 1, "n": 101}, {"id": 1}, order=1),
        item(11, "delete", None, {"id": 2}),
        item(12, "update", user(30, 3), {"id": 3}),
        item(13, "insert", user(2, 22)),
    ],
    # Two are late: one that a later change hides, one that shows.
    [item(9, "update", user(1, 9), {"id": 1}), item(9, "update", user(4, 9), {"id": 4}, order=1)],
    [
        item(20, "insert", {**user(40, 4), "extra": "new"}, columns=WIDER),
        item(21, "update", {"id": 5, "extra": "five"}, {"id": 5}, columns=WIDER),
    ],
    [item(22, "truncate"), item(23, "insert", {**user(1, 1), "extra": None}, columns=WIDER)],
    [
        item(30, "insert", {**user(2, 2), "extra": "told"}, columns=WIDER),
        item(32, "insert", {**user(3, 3), "more": "here", "m": 5}, columns={**USERS, "more": "utf8", "m": "int32"}),
    ],
    # Late, and it shows that `extra` became `more`: all rows have it, also those that nothing touches.
    [item(31, "insert", {**user(4, 4), "more": "late"}, columns={**USERS, "more": "utf8"})],
]


def test_every_feed_of_a_run_is_right_after_each_run(spark: SparkSession, tmp_path: Path) -> None:
    feeds = [{"table": PUBLIC, "topic": {"type": "table"}, **feed} for feed in FEEDS]
    made = bus(tmp_path, feeds=feeds)
    for number, records in enumerate(STEPS):
        made.write(f"{number}.json", *records)
        made.pipeline.run(once=True)
    for feed in FEEDS:
        found = made.pipeline.verify_feed(feed["name"])
        assert (feed["name"], [str(fault) for fault in found.faults]) == (feed["name"], [])
        assert found.compared, found.not_checked
