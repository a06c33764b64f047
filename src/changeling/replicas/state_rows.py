"""A whole state in Arrow: the rows that a fold staged, on top of those below them."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.iceberg.row_matching import matching
from changeling.replicas import staged_rows as staged
from changeling.replicas.row_effect import Effect
from changeling.replicas.row_replacement import (
    Stored,
    added_up,
    completed,
    lookup_columns,
    own_names,
    scan_keyed,
)


def state_on_top(rows: pa.Table, below: Stored) -> pa.Table:
    """All rows now; those below are loose."""
    return _keyed(rows, below) if below.key else _counted(rows, below)


def _keyed(rows: pa.Table, below: Stored) -> pa.Table:
    """A row that was written or removed replaces the one below that has its key; one that was only touched does not."""
    now = completed(rows, scan_keyed(rows, below), below.columns, below.key)
    if below.loose is None:
        return now
    written = rows.filter(pc.not_equal(rows.column(staged.EFFECT), Effect.TOUCH.value))
    own = lookup_columns(written, own_names(below), below.key_columns)
    replaced = matching(own.columns, below.loose.select(list(below.key)).columns).stored
    return _without(below.loose, replaced, now)


def _counted(rows: pa.Table, below: Stored) -> pa.Table:
    """As many of each row as there were, and as the fold counted more or less."""
    names = [staged.column_name(place) for place in range(len(below.columns))]
    rows = added_up(rows, names)
    counts = np.asarray(rows.column(staged.COUNT), np.int64).copy()
    own = lookup_columns(rows, names, below.columns)
    replaced = np.zeros(0, np.int64)
    if below.loose is not None:
        pairs = matching(own.columns, below.loose.columns)
        np.add.at(counts, pairs.wanted, 1)
        replaced = pairs.stored
    now = own.take(pa.array(np.repeat(np.arange(len(counts)), np.maximum(counts, 0))))
    return now if below.loose is None else _without(below.loose, replaced, now)


def _without(below: pa.Table, replaced: np.ndarray, now: pa.Table) -> pa.Table:
    stays = np.ones(below.num_rows, bool)
    stays[replaced] = False
    return pa.concat_tables([below.filter(pa.array(stays)), pa.table(now.columns, schema=below.schema)])
