"""Which row events are repetitions: their content is that of an earlier event of the same row at the same position."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.model.operation import Operation
from changeling.replicas.change_order import Rank, ranks
from changeling.replicas.fold import Repetitions
from changeling.replicas.fold_table import FoldTable

_CONTENT = ("op", "effect", "values", "images", "moved_from", "encoding")


def repeated(rows: pa.Table, alone: np.ndarray, table: FoldTable) -> tuple[np.ndarray, int]:
    """Which of the sorted events of whole groups are repetitions, and how many of them are `Repetitions.ties`.

    `alone` are those whose position differs from that of the event before, or that begin a group. Truncates of the same position
    count as events of each row. Equal rows of a snapshot without keys are different rows.
    """
    found: np.ndarray = np.zeros(rows.num_rows, bool)
    tied = ~alone
    tied[:-1] |= tied[1:]
    truncates = table.truncates_by_position()
    if truncates:
        tied |= np.asarray(pc.is_in(rows.column("position"), pa.array(truncates, pa.string())))
    if not table.shape.key:
        tied &= ~np.asarray(pc.equal(rows.column("op").combine_chunks(), Operation.READ.value))
    places = np.flatnonzero(tied)
    part = rows.take(pa.array(places, pa.int64()))
    met, waiting = Repetitions(), _Truncates(truncates, table)
    contents = zip(*(part.column(name).to_pylist() for name in _CONTENT), strict=True)
    for place, key, rank, content in zip(
        places.tolist(), part.column("key").to_pylist(), ranks(part), contents, strict=True
    ):
        waiting.meet(met, key, rank)
        counts = table.is_new(rank.batch, rank.position)
        found[place] = met.meet(key, rank.position, content, counts=counts)
    waiting.meet_rest(met)
    return found, met.ties


class _Truncates:
    """Passes the truncates of a position for each row that has events there, in their order among these."""

    def __init__(self, truncates: dict[str, list[Rank]], table: FoldTable) -> None:
        self._truncates, self._table = truncates, table
        self._position = ""
        self._waiting: dict[str, Iterator[Rank]] = {}
        self._next: dict[str, Rank | None] = {}

    def meet(self, met: Repetitions, key: str, before: Rank) -> None:
        """Passes the truncates before an event."""
        if before.position != self._position:
            self.meet_rest(met)
            self._position, self._waiting, self._next = before.position, {}, {}
        if before.position not in self._truncates:
            return
        if key not in self._waiting:
            self._waiting[key] = iter(self._truncates[before.position])
            self._next[key] = next(self._waiting[key], None)
        self._pass(met, key, before)

    def meet_rest(self, met: Repetitions) -> None:
        """Passes the truncates after the last event of their position."""
        for key in self._waiting:
            self._pass(met, key, None)

    def _pass(self, met: Repetitions, key: str, before: Rank | None) -> None:
        while (rank := self._next[key]) is not None and (before is None or rank < before):
            met.meet(key, rank.position, Operation.TRUNCATE, counts=self._table.is_new(rank.batch, rank.position))
            self._next[key] = next(self._waiting[key], None)
