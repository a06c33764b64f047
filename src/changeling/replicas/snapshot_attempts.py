"""Attempts at a snapshot, recognised by the marks of its first and last rows.

Rows of a table without a key may be equal, and a snapshot that is begun again delivers them again: the marks distinguish the two.
Between them, on one partition, each row counts. Of several attempts the last complete one is the table as it was: it replaces the
others, and every change before its position. While none is complete, the one that has the most of a row counts for it.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from changeling.model.position import encode
from changeling.replicas.change_order import Rank

FIRSTS = ("first", "first_in_data_collection")
LASTS = ("last", "last_in_data_collection")

TopicPartition = tuple[int, int]
"""A topic's number and a partition: what is delivered in order."""
FILES: TopicPartition = (-1, -1)
Arrival = tuple[int, int, int]
"""Where a row arrived in its partition: batch, number of the file or topic, record or offset."""
_END: Arrival = (2**62, 0, 0)


class Mark(NamedTuple):
    """A row of a snapshot that is marked as its first or its last one."""

    partition: TopicPartition
    place: Arrival
    is_first: bool
    position: str = ""

    @property
    def rank(self) -> Rank:
        """Its place in the order of changes."""
        batch, ordinal, record = self.place
        return Rank(self.position, batch, ordinal, self.partition[1], record)

    @property
    def is_placed(self) -> bool:
        """Whether its position is the source's own, which all rows of a snapshot share, and not the place of arrival."""
        _, ordinal, record = self.place
        arrival = encode(ordinal if self.partition == FILES else self.partition[1], record)
        return self.position != arrival and not self.position.startswith(f"{arrival}.")


class Attempt(NamedTuple):
    """The rows between two marks, both included."""

    partition: TopicPartition
    first: Arrival
    last: Arrival
    contains: str | None = None
    """All changes of the table before this position are in its rows; None while its last row has not arrived."""


def topic_partition(ordinal: int, partition: int | None) -> TopicPartition:
    """The partition of a row; all files are one."""
    return FILES if partition is None else (ordinal, partition)


def attempts_of(marks: Iterable[Mark]) -> tuple[Attempt, ...]:
    """The attempts that the marks delimit, in order. One without an end extends to the next one.

    The one row of a table may be marked as the last one only: at another position than the rows before it, it is an attempt of
    its own. At the position of a complete attempt it ends rows of that one that were delivered again.
    """
    found: list[Attempt] = []
    partitions: dict[TopicPartition, list[Mark]] = {}
    for mark in sorted(set(marks)):
        partitions.setdefault(mark.partition, []).append(mark)
    for partition, own in partitions.items():
        begun: Mark | None = None
        ended: Mark | None = None
        for mark in own:
            if begun is None and ended is not None and _repeats(mark, ended):
                found.append(Attempt(partition, _after(ended.place), mark.place))
                ended = mark
                continue
            if begun is not None and not _completes(mark, begun):
                found.append(Attempt(partition, begun.place, _before(mark.place)))
                begun = None
            begun = begun or mark
            if not mark.is_first:
                found.append(Attempt(partition, begun.place, mark.place, min(begun.position, mark.position)))
                begun, ended = None, mark
        if begun is not None:
            found.append(Attempt(partition, begun.place, _END))
    return tuple(found)


def _completes(mark: Mark, begun: Mark) -> bool:
    """Whether a row is the last one of the attempt that is open."""
    is_other = mark.position != begun.position and mark.is_placed and begun.is_placed
    return not mark.is_first and not is_other


def _repeats(mark: Mark, ended: Mark) -> bool:
    """Whether a row is the last one of a complete attempt, delivered again without the first one."""
    return not mark.is_first and mark.is_placed and mark.position == ended.position


def _after(place: Arrival) -> Arrival:
    batch, ordinal, record = place
    return batch, ordinal, record + 1


def _before(place: Arrival) -> Arrival:
    batch, ordinal, record = place
    return batch, ordinal, record - 1


class Assignment:
    """Finds the attempt that a row belongs to."""

    def __init__(self, attempts: Sequence[Attempt]) -> None:
        self._partitions: dict[TopicPartition, list[tuple[Arrival, Arrival, int]]] = {}
        for number, attempt in enumerate(attempts):
            self._partitions.setdefault(attempt.partition, []).append((attempt.first, attempt.last, number))

    def __call__(self, batch: int, ordinal: int, partition: int | None, record: int) -> int | None:
        """Its number, by where the row arrived; None for a row that no marks enclose."""
        spans, place = self._partitions.get(topic_partition(ordinal, partition), []), (batch, ordinal, record)
        at = bisect_right(spans, place, key=lambda span: span[0]) - 1
        return spans[at][2] if at >= 0 and place <= spans[at][1] else None


def deciding(groups: Sequence[int], numbers: Sequence[int | None], attempts: Sequence[Attempt]) -> list[bool]:
    """Which rows count, by group of equal rows and attempt: all that no marks enclose, and of each partition those of one attempt.

    That is the last complete one; where there is none, for each group the one with the most rows, of several the latest.
    """
    complete = {attempt.partition: number for number, attempt in enumerate(attempts) if attempt.contains is not None}
    counts = Counter(place for place in zip(groups, numbers, strict=True) if place[1] is not None)
    best: dict[tuple[int, TopicPartition], tuple[int, int]] = {}
    for (group, number), count in counts.items():
        if number is not None:
            place = group, attempts[number].partition
            best[place] = max(best.get(place, (0, 0)), (count, number))
    return [
        number is None or complete.get(partition := attempts[number].partition, best[group, partition][1]) == number
        for group, number in zip(groups, numbers, strict=True)
    ]
