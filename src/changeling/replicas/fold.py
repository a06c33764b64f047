"""The fold: changes of one table, in the order of their positions, into its rows.

Values stay as the wire has them, each with the convention it is spelled in: they are typed where rows are shown.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from changeling.formats import registry
from changeling.model import json_text
from changeling.model.change import Change
from changeling.model.operation import ROW_OPERATIONS, Image, Operation


class Cell(NamedTuple):
    """One value: its JSON text, whose convention it follows, and the schema that its change told."""

    value: bytes
    encoding: str
    schema: str | None


@dataclass
class Row:
    """What is known of one row."""

    cells: dict[str, Cell] = field(default_factory=dict)
    stale: bool = False
    """A change touched it and did not tell its values."""

    def image(self) -> dict[str, bytes]:
        """The values by column."""
        return {name: cell.value for name, cell in self.cells.items()}


class Event(NamedTuple):
    """A change of one table and the convention of its values."""

    change: Change
    encoding: str


class Fold:
    """The rows of one table with a key, after the changes that were applied. They must come in the order of positions."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self._last: tuple[str | None, str | None] | None = None

    def apply(self, event: Event) -> bool:
        """Applies the next change; False where it says nothing of rows, or comes once more (same key, same position)."""
        change = event.change
        if change.op is Operation.TRUNCATE:
            self.rows.clear()
            return True
        if change.op not in ROW_OPERATIONS or change.key is None:
            return False
        key = text_of(change.key)
        if (key, change.position) == self._last:
            return False
        self._last = (key, change.position)
        before = self._moved_from(change, key)
        if change.op is Operation.DELETE or _removes(event):
            self.rows.pop(key, None)
        elif change.after_image is Image.NONE:
            if key in self.rows:
                self.rows[key].stale = True
        else:
            self.rows[key] = self._written(event, self.rows.get(key) if before is None else before)
        return True

    def _moved_from(self, change: Change, key: str) -> Row | None:
        """The row that a change takes away from another key; None where it moves none."""
        old = old_key(change)
        if old is None or old == key or change.op is Operation.DELETE:
            return None
        return self.rows.pop(old, None) or Row()

    def _written(self, event: Event, stored: Row | None) -> Row:
        change = event.change
        # Some dialects tell key columns in the key alone, and a row that moves has those of its new key.
        told = {**json_text.members(change.key or b"{}"), **json_text.members(change.after or b"{}")}
        given = {name: Cell(value, event.encoding, change.schema) for name, value in told.items()}
        whole = change.after_image is Image.FULL or change.op in (Operation.REPLACE, Operation.INSERT, Operation.READ)
        if whole or stored is None:
            return Row(given)
        return Row({**stored.cells, **given}, stored.stale)


def old_key(change: Change) -> str | None:
    """The key of the row before a change, where its image tells all of it; None where it does not."""
    if change.before is None or change.key is None:
        return None
    before, key = json_text.members(change.before), json_text.members(change.key)
    if not all(name in before for name in key):
        return None
    return json_text.canonical_key((name, before[name]) for name in key).decode()


def in_order(events: Iterable[Event]) -> list[Event]:
    """Events by position. Of several with one key and one position any may be taken: the order does not hang on arrival."""
    return sorted(events, key=lambda event: (event.change.position or "", text_of(event.change.key), *_content(event)))


def _content(event: Event) -> tuple[str, str, str]:
    change = event.change
    return change.op.value, text_of(change.after), text_of(change.before)


def text_of(value: str | bytes | None) -> str:
    """A key or an image as text; empty where there is none."""
    if value is None:
        return ""
    return value.decode() if isinstance(value, bytes) else value


def _removes(event: Event) -> bool:
    """The first half of an update that comes as two records: it removes its key, and the second half writes it whole."""
    change = event.change
    is_half = (
        change.op is Operation.UPDATE and change.after_image is Image.NONE and change.before_image is not Image.NONE
    )
    return is_half and event.encoding != "canonical" and registry.get(event.encoding).halves
