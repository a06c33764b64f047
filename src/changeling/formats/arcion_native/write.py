"""Changes into Arcion's NATIVE records: native ones as they were, others with a cursor that contains what Arcion cannot express."""

import functools
from collections.abc import Mapping, Sequence

from changeling.envelope import message_keys
from changeling.envelope.cells import Cell, Cells, Members
from changeling.envelope.rows import Row, by_rows
from changeling.envelope.writing import RecordCells, Writer, kept
from changeling.formats.arcion_json import cursor, table_name
from changeling.formats.arcion_json.envelope import NULL_CELL
from changeling.formats.arcion_json.row import OutgoingRow
from changeling.formats.arcion_json.write import ROWS, is_ours, letter, without_row
from changeling.formats.arcion_native.read import MEMBERS
from changeling.formats.options import WriteOptions
from changeling.model import json_text
from changeling.model.change import Change
from changeling.model.json_text import quote
from changeling.model.operation import Operation


class ArcionNativeWrite(WriteOptions, frozen=True, kw_only=True):
    """NATIVE records leave no choice."""


def writer(options: ArcionNativeWrite) -> Writer:
    """A function from a change to its record."""
    return write


def write(cells: Cells, out: Cell) -> Sequence[RecordCells]:
    """The record of a change; refuses what is no change of a row."""
    change, meta = out.change, kept(cells, out)
    if not cells.only(cells.one_of(change.op, ROWS)):
        return without_row(cells, out, meta)
    key = message_keys.restored(cells, meta, change.key)
    if "row" in meta:
        cells.alone()
        return [RecordCells(_bare_row(change, meta), key)]
    if "record" in meta:
        return [RecordCells(meta["record"], key)]
    raw_cursor, table = meta.get("cursor"), meta.get("tableName")
    before, after, note = by_rows(cells, change, functools.partial(_row, out, is_ours(cells, raw_cursor)))
    members = (
        cells.each(table_name.write, change.table) if table is None else table,
        cells.each(letter, change.op),
        cursor.write(cells, out, note) if raw_cursor is None else raw_cursor,
        before,
        after,
    )
    return [RecordCells(cells.shell(dict(zip(MEMBERS, members, strict=True))), key)]


def _bare_row(change: Change, meta: Mapping[str, bytes]) -> bytes:
    texts = set(map(json_text.string, json_text.items(meta.get("null_texts", b"[]"))))
    cells = json_text.members(change.after or b"{}")
    return json_text.join((name, NULL_CELL if name in texts else value) for name, value in cells.items())


def _row(out: Cell, ours: bool, cells: Cells, given: Row) -> Sequence[Cell]:
    """Both images, and what the cursor notes."""
    row = OutgoingRow.of(cells, given)
    if ours:
        row.show_key(row.op is Operation.DELETE)
    note = row.note([])
    # What a reader takes for a full row depends on what it knows of the table: so it is always written.
    for name, image in (("before_image", row.before_image), ("after_image", row.after_image)):
        note[name] = quote(image)
    return _image(row, out, row.before), _image(row, out, row.after), json_text.join(note.items())


def _image(row: OutgoingRow, out: Cell, columns: Members) -> Cell:
    """One side as an object, null where it shows nothing; the text `null` is a loss, since it is read as NULL."""
    if not columns:
        return b"null"
    return row.cells.shell({name: row.cell(out, name, value, null=b"null") for name, value in columns.items()})
