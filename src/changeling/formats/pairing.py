"""Joins updates that were read as two records, one with the row before and one with the row after.

Kernels read each half on its own; the halves are joined by whoever has all records of an input.
"""

from collections import deque
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from changeling.model import arrow_layouts, position
from changeling.model.change import Change
from changeling.model.operation import Image, Operation

_Row = tuple[Change, pa.RecordBatch]
_Partnership = tuple[object, tuple[int, ...]]
"""What two halves have in common."""
WINDOW = 10_000
"""How many changes a half waits for its partner: halves are adjacent, unless files were mixed."""


@dataclass(eq=False)
class _Entry:
    """A change in the queue; None where it was joined to a later one."""

    row: _Row | None
    waits: bool
    lone: bool = False
    """A half that stays one."""


class Pairing:
    """Joins halves over the batches of one input: they match by table and position, except its last part.

    Changes keep their order; a joined one takes the place of its second half. A half whose partner does not follow within
    the window keeps its own place, as it is or, with `lone_as_deletes`, a before-half as the delete of its key. So do halves that
    would move a row whose old key another row has taken at the same position: before-halves are first, and the move would be last.
    """

    def __init__(self, *, lone_as_deletes: bool = False) -> None:
        self._lone_as_deletes = lone_as_deletes
        self._queue: deque[_Entry] = deque()
        self._waiting: dict[_Partnership, list[_Entry]] = {}
        self._written: dict[_Partnership, set[str | bytes | None]] = {}

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Adds a batch, and returns what need not wait any more."""
        for place, change in enumerate(arrow_layouts.changes(batch)):
            self._take((change, batch.slice(place, 1)))
        return self._given(WINDOW)

    def rest(self) -> pa.RecordBatch:
        """All changes that still wait, in order."""
        return self._given(0)

    def _take(self, row: _Row) -> None:
        change = row[0]
        entry = _Entry(row, waits=False)
        if _is_half(change) and change.position is not None:
            waiting = self._waiting.setdefault(_partnership(change), [])
            other = _partner(change, waiting)
            if other is None or other.row is None:
                entry.waits = True
                waiting.append(entry)
            else:
                waiting.remove(other)
                other.waits = False
                if self._is_taken(change, other.row[0]):
                    entry.lone = other.lone = True
                else:
                    entry.row, other.row = _joined(row, other.row), None
            self._note_key(change)
        self._queue.append(entry)

    def _is_taken(self, one: Change, other: Change) -> bool:
        """Whether two halves move a row whose old key was written at the same position."""
        before = one if one.after_image is Image.NONE else other
        return one.key != other.key and before.key in self._written.get(_partnership(one), ())

    def _note_key(self, change: Change) -> None:
        if change.after_image is not Image.NONE:
            self._written.setdefault(_partnership(change), set()).add(change.key)
            if len(self._written) > WINDOW:
                del self._written[next(iter(self._written))]

    def _given(self, window: int) -> pa.RecordBatch:
        rows: list[_Row] = []
        while self._queue and (not self._queue[0].waits or len(self._queue) > window):
            entry = self._queue.popleft()
            if entry.row is None:
                continue
            change = entry.row[0]
            if entry.waits:
                self._waiting[_partnership(change)].remove(entry)
            if (entry.waits or entry.lone) and self._lone_as_deletes and change.after_image is Image.NONE:
                entry.row = (msgspec.structs.replace(change, op=Operation.DELETE), entry.row[1])
            rows.append(entry.row)
        self._waiting = {partners: entries for partners, entries in self._waiting.items() if entries}
        return _batch(rows, arrow_layouts.CHANGES)


def _is_half(change: Change) -> bool:
    return change.op is Operation.UPDATE and (change.before_image is Image.NONE) != (change.after_image is Image.NONE)


def _partnership(change: Change) -> _Partnership:
    return change.table, position.decode(change.position or "")[:-1]


def _partner(change: Change, waiting: list[_Entry]) -> _Entry | None:
    """The matching half that waits longest; one of the same key goes before one that would change it."""
    others = [
        entry
        for entry in waiting
        if entry.row is not None and (entry.row[0].after_image is Image.NONE) != (change.after_image is Image.NONE)
    ]
    same = (entry for entry in others if entry.row is not None and entry.row[0].key == change.key)
    return next(same, others[0] if others else None)


def _joined(one: _Row, other: _Row) -> _Row:
    """The update of two halves; everything else is from the half with the row after."""
    before, after = (one, other) if one[0].after_image is Image.NONE else (other, one)
    change = msgspec.structs.replace(after[0], before=before[0].before, before_image=before[0].before_image)
    return change, after[1]


def _batch(rows: list[_Row], schema: pa.Schema) -> pa.RecordBatch:
    if not rows:
        return pa.record_batch([pa.nulls(0, field.type) for field in schema], schema=schema)
    whole = pa.Table.from_batches([row for _, row in rows], schema).combine_chunks().to_batches()[0]
    for name in ("op", "before", "before_image"):
        column = pa.array([getattr(change, name) for change, _ in rows], pa.string())
        whole = whole.set_column(schema.get_field_index(name), schema.field(name), column)
    return whole
