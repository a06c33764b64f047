"""Which records of topics come next: offsets are planned here, whatever client asks the cluster and reads them."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from changeling.model.errors import ChangelingError, UsageError
from changeling.sources import kafka_settings
from changeling.sources.kafka_plan import Gap, KafkaPlan, Progress, Span, Topic, gaps, is_pattern, is_wanted, limited
from changeling.sources.source import KnownSchema, PlanSize, Records

# A broker that has just taken over a partition may briefly not know all of it.
_DOUBTS = (0.5, 1.0, 1.5)
_GAPS_LISTED = 5


class TopicLister(Protocol):
    """A cluster that can be asked for its topics."""

    def topics(self, wanted: Callable[[str], bool]) -> dict[str, Topic]:
        """The wanted topics as they are now: where partitions begin, and where their committed records end.

        Raises `ChangelingError` where the cluster cannot be queried.
        """


@dataclass(frozen=True)
class Subscription:
    """Which records of a cluster are read. Topics and partitions that appear later are read from their beginning."""

    topics: Sequence[str]
    """Names, and patterns with `*` and `?`."""
    batch_records: int
    start: Literal["earliest", "latest"] = "earliest"
    """Where topics begin that exist when the first plan is created."""
    on_gap: Literal["fail", "skip"] = "fail"
    """Whether to fail where records were deleted before they were read, or to continue with a warning."""


class KafkaPlanner:
    """Plans the records of topics, each once, in transactions that were committed."""

    def __init__(self, records: Records, cluster: TopicLister, subscription: Subscription) -> None:
        self.name, self.format, self.options = records.source, records.format, records.options
        if subscription.batch_records < 1:
            most = subscription.batch_records
            raise UsageError(f"source {self.name!r}: a batch has one record at least, not {most}")
        self._cluster = cluster
        self._topics = kafka_settings.checked_topics(subscription.topics, self.name)
        self._batch_records = subscription.batch_records
        self._start = subscription.start
        self._on_gap = subscription.on_gap
        self._progress = Progress()
        self._present: dict[str, Topic] | None = None
        self.has_more = False
        self._warned: set[str] = set()
        self._warnings: list[str] = []

    def remember(self, plan: str) -> None:
        """Adds an earlier plan, in the order of batches: its records are not planned again."""
        self._progress.remember(KafkaPlan.parse(plan))

    def plan_next(self) -> str | None:
        """The plan of the next batch; None where there is nothing new. The plan is not remembered yet.

        Raises `ChangelingError` where the cluster cannot be reached, and where records are lost and `on_gap` is fail.
        """
        current, found = self._asked(self._wanted, self._gaps)
        if found and self._on_gap == "fail":
            raise ChangelingError(
                f"source {self.name!r}: {_describe(found)}. Records may be lost: set on_gap to 'skip' to continue without them, "
                "and keep records longer in Kafka (retention.ms of the topic)"
            )
        for gap in found:
            self._warn(f"{gap.why}; on_gap is 'skip': these records are left out")
        for topic in self._topics:
            if not is_pattern(topic) and topic not in current and topic not in self._progress.known():
                self._warn(f"there is no topic {topic!r} yet")
        if self._present is not None:
            current = limited(current, self._present)
        plan = self._progress.plan_next(current, found, self._batch_records, self._start)
        self.has_more = plan is not None and plan.records >= self._batch_records
        return None if plan is None else plan.text()

    @property
    def took_all(self) -> bool:
        """Whether the last plan has all that there was then."""
        return not self.has_more

    def stop_at_present(self) -> None:
        """Records that are committed later, and topics and partitions that appear later, are left for another run."""
        self._present = self._cluster.topics(self._wanted)

    def stop_at(self, position: int) -> None:
        """Not supported: topics have no common log position."""
        raise AssertionError("only a database has a log with positions")

    def nothing(self) -> str:
        """A plan without records."""
        return self._progress.nothing().text()

    def broken(self, plan: str) -> str | None:
        """Why a plan can no longer be read as it was created: topics or offsets are gone. None where it can be.

        The records of a broken plan still count as missing: `next` finds a gap there, and `on_gap` applies. Compaction is
        not noticed: it keeps the offsets, and drops records that have later ones of their key.
        """
        parsed = KafkaPlan.parse(plan)
        needed: dict[str, dict[int, Span]] = {}
        for topic, partition, span in parsed.spans():
            needed.setdefault(topic, {})[partition] = span
        if not needed:
            return None
        _, found = self._asked(needed.__contains__, lambda current: list(gaps(parsed.topics, needed, current)))
        if not found:
            return None
        self._progress.miss(parsed)
        return _describe(found)

    def known_schemas(self, plan: str) -> list[KnownSchema]:
        """Empty: records carry their schemas."""
        return []

    def plan_size(self, plan: str) -> PlanSize:
        """The size of a plan: transaction markers and aborted records count as records."""
        return PlanSize(records=KafkaPlan.parse(plan).records)

    @property
    def has_one_topic(self) -> bool:
        """Whether one topic is named, so that partition and offset alone identify a record."""
        return len(self._topics) == 1 and not is_pattern(self._topics[0])

    def close(self) -> None:
        """Nothing is kept open between batches."""

    def warnings(self) -> list[str]:
        """Warnings for the user, each returned once."""
        warnings, self._warnings = self._warnings, []
        return warnings

    def _wanted(self, topic: str) -> bool:
        return is_wanted(topic, self._topics)

    def _asked(
        self, wanted: Callable[[str], bool], find: Callable[[Mapping[str, Topic]], list[Gap]]
    ) -> tuple[dict[str, Topic], list[Gap]]:
        """The current topics and the gaps in them; asked again where a gap may close by itself."""
        pauses = iter(_DOUBTS)
        while True:
            current = self._cluster.topics(wanted)
            found = find(current)
            pause = next(pauses, None) if any(gap.doubtful for gap in found) else None
            if pause is None:
                return current, found
            time.sleep(pause)

    def _gaps(self, current: Mapping[str, Topic]) -> list[Gap]:
        return self._progress.gaps(current, filter(self._wanted, self._progress.known()))

    def _warn(self, sentence: str) -> None:
        if sentence not in self._warned:
            self._warned.add(sentence)
            self._warnings.append(sentence)


def _describe(found: Sequence[Gap]) -> str:
    listed = "; ".join(gap.why for gap in found[:_GAPS_LISTED])
    return listed if len(found) <= _GAPS_LISTED else f"{listed}; and {len(found) - _GAPS_LISTED} more of this kind"
