"""Plans over partitions: how far each was planned, what comes next, and what can no longer be read. Does no I/O."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

import msgspec

_LISTED = 5


class Span(NamedTuple):
    """Offsets from `start` up to, not including, `end`."""

    start: int
    end: int


class Topic(NamedTuple):
    """A topic as it is in Kafka now: its id (None where the broker is too old to have one) and the offsets of each partition."""

    id: str | None
    partitions: dict[int, Span]


def is_wanted(topic: str, asked: Iterable[str]) -> bool:
    """Whether a topic is one of those asked for, which may be patterns; internal ones are only by their names."""
    internal = topic.startswith("__")
    return any(topic == one or (is_pattern(one) and not internal and fnmatchcase(topic, one)) for one in asked)


def is_pattern(topic: str) -> bool:
    """Whether it may stand for several topics."""
    return any(letter in topic for letter in "*?[")


class SeenTopic(msgspec.Struct, frozen=True, array_like=True):
    """A topic that was planned. One that was recreated under the same name, or lost its end, is added once more."""

    name: str
    id: str | None = None


class KafkaPlan(msgspec.Struct, frozen=True):
    """One batch: all topics that were planned so far, in the order of their appearance, and what to read of them now."""

    topics: tuple[SeenTopic, ...]
    ranges: dict[str, dict[int, Span]]

    @staticmethod
    def parse(text: str) -> "KafkaPlan":
        """The plan of its JSON text."""
        return msgspec.json.decode(text, type=KafkaPlan)

    def text(self) -> str:
        """Its JSON text."""
        return msgspec.json.encode(self).decode()

    def ordinals(self) -> dict[str, int]:
        """The number of each topic: a topic that was added once more has the later one."""
        return {seen.name: place for place, seen in enumerate(self.topics)}

    def spans(self) -> Iterator[tuple[str, int, Span]]:
        """Each topic and partition with something to read."""
        for topic, partitions in self.ranges.items():
            for partition, span in partitions.items():
                if span.start < span.end:
                    yield topic, partition, span

    @property
    def records(self) -> int:
        """How many offsets it has, which is the maximum number of records."""
        return sum(span.end - span.start for _, _, span in self.spans())


@dataclass(frozen=True)
class Gap:
    """Offsets of a partition (None: of all partitions) that can no longer be read.

    `resume` is where reading can continue, or None. With `renewed`, the topic has another history from there: offsets
    that were read before may have other records now. A `doubtful` gap may close by itself when brokers change roles.
    """

    topic: str
    partition: int | None
    why: str
    resume: int | None = None
    renewed: bool = False
    doubtful: bool = False


def gaps(
    seen: Iterable[SeenTopic], needed: Mapping[str, Mapping[int, Span]], current: Mapping[str, Topic]
) -> Iterator[Gap]:
    """What is missing of the needed spans. An empty span needs its offset: it must be reachable without a jump."""
    ids = _ids(seen)
    for name, spans in needed.items():
        topic, known = current.get(name), ids.get(name)
        if topic is None:
            yield Gap(name, None, f"topic {name!r} is gone, it was to be read from {_places(spans)}", doubtful=True)
        elif known is not None and topic.id is not None and topic.id != known:
            why = f"topic {name!r} was deleted and recreated, the former one was to be read from {_places(spans)}"
            yield Gap(name, None, why, renewed=True)
        else:
            for partition, span in spans.items():
                yield from _gap(name, partition, span, topic)


def _gap(name: str, partition: int, needed: Span, topic: Topic) -> Iterator[Gap]:
    available, place = topic.partitions.get(partition), f"topic {name!r} partition {partition}"
    if available is None:
        yield Gap(name, partition, f"{place} is gone, it was to be read from offset {needed.start}", doubtful=True)
    elif available.end < needed.end:
        why = f"{place} ends at offset {available.end} and did so at {needed.end} before: it lost its end or was recreated"
        # Only the id distinguishes a topic that lost its end from a new one; without it, reading again is the lesser evil.
        resume = available.start if topic.id is None else available.end
        yield Gap(name, partition, why, resume, renewed=True, doubtful=True)
    elif available.start > needed.start:
        last = available.start - 1 if needed.start == needed.end else min(available.start, needed.end) - 1
        why = f"{place}: offsets {needed.start} to {last} were deleted before they were read, it begins at {available.start}"
        yield Gap(name, partition, why, available.start)


def _ids(seen: Iterable[SeenTopic]) -> dict[str, str | None]:
    return {topic.name: topic.id for topic in seen}


def _places(spans: Mapping[int, Span]) -> str:
    places = [f"offset {span.start} in partition {partition}" for partition, span in sorted(spans.items())]
    return ", ".join(places[:_LISTED]) + (" and so on" if len(places) > _LISTED else "")


def limited(current: Mapping[str, Topic], present: Mapping[str, Topic]) -> dict[str, Topic]:
    """The topics with no more than they had at an earlier time."""
    kept = {}
    for name, then in present.items():
        now = current.get(name)
        if now is not None and now.id == then.id:
            both = now.partitions.keys() & then.partitions.keys()
            kept[name] = Topic(
                now.id, {place: _limited(now.partitions[place], then.partitions[place]) for place in both}
            )
    return kept


def _limited(now: Span, then: Span) -> Span:
    return Span(now.start, max(now.start, min(now.end, then.end)))


class Progress:
    """How far every partition was planned."""

    def __init__(self) -> None:
        self._begun = False
        self._seen: tuple[SeenTopic, ...] = ()
        self._ends: dict[str, dict[int, int]] = {}

    def remember(self, plan: KafkaPlan) -> None:
        """Adds a plan, after all those before it."""
        self._see(plan)
        for name, partitions in plan.ranges.items():
            self._ends.setdefault(name, {}).update({partition: span.end for partition, span in partitions.items()})

    def miss(self, plan: KafkaPlan) -> None:
        """Adds a plan that cannot be read: its records are still needed from where it begins."""
        if len(plan.topics) < len(self._seen):
            # Later plans are known: this one was read once.
            return
        self._see(plan)
        for name, partition, span in plan.spans():
            self._ends.setdefault(name, {}).setdefault(partition, span.start)

    def nothing(self) -> KafkaPlan:
        """A plan that reads nothing."""
        return KafkaPlan(self._seen, {})

    def gaps(self, current: Mapping[str, Topic], wanted: Iterable[str]) -> list[Gap]:
        """The gaps that prevent the wanted topics from being continued."""
        names = set(wanted)
        needed = {
            name: {partition: Span(end, end) for partition, end in ends.items()}
            for name, ends in sorted(self._ends.items())
            if name in names
        }
        return list(gaps(self._seen, needed, current))

    def known(self) -> list[str]:
        """The names of all topics that were planned."""
        return list(self._ends)

    def plan_next(
        self,
        current: Mapping[str, Topic],
        skipped: Iterable[Gap],
        limit: int,
        start: Literal["earliest", "latest"],
    ) -> KafkaPlan | None:
        """The next plan of at most `limit` records (but one of each partition that has any); None where nothing is new.

        `skipped` are all current gaps; where nothing follows them, the plan only records that they are skipped.
        With `start` "latest", the first plan reads nothing and records where everything ended: otherwise the next run
        would not know, and would begin somewhere else.
        """
        if start == "latest" and not self._begun:
            ends = {
                name: {
                    partition: Span(available.end, available.end)
                    for partition, available in sorted(topic.partitions.items())
                }
                for name, topic in sorted(current.items())
            }
            return KafkaPlan(tuple(SeenTopic(name, current[name].id) for name in ends), ends)
        skipped = list(skipped)
        spans = self._spans(current, skipped)
        if not spans:
            return None
        ranges: dict[str, dict[int, Span]] = {}
        counts = shares([span.end - span.start for _, _, span in spans], limit)
        for (name, partition, span), count in zip(spans, counts, strict=True):
            ranges.setdefault(name, {})[partition] = Span(span.start, span.start + count)
        known = {topic.name for topic in self._seen} - {gap.topic for gap in skipped if gap.renewed}
        added = tuple(SeenTopic(name, current[name].id) for name in ranges if name not in known)
        return KafkaPlan(self._seen + added, ranges)

    def _see(self, plan: KafkaPlan) -> None:
        now = _ids(plan.topics)
        for name, former in _ids(self._seen).items():
            if now.get(name) != former:
                # Recreated: nothing of the former topic counts.
                self._ends.pop(name, None)
        self._seen = plan.topics
        self._begun = True

    def _spans(self, current: Mapping[str, Topic], skipped: list[Gap]) -> list[tuple[str, int, Span]]:
        """Everything new. What follows a gap is planned even if it is empty: a gap is skipped once."""
        recreated = {gap.topic for gap in skipped if gap.renewed and gap.partition is None}
        resumed = {(gap.topic, gap.partition): gap.resume for gap in skipped if gap.resume is not None}
        found = []
        for name, topic in sorted(current.items()):
            ends = {} if name in recreated else self._ends.get(name, {})
            for partition, available in sorted(topic.partitions.items()):
                start = resumed.get((name, partition), ends.get(partition, available.start))
                if start < available.end or name in recreated or (name, partition) in resumed:
                    found.append((name, partition, Span(start, max(start, available.end))))
        return found


def shares(backlog: list[int], limit: int) -> list[int]:
    """How many of each to take: at least one where there is any, the rest of the limit by size, deterministically."""
    least = [min(size, 1) for size in backlog]
    total, count = sum(backlog), sum(least)
    if total <= limit:
        return backlog
    if limit <= count:
        return least
    free, rest = limit - count, total - count
    parts = [divmod(free * (size - one), rest) for size, one in zip(backlog, least, strict=True)]
    left = free - sum(whole for whole, _ in parts)
    by_remainder = sorted(range(len(parts)), key=lambda place: (-parts[place][1], place))
    more = set(by_remainder[:left])
    return [one + parts[place][0] + (place in more) for place, one in enumerate(least)]
