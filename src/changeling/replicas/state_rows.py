"""A whole state in Arrow: the rows that a fold staged, on top of a base."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.iceberg.row_matching import matching
from changeling.replicas import staged_rows as staged
from changeling.replicas.row_effect import Effect
from changeling.replicas.row_replacement import (
    StoredSnapshot,
    added_up,
    completed,
    lookup_columns,
    own_names,
    scan_keyed,
)


def state_on_top(rows: pa.Table, base: StoredSnapshot) -> pa.Table:
    """All rows now; those of the base are in memory."""
    return _keyed(rows, base) if base.key else _counted(rows, base)


def _keyed(rows: pa.Table, base: StoredSnapshot) -> pa.Table:
    """A row that was written or removed replaces the one of the base that has its key; one that was only touched does not."""
    now = completed(rows, scan_keyed(rows, base), base.columns, base.key)
    if base.in_memory is None:
        return now
    written = rows.filter(pc.not_equal(rows.column(staged.EFFECT), Effect.TOUCH.value))
    own = lookup_columns(written, own_names(base), base.key_columns)
    replaced = matching(own.columns, base.in_memory.select(list(base.key)).columns).stored
    return _without(base.in_memory, replaced, now)


def _counted(rows: pa.Table, base: StoredSnapshot) -> pa.Table:
    """As many of each row as there were, and as the fold counted more or less."""
    names = [staged.column_name(place) for place in range(len(base.columns))]
    rows = added_up(rows, names)
    counts = np.asarray(rows.column(staged.COUNT), np.int64).copy()
    own = lookup_columns(rows, names, base.columns)
    replaced = np.zeros(0, np.int64)
    if base.in_memory is not None:
        pairs = matching(own.columns, base.in_memory.columns)
        np.add.at(counts, pairs.wanted, 1)
        replaced = pairs.stored
    now = own.take(pa.array(np.repeat(np.arange(len(counts)), np.maximum(counts, 0))))
    return now if base.in_memory is None else _without(base.in_memory, replaced, now)


def _without(base: pa.Table, replaced: np.ndarray, now: pa.Table) -> pa.Table:
    stays = np.ones(base.num_rows, bool)
    stays[replaced] = False
    return pa.concat_tables([base.filter(pa.array(stays)), pa.table(now.columns, schema=base.schema)])
