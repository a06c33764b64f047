"""Which states of rows a merge of a history closes, removes and adds: with Arrow alone."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.iceberg.bounds import may_hold
from changeling.iceberg.data_files import OpenFile
from changeling.iceberg.row_matching import matching
from changeling.replicas import staged_rows as staged
from changeling.replicas.change_order import Truncate
from changeling.replicas.row_effect import Effect
from changeling.replicas.row_replacement import (
    NO_ROWS,
    Scan,
    StoredSnapshot,
    completed,
    is_refolded,
    lookup_columns,
    own_names,
    rows_that_exist,
    stored_key_names,
)
from changeling.replicas.row_writer import CLOSE

_VALID_TO, _IS_CURRENT, _FIRST, _LAST = 1, 2, 4, 5
"""The places of columns among those that a history has in addition to its table's own."""
_SERVICE = 6


@dataclass(frozen=True)
class HistoryRange:
    """From where on states are folded again, and where all open states end."""

    start: str = ""
    """States that begin after this position are built again."""
    truncate: Truncate | None = None


def replaced_states(rows: pa.Table, stored: StoredSnapshot, span: HistoryRange) -> tuple[Scan, pa.Table]:
    """The positions of states to remove, and the states to add: closed ones as they are now, and new ones."""
    width = len(stored.columns) - _SERVICE
    looked = _Lookup(rows, stored, span)
    deleted: dict[str, np.ndarray] = {}
    closed, found, base_rows = [], [NO_ROWS], []
    for file in stored.files:
        if not looked.concerns(file):
            continue
        with OpenFile(file) as opened:
            states = opened.columns(looked.columns)
            live = opened.live()
            goes, ends, times = looked.endings(states, live)
            if len(goes):
                deleted[file.path] = goes
                staying = ends != _NOTHING
                old = opened.rows(goes[staying], stored.columns)
                closed.append(_ended(old, width, ends[staying], times[staying]))
            places, based_rows = looked.based(states, live)
            if len(places):
                unique, back = np.unique(places, return_inverse=True)
                found.append(based_rows)
                base_rows.append(opened.rows(unique, stored.columns).take(pa.array(back)))
    scan = Scan(deleted, np.concatenate(found), pa.concat_tables(base_rows) if base_rows else None)
    return scan, pa.concat_tables([*closed, _begun(rows, scan, stored, width)])


_NOTHING = object()
"""In place of a position: the state is removed, not closed."""


class _Lookup:
    """Which stored states the rows of a fold concern."""

    def __init__(self, rows: pa.Table, stored: StoredSnapshot, span: HistoryRange) -> None:
        self._span, self._rows = span, rows
        refolded = is_refolded(rows)
        effect = rows.column(staged.EFFECT)
        self._closing = np.flatnonzero(np.asarray(pc.equal(effect, CLOSE)))
        patched = np.flatnonzero(np.asarray(pc.equal(effect, Effect.PATCH.value)))
        self._refolded, self._patched = refolded, patched
        self._own = lookup_columns(rows.take(self._closing), own_names(stored), stored.key_columns)
        self._bases = lookup_columns(rows.take(patched), stored_key_names(stored), stored.key_columns)
        self._touched = lookup_columns(rows, own_names(stored), stored.key_columns)
        width = len(stored.columns) - _SERVICE
        service = [stored.columns.field(width + place) for place in (_IS_CURRENT, _FIRST, _LAST)]
        self.columns = pa.schema([*stored.key_columns, *service])
        self._key = len(stored.key)

    def concerns(self, file: object) -> bool:
        """Whether a file may contain any of them."""
        if self._span.truncate is not None:
            return True
        return may_hold(file, self._own) or may_hold(file, self._bases)  # type: ignore[arg-type]

    def endings(self, states: pa.Table, live: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The states to remove, in ascending order; where each ends, and when."""
        current, first, last = self._service(states)
        pairs = matching(self._own.columns, states.columns[: self._key])
        rows = self._closing[pairs.wanted]
        refolded = self._refolded[rows]
        behind = last[pairs.stored] > self._span.start
        taken = live[pairs.stored] & np.where(refolded, behind, current[pairs.stored])
        rows, places, refolded = rows[taken], pairs.stored[taken], refolded[taken]
        until = self._rows.column(staged.UNTIL).take(pa.array(rows)).to_pylist()
        times = self._rows.column(staged.UNTIL_TIME).take(pa.array(rows)).to_pylist()
        made_by_refold = refolded & (first[places] > self._span.start)
        ends = np.array([_NOTHING if gone else end for gone, end in zip(made_by_refold, until, strict=True)], object)
        moments = np.array(times, object)
        if self._span.truncate is not None:
            untouched = np.ones(len(live), bool)
            untouched[matching(self._touched.columns, states.columns[: self._key]).stored] = False
            emptied = np.flatnonzero(live & current & untouched)
            position, time = self._span.truncate.rank.position, self._span.truncate.commit_time
            places = np.concatenate([places, emptied])
            ends = np.concatenate([ends, np.array([position] * len(emptied), object)])
            moments = np.concatenate([moments, np.array([time] * len(emptied), object)])
        order = np.argsort(places, kind="stable")
        return places[order], ends[order], moments[order]

    def based(self, states: pa.Table, live: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """States that complete partial rows, and the rows of the fold that are based on them."""
        current, first, last = self._service(states)
        pairs = matching(self._bases.columns, states.columns[: self._key])
        rows = self._patched[pairs.wanted]
        held = (first[pairs.stored] <= self._span.start) & (last[pairs.stored] > self._span.start)
        taken = live[pairs.stored] & np.where(self._refolded[rows], held, current[pairs.stored])
        return pairs.stored[taken], rows[taken]

    def _service(self, states: pa.Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Whether each state is open, the position at which it began, and the one at which it ended (after all others if open)."""
        current = np.asarray(pc.fill_null(states.column(self._key), False), bool)
        first = np.array(states.column(self._key + 1).to_pylist(), object)
        last = np.array([_ENDLESS if end is None else end for end in states.column(self._key + 2).to_pylist()], object)
        return current, first, last


_ENDLESS = "~"
"""After every position."""


def _ended(states: pa.Table, width: int, ends: np.ndarray, times: np.ndarray) -> pa.Table:
    """Stored states with their ends."""
    columns = list(states.columns)
    columns[width + _VALID_TO] = _moments(pa.array(times.tolist(), pa.int64()))
    columns[width + _IS_CURRENT] = pa.repeat(pa.scalar(False), len(ends))
    columns[width + _LAST] = pa.array(ends.tolist(), pa.string())
    return pa.table(columns, names=_names(len(columns)))


def _begun(rows: pa.Table, scan: Scan, stored: StoredSnapshot, width: int) -> pa.Table:
    """The states that the fold found."""
    own = pa.schema(list(stored.columns)[:width])
    values = completed(rows, scan, own, stored.key)
    states = rows.take(pa.array(rows_that_exist(rows)))
    service = [
        _moments(states.column(staged.TIME)),
        _moments(states.column(staged.UNTIL_TIME)),
        states.column(staged.UNTIL).is_null(),
        states.column(staged.OP),
        states.column(staged.POSITION),
        states.column(staged.UNTIL),
    ]
    return pa.table([*values.columns, *service], names=_names(width + _SERVICE))


def _names(count: int) -> list[str]:
    return [staged.column_name(place) for place in range(count)]


def _moments(nanoseconds: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    return pc.divide(nanoseconds, 1000).cast(pa.timestamp("us", "UTC"))
