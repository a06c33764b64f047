"""The fold: what changes did to the rows of one table, one after another, in the order of their positions.

Changes of one row at one position are distinguished by their content: one with the content of an earlier one is a repetition,
any other is a later change, in the order of arrival.

It may begin with nothing, or on top of rows that are stored elsewhere: then the result for a row names the stored row that it
is based on, and contains only what the changes mention.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from changeling.replicas.row_effect import Effect


class Cell(NamedTuple):
    """One value: its JSON text, whose convention it follows, and the number of the schema that its change had."""

    value: bytes
    encoding: str
    schema: int | None


class RowEvent(NamedTuple):
    """One change of one row, ready to be folded."""

    key: str
    position: str
    effect: Effect
    cells: dict[str, Cell]
    """By column. Columns of the key need not be among them."""
    moved_from: str | None = None
    """The key that the row had before, where the change moves it."""


@dataclass
class FoldedRow:
    """The known state of one row."""

    cells: dict[str, Cell] = field(default_factory=dict)
    stored_key: str | None = None
    """The key of the stored row that has the columns which no change mentions; None where they are NULL."""
    exists: bool = True
    """False where only the stored row shows whether it exists, or where it was only touched."""
    stale: bool = False
    """A change touched it without giving its values."""
    needs_base: bool = False
    """It moved here from the stored row `stored_key`: where there is none, it is stale."""

    def image(self) -> dict[str, bytes]:
        """The values by column."""
        return {name: cell.value for name, cell in self.cells.items()}


@dataclass
class _Contents:
    """The different changes of one row at one position."""

    known: set[Hashable] = field(default_factory=set)
    last: Hashable = None
    """The one that decides."""
    ties: int = 0
    """How many repetitions of others came after it."""


class Repetitions:
    """Finds repeated changes. They must be passed in the order of positions, those of one position in the order of arrival."""

    def __init__(self) -> None:
        self._position: str | None = None
        self._met: dict[str, _Contents] = {}
        self._ties = 0

    @property
    def ties(self) -> int:
        """How many of the repetitions would decide what their row is if they were later changes.

        A redelivery ends with the change that came last before it, so it leaves none.
        """
        return self._ties + sum(contents.ties for contents in self._met.values())

    def meet(self, key: str, position: str, content: Hashable, *, counts: bool = True) -> bool:
        """Whether a change is a repetition; one that does not count is none of the `ties`."""
        if position != self._position:
            self._ties, self._position, self._met = self.ties, position, {}
        contents = self._met.setdefault(key, _Contents())
        if content not in contents.known:
            contents.known.add(content)
            contents.last, contents.ties = content, 0
            return False
        contents.ties = 0 if content == contents.last else contents.ties + counts
        return True


class Fold:
    """The rows of one table with a key, after the events that were applied.

    They must come in the order of positions, and none of them twice.
    """

    def __init__(self, stored: bool = False) -> None:
        self.rows: dict[str, FoldedRow | None] = {}
        """The rows that were touched; None for one that is gone."""
        self._stored = stored

    def apply(self, event: RowEvent) -> None:
        """Applies the next event."""
        before = self.row(event.key)
        if event.moved_from is not None and event.moved_from != event.key and event.effect is not Effect.DELETE:
            # Missing columns come from the row that moves here, not from an earlier row with this key.
            before = self.row(event.moved_from)
            self.rows[event.moved_from] = None
        self.rows[event.key] = self._after(event, before)

    def row(self, key: str) -> FoldedRow | None:
        """The known state of a row; None where it does not exist."""
        if key in self.rows:
            return self.rows[key]
        return FoldedRow(stored_key=key, exists=False) if self._stored else None

    def truncate(self) -> None:
        """Removes all rows, including the stored ones."""
        self.rows = dict.fromkeys(self.rows)
        self._stored = False

    def _after(self, event: RowEvent, before: FoldedRow | None) -> FoldedRow | None:
        if event.effect is Effect.DELETE:
            return None
        if event.effect is Effect.REPLACE:
            return FoldedRow(event.cells)
        if event.effect is Effect.PARTIAL_INSERT and (event.moved_from is None or before is None):
            return FoldedRow(event.cells, stale=True)
        before = before or FoldedRow(exists=False)
        if event.effect is Effect.TOUCH:
            return replace(before, stale=True)
        cells = {**before.cells, **event.cells}
        unseen = event.effect is Effect.PARTIAL_INSERT and before.stored_key is not None and not before.exists
        return replace(before, cells=cells, exists=True, needs_base=before.needs_base or unseen)
