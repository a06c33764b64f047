"""How much of each transaction an output holds: what a writer must know of earlier changes, and cannot see in its own.

Kernels keep no state: whoever holds the output hands a `Transactions` in with each batch, and goes on from the one that is
handed back. Frames on Spark bring the same as a column.
"""

from collections.abc import Mapping

import msgspec

from changeling.model.change import Change


class Standing(msgspec.Struct, frozen=True, gc=False):
    """What an output holds of one transaction, before the change at hand."""

    ordinal: int = 0
    """The transaction's number in the output, from 1, by its first change. A change without a transaction takes a number too,
    save before the first transaction, where it is 0."""
    events: int = 0
    """Records of the transaction that stand in the output already."""
    moved: int = 0
    """How many of these are second records of a change, as of one that moved its row to another key."""


class Transactions:
    """The transactions of an output, from its beginning to the batch at hand."""

    def __init__(self, begun: int = 0, before: dict[tuple[str, str], Standing] | None = None) -> None:
        self._begun = begun
        self._before: dict[tuple[str, str], Standing] = {} if before is None else before
        self._here: dict[tuple[str, str], Standing | None] = {}

    def page(self) -> "Transactions":
        """The same, to be filled with one batch; this one stays as it is."""
        return Transactions(self._begun, self._before)

    def after(self) -> "Transactions":
        """Where the output stands behind this page; pages that were begun earlier must not be used any more."""
        for name, standing in self._here.items():
            if standing is None:
                self._before.pop(name, None)
            else:
                self._before[name] = standing
        return Transactions(self._begun, self._before)

    def of(self, source: str, change: Change) -> Standing:
        """Where the change's transaction stands before it."""
        if change.transaction is None:
            return Standing(self._begun + 1 if self._begun else 0)
        name = (source, change.transaction.id)
        known: Mapping[tuple[str, str], Standing | None] = self._here if name in self._here else self._before
        return known.get(name) or Standing(self._begun + 1)

    def add(self, source: str, change: Change, standing: Standing, records: int) -> None:
        """Counts what was written of a change; a transaction whose end is known is forgotten with it."""
        self._begun = max(self._begun, standing.ordinal) if records else self._begun
        if change.transaction is None:
            return
        name = (source, change.transaction.id)
        if change.transaction.complete:
            self._here[name] = None
        elif records:
            self._here[name] = Standing(
                standing.ordinal, standing.events + records, standing.moved + max(0, records - 1)
            )


def number_of(transaction: str, limit: int) -> int | None:
    """A transaction's id as a number below the limit; None where it is no such number, plainly written."""
    if not (transaction.isascii() and transaction.isdigit()) or len(transaction) > len(str(limit)):
        return None
    number = int(transaction)
    return number if number < limit and str(number) == transaction else None
