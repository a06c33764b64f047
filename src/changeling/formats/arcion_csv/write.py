"""Changes into rows of Arcion's CSV: native ones as they were, others with a cursor that contains what Arcion cannot express."""

import functools
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from changeling.envelope.cells import Cell, Cells, Members
from changeling.envelope.one import ONE
from changeling.envelope.rows import Row, by_rows
from changeling.envelope.writing import RecordCells, Writer, kept
from changeling.formats.arcion_csv import envelope
from changeling.formats.arcion_csv.options import ArcionCsvWrite
from changeling.formats.arcion_csv.rows import Field, RowStyle
from changeling.formats.arcion_json import cursor
from changeling.formats.arcion_json.envelope import LETTERS
from changeling.formats.arcion_json.images import IN_AFTER, IN_BEFORE
from changeling.formats.arcion_json.row import OutgoingRow
from changeling.formats.arcion_json.write import ROWS, is_ours, totals, without_row
from changeling.formats.format import Outgoing
from changeling.formats.framing import COLUMNS, HEADER
from changeling.model import json_text
from changeling.model.canonical import text_of
from changeling.model.errors import Rejected
from changeling.model.operation import Image, Operation

_text = msgspec.json.Decoder(str | None).decode


def writer(options: ArcionCsvWrite) -> Writer:
    """A function from a change to its row."""
    make = _Writer(options)

    def write(cells: Cells, out: Cell) -> Sequence[RecordCells]:
        cells.alone()
        return make(out)

    return write


class _Writer:
    def __init__(self, options: ArcionCsvWrite) -> None:
        self._options = options
        self._style = RowStyle(options.delimiter, options.quote, options.escape, options.null_text)
        self._header = functools.lru_cache(maxsize=1024)(self._print_header)
        self._chosen = options.before_image is not None or options.after_image is not None

    def __call__(self, out: Outgoing) -> Sequence[RecordCells]:
        change, meta = out.change, kept(ONE, out)
        if change.op not in ROWS:
            return without_row(ONE, out, meta)
        was_snapshot = out.native and "cursor" not in meta
        snapshot = was_snapshot if self._options.mode is None else self._options.mode == "snapshot"
        if snapshot and not was_snapshot:
            _check_snapshot(out)
            if change.after_image is not Image.FULL:
                return []
        columns: list[str] = []
        fields: list[Field] = []

        def made(cells: Cells, given: Row) -> Sequence[Cell]:
            row = OutgoingRow.of(cells, given)
            held = row.columns
            if snapshot:
                if not was_snapshot:
                    row.show_key(deletes=False)
                columns.extend(_columns(out, row, held, meta))
                fields.extend(_cell(row.after, name) for name in columns)
            else:
                row.choose(out, self._options.before_image, self._options.after_image)
                columns.extend(_realtime(out, row, held, meta, self._chosen, fields))
            return ()

        by_rows(ONE, change, made)
        if not columns:
            out.lose("keys-only", "a row of CSV has columns, and this change has neither a key nor a value")
            return []
        printed = self._print(fields, meta, snapshot)
        if not printed:
            out.lose("null", "a row of one column that is NULL is an empty line; set null_text")
            return []
        header = HEADER if self._options.include_header else COLUMNS
        return [RecordCells(printed, change.key, headers=[(header, self._header(tuple(columns), snapshot))])]

    def _print(self, fields: list[Field], kept: Mapping[str, bytes], snapshot: bool) -> str:
        """The row, in its original spelling if that means the same in the style that is written."""
        first = json_text.string(kept["record"]) if "record" in kept else ""
        if first:
            try:
                found = self._style.split(first).fields
            except Rejected:
                found = []
            if found == fields or (not snapshot and _said(found) == _said(fields)):
                return first
        return self._style.print(fields)

    def _print_header(self, columns: tuple[str, ...], snapshot: bool) -> bytes:
        return self._style.print(envelope.header_of(columns, snapshot)).encode()


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


def _check_snapshot(out: Outgoing) -> None:
    """Loses what a row of a snapshot cannot express."""
    change = out.change
    if change.op not in (Operation.READ, Operation.INSERT):
        out.lose(change.op.value, f"a snapshot contains rows as they are found, and no {change.op.value}s")
    if change.after_image is Image.NONE:
        out.lose("keys-only", "a snapshot contains full rows, and this change has only the key")
    if change.after_image is Image.PARTIAL:
        out.lose("partial", "a snapshot contains full rows, and this change has only part of one")
    if change.before_image in (Image.FULL, Image.PARTIAL):
        out.lose("before", "a snapshot contains each row once")
    if change.commit_time is not None:
        out.lose("commit_time", "rows of a snapshot have no time")
    if change.transaction is not None:
        out.lose("transaction", "rows of a snapshot have no transaction")
    if not out.arrived:
        out.lose("position", "rows of a snapshot have no position")


def _realtime(
    out: Outgoing, row: OutgoingRow, held: Sequence[str], meta: Members, chosen: bool, fields: list[Field]
) -> list[str]:
    """The columns of a realtime row; its fields are added to those given."""
    raw_cursor = meta.get("cursor")
    ours = is_ours(ONE, raw_cursor)
    if ours:
        row.show_key(row.op is Operation.DELETE)
    columns = _columns(out, row, held, meta)
    cursor_text = None if raw_cursor is None else _text(raw_cursor)
    if raw_cursor is None or (ours and chosen):
        # Our cursor describes the images as they were before the user chose others.
        cursor_text = cursor.write(ONE, out, json_text.join(row.note(columns).items())).decode()
    for name in columns:
        bits = IN_AFTER * (name in row.after) + IN_BEFORE * (name in row.before)
        fields += (_cell(row.after, name), _cell(row.before, name), str(bits))
    counts = _text(meta["operationcount"]) if "operationcount" in meta else totals(ONE, out).decode()
    fields += (LETTERS[row.op], cursor_text, counts)
    return columns


def _columns(out: Outgoing, row: OutgoingRow, held: Sequence[str], meta: Members) -> list[str]:
    """All columns of the file, in order: its original ones, else the schema's; then the key's and those of the images."""
    known: Iterable[str] = () if out.native else row.known_columns
    if "columns" in meta:
        known = map(json_text.string, json_text.items(meta["columns"]))
    apart = [name for name in row.key if name not in held]
    return list(dict.fromkeys([*known, *apart, *held]))


def _cell(cells: Mapping[str, bytes], name: str) -> Field:
    value = cells.get(name, b"null")
    return None if value == b"null" else text_of(value)
