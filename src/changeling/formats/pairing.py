"""Joins updates that came as two records, one with the row before and one with the row after.

Kernels read each half as it comes; this is set work, done by whoever holds all records of an input.
"""

import msgspec
import pyarrow as pa

from changeling.model import layout, position
from changeling.model.change import Change
from changeling.model.operation import Image, Operation

_Row = tuple[Change, pa.RecordBatch]


class Pairing:
    """Joins halves over the batches of one input: they are partners by table and position, save its last part.

    A half waits until its partner comes; what never finds one is given out as it is by `rest`.
    """

    def __init__(self) -> None:
        self._waiting: dict[tuple[object, tuple[int, ...]], list[_Row]] = {}

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The changes of a batch with the halves joined that have met; the joined change stands where the second came."""
        given: list[_Row] = []
        for place, change in enumerate(layout.changes(batch)):
            row = (change, batch.slice(place, 1))
            if not _is_half(change) or change.position is None:
                given.append(row)
                continue
            partners = self._waiting.setdefault((change.table, position.decode(change.position)[:-1]), [])
            other = _partner(change, partners)
            if other is None:
                partners.append(row)
                continue
            partners.remove(other)
            first, second = (other, row) if change.before_image is Image.NONE else (row, other)
            given.append((_joined(first[0], second[0]), second[1]))
        return _batch(given, batch.schema)

    def rest(self) -> pa.RecordBatch:
        """The halves whose partners never came."""
        waiting, self._waiting = [row for rows in self._waiting.values() for row in rows], {}
        return _batch(waiting, layout.CHANGES)


def _is_half(change: Change) -> bool:
    return change.op is Operation.UPDATE and (change.before_image is Image.NONE) != (change.after_image is Image.NONE)


def _partner(change: Change, waiting: list[_Row]) -> _Row | None:
    """The other half that waits longest, one of the same key before one that would change it."""
    others = [row for row in waiting if (row[0].after_image is Image.NONE) != (change.after_image is Image.NONE)]
    return next((row for row in others if row[0].key == change.key), others[0] if others else None)


def as_deletes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Halves that tell the row before and were left alone, as what they do: a before-half removes its key."""
    alone = [change.op is Operation.UPDATE and change.after_image is Image.NONE for change in layout.changes(batch)]
    ops = [
        Operation.DELETE.value if half else op for half, op in zip(alone, batch.column("op").to_pylist(), strict=True)
    ]
    return batch.set_column(batch.schema.get_field_index("op"), layout.CHANGES.field("op"), pa.array(ops, pa.string()))


def _joined(before: Change, after: Change) -> Change:
    return msgspec.structs.replace(after, before=before.before, before_image=before.before_image)


def _batch(rows: list[_Row], schema: pa.Schema) -> pa.RecordBatch:
    if not rows:
        return pa.record_batch([pa.nulls(0, field.type) for field in schema], schema=schema)
    whole = pa.Table.from_batches([row for _, row in rows], schema).combine_chunks().to_batches()[0]
    for name in ("before", "before_image"):
        column = pa.array([getattr(change, name) for change, _ in rows], pa.string())
        whole = whole.set_column(schema.get_field_index(name), schema.field(name), column)
    return whole
