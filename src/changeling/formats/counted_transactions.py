"""The transactions of an output while one batch is written, some of its changes by columns and the others one by one."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.text_columns import Mask, as_mask
from changeling.formats.transaction_progress import TransactionProgress, Transactions
from changeling.model.change import Change
from changeling.model.operation import Operation

_NONE = TransactionProgress()
Names = list[tuple[str, str | None]]


class CountedTransactions:
    """Counts the records of a batch in the order of its changes."""

    def __init__(self, transactions: Transactions, batch: pa.RecordBatch, plain: Mask | None) -> None:
        self._page = transactions.page()
        self._names = [] if plain is None else _names(batch)
        self._complete = [] if plain is None else batch.column("transaction").field("complete").to_pylist()
        self._places: npt.NDArray[np.int64] = np.flatnonzero(plain) if plain is not None else np.zeros(0, np.int64)
        self._next = 0

    def before(self, place: int, source: str, change: Change) -> TransactionProgress:
        """What the output contains of the transaction of the change at a place."""
        self._count_plain(place)
        return self._page.of(source, change)

    def add(self, source: str, change: Change, progress: TransactionProgress, records: int) -> None:
        """Counts what was written of a change that is not plain."""
        self._page.add(source, change, progress, records)

    def after_all(self) -> Transactions:
        """The transactions of the output after the batch."""
        self._count_plain(None)
        return self._page

    def _count_plain(self, stop: int | None) -> None:
        """Counts the plain changes before a place, one record each."""
        end = len(self._places) if stop is None else int(np.searchsorted(self._places, stop))
        for place in self._places[self._next : end].tolist():
            source, transaction = self._names[place]
            self._page.add_one(source, transaction, self._complete[place])
        self._next = end


def unsettled(batch: pa.RecordBatch, moved: set[tuple[str, str]]) -> Mask:
    """The changes of transactions some of whose records are more than one a change: their places depend on how many."""
    if not moved:
        return np.zeros(batch.num_rows, np.bool_)
    return np.array([name in moved for name in _names(batch)], np.bool_)


def beside(batch: pa.RecordBatch, others: Mask) -> Mask:
    """The changes in one transaction with others that may move their row to another key, which takes two records."""
    ops, before = batch.column("op"), batch.column("before")
    movers = others & as_mask(pc.and_(pc.is_valid(before), pc.not_equal(ops, Operation.DELETE.value)))
    if not movers.any():
        return movers
    names = _names(batch)
    found = {names[place] for place in np.flatnonzero(movers)}
    return np.array([name[1] is not None and name in found for name in names], np.bool_)


def _names(batch: pa.RecordBatch) -> Names:
    ids = batch.column("transaction").flatten()[0].to_pylist()
    return list(zip(batch.column("source").to_pylist(), ids, strict=True))
