"""Feeds whose table topics tests fill by themselves, without Spark, and what comes out of Kafka."""

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, TopicPartition
from pyiceberg.catalog import load_catalog

from changeling.feeds.feed import Feed
from changeling.feeds.kafka_topic import KafkaTopicSettings, KafkaTopicWriter
from changeling.feeds.topic import COLUMNS, STATE, FeedState, Topic, namespace_of
from changeling.feeds.verification import Received
from changeling.iceberg.catalog import NAME, catalog, prepare
from changeling.iceberg.reader import Tables
from changeling.model.table import TableName

PIPELINE = "shop"


class Row(NamedTuple):
    """A record, as it must come out."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class KafkaFeed:
    """A feed with its table topic in a folder, which may have been filled by another process."""

    def __init__(self, folder: Path, topic: str, partitions: int = 1, **given: Any) -> None:
        feed = {
            "id": f"id-of-{topic}",
            "table": TableName(None, "public", topic),
            "format": "ydb-json",
            "mode": "UPDATES",
        }
        self.feed = Feed(name="orders", partitions=partitions, **{**feed, **given})
        self._settings = catalog(str(folder / "lake"), folder, {})
        assert self._settings.database is not None
        prepare(self._settings.database)
        self._catalog = load_catalog(NAME, **self._settings.pyiceberg)
        self._catalog.create_namespace_if_not_exists(namespace_of(PIPELINE))
        self._table = self._catalog.create_table_if_not_exists((namespace_of(PIPELINE), "orders"), COLUMNS)
        self._next = [0] * partitions

    def append(self, rows: Mapping[int, list[Row]], at: datetime | None = None) -> None:
        """One commit with rows for some partitions."""
        moment = at or datetime.now(UTC)
        batches = []
        for partition, some in rows.items():
            first = self._next[partition]
            columns = {
                "partition": [partition] * len(some),
                "offset": range(first, first + len(some)),
                "key": [row.key for row in some],
                "value": [row.value for row in some],
                "headers": [[{"name": name, "value": value} for name, value in row.headers] or None for row in some],
                "published_at": [moment] * len(some),
                "point": [1] * len(some),
            }
            batches.append(pa.table([pa.array(columns[field.name], field.type) for field in COLUMNS], schema=COLUMNS))
            self._next[partition] += len(some)
        # In another order than that of the offsets.
        self._table.append(pa.concat_tables(batches[::-1]), snapshot_properties=self._summary())

    def delete(self, where: str) -> None:
        """Deletes records, as maintenance does when they have expired."""
        self._table.delete(where, snapshot_properties=self._summary())

    def writer(self, servers: str, **given: Any) -> KafkaTopicWriter:
        """A writer as a process that has just started has it."""
        topic = Topic(Tables(self._settings, PIPELINE), PIPELINE, self.feed)
        return KafkaTopicWriter(self.feed, topic, KafkaTopicSettings(servers, **given))

    def _summary(self) -> dict[str, str]:
        state = FeedState(id=self.feed.id, point=1, offsets=self._next)
        return {STATE: msgspec.json.encode(state).decode()}


def rows(numbers: Iterable[int]) -> list[Row]:
    """Records that are all different."""
    return [Row(b"k%d" % number, b"v%d" % number, (("n", b"%d" % number),)) for number in numbers]


def consumed(servers: str, topic: str, partitions: int = 1, **settings: Any) -> dict[int, list[Row]]:
    """All records of a topic that a consumer of committed transactions sees, by partition, in order."""
    found: dict[int, list[Row]] = defaultdict(list)
    for partition, _, key, value, headers in received(servers, topic, partitions, **settings):
        found[partition].append(Row(key, value, tuple(headers)))
    return dict(found)


def received(servers: str, topic: str, partitions: int = 1, **settings: Any) -> list[Received]:
    """The same, each with its partition and its offset."""
    reading: dict[str, Any] = {"bootstrap.servers": servers, "group.id": "tests", "log_level": 0, **settings}
    reading |= {"isolation.level": "read_committed", "enable.partition.eof": True, "enable.auto.commit": False}
    found: list[Received] = []
    left = set(range(partitions))
    consumer = Consumer(reading)
    consumer.assign([TopicPartition(topic, place, 0) for place in left])
    while left:
        for message in consumer.consume(10_000, 0.1):
            error, partition, offset = message.error(), message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            if error is None:
                headers: Any = message.headers() or ()
                found.append((partition, offset, message.key(), message.value(), tuple(headers)))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                left.discard(partition)
    consumer.close()
    return found


if __name__ == "__main__":
    folder, topic, partitions, servers = sys.argv[1:]
    KafkaFeed(Path(folder), topic, int(partitions)).writer(servers).step()
