"""Changes into rows of Arcion's CSV: native ones as they were, others with a cursor that contains what Arcion cannot express."""

import functools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from changeling.envelope.cells import Cell, Cells
from changeling.envelope.csv_rows import Field, RowStyle
from changeling.envelope.rows import Row, by_rows
from changeling.envelope.writing import RecordCells, Writer, kept
from changeling.formats.arcion_csv import envelope
from changeling.formats.arcion_csv.options import ArcionCsvWrite
from changeling.formats.arcion_json import cursor
from changeling.formats.arcion_json.envelope import LETTERS
from changeling.formats.arcion_json.images import IN_AFTER, IN_BEFORE
from changeling.formats.arcion_json.row import OutgoingRow
from changeling.formats.arcion_json.write import ROWS, is_ours, totals, without_row
from changeling.formats.framing import COLUMNS, HEADER
from changeling.model import json_text
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation


def writer(options: ArcionCsvWrite) -> Writer:
    """A function from a change to its row."""
    style = RowStyle(options.delimiter, options.quote, options.null_text, options.escape)
    header_name = HEADER if options.include_header else COLUMNS
    chosen = options.before_image is not None or options.after_image is not None

    @functools.lru_cache(maxsize=1024)
    def header_of(snapshot: bool, names: bytes) -> bytes:
        columns = [json_text.string(name) for name in json_text.items(names)]
        return style.print(envelope.header_of(columns, snapshot)).encode()

    def write(cells: Cells, out: Cell) -> Sequence[RecordCells]:
        change, meta = out.change, kept(cells, out)
        if not cells.only(cells.one_of(change.op, ROWS)):
            return without_row(cells, out, meta)
        was_snapshot = out.native and "cursor" not in meta
        snapshot = was_snapshot if options.mode is None else options.mode == "snapshot"
        if snapshot and not was_snapshot:
            _check_snapshot(cells, out)
            if not cells.only(cells.equal(change.after_image, Image.FULL)):
                return []
        raw_cursor = meta.get("cursor")
        ours = not snapshot and is_ours(cells, raw_cursor)
        layout = _Layout(options, style, snapshot, ours, adds_key=ours or (snapshot and not was_snapshot))
        value, names, note = by_rows(cells, change, functools.partial(_row, out, layout), meta.get("columns"))
        lacking = cells.equal(names, b"[]")
        cells.lose(out, lacking, "keys-only", "a row of CSV has columns, and this change has neither a key nor a value")
        if not snapshot:
            # Our cursor describes the images as they were before the user chose others.
            is_new = raw_cursor is None or (ours and chosen)
            place = cursor.write(cells, out, note) if is_new else cells.text(cells.value(meta, "cursor"))
            counts = cells.text(cells.value(meta, "operationcount")) if "operationcount" in meta else totals(cells, out)
            end = cells.csv_text([cells.each(LETTERS.get, change.op), place, counts], style)
            value = cells.joined(value, options.delimiter.encode(), end)
        if "record" in meta:
            cells.alone()
            value = _original(style, json_text.string(meta["record"]), value.decode(), snapshot)
        empty = cells.equal(value, b"")
        cells.lose(out, empty & ~lacking, "null", "a row of one column that is NULL is an empty line; set null_text")
        header = cells.each(functools.partial(header_of, snapshot), names)
        return [RecordCells(value, change.key, headers=[(header_name, header)], where=~(lacking | empty))]

    return write


class _Layout(NamedTuple):
    """What the rows of some changes have in common."""

    options: ArcionCsvWrite
    style: RowStyle
    snapshot: bool
    ours: bool
    """The cursor is."""
    adds_key: bool


def _row(out: Cell, layout: _Layout, cells: Cells, given: Row, kept_names: Cell) -> Sequence[Cell]:
    """The fields of the columns, their names, and what the cursor notes."""
    row, options, snapshot = OutgoingRow.of(cells, given), layout.options, layout.snapshot
    held = row.columns
    if not snapshot:
        row.choose(out, options.before_image, options.after_image)
    if layout.adds_key:
        row.show_key(not snapshot and row.op is Operation.DELETE)
    names = _columns(row, held, cells.common(kept_names), out.native)
    fields: list[Cell] = []
    for name in names:
        fields.append(cells.csv_field(row.after.get(name)))
        if not snapshot:
            bits = IN_AFTER * (name in row.after) + IN_BEFORE * (name in row.before)
            fields += (cells.csv_field(row.before.get(name)), str(bits))
    note = json_text.join(row.note(names).items()) if layout.ours else None
    return cells.csv_text(fields, layout.style), quote(names), note


def _original(style: RowStyle, first: str, printed: str, snapshot: bool) -> str:
    """The row in its original spelling, if that means the same in the style that is written."""
    try:
        found, fields = style.split(first).fields, style.split(printed).fields
    except Rejected:
        return printed
    return first if found == fields or (not snapshot and _said(found) == _said(fields)) else printed


def _said(fields: Sequence[Field]) -> list[Field]:
    """The fields of a realtime row, without those of a side that EXISTS says is missing."""
    said = list(fields)
    for place in range(2, len(said) - len(envelope.METADATA), 3):
        bits = said[place] or "0"
        if bits in "02":
            said[place - 2] = None
        if bits in "01":
            said[place - 1] = None
    return said


def _check_snapshot(cells: Cells, out: Cell) -> None:
    """Loses what a row of a snapshot cannot express."""
    change = out.change
    if not cells.only(cells.one_of(change.op, (Operation.READ, Operation.INSERT))):
        out.lose(change.op.value, f"a snapshot contains rows as they are found, and no {change.op.value}s")
    for condition, feature, why in (
        (cells.equal(change.after_image, Image.NONE), "keys-only", f"{_FULL}, and this change has only the key"),
        (cells.equal(change.after_image, Image.PARTIAL), "partial", f"{_FULL}, and this change has only part of one"),
        (
            cells.one_of(change.before_image, (Image.FULL, Image.PARTIAL)),
            "before",
            "a snapshot contains each row once",
        ),
        (cells.present(change.commit_time), "commit_time", "rows of a snapshot have no time"),
        (cells.present(change.transaction), "transaction", "rows of a snapshot have no transaction"),
        (~cells.mask(out.arrived), "position", "rows of a snapshot have no position"),
    ):
        cells.lose(out, condition, feature, why)


_FULL = "a snapshot contains full rows"


def _columns(row: OutgoingRow, held: Sequence[str], kept_names: bytes | None, native: bool) -> list[str]:
    """All columns of the file, in order: its original ones, else the schema's; then the key's and those of the images."""
    known: Iterable[str] = () if native else row.known_columns
    if kept_names is not None:
        known = map(json_text.string, json_text.items(kept_names))
    apart = [name for name in row.key if name not in held]
    return list(dict.fromkeys([*known, *apart, *held]))
