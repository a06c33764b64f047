"""Plans of Kafka sources, made and read as a run does."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from changeling.formats.options import ReadOptions
from changeling.model import arrow_layouts
from changeling.sources.kafka import KafkaSource
from changeling.sources.kafka_plan import KafkaPlan
from changeling.sources.kafka_planner import Subscription
from changeling.sources.source import Reader, Records
from changeling.spark.adapter import run
from tests.brokers.topics import Sent


def kafka_source(spark: SparkSession, servers: str, *topics: str, **changed: Any) -> KafkaSource:
    """A source with the options that most tests want."""
    settings = changed.pop("settings", {})
    subscription = Subscription(topics, **{"batch_records": 1000, **changed})
    return KafkaSource(spark, Records("bus", "xtdb", ReadOptions()), servers, settings, subscription)


def drain(source: KafkaSource, most: int = 50) -> list[str]:
    """All plans until there is nothing new, each remembered."""
    plans: list[str] = []
    while (plan := source.plan_next()) is not None:
        assert len(plans) < most, "there is no end of plans"
        source.remember(plan)
        plans.append(plan)
    return plans


@dataclass(frozen=True)
class _RecordsOnly:
    reader: Reader

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for records, rejects in self.reader(batches):
            assert records.schema == arrow_layouts.RECORDS
            assert rejects.schema == arrow_layouts.REJECTS
            assert rejects.num_rows == 0
            yield records


def read(spark: SparkSession, source: KafkaSource, plan: str) -> list[Sent]:
    """The records of a plan by topic, partition and offset."""
    given = source.input(spark, plan)
    found = run(given.frame, _RecordsOnly(given.reader), arrow_layouts.RECORDS).toArrow()
    ordinals = KafkaPlan.parse(plan).ordinals()
    return sorted(_sent(row, ordinals) for row in found.to_pylist())


def _sent(row: dict[str, Any], ordinals: dict[str, int]) -> Sent:
    origin = row["origin"]
    assert origin["topic"] == row["topic"]
    assert (origin["file"], origin["ordinal"], origin["record"]) == (None, ordinals[origin["topic"]], None)
    headers = tuple((pair["name"], pair["value"]) for pair in row["headers"] or ())
    return Sent(origin["topic"], origin["partition"], origin["offset"], row["value"], row["key"], headers)


def read_all(spark: SparkSession, source: KafkaSource, plans: Iterable[str]) -> list[Sent]:
    """The records of several plans."""
    return sorted(record for plan in plans for record in read(spark, source, plan))
