"""Plans over partitions: how far each was planned, what comes next, and what can no longer be read. Asks nobody."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec

_TOLD = 5


class Span(NamedTuple):
    """Offsets from `start` up to, not including, `end`."""

    start: int
    end: int


class Topic(NamedTuple):
    """A topic as it stands in Kafka: its id (None where the broker is too old to tell) and what each partition holds."""

    id: str | None
    partitions: dict[int, Span]


class Seen(msgspec.Struct, frozen=True, array_like=True):
    """A topic that was planned. One that was made anew under the same name, or lost its end, is seen once more."""

    name: str
    id: str | None = None


class Plan(msgspec.Struct, frozen=True):
    """One batch: all topics that were planned so far, in the order in which they came, and what to read of them now."""

    topics: tuple[Seen, ...]
    ranges: dict[str, dict[int, Span]]

    @staticmethod
    def parse(text: str) -> "Plan":
        """The plan of its JSON text."""
        return msgspec.json.decode(text, type=Plan)

    def text(self) -> str:
        """Its JSON text."""
        return msgspec.json.encode(self).decode()

    def ordinals(self) -> dict[str, int]:
        """The number of each topic: a topic that is seen once more has the later one."""
        return {seen.name: place for place, seen in enumerate(self.topics)}

    def spans(self) -> Iterator[tuple[str, int, Span]]:
        """Each topic and partition that there is something to read of."""
        for topic, partitions in self.ranges.items():
            for partition, span in partitions.items():
                if span.start < span.end:
                    yield topic, partition, span

    @property
    def records(self) -> int:
        """How many offsets it holds: so many records at most."""
        return sum(span.end - span.start for _, _, span in self.spans())


@dataclass(frozen=True)
class Gap:
    """Offsets of a partition (None: of all partitions) that cannot be read any more.

    `resume` is where reading can go on, None where nowhere. With `renewed`, what comes there is another history: offsets
    that were read before may stand for other records now. A `doubtful` gap may close by itself when brokers change roles.
    """

    topic: str
    partition: int | None
    why: str
    resume: int | None = None
    renewed: bool = False
    doubtful: bool = False


def gaps(
    seen: Iterable[Seen], needed: Mapping[str, Mapping[int, Span]], standing: Mapping[str, Topic]
) -> Iterator[Gap]:
    """What of the spans needed is not there. An empty span needs its offset: it must be reachable without a jump."""
    ids = _ids(seen)
    for name, spans in needed.items():
        topic, known = standing.get(name), ids.get(name)
        if topic is None:
            yield Gap(name, None, f"topic {name!r} is gone, it was to be read from {_places(spans)}", doubtful=True)
        elif known is not None and topic.id is not None and topic.id != known:
            why = f"topic {name!r} was deleted and made anew, the former one was to be read from {_places(spans)}"
            yield Gap(name, None, why, renewed=True)
        else:
            for partition, span in spans.items():
                yield from _gap(name, partition, span, topic)


def _gap(name: str, partition: int, needed: Span, topic: Topic) -> Iterator[Gap]:
    held, place = topic.partitions.get(partition), f"topic {name!r} partition {partition}"
    if held is None:
        yield Gap(name, partition, f"{place} is gone, it was to be read from offset {needed.start}", doubtful=True)
    elif held.end < needed.end:
        why = f"{place} ends at offset {held.end} and did so at {needed.end} before: it lost its end or was made anew"
        # Only the id tells a topic that lost its end from a new one; without it, reading again is the lesser evil.
        resume = held.start if topic.id is None else held.end
        yield Gap(name, partition, why, resume, renewed=True, doubtful=True)
    elif held.start > needed.start:
        last = held.start - 1 if needed.start == needed.end else min(held.start, needed.end) - 1
        why = f"{place}: offsets {needed.start} to {last} were deleted before they were read, it begins at {held.start}"
        yield Gap(name, partition, why, held.start)


def _ids(seen: Iterable[Seen]) -> dict[str, str | None]:
    return {topic.name: topic.id for topic in seen}


def _places(spans: Mapping[int, Span]) -> str:
    told = [f"offset {span.start} in partition {partition}" for partition, span in sorted(spans.items())]
    return ", ".join(told[:_TOLD]) + (" and so on" if len(told) > _TOLD else "")


def limited(standing: Mapping[str, Topic], present: Mapping[str, Topic]) -> dict[str, Topic]:
    """The topics with no more than they held at an earlier moment."""
    kept = {}
    for name, then in present.items():
        now = standing.get(name)
        if now is not None and now.id == then.id:
            both = now.partitions.keys() & then.partitions.keys()
            kept[name] = Topic(
                now.id, {place: _limited(now.partitions[place], then.partitions[place]) for place in both}
            )
    return kept


def _limited(now: Span, then: Span) -> Span:
    return Span(now.start, max(now.start, min(now.end, then.end)))


class Progress:
    """How far everything was planned."""

    def __init__(self) -> None:
        self._begun = False
        self._seen: tuple[Seen, ...] = ()
        self._ends: dict[str, dict[int, int]] = {}

    def remember(self, plan: Plan) -> None:
        """Takes in a plan, after all those before it."""
        self._see(plan)
        for name, partitions in plan.ranges.items():
            self._ends.setdefault(name, {}).update({partition: span.end for partition, span in partitions.items()})

    def miss(self, plan: Plan) -> None:
        """Takes in a plan that cannot be read: what it was to read is needed from where it was to begin."""
        if len(plan.topics) < len(self._seen):
            # Later plans are known: this one was read once.
            return
        self._see(plan)
        for name, partition, span in plan.spans():
            self._ends.setdefault(name, {}).setdefault(partition, span.start)

    def nothing(self) -> Plan:
        """A plan that reads nothing."""
        return Plan(self._seen, {})

    def gaps(self, standing: Mapping[str, Topic], wanted: Iterable[str]) -> list[Gap]:
        """What cannot be gone on with, of the topics wanted."""
        names = set(wanted)
        needed = {
            name: {partition: Span(end, end) for partition, end in ends.items()}
            for name, ends in sorted(self._ends.items())
            if name in names
        }
        return list(gaps(self._seen, needed, standing))

    def known(self) -> list[str]:
        """The names of all topics that were planned."""
        return list(self._ends)

    def next(
        self,
        standing: Mapping[str, Topic],
        skipped: Iterable[Gap],
        limit: int,
        start: Literal["earliest", "latest"],
    ) -> Plan | None:
        """The next plan of at most `limit` records (but one of each partition that has any); None where nothing is new.

        `skipped` are all gaps that there are now; where nothing lies behind them, the plan only says that they are skipped.
        With `start` "latest", the first plan reads nothing and says where everything ended: else the next run would not
        know, and begin at another place.
        """
        if start == "latest" and not self._begun:
            ends = {
                name: {partition: Span(held.end, held.end) for partition, held in sorted(topic.partitions.items())}
                for name, topic in sorted(standing.items())
            }
            return Plan(tuple(Seen(name, standing[name].id) for name in ends), ends)
        skipped = list(skipped)
        spans = self._spans(standing, skipped)
        if not spans:
            return None
        ranges: dict[str, dict[int, Span]] = {}
        counts = shares([span.end - span.start for _, _, span in spans], limit)
        for (name, partition, span), count in zip(spans, counts, strict=True):
            ranges.setdefault(name, {})[partition] = Span(span.start, span.start + count)
        known = {topic.name for topic in self._seen} - {gap.topic for gap in skipped if gap.renewed}
        added = tuple(Seen(name, standing[name].id) for name in ranges if name not in known)
        return Plan(self._seen + added, ranges)

    def _see(self, plan: Plan) -> None:
        now = _ids(plan.topics)
        for name, former in _ids(self._seen).items():
            if now.get(name) != former:
                # Made anew: nothing of the former one counts.
                self._ends.pop(name, None)
        self._seen = plan.topics
        self._begun = True

    def _spans(self, standing: Mapping[str, Topic], skipped: list[Gap]) -> list[tuple[str, int, Span]]:
        """All that is new. What lies behind a gap is planned even where it is empty: a gap is skipped once."""
        anew = {gap.topic for gap in skipped if gap.renewed and gap.partition is None}
        resumed = {(gap.topic, gap.partition): gap.resume for gap in skipped if gap.resume is not None}
        found = []
        for name, topic in sorted(standing.items()):
            ends = {} if name in anew else self._ends.get(name, {})
            for partition, held in sorted(topic.partitions.items()):
                start = resumed.get((name, partition), ends.get(partition, held.start))
                if start < held.end or name in anew or (name, partition) in resumed:
                    found.append((name, partition, Span(start, max(start, held.end))))
        return found


def shares(backlog: list[int], limit: int) -> list[int]:
    """How many of each to take: one at least where there is any, the rest of the limit by size, always the same."""
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
