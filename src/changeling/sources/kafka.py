"""Topics as a source: offsets are planned here, Spark's connector reads exactly them."""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec
from pyspark.sql import DataFrame, SparkSession

from changeling.formats.options import ReadOptions
from changeling.model.errors import ChangelingError, UsageError
from changeling.sources import kafka_settings
from changeling.sources.kafka_cluster import Cluster
from changeling.sources.kafka_columns import CROSSING, KafkaReader, crossing
from changeling.sources.kafka_plan import Gap, Plan, Progress, Span, Topic, gaps, limited
from changeling.sources.source import Foreseen, Input, Spread
from changeling.spark.adapter import spark_schema

_RECORDS_A_TASK = 100_000
_RECORDS_WORTH_A_CORE = 10_000
# A broker that just took over a partition may for a moment not know all of it.
_DOUBTS = (0.5, 1.0, 1.5)
_GAPS_TOLD = 5


class KafkaSource:
    """Records of topics, each once, in transactions that were committed.

    `topics` are names and patterns (`*`, `?`); topics and partitions that appear later are read from their beginning.
    `start` says where those begin that exist when the first plan is made. `settings` are those of Kafka's Java clients.
    Where records are gone before they were read, `on_gap` says whether to fail, or to go on and warn.
    """

    def __init__(
        self,
        spark: SparkSession,
        *,
        name: str,
        format: str,
        options: ReadOptions,
        servers: str,
        topics: Sequence[str],
        settings: Mapping[str, str | int | float | bool],
        batch_records: int,
        start: Literal["earliest", "latest"] = "earliest",
        on_gap: Literal["fail", "skip"] = "fail",
    ) -> None:
        if batch_records < 1:
            raise UsageError(f"source {name!r}: a batch has one record at least, not {batch_records}")
        self.name = name
        self.format = format
        self.options = options
        self._topics = kafka_settings.checked_topics(topics, name)
        self._settings = kafka_settings.checked(settings, name)
        self._servers = servers
        self._batch_records = batch_records
        self._start = start
        self._on_gap = on_gap
        self._cluster = Cluster(spark, name, servers, self._settings)
        self._progress = Progress()
        self._present: dict[str, Topic] | None = None
        self.has_more = False
        self._group = f"changeling-{name}-{uuid.uuid4().hex}"
        self._warned: set[str] = set()
        self._warnings: list[str] = []
        for sentence in kafka_settings.unknown(self._settings, self._cluster.setting_names()):
            self._warn(sentence)

    def remember(self, plan: str) -> None:
        """Takes in a plan that was made before, in the order of batches: its records are not planned again."""
        self._progress.remember(Plan.parse(plan))

    def next(self) -> str | None:
        """The plan of the next batch; None where there is nothing new. Nothing is remembered yet.

        Raises `ChangelingError` where the cluster cannot be asked, and where records are gone and `on_gap` says fail.
        """
        standing, found = self._asked(self._wanted, self._gaps)
        if found and self._on_gap == "fail":
            raise ChangelingError(
                f"source {self.name!r}: {_told(found)}. Records may be lost: set on_gap to 'skip' to go on without them, "
                "and keep records longer in Kafka (retention.ms of the topic)"
            )
        for gap in found:
            self._warn(f"{gap.why}; on_gap is 'skip': these records are left out")
        for topic in self._topics:
            if not _is_pattern(topic) and topic not in standing and topic not in self._progress.known():
                self._warn(f"there is no topic {topic!r} yet")
        if self._present is not None:
            standing = limited(standing, self._present)
        plan = self._progress.next(standing, found, self._batch_records, self._start)
        self.has_more = plan is not None and plan.records >= self._batch_records
        return None if plan is None else plan.text()

    def stop_at_present(self) -> None:
        """Records that are committed later, and topics and partitions that appear later, are left for another time."""
        self._present = self._cluster.topics(self._wanted)

    def stop_at(self, place: int) -> None:
        """There is no such place."""
        raise AssertionError("only a database has a log with places")

    def nothing(self) -> str:
        """A plan without records."""
        return self._progress.nothing().text()

    def broken(self, plan: str) -> str | None:
        """Why a plan can no longer be read as it was made: topics or offsets are gone. None where it can be.

        What a broken plan was to read is still missed: `next` finds a gap there, and does as `on_gap` says. A compacted topic
        is not seen through: it keeps its offsets, and drops records that have later ones of their key.
        """
        parsed = Plan.parse(plan)
        needed: dict[str, dict[int, Span]] = {}
        for topic, partition, span in parsed.spans():
            needed.setdefault(topic, {})[partition] = span
        if not needed:
            return None
        _, found = self._asked(needed.__contains__, lambda standing: list(gaps(parsed.topics, needed, standing)))
        if not found:
            return None
        self._progress.miss(parsed)
        return _told(found)

    def input(self, spark: SparkSession, plan: str) -> Input:
        """The batch of a plan. A task fails where offsets are gone; gaps of transactions and compaction are no loss."""
        parsed = Plan.parse(plan)
        several = len(self._topics) > 1 or _is_pattern(self._topics[0]) or len(parsed.topics) > 1
        return Input(self._frame(spark, parsed), KafkaReader(parsed.ordinals()), parsed.ordinals() if several else None)

    def foreseen(self, plan: str) -> list[Foreseen]:
        """None: records tell theirs."""
        return []

    def spread(self, plan: str) -> Spread:
        """How large it is: the marks of transactions, and what they aborted, count as records."""
        return Spread(records=Plan.parse(plan).records)

    def close(self) -> None:
        """Nothing is held between batches."""

    def warnings(self) -> list[str]:
        """What a user should know. Each is told once."""
        told, self._warnings = self._warnings, []
        return told

    def _wanted(self, topic: str) -> bool:
        internal = topic.startswith("__")
        return any(
            topic == asked or (_is_pattern(asked) and not internal and fnmatchcase(topic, asked))
            for asked in self._topics
        )

    def _asked(
        self, wanted: Callable[[str], bool], find: Callable[[Mapping[str, Topic]], list[Gap]]
    ) -> tuple[dict[str, Topic], list[Gap]]:
        """How the topics stand and what gaps that means, asked again where a gap may close by itself."""
        pauses = iter(_DOUBTS)
        while True:
            standing = self._cluster.topics(wanted)
            found = find(standing)
            pause = next(pauses, None) if any(gap.doubtful for gap in found) else None
            if pause is None:
                return standing, found
            time.sleep(pause)

    def _gaps(self, standing: Mapping[str, Topic]) -> list[Gap]:
        return self._progress.gaps(standing, filter(self._wanted, self._progress.known()))

    def _warn(self, sentence: str) -> None:
        if sentence not in self._warned:
            self._warned.add(sentence)
            self._warnings.append(sentence)

    def _frame(self, spark: SparkSession, plan: Plan) -> DataFrame:
        starts: dict[str, dict[int, int]] = {}
        ends: dict[str, dict[int, int]] = {}
        for topic, partition, span in plan.spans():
            starts.setdefault(topic, {})[partition] = span.start
            ends.setdefault(topic, {})[partition] = span.end
        if not starts:
            return spark.createDataFrame([], spark_schema(CROSSING))
        # One group for all batches, for the connector never forgets one; it joins none. A topic that was made anew changes it,
        # so that nothing fetched from the former one is used.
        options = kafka_settings.connector_options(self._servers, self._settings, f"{self._group}-{len(plan.topics)}")
        options |= {
            "assign": _json({topic: list(partitions) for topic, partitions in starts.items()}),
            "startingOffsets": _json(starts),
            "endingOffsets": _json(ends),
            "includeHeaders": "true",
            # Offsets before the beginning or behind the end of a partition then fail the task. Those in between that have no
            # record are passed over: marks of transactions, what was aborted, what was compacted. Nothing else leaves holes.
            "failOnDataLoss": "true",
            "minPartitions": str(_tasks(plan, spark.sparkContext.defaultParallelism)),
        }
        return crossing(spark.read.format("kafka").options(**options).load())


def _is_pattern(topic: str) -> bool:
    return any(letter in topic for letter in "*?[")


def _tasks(plan: Plan, cores: int) -> int:
    """About one task for so many records, and one at least for each partition and, where it is worth it, for each core."""
    records, partitions = plan.records, sum(1 for _ in plan.spans())
    return max(partitions, -(-records // _RECORDS_A_TASK), min(cores, -(-records // _RECORDS_WORTH_A_CORE)))


def _told(found: Sequence[Gap]) -> str:
    told = "; ".join(gap.why for gap in found[:_GAPS_TOLD])
    return told if len(found) <= _GAPS_TOLD else f"{told}; and {len(found) - _GAPS_TOLD} more of this kind"


def _json(value: Mapping[str, Any]) -> str:
    return msgspec.json.encode(value).decode()
