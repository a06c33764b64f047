"""The row of a change on its way out: both images as cells, reduced to what the user requested."""

from dataclasses import dataclass
from typing import Literal

from changeling.envelope.cells import Cell, Cells, Members
from changeling.envelope.rows import Row
from changeling.formats.arcion_json import images
from changeling.formats.arcion_json.envelope import LETTERS, NULL_CELL, NULL_TEXT, OPERATIONS
from changeling.formats.format import LeftOut
from changeling.model import json_text
from changeling.model.canonical import text_of
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.table import schema_from_json

_INSERTS = (Operation.INSERT, Operation.READ, Operation.REPLACE)


@dataclass
class OutgoingRow:
    """The cells of both images, raw JSON each, and how complete each image is."""

    cells: Cells
    op: Operation
    schema: str | None
    key: Members
    before: Members
    after: Members
    before_image: Image
    after_image: Image

    @staticmethod
    def of(cells: Cells, row: Row) -> "OutgoingRow":
        """The row as the change has it."""
        kind = row.kind
        images_ = (row.before or {}, row.after or {})
        return OutgoingRow(cells, kind.op, kind.schema, row.key or {}, *images_, kind.before_image, kind.after_image)

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that the change shows."""
        return tuple(dict.fromkeys([*self.after, *self.before]))

    @property
    def known_columns(self) -> list[str]:
        """The columns of the table, where they are known."""
        return [] if self.schema is None else [column.name for column in schema_from_json(self.schema).columns]

    def choose(self, out: Cell, before: Literal["KEY", "ALL"] | None, after: Literal["UPDATED", "ALL"] | None) -> None:
        """Reduces the images to what the user requested, or requires the full rows."""
        if before is None and after is None:
            return
        self.cells.alone()
        if after is not None:
            self._choose_after(out, after)
        if before is not None:
            self._choose_before(out, before)

    def _choose_after(self, out: Cell, wanted: Literal["UPDATED", "ALL"]) -> None:
        if wanted == "ALL":
            if self.op is not Operation.DELETE and self.after_image is not Image.FULL:
                out.lose("after", "the full row after the change was requested, and this change does not have it")
            return
        if self.op in _INSERTS or not self.before_image is self.after_image is Image.FULL:
            return
        changed = {name: value for name, value in self.after.items() if self.before.get(name, b"null") != value}
        gone = {name: b"null" for name, value in self.before.items() if name not in self.after and value != b"null"}
        self.after, self.after_image = {**changed, **gone}, Image.PARTIAL

    def _choose_before(self, out: Cell, wanted: Literal["KEY", "ALL"]) -> None:
        if self.op in _INSERTS and self.before_image is Image.NONE:
            return
        if wanted == "ALL":
            if self.before_image is not Image.FULL:
                out.lose("before", "the full row before the change was requested, and this change does not have it")
        elif self.key:
            self.before = {name: self.before.get(name, value) for name, value in self.key.items()}
            self.before_image = Image.KEY

    def show_key(self, deletes: bool) -> None:
        """Adds key columns that no image shows, as those of a dialect that keeps the key separately."""
        missing = {
            name: value
            for name, value in self.key.items()
            if (deletes or name not in self.after) and not self._same(self.before.get(name), value)
        }
        if not missing:
            return
        in_after = not deletes and self.after_image is not Image.NONE
        unknown_before = {name: value for name, value in missing.items() if name not in self.before}
        if in_after:
            self.after = {**missing, **self.after}
        if not in_after or self.before_image is not Image.NONE:
            self.before = {**unknown_before, **self.before}

    def _same(self, shown: Cell, value: Cell) -> bool:
        return shown is not None and self.cells.only(self.cells.equal(shown, value))

    def note(self, columns: list[str]) -> dict[str, bytes]:
        """What Arcion's record of these columns cannot express, for the cursor."""
        found = {}
        if OPERATIONS[LETTERS[self.op]] is not self.op:
            found["op"] = quote(self.op)
        if self.key:
            shown = {**self.before, **self.after}
            same = all(self._same(shown.get(name, b""), value) for name, value in self.key.items())
            names = (
                {name: None if value == b"null" else text_of(value) for name, value in self.key.items()}
                if not same
                else None
            )
            found["key"] = quote(list(self.key) if names is None else names)
        # An image without columns is none, except where the change has one that shows nothing.
        if self.before_image is not images.before_image(self.before, columns, self.key):
            found["before_image"] = quote(self.before_image)
        if self.after_image is not images.after_image(self.after, columns):
            found["after_image"] = quote(self.after_image)
        return found

    def cell(self, out: Cell, name: str, value: Cell, null: bytes = NULL_CELL) -> Cell:
        """A value in an image; the text `null` is a loss."""
        cells = self.cells
        spelled = cells.equal(value, NULL_CELL) | (cells.contains(value, [b"\\u"]) & cells.holds(_is_null_text, value))
        if not cells.only(~spelled):
            out.lose("null-text", f"column {name!r} is the text 'null', which Arcion's JSON reads as NULL")
            if name in self.key:
                raise LeftOut("null-text")
        return cells.where(cells.equal(value, b"null"), null, value)


def _is_null_text(value: bytes) -> bool:
    return value[:1] == b'"' and json_text.string(value) == NULL_TEXT
