"""How much of each transaction an output contains: what a writer must know of earlier changes, and cannot see in its own.

Kernels keep no state: the owner of the output passes a `Transactions` in with each batch, and continues with the one that is
returned. Frames on Spark supply the same as a column.
"""

from collections.abc import Mapping

import msgspec

from changeling.model.change import Change


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

    def __init__(self, begun: int = 0, before: dict[tuple[str, str], TransactionProgress] | None = None) -> None:
        self._begun = begun
        self._before: dict[tuple[str, str], TransactionProgress] = {} if before is None else before
        self._here: dict[tuple[str, str], TransactionProgress | None] = {}

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

    def of(self, source: str, change: Change) -> TransactionProgress:
        """What the output contains of the change's transaction before it."""
        if change.transaction is None:
            return TransactionProgress(self._begun + 1 if self._begun else 0)
        name = (source, change.transaction.id)
        known: Mapping[tuple[str, str], TransactionProgress | None] = self._here if name in self._here else self._before
        return known.get(name) or TransactionProgress(self._begun + 1)

    def add(self, source: str, change: Change, progress: TransactionProgress, records: int) -> None:
        """Counts what was written of a change; a transaction whose end is known is forgotten with it."""
        self._begun = max(self._begun, progress.ordinal) if records else self._begun
        if change.transaction is None:
            return
        name = (source, change.transaction.id)
        if change.transaction.complete:
            self._here[name] = None
        elif records:
            self._here[name] = TransactionProgress(
                progress.ordinal, progress.events + records, progress.moved + max(0, records - 1)
            )

    def add_one(self, source: str, transaction: str | None, complete: bool | None) -> None:
        """Counts one record of a change, as `of` and `add` together."""
        if transaction is None:
            self._begun += self._begun > 0
            return
        name = (source, transaction)
        known: Mapping[tuple[str, str], TransactionProgress | None] = self._here if name in self._here else self._before
        progress = known.get(name) or TransactionProgress(self._begun + 1)
        self._begun = max(self._begun, progress.ordinal)
        more = None if complete else TransactionProgress(progress.ordinal, progress.events + 1, progress.moved)
        self._here[name] = more

    def moved(self) -> set[tuple[str, str]]:
        """The transactions that contain more records than changes, by source and id."""
        every = {**self._before, **self._here}
        return {name for name, progress in every.items() if progress is not None and progress.moved}


def number_of(transaction: str, limit: int) -> int | None:
    """A transaction's id as a number below the limit; None where it is not the plain spelling of one."""
    if not (transaction.isascii() and transaction.isdigit()) or len(transaction) > len(str(limit)):
        return None
    number = int(transaction)
    return number if number < limit and str(number) == transaction else None
