"""Partial inserts that name their old key: the name is dropped where positions already show the move."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.text_columns import Mask, as_mask, is_one_of
from changeling.formats.format import Format
from changeling.formats.key_changes import OLD_KEY, old_key_of
from changeling.model import arrow_layouts, json_text
from changeling.model.change import Change
from changeling.model.operation import NEW_ROW_OPERATIONS, Image, Operation
from changeling.replicas.key_moves import Half, moved

CARRIED = frozenset({"insert", "partial", "position"})
"""What a format must carry so that its readers see the two records of a moved row as that."""


def drop_redundant_old_keys(batches: Iterable[pa.RecordBatch], form: Format) -> Iterator[pa.RecordBatch]:
    """The changes without the names that readers of a format do not need: the delete of the named row has the same position.

    Deletes are looked for in the same batch and its neighbours: the records of a moved row are next to each other. A name that
    says more than positions stays, and the encoder refuses what it cannot carry.
    """
    if not form.carries >= CARRIED:
        yield from batches
        return
    before: pa.RecordBatch | None = None
    waiting: pa.RecordBatch | None = None
    for batch in chain(batches, [None]):
        if waiting is not None:
            around = [part for part in (before, waiting, batch) if part is not None]
            yield _without_redundant_names(waiting, pa.concat_batches(around), form)
            before, waiting = waiting, None
        if batch is None:
            return
        if _naming(batch, form).any():
            waiting = batch
        else:
            yield batch
            before = batch


def _naming(batch: pa.RecordBatch, form: Format) -> Mask:
    """Which changes of other dialects are partial inserts that name their old key."""
    is_new = is_one_of(batch.column("op"), [operation.value for operation in NEW_ROW_OPERATIONS])
    in_part = pc.equal(batch.column("after_image"), Image.PARTIAL.value)
    foreign = pc.not_equal(batch.column("encoding"), form.name)
    names = pc.fill_null(pc.match_substring(batch.column("meta"), f'"{OLD_KEY}"'), False)
    return as_mask(pc.and_(pc.and_(is_new, in_part), pc.and_(foreign, names)))


def _without_redundant_names(batch: pa.RecordBatch, around: pa.RecordBatch, form: Format) -> pa.RecordBatch:
    found = _found_by_position(around)
    meta = batch.column("meta").to_pylist()
    sources = batch.column("source").to_pylist()
    changes = list(arrow_layouts.changes(batch))
    for place in np.flatnonzero(_naming(batch, form)).tolist():
        change = changes[place]
        if (sources[place], change.table, change.position, change.key) in found:
            kept = {name: value for name, value in json_text.members(meta[place]).items() if name != OLD_KEY}
            meta[place] = json_text.join(kept.items()).decode() if kept else None
    at = batch.schema.get_field_index("meta")
    return batch.set_column(at, batch.schema.field(at), pa.array(meta, batch.schema.field(at).type))


def _found_by_position(batch: pa.RecordBatch) -> set[tuple[object, ...]]:
    """The creates that readers assign to the row which they name, also without the names."""
    halves: dict[tuple[object, ...], tuple[list[Half], list[Half]]] = defaultdict(lambda: ([], []))
    for source, change in zip(batch.column("source").to_pylist(), arrow_layouts.changes(batch), strict=True):
        is_part = change.op in NEW_ROW_OPERATIONS and change.after_image is Image.PARTIAL
        if (is_part or change.op is Operation.DELETE) and not change.arrived:
            halves[source, change.table][not is_part].extend(_half(change))
    found: set[tuple[object, ...]] = set()
    for group, (creates, deletes) in halves.items():
        named = moved(creates, deletes)
        unnamed = moved((half._replace(old=None) for half in creates), deletes)
        others = {position for position, _ in named.differing(unnamed)}
        found |= {(*group, *half.place) for half in creates if half.position not in others}
    return found


def _half(change: Change) -> Iterator[Half]:
    if change.position is not None and change.key is not None:
        key = change.key.decode() if isinstance(change.key, bytes) else change.key
        yield Half(change.position, key, change.transaction, old_key_of(change.meta))
