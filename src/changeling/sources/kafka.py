"""Topics as a source of a pipeline: Spark's connector reads exactly the offsets that are planned."""

import uuid
from collections.abc import Mapping
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession

from changeling.sources import kafka_settings
from changeling.sources.kafka_cluster import Cluster
from changeling.sources.kafka_columns import TRANSFER, KafkaReader, for_transfer
from changeling.sources.kafka_plan import KafkaPlan
from changeling.sources.kafka_planner import KafkaPlanner, Subscription
from changeling.sources.source import Input, Records
from changeling.spark.adapter import spark_schema

_RECORDS_A_TASK = 100_000
_RECORDS_WORTH_A_CORE = 10_000


class KafkaSource(KafkaPlanner):
    """Records of topics as `KafkaPlanner` plans them. `settings` are those of Kafka's Java clients."""

    def __init__(
        self,
        spark: SparkSession,
        records: Records,
        servers: str,
        settings: Mapping[str, str | int | float | bool],
        subscription: Subscription,
    ) -> None:
        self._settings = kafka_settings.checked(settings, records.source)
        self._servers = servers
        cluster = Cluster(spark, records.source, servers, self._settings)
        super().__init__(records, cluster, subscription)
        self._group = f"changeling-{self.name}-{uuid.uuid4().hex}"
        for sentence in kafka_settings.unknown(self._settings, cluster.setting_names()):
            self._warn(sentence)

    def input(self, spark: SparkSession, plan: str) -> Input:
        """The batch of a plan. A task fails where offsets are gone; gaps of transactions and compaction are not a loss."""
        parsed = KafkaPlan.parse(plan)
        several = not self.has_one_topic or len(parsed.topics) > 1
        return Input(self._frame(spark, parsed), KafkaReader(parsed.ordinals()), parsed.ordinals() if several else None)

    def _frame(self, spark: SparkSession, plan: KafkaPlan) -> DataFrame:
        starts: dict[str, dict[int, int]] = {}
        ends: dict[str, dict[int, int]] = {}
        for topic, partition, span in plan.spans():
            starts.setdefault(topic, {})[partition] = span.start
            ends.setdefault(topic, {})[partition] = span.end
        if not starts:
            return spark.createDataFrame([], spark_schema(TRANSFER))
        # One group id for all batches, as the connector never forgets one; no group is joined. A recreated topic changes it,
        # so that nothing fetched from the former topic is used.
        options = kafka_settings.connector_options(self._servers, self._settings, f"{self._group}-{len(plan.topics)}")
        options |= {
            "assign": _json({topic: list(partitions) for topic, partitions in starts.items()}),
            "startingOffsets": _json(starts),
            "endingOffsets": _json(ends),
            "includeHeaders": "true",
            # Offsets before the beginning or after the end of a partition then fail the task. Offsets in between without a
            # record are skipped: transaction markers, aborted and compacted records. Nothing else leaves holes.
            "failOnDataLoss": "true",
            "minPartitions": str(_tasks(plan, spark.sparkContext.defaultParallelism)),
        }
        return for_transfer(spark.read.format("kafka").options(**options).load())


def _tasks(plan: KafkaPlan, cores: int) -> int:
    """About one task per `_RECORDS_A_TASK`, and at least one for each partition and, if worthwhile, for each core."""
    records, partitions = plan.records, sum(1 for _ in plan.spans())
    return max(partitions, -(-records // _RECORDS_A_TASK), min(cores, -(-records // _RECORDS_WORTH_A_CORE)))


def _json(value: Mapping[str, Any]) -> str:
    return msgspec.json.encode(value).decode()
