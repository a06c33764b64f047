"""Row events that later ones of the same task supersede are left out before the events of a row come together.

A row that a change writes or deletes as a whole does not depend on what was before. Results are the same in any case; to count
repetitions, all changes of one row at one position must meet. Those that one part of a task has are kept together; that no other
part has one at these positions shows afterwards, by the ranges that each part reports. Where ranges overlap, nothing is left out.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from uuid import uuid4

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.replicas.fold_table import FoldTable
from changeling.replicas.row_changes import RowChangesKernel
from changeling.replicas.row_effect import Effect
from changeling.replicas.row_events import OLD_KEY_UNKNOWN, ROW_EVENTS, UNIDENTIFIED

MAX_EVENTS = 150_000
"""Events of one table that are looked at together: they are some 400 bytes each. Where few of them stay, more are added."""


class PositionSpan(msgspec.Struct, frozen=True):
    """Positions of events that were looked at together, under a name of their own."""

    part: str
    first: str
    last: str


@dataclass(frozen=True)
class SupersededEvents:
    """The events that a kernel makes of changes, without superseded ones, plus markers with the ranges of positions that were checked."""

    to_events: RowChangesKernel

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """`ROW_EVENTS`, and a `marker` with the ranges."""
        tables = self.to_events.tables
        parts: dict[int, _Part] = {}
        for events in self.to_events(batches):
            number = events.column("table")[0].as_py()
            if not tables[number].drops_superseded:
                yield events
                continue
            bounds = pc.min_max(events.column("position")).as_py()
            first, last = bounds["min"], bounds["max"]
            if number in parts and not parts[number].takes(first, last):
                yield from parts.pop(number).kept()
            part = parts.setdefault(number, _Part(number, tables[number]))
            part.add(events, first, last)
            if part.is_full:
                yield from parts.pop(number).kept()
        for part in parts.values():
            yield from part.kept()


class _Part:
    """Events of one table that are looked at together, with what remains of earlier ones."""

    def __init__(self, number: int, table: FoldTable) -> None:
        self._number, self._table = number, table
        self._name = uuid4().hex
        self._ranges: list[tuple[str, str]] = []
        """Of the positions of each batch, in order."""
        self._left: list[pa.RecordBatch] = []
        self._new: list[pa.RecordBatch] = []

    def takes(self, first: str, last: str) -> bool:
        """Whether these positions do not overlap those of the part; they may begin where the last ones end.

        Otherwise events to compare with may have been dropped already.
        """
        place = bisect_left(self._ranges, (first, last))
        if place == len(self._ranges):
            return self._ranges[-1][1] <= first
        return last < self._ranges[place][0] and (place == 0 or self._ranges[place - 1][1] < first)

    def add(self, events: pa.RecordBatch, first: str, last: str) -> None:
        """Adds a batch whose positions it takes."""
        insort(self._ranges, (first, last))
        self._new.append(events)
        if _rows(self._left) + _rows(self._new) >= MAX_EVENTS:
            self._drop_superseded()

    @property
    def is_full(self) -> bool:
        """Whether most of its events stay."""
        return not self._new and _rows(self._left) > MAX_EVENTS // 2

    def kept(self) -> Iterator[pa.RecordBatch]:
        """The events that stay, and the ranges of all."""
        if self._new:
            self._drop_superseded()
        yield marker(self._number, [PositionSpan(self._name, first, last) for first, last in self._ranges])
        yield from self._left

    def _drop_superseded(self) -> None:
        events = pa.Table.from_batches([*self._left, *self._new])
        self._left, self._new = without_superseded(events, self._table).to_batches(), []


def _rows(batches: Iterable[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)


def marker(table: int, spans: Sequence[PositionSpan]) -> pa.RecordBatch:
    """The ranges of a table as an event, so that they travel with its events: of table -1 for the first one, -2 for the second."""
    values = {"table": -1 - table, "group": "", "values": msgspec.json.encode(spans).decode()}
    return pa.RecordBatch.from_pylist([values], ROW_EVENTS)


def is_marker(table: int) -> bool:
    """Whether events of a table are markers."""
    return table < 0


def marked_table(table: int) -> int:
    """The table whose ranges markers have, given their own."""
    return -1 - table


def spans_in(markers: pa.Table) -> list[PositionSpan]:
    """The ranges that markers have."""
    texts = markers.column("values").to_pylist()
    return [span for text in texts for span in msgspec.json.decode(text, type=list[PositionSpan])]


def overlap(spans: Iterable[PositionSpan]) -> bool:
    """Whether two parts have positions between which others of the other part may be, or the same ones."""
    reached: PositionSpan | None = None
    for span in sorted(spans, key=lambda one: (one.first, one.last)):
        if reached is not None and span.part != reached.part and span.first <= reached.last:
            return True
        if reached is None or span.last >= reached.last:
            reached = span
    return False


def without_superseded(events: pa.Table, table: FoldTable) -> pa.Table:
    """Events of one table without those of rows that an event at a later position writes or deletes as a whole.

    Events stay that say something of other rows as well, those of keys that are folded together with others, and those that share
    their position with others of their row or with a truncate.
    """
    keys = events.column("key").combine_chunks().dictionary_encode()
    codes, ranks = np.asarray(keys.indices, np.int64), _ranks(events.column("position").combine_chunks())
    effects = events.column("effect")
    decides = np.asarray(pc.is_in(effects, pa.array([Effect.REPLACE.value, Effect.DELETE.value])))
    decided = np.full(len(keys.dictionary), -1, np.int64)
    np.maximum.at(decided, codes[decides], ranks[decides])
    superseded = ranks < decided[codes]
    superseded &= np.asarray(events.column("moved_from").is_null())
    superseded &= ~np.asarray(pc.is_in(effects, pa.array([UNIDENTIFIED, OLD_KEY_UNKNOWN])))
    if table.groups:
        grouped = pc.is_in(keys.dictionary, pa.array(list(table.groups), pa.string()))
        superseded &= ~np.asarray(grouped)[codes]
    if table.truncates:
        positions = pa.array([truncate.rank.position for truncate in table.truncates], pa.string())
        superseded &= ~np.asarray(pc.is_in(events.column("position"), positions))
    if len(ranks) and ranks.max() < len(ranks):
        _, places, counts = np.unique(codes * (len(ranks) + 1) + ranks, return_inverse=True, return_counts=True)
        superseded &= counts[places.reshape(-1)] == 1
    return events.filter(pa.array(~superseded))


def _ranks(positions: pa.Array) -> np.ndarray:
    """The place of each position among the different ones."""
    order = None
    if not _ascends(positions):
        order = np.asarray(pc.sort_indices(positions))
        positions = positions.take(pa.array(order))
    differs: np.ndarray = np.ones(len(positions), np.int64)
    differs[1:] = np.asarray(pc.not_equal(positions.slice(1), positions.slice(0, max(0, len(positions) - 1))))
    found = np.cumsum(differs)
    if order is None:
        return found
    ranks = np.empty_like(found)
    ranks[order] = found
    return ranks


def _ascends(positions: pa.Array) -> bool:
    before, after = positions.slice(0, max(0, len(positions) - 1)), positions.slice(1)
    return pc.all(pc.less_equal(before, after)).as_py() is not False
