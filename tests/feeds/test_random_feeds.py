"""Feeds under random load: late changes, altered tables, and runs that fail at every commit point; all of them stay right."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeling.iceberg.failpoints import FailpointReached
from tests.log.lakes import shop
from tests.replicas.histories import Database, Table, batches

SOURCE = {"name": "bus", "type": "files", "path": "in/*.json", "format": "transferia"}
JSON = {"FORMAT": "JSON", "VIRTUAL_TIMESTAMPS": True, "BARRIERS_INTERVAL": "PT1S", "TOPIC_MIN_ACTIVE_PARTITIONS": 3}
FEEDS: list[dict[str, Any]] = [
    {"name": "updates", "with": {**JSON, "MODE": "UPDATES", "SCHEMA_CHANGES": True}},
    {"name": "images", "with": {**JSON, "MODE": "NEW_AND_OLD_IMAGES", "INITIAL_SCAN": True}},
    {"name": "halves", "with": {"FORMAT": "dataworks", "MODE": "NEW_AND_OLD_IMAGES"}},
    {"name": "events", "with": {"FORMAT": "debezium-json", "MODE": "NEW_IMAGE"}},
]
FAILURES = [
    None,
    "feed.before",
    "feed.after",
    "replica.after",
    "feed.after@3",
    "point.before",
    "feed.before@2",
    "point.after",
]


@pytest.mark.parametrize(("seed", "disorder"), [(1, "late")])
def test_feeds_stay_right_whatever_comes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, disorder: str
) -> None:
    database = Database(seed, [Table("keyed", True)], 10)
    for _ in range(80):
        database.commit()
    feeds = [{"table": "public.keyed", "topic": {"type": "table"}, **feed} for feed in FEEDS]
    made = shop(tmp_path, SOURCE, feeds=feeds)
    for number, records in enumerate(batches(database, len(FAILURES), disorder)):
        made.write(f"{number}.json", *records)
        failure = FAILURES[number]
        if failure is not None:
            monkeypatch.setenv("CHANGELING_FAILPOINT", failure)
            with contextlib.suppress(FailpointReached):
                made.pipeline.run(once=True)
            monkeypatch.delenv("CHANGELING_FAILPOINT")
        made.pipeline.run(once=True)
    for feed in FEEDS:
        found = made.pipeline.verify_feed(feed["name"])
        assert (feed["name"], [str(fault) for fault in found.faults][:5]) == (feed["name"], [])
        assert found.compared, found.not_checked
    assert len(made.pipeline.verify_feed("images").compared) > 2
