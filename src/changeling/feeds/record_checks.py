"""What the records of a feed promise, checked one by one: places, order, repetitions, barriers, images."""

from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple

from changeling.feeds.feed import Feed
from changeling.feeds.rebuilt_table import RebuiltTable
from changeling.feeds.topic import offsets_text
from changeling.model import json_text, position
from changeling.model.change import Change
from changeling.model.operation import ROW_OPERATIONS, Image, Operation
from changeling.replicas.shape import Shape

OFFSETS = "offsets count without gaps"
READABLE = "every record can be read"
PARTITIONS = "each key is in one partition"
ORDER = "the changes of each key are in order"
ONCE = "no record is there twice"
BARRIERS = "nothing at or below a barrier follows it"
SAME_BARRIERS = "every partition has the same barriers"
IMAGES = "old images are what came before"
CHECKS = (OFFSETS, READABLE, PARTITIONS, ORDER, ONCE, BARRIERS, SAME_BARRIERS, IMAGES)

_UPDATES_ALIKE = ("ydb-json", "ydb-debezium", "debezium-json")
"""Formats in which two updates of one transaction may give the same record, unless the mode shows what changed."""


class Fault(NamedTuple):
    """A record that breaks a promise."""

    check: str
    partition: int | None
    offset: int | None
    why: str

    def __str__(self) -> str:
        return self.why if self.partition is None else f"{self.partition}@{self.offset}: {self.why}"


class Last(NamedTuple):
    """The last record of a key."""

    partition: int
    offset: int
    position: str | None
    value: bytes | None


@dataclass
class RecordChecks:
    """Records must be given by offset in each partition; of different partitions they may come in any order."""

    feed: Feed
    table: RebuiltTable
    from_start: bool
    """The records are those of the feed from its start on, and the table was empty then."""
    contiguous: bool = True
    faults: list[Fault] = field(default_factory=list)
    barriers: dict[int, list[str]] = field(default_factory=dict)
    """Their positions in each partition."""
    stamped: int = 0
    """How many changes have a position of their own."""
    _ends: dict[int, int] = field(default_factory=dict)
    _keys: dict[str, Last] = field(default_factory=dict)

    def meet_record(self, partition: int, offset: int) -> None:
        """Checks the offset of the next record."""
        end = self._ends.get(partition)
        if end is not None and offset < end:
            self._fault(OFFSETS, partition, offset, "there is another record with this offset")
        elif end is not None and self.contiguous and offset > end:
            self._fault(OFFSETS, partition, offset, f"{offsets_text(end, offset)} missing before it")
        self._ends[partition] = max(offset + 1, end or 0)
        self.barriers.setdefault(partition, [])

    def meet(self, change: Change, partition: int, offset: int, value: bytes | None, shape: Shape) -> None:
        """Checks a change of the record that was met last, and applies it to the table."""
        own = None if change.arrived else change.position
        self._check_barrier(change, own, partition, offset)
        if change.op not in ROW_OPERATIONS or change.key is None:
            return
        self.stamped += own is not None
        key = _plain_key(change.key)
        last, this = self._keys.get(key), Last(partition, offset, own, value)
        shown = str(change.key if isinstance(change.key, str) else change.key.decode())
        if last is not None:
            if last.partition != partition:
                self._fault(PARTITIONS, partition, offset, f"key {shown} is in partition {last.partition} as well")
            self._check_order(change, last, this, shown)
        self._check_images(change, key, this, shape)
        self._keys[key] = this
        self.table.apply(change, key, shape)

    def finish(self) -> None:
        """Compares the barriers of the partitions."""
        if not self.barriers:
            return
        (model, expected), *others = self.barriers.items()
        for partition, found in others:
            for own, other in zip_longest(found, expected):
                if own != other:
                    here, there = (f"the barrier {_shown(one)}" if one else "none" for one in (own, other))
                    why = f"partition {partition} has {here} where partition {model} has {there}"
                    self._fault(SAME_BARRIERS, None, None, why)
                    break

    def _check_barrier(self, change: Change, own: str | None, partition: int, offset: int) -> None:
        before = self.barriers[partition]
        if own is not None and before and own <= before[-1]:
            self._fault(BARRIERS, partition, offset, f"it is at {_shown(own)}, after the barrier {_shown(before[-1])}")
        if change.op is Operation.BARRIER and own is not None:
            before.append(own)

    def _check_order(self, change: Change, last: Last, this: Last, key: str) -> None:
        if this.position is None or last.position is None:
            return
        if this.position < last.position:
            why = f"it is at {_shown(this.position)}, after {_shown(last.position)} at {last.offset} of the same key {key}"
            self._fault(ORDER, this.partition, this.offset, why)
        elif this.position == last.position and this.value == last.value and not self._may_repeat(change):
            self._fault(ONCE, this.partition, this.offset, f"it repeats the record at {last.offset} of the key {key}")

    def _may_repeat(self, change: Change) -> bool:
        """Whether a transaction may change a row twice so that both records are the same."""
        if self.feed.format not in _UPDATES_ALIKE:
            return False
        if self.feed.mode not in ("UPDATES", "NEW_AND_OLD_IMAGES"):
            return True
        if change.op is Operation.DELETE:
            return False
        if change.after_image is Image.PARTIAL:
            return not json_text.members(change.after or b"{}")
        return change.before is not None and _same(change.before, change.after)

    def _check_images(self, change: Change, key: str, this: Last, shape: Shape) -> None:
        """What an old image shows is what the records before left, as far as they are known."""
        if change.before_image is not Image.FULL or change.op is Operation.READ:
            return
        row = self.table.row(key)
        if row is None:
            if self.table.has_seen(key):
                self._fault(IMAGES, this.partition, this.offset, "it has an old image of a row that was erased before")
            elif self.from_start:
                self._fault(IMAGES, this.partition, this.offset, "it has an old image of a row that no record wrote")
            return
        if row.stale:
            # What the last change did to it is not known: the mode shows no new images.
            return
        if (column := self.table.contradicted(row, change, shape)) is not None:
            why = f"the old image has another {column} than the record at {self._keys[key].offset} of the same key left"
            self._fault(IMAGES, this.partition, this.offset, why)

    def _fault(self, check: str, partition: int | None, offset: int | None, why: str) -> None:
        self.faults.append(Fault(check, partition, offset, why))


def _plain_key(key: str | bytes) -> str:
    """A key whose values are spelled as texts or as numbers is the same."""
    return json_text.join_array(
        json_text.quote(json_text.string(value) if value[:1] == b'"' else value.decode())
        for value in json_text.members(key).values()
    ).decode()


def _same(before: str | bytes | None, after: str | bytes | None) -> bool:
    was, now = json_text.members(before or b"{}"), json_text.members(after or b"{}")
    return was.keys() == now.keys() and all(
        json_text.canonical(was[name]) == json_text.canonical(now[name]) for name in was
    )


def _shown(place: str) -> str:
    return f"[{','.join(map(str, position.decode(place)))}]"
