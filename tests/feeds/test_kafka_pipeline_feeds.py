"""Feeds of one pipeline in a real Kafka: what consumers that are not ours read there, after runs that were cut off."""

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from pyspark.sql import SparkSession

from changeling.feeds.verification import EQUAL, Received, verify_records
from changeling.iceberg.failpoints import FailpointReached
from changeling.pipelines.lakehouse import tables_of
from changeling.pipelines.loading import load
from tests.brokers.broker import Broker
from tests.feeds.kafka_feeds import received
from tests.log.lakes import Shop, shop
from tests.replicas.histories import Database, Table, batches
from tests.replicas.shops import bus, item

Row: TypeAlias = dict[str, Any]
Lives: TypeAlias = dict[int, list[Row | None]]
"""The states that each row went through, by its id; None where it was deleted."""
Cut: TypeAlias = Callable[[Shop, str], bool]


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> Cut:
    """Runs a pipeline that fails at some place; returns whether it came there."""

    def run(made: Shop, place: str) -> bool:
        with monkeypatch.context() as patch:
            patch.setenv("CHANGELING_FAILPOINT", place)
            try:
                made.pipeline.run(once=True)
            except FailpointReached:
                return True
        return False

    return run


@dataclass
class Users:
    """A table as its source changes it."""

    chance: random.Random
    rows: dict[int, Row] = field(default_factory=dict)
    lives: Lives = field(default_factory=lambda: defaultdict(list))
    number: int = 0

    def changes(self, count: int) -> list[str]:
        """So many transactions of one change each."""
        return [self._change() for _ in range(count)]

    def _change(self) -> str:
        self.number += 1
        key, n = self.chance.randrange(12), self.chance.choice([None, self.number])
        if key not in self.rows:
            return self._insert({"id": key, "name": f'ü"{self.number}', "n": n})
        old = self.rows.pop(key)
        self.lives[key].append(None)
        other = self.chance.randrange(12, 24)
        match self.chance.choice(["update", "update", "delete", "move"]):
            case "delete":
                return item(self.number, "delete", None, {"id": key})
            case "move" if other not in self.rows:
                self._keep({**old, "id": other})
                return item(self.number, "update", {"id": other}, {"id": key})
        self.lives[key].pop()
        self._keep({**old, "n": n})
        return item(self.number, "update", {"id": key, "n": n}, {"id": key})

    def _insert(self, row: Row) -> str:
        self._keep(row)
        return item(self.number, "insert", row)

    def _keep(self, row: Row) -> None:
        self.rows[row["id"]] = row
        self.lives[row["id"]].append(row)


def in_kafka(feed: str, format: str, broker: Broker, table: str = "public.users", **topic: Any) -> dict[str, Any]:
    """A feed with the images of rows before and after."""
    settings = {"FORMAT": format, "MODE": "NEW_AND_OLD_IMAGES"}
    place = {"type": "kafka", "servers": broker.servers, **topic}
    return {"name": feed, "table": table, "with": settings, "topic": place}


def lives(records: Iterable[Received], state: Callable[[Any, Any], tuple[int, Row | None] | None]) -> Lives:
    """What the records of a topic tell of each row; `state` reads the key and the value of one."""
    found: Lives = defaultdict(list)
    for _, _, key, value, _ in records:
        one = state(json.loads(key or b""), None if value is None else json.loads(value))
        if one is not None:
            found[one[0]].append(one[1])
    return found


def of_document(key: Any, value: Any) -> tuple[int, Row | None]:
    if value["after"] is None:
        return key, None
    document = json.loads(value["after"])
    assert document.pop("_id") == key
    # A document has no member that is null.
    return key, {"n": None, **document}


def of_image(key: Any, value: Any) -> tuple[int, Row | None] | None:
    kind, is_after = value["_operation_type_"], value["_after_image_"] == "Y"
    if kind == "U" and not is_after:
        return None
    return key["id"], {name: value[name] for name in ("id", "name", "n")} if is_after else None


def of_event(key: Any, value: Any) -> tuple[int, Row | None] | None:
    # Behind a delete comes a record without a value, for compaction.
    return None if value is None else (key["id"], value.get("after"))


def of_ydb_event(key: Any, value: Any) -> tuple[int, Row | None] | None:
    return of_event(key["payload"], value["payload"])


READERS: dict[str, Callable[[Any, Any], tuple[int, Row | None] | None]] = {
    "documents": of_document,
    "rows": of_image,
    "events": of_event,
    "ydb": of_ydb_event,
}
TOPICS = {
    "documents": ("xtdb.cdc.users", 3),
    "rows": ("dataworks.users", 2),
    "events": ("shop.public.users", 4),
    "ydb": ("ydb", 2),
}
CUTS = ("kafka.sent", "", "feed.after@2", "kafka.committed@3", "kafka.sent@5", "")


def test_consumers_that_are_not_ours_get_each_change_once_and_in_order(
    spark: SparkSession, tmp_path: Path, broker: Broker, cut: Cut
) -> None:
    feeds = [
        in_kafka("documents", "xtdb", broker, prefix="xtdb.cdc.", partitions=3),
        in_kafka("rows", "dataworks", broker, prefix="dataworks.", partitions=2),
        in_kafka("events", "debezium-json", broker, name="shop.{schema}.{table}", partitions=4),
        in_kafka("ydb", "DEBEZIUM_JSON", broker, name="{feed}", partitions=2),
    ]
    made, users = bus(tmp_path / "first", feeds=feeds), Users(random.Random(15))
    for number, place in enumerate(CUTS):
        made.write(f"{number}.json", *users.changes(25))
        assert cut(made, place) == bool(place)

    for feed in made.pipeline.feeds():
        topic, partitions = TOPICS[feed.name]
        records = received(broker.servers, topic, partitions)
        assert lives(records, READERS[feed.name]) == users.lives
        places: dict[bytes | None, set[int]] = defaultdict(set)
        for partition, _, key, _, _ in records:
            places[key].add(partition)
        assert all(len(own) == 1 for own in places.values())
        assert set.union(*places.values()) == set(range(partitions))
        verify(made, feed.name, records)
        reading = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.servers)
        reading = reading.option("kafka.isolation.level", "read_committed").option("subscribe", topic)
        on_spark = reading.load().selectExpr("partition", "offset", "key", "value").toArrow().to_pylist()
        assert sorted(tuple(row.values()) for row in on_spark) == sorted(record[:4] for record in records)

    # Read back by another pipeline.
    again = shop(
        tmp_path / "second",
        source("deb", "debezium-json", "shop.public.users", broker, key=["id"]),
        source("xt", "xtdb", "xtdb.cdc.users", broker),
        tables=[{"name": "users", "source": "xt", "key": ["_id"], "columns": {"_id": "int64", **COLUMNS}}],
    )
    again.pipeline.run(once=True)
    assert again.rejects() == []
    expected = rows(made, "bus")
    assert expected == [users.rows[key] for key in sorted(users.rows)]
    assert rows(again, "deb") == expected
    assert rows(again, "xt") == [{"_id": row["id"], **row} for row in expected]


COLUMNS = {"id": "int64", "name": "string", "n": "int32"}


def source(name: str, format: str, topic: str, broker: Broker, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": "kafka", "servers": broker.servers, "topics": [topic], "format": format, **more}


def rows(made: Shop, source: str) -> list[Row]:
    found = made.pipeline.current("users", source=source)
    assert found is not None
    return sorted(found[0].to_pylist(), key=lambda row: int(row["id"]))


def verify(made: Shop, name: str, records: Iterable[Received]) -> None:
    """The records of a consumer are what the feed promises, and make the replica."""
    (feed,) = (one for one in made.pipeline.feeds() if one.name == name)
    found = verify_records(tables_of(load(made.file)), "shop", feed, records)
    assert (name, [str(fault) for fault in found.faults]) == (name, [])
    assert EQUAL in found.checks, found.not_checked


PLACES = ("feed.before", "feed.after", "kafka.sent", "kafka.committed", "replica.after", "point.after")


@pytest.mark.usefixtures("spark")
def test_random_histories_arrive_whole(tmp_path: Path, broker: Broker, cut: Cut) -> None:
    """Late and repeated changes, truncates, moved keys, other columns, and runs that are cut off anywhere."""
    feeds = [
        in_kafka("stamped", "JSON", broker, "public.keyed", name="random.{feed}", partitions=2),
        in_kafka("changes", "debezium-json", broker, "public.keyed", name="random.{feed}", partitions=3),
    ]
    feeds[0]["with"] |= {"VIRTUAL_TIMESTAMPS": True, "BARRIERS_INTERVAL": "PT1S"}
    made, database = bus(tmp_path, feeds=feeds), Database(3, [Table("keyed", True)], 8)
    for _ in range(60):
        database.commit()
    chance = random.Random(3)
    for number, records in enumerate(batches(database, 3, "late")):
        made.write(f"{number}.json", *records)
        for place in chance.sample(PLACES, 2):
            cut(made, f"{place}@{chance.randint(1, 2)}")
        made.pipeline.run(once=True)
    for name, partitions in (("stamped", 2), ("changes", 3)):
        verify(made, name, received(broker.servers, f"random.{name}", partitions))
