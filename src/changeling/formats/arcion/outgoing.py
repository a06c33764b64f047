"""Changes into records of Arcion, whatever the dialect: images reduced to what the user requested, and what the cursor notes."""

from collections.abc import Collection, Iterable
from typing import Any, Literal

import msgspec

from changeling.envelope import message_keys
from changeling.envelope.cells import Cell, Cells, Members
from changeling.envelope.rows import ImageColumns
from changeling.envelope.writing import RecordCells
from changeling.formats.arcion import cursor
from changeling.formats.arcion.incoming import IN_AFTER, IN_BEFORE, LETTERS, NULL_CELL, OPERATIONS, completeness
from changeling.formats.format import LeftOut
from changeling.model import json_text
from changeling.model.canonical import text_of
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.table import schema_from_json

ROWS = [operation.value for operation in LETTERS]
_INSERTS = (Operation.INSERT, Operation.READ, Operation.REPLACE)
names_in = msgspec.json.Decoder(list[str]).decode


class OutgoingRow:
    """The cells of both images, raw JSON each, and how complete each image is."""

    def __init__(self, out: Cell, cells: Cells, row: ImageColumns) -> None:
        self.out, self.cells, self.op = out, cells, row.kind.op
        self.key, self.before, self.after = row.key or {}, row.before or {}, row.after or {}
        self.before_image, self.after_image = row.kind.before_image, row.kind.after_image
        schema = None if out.native else row.kind.schema
        self._known = () if schema is None else [column.name for column in schema_from_json(schema).columns]
        self.held = list(dict.fromkeys([*self.after, *self.before]))
        """The columns that the change shows."""

    def names(self, given: Iterable[str] | None, first: Iterable[str] = ()) -> list[str]:
        """All columns, in order: the given ones, else the schema's; then those that come first, and any other that is shown."""
        known = self._known if given is None else given
        return list(dict.fromkeys([*known, *first, *self.held, *self.after, *self.before]))

    def exists(self, name: str) -> int:
        """Which images show a column."""
        return IN_AFTER * (name in self.after) + IN_BEFORE * (name in self.before)

    def choose(self, before: Literal["KEY", "ALL"] | None, after: Literal["UPDATED", "ALL"] | None) -> None:
        """Reduces the images to what the user requested, or requires the full rows."""
        if before is None and after is None:
            return
        self.cells.one_by_one()
        is_insert = self.op in _INSERTS
        if after == "ALL":
            if self.op is not Operation.DELETE and self.after_image is not Image.FULL:
                self.out.lose("after", _FULL.format("after"))
        elif after is not None and not is_insert and self.before_image is self.after_image is Image.FULL:
            now = {name: self.after.get(name, b"null") for name in self.held}
            self.after = {name: value for name, value in now.items() if self.before.get(name, b"null") != value}
            self.after_image = Image.PARTIAL
        if is_insert and self.before_image is Image.NONE:
            return
        if before == "ALL":
            if self.before_image is not Image.FULL:
                self.out.lose("before", _FULL.format("before"))
        elif before is not None and self.key:
            self.before = {name: self.before.get(name, value) for name, value in self.key.items()}
            self.before_image = Image.KEY

    def show_key(self) -> None:
        """Adds key columns that no image shows, as those of a dialect that keeps the key separately."""
        deletes = self.op is Operation.DELETE
        missing = {
            name: value
            for name, value in self.key.items()
            if (deletes or name not in self.after) and not self._same(self.before.get(name), value)
        }
        if not missing:
            return
        in_after = not deletes and self.after_image is not Image.NONE
        if in_after:
            self.after = {**missing, **self.after}
        if not in_after or self.before_image is not Image.NONE:
            unknown = {name: value for name, value in missing.items() if name not in self.before}
            self.before = {**unknown, **self.before}

    def _same(self, shown: Cell, value: Cell) -> bool:
        return shown is not None and self.cells.usually(self.cells.equal(shown, value))

    def note(self, columns: Collection[str] | None) -> bytes:
        """What Arcion's record of these columns cannot express, for the cursor; None: nothing says which columns there are."""
        found = {}
        if OPERATIONS[LETTERS[self.op]] is not self.op:
            found["op"] = quote(self.op)
        if self.key:
            shown = {**self.before, **self.after}
            if all(self._same(shown.get(name, b""), value) for name, value in self.key.items()):
                found["key"] = quote(list(self.key))
            else:
                texts = {name: None if value == b"null" else text_of(value) for name, value in self.key.items()}
                found["key"] = quote(texts)
        # An image without columns is none, except where the change has one that shows nothing.
        if columns is None or self.before_image is not completeness(self.before, columns, self.key, Image.KEY):
            found["before_image"] = quote(self.before_image)
        if columns is None or self.after_image is not completeness(self.after, columns):
            found["after_image"] = quote(self.after_image)
        return json_text.join(found.items())

    def image(self, columns: Members, names: Iterable[str], null: bytes) -> Cell:
        """One side as an object of these columns; the text `null` is a loss, since it is read as NULL."""
        return self.cells.json_object({name: self._cell(name, columns.get(name, b"null"), null) for name in names})

    def _cell(self, name: str, value: Cell, null: bytes) -> Cell:
        cells = self.cells
        spelled = cells.equal(value, NULL_CELL) | (cells.contains(value, [b"\\u"]) & cells.holds(_is_null_text, value))
        if not cells.usually(~spelled):
            self.out.lose("null-text", f"column {name!r} is the text 'null', which Arcion's JSON reads as NULL")
            if name in self.key:
                raise LeftOut("null-text")
        return cells.where(cells.equal(value, b"null"), null, value)


def _is_null_text(value: bytes) -> bool:
    return value[:1] == b'"' and quote(json_text.string(value)) == NULL_CELL


_FULL = "the full row {} the change was requested, and this change does not have it"


def is_ours(cells: Cells, raw_cursor: Cell) -> bool:
    """Whether we wrote the cursor, or will."""
    if raw_cursor is None or not cells.branch(cells.contains(raw_cursor, [b"changeling"])):
        return raw_cursor is None
    return cells.branch(cells.present(cells.fields(cursor.read(cells, raw_cursor).changeling)))


def without_row(cells: Cells, out: Any, meta: Members) -> list[RecordCells]:
    """A tombstone; any other message is a loss."""
    if "tombstone" not in meta:
        out.lose("message", "Arcion's records hold changes of rows only")
        return []
    return [RecordCells(None, message_keys.restored(cells, meta, out.change.key))]


def totals(cells: Cells, out: Cell) -> Cell:
    """Arcion's `operationcount`: how many operations of each kind an output contains so far."""
    kinds = ("insert", "update", "delete", "replace")
    return cells.json_object({f"{kind}Count": cells.int_json(getattr(out.counts, kind)) for kind in kinds})
