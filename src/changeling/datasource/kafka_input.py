"""Topics without Spark's connector: librdkafka lists them and reads spans of offsets, in whatever process it is needed."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from confluent_kafka import Message

from changeling.datasource.settings import KafkaPlace
from changeling.feeds.kafka_cluster import Cluster
from changeling.feeds.kafka_settings import librdkafka_settings
from changeling.model import arrow_layouts
from changeling.sources import kafka_settings
from changeling.sources.kafka_plan import Span, Topic
from changeling.spark.frames import origins

_BATCH_ROWS = 8_000


class KafkaTopics:
    """The topics of a cluster, as `KafkaPlanner` asks for them; its connection stays open."""

    def __init__(self, place: KafkaPlace) -> None:
        self._cluster = _cluster(place)

    def topics(self, wanted: Callable[[str], bool]) -> dict[str, Topic]:
        """The wanted topics as they are now; one that is deleted at this moment is left out."""
        found = {}
        for name in filter(wanted, self._cluster.topics()):
            described = self._cluster.describe(name)
            if described is not None:
                spans = self._cluster.spans(name, described.partitions, committed=True)
                # Records may be deleted up to a point inside a transaction that is still open.
                kept = {place: Span(begin, max(begin, end)) for place, (begin, end) in enumerate(spans)}
                found[name] = Topic(described.id, kept)
        return found


def records(place: KafkaPlace, topic: str, partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """The records of a span of offsets, in layout `RECORDS`; raises `ChangelingError` where they are gone."""
    waiting: list[Message] = []
    for message in _cluster(place).records(topic, {partition: (start, end)}):
        waiting.append(message)
        if len(waiting) == _BATCH_ROWS:
            yield _batch(waiting)
            waiting = []
    if waiting:
        yield _batch(waiting)


def _cluster(place: KafkaPlace) -> Cluster:
    given = kafka_settings.checked(place.settings, "changeling")
    return Cluster(place.servers, librdkafka_settings(given, "the data source"))


def _batch(messages: list[Message]) -> pa.RecordBatch:
    topics = pa.array([message.topic() for message in messages], pa.string())
    known = {
        "topic": topics,
        "partition": pa.array([message.partition() for message in messages], pa.int32()),
        "offset": pa.array([message.offset() for message in messages], pa.int64()),
    }
    return pa.record_batch(
        [
            pa.array([message.value() for message in messages], pa.binary()),
            pa.array([message.key() for message in messages], pa.binary()),
            pa.array([_headers(message) for message in messages], arrow_layouts.HEADERS),
            topics,
            origins(len(messages), known),
        ],
        schema=arrow_layouts.RECORDS,
    )


def _headers(message: Message) -> list[dict[str, str | bytes | None]] | None:
    found: Any = message.headers()
    return None if not found else [{"name": name, "value": value} for name, value in found]
