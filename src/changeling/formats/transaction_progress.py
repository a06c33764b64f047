"""How much of each transaction an output contains: what a writer must know of earlier changes, and cannot see in its own.

Kernels keep no state: the owner of the output passes a `Transactions` in with each batch, and continues with the one that is
returned. Frames on Spark supply the same as a column.
"""

from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.text_columns import Mask, as_mask
from changeling.model.operation import Operation

Name: TypeAlias = tuple[str, str]
"""A transaction by its source and its id."""


class TransactionProgress(msgspec.Struct, frozen=True, gc=False):
    """What an output contains of one transaction, before a given change."""

    ordinal: int = 0
    """The transaction's number in the output, from 1, by its first change. A change without a transaction takes a number too,
    except before the first transaction, where it is 0."""
    events: int = 0
    """Records of the transaction that are in the output already."""
    moved: int = 0
    """How many of these are second records of a change, as of one that moved its row to another key."""


class Transactions:
    """The transactions of an output, from its beginning to the current batch."""

    def __init__(self, begun: int = 0, before: dict[Name, TransactionProgress | None] | None = None) -> None:
        self._begun = begun
        self._before: dict[Name, TransactionProgress | None] = {} if before is None else before
        self._here: dict[Name, TransactionProgress | None] = {}

    def page(self) -> "Transactions":
        """A copy to be filled with one batch; this one stays as it is."""
        return Transactions(self._begun, self._before)

    def after(self) -> "Transactions":
        """The state of the output after this page; pages that were begun earlier must not be used any more."""
        for name, progress in self._here.items():
            if progress is None:
                self._before.pop(name, None)
            else:
                self._before[name] = progress
        return Transactions(self._begun, self._before)

    def of(self, name: Name | None) -> TransactionProgress:
        """What the output contains of a transaction before the next change of it; None: a change that belongs to none."""
        if name is None:
            return TransactionProgress(self._begun + 1 if self._begun else 0)
        known = self._here if name in self._here else self._before
        return known.get(name) or TransactionProgress(self._begun + 1)

    def add(self, name: Name | None, complete: bool | None, progress: TransactionProgress, records: int) -> None:
        """Counts what was written of a change; a transaction whose end is known is forgotten with it."""
        self._begun = max(self._begun, progress.ordinal) if records else self._begun
        if name is None:
            return
        if complete:
            self._here[name] = None
        elif records:
            self._here[name] = TransactionProgress(
                progress.ordinal, progress.events + records, progress.moved + max(0, records - 1)
            )

    def moved(self) -> set[Name]:
        """The transactions that contain more records than changes, by source and id."""
        every = {**self._before, **self._here}
        return {name for name, progress in every.items() if progress is not None and progress.moved}


class CountedTransactions:
    """Counts the records of a batch in the order of its changes."""

    def __init__(self, transactions: Transactions, batch: pa.RecordBatch, plain: Mask | None) -> None:
        self._page = transactions.page()
        self._names, self._complete = _names(batch), batch.column("transaction").field("complete").to_pylist()
        self._places: npt.NDArray[np.int64] = np.zeros(0, np.int64) if plain is None else np.flatnonzero(plain)
        self._next = 0

    def before(self, place: int) -> TransactionProgress:
        """What the output contains of the transaction of the change at a place."""
        self._count_plain(place)
        return self._page.of(self._names[place])

    def add(self, place: int, progress: TransactionProgress, records: int) -> None:
        """Counts what was written of the change at a place."""
        self._page.add(self._names[place], self._complete[place], progress, records)

    def after_all(self) -> Transactions:
        """The transactions of the output after the batch."""
        self._count_plain(None)
        return self._page

    def _count_plain(self, stop: int | None) -> None:
        """Counts the plain changes before a place, one record each."""
        end = len(self._places) if stop is None else int(np.searchsorted(self._places, stop))
        for place in self._places[self._next : end].tolist():
            self.add(place, self._page.of(self._names[place]), 1)
        self._next = end


def depend_on_others(batch: pa.RecordBatch, transactions: Transactions) -> Mask:
    """The changes of transactions in which some change took two records: the places of the next ones depend on how many did."""
    moved = transactions.moved()
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
    found = {names[place] for place in np.flatnonzero(movers)} - {None}
    return np.array([name in found for name in names], np.bool_)


def _names(batch: pa.RecordBatch) -> list[Name | None]:
    ids = batch.column("transaction").flatten()[0].to_pylist()
    pairs = zip(batch.column("source").to_pylist(), ids, strict=True)
    return [None if name is None else (source, name) for source, name in pairs]


def number_of(transaction: str, limit: int) -> int | None:
    """A transaction's id as a number below the limit; None where it is not the plain spelling of one."""
    if not (transaction.isascii() and transaction.isdigit()) or len(transaction) > len(str(limit)):
        return None
    number = int(transaction)
    return number if number < limit and str(number) == transaction else None
