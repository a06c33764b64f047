"""Pipelines that publish into Kafka: a consumer outside of our code gets the records of the feed, each once."""

import json
from pathlib import Path
from typing import Any

import pytest

from changeling.feeds.verification import verify_records
from changeling.iceberg.failpoints import FailpointReached
from changeling.pipelines.lakehouse import tables_of
from changeling.pipelines.loading import load
from tests.brokers.broker import Broker
from tests.feeds.kafka_feeds import Row, consumed
from tests.log.lakes import Shop
from tests.replicas.shops import bus, item

pytestmark = pytest.mark.usefixtures("spark")

BOTH = {"MODE": "NEW_AND_OLD_IMAGES"}
STAMPED = {**BOTH, "VIRTUAL_TIMESTAMPS": True, "BARRIERS_INTERVAL": "PT1S"}
FEEDS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "rows": ({"FORMAT": "dataworks", **BOTH}, {"name": "got.{feed}"}, "got.rows"),
    "events": ({"FORMAT": "xtdb", **BOTH}, {"prefix": "got.cdc.", "partitions": 2}, "got.cdc.users"),
    "changes": ({"FORMAT": "DEBEZIUM_JSON", **BOTH}, {"name": "{schema}.{table}.{feed}"}, "public.users.changes"),
    "stamped": ({"FORMAT": "JSON", **STAMPED}, {"name": "got.{feed}", "partitions": 2}, "got.stamped"),
}
"""Options, topic, and the topic's name."""


def in_table(made: Shop, feed: str) -> dict[int, list[Row]]:
    """The records of the feed's own topic, by partition."""
    found: dict[int, list[Row]] = {}
    for record in made.pipeline.read_feed(feed):
        found.setdefault(record.partition, []).append(Row(record.key, record.value, tuple(record.headers)))
    return found


def test_what_a_consumer_gets(tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    feeds = [
        {
            "name": name,
            "table": "public.users",
            "with": options,
            "topic": {"type": "kafka", "servers": broker.servers, **topic},
        }
        for name, (options, topic, _) in FEEDS.items()
    ]
    made = bus(tmp_path, feeds=feeds)
    made.write("1.json", *(item(n, "insert", {"id": n, "name": "a", "n": n}) for n in range(1, 9)))
    made.pipeline.run(once=True)
    made.write(
        "2.json",
        *(item(10 + n, "update", {"id": n, "name": "b"}, {"id": n}) for n in range(1, 9)),
        *(item(20, "delete", None, {"id": n}, order=n) for n in range(1, 5)),
    )
    for place in ("kafka.sent", "kafka.committed", "kafka.sent@2", "feed.after"):
        monkeypatch.setenv("CHANGELING_FAILPOINT", place)
        with pytest.raises(FailpointReached):
            made.pipeline.run(once=True)
        monkeypatch.delenv("CHANGELING_FAILPOINT")
        made.write(f"{place}.json", item(30 + len(place), "insert", {"id": 30 + len(place), "name": "c", "n": None}))
    made.pipeline.run(once=True)

    tables = tables_of(load(made.file))
    for feed in made.pipeline.feeds():
        got = consumed(broker.servers, FEEDS[feed.name][2], feed.partitions)
        assert got == in_table(made, feed.name), feed.name
        received = [
            (partition, offset, row.key, row.value, row.headers)
            for partition, rows in got.items()
            for offset, row in enumerate(rows)
        ]
        assert not verify_records(tables, "shop", feed, received).faults
    events = consumed(broker.servers, "got.cdc.users", 2)
    lives = [
        [json.loads(row.value or b"")["op"] for row in rows if row.key == str(key).encode()]
        for key in range(1, 9)
        for rows in events.values()
    ]
    assert sorted(filter(None, lives)) == [["c", "u"]] * 4 + [["c", "u", "d"]] * 4
    keys = {row.key for rows in consumed(broker.servers, "public.users.changes").values() for row in rows}
    assert b'{"payload":{"id":1}}' in keys
