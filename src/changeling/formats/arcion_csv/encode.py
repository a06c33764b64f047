"""Changes into rows of Arcion's CSV: native ones as they were, others with a cursor that contains what Arcion cannot express."""

import functools
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from changeling.formats.arcion_csv import envelope
from changeling.formats.arcion_csv.options import ArcionCsvWrite
from changeling.formats.arcion_csv.rows import Field, RowStyle
from changeling.formats.arcion_json import counts, cursor
from changeling.formats.arcion_json.assembly import tombstone_key
from changeling.formats.arcion_json.encode import extras_of
from changeling.formats.arcion_json.envelope import LETTERS
from changeling.formats.arcion_json.images import IN_AFTER, IN_BEFORE
from changeling.formats.arcion_json.row import OutgoingRow
from changeling.formats.format import Encode, Outgoing
from changeling.formats.framing import COLUMNS, HEADER
from changeling.model import json_text
from changeling.model.canonical import text_of
from changeling.model.change import Record
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation

_text = msgspec.json.Decoder(str | None).decode


def encoder(options: ArcionCsvWrite) -> Encode:
    """A function from one change to its row."""
    return _Writer(options).encode


class _Writer:
    def __init__(self, options: ArcionCsvWrite) -> None:
        self._options = options
        self._style = RowStyle(options.delimiter, options.quote, options.escape, options.null_text)
        self._header = functools.lru_cache(maxsize=1024)(self._print_header)
        self._chosen = options.before_image is not None or options.after_image is not None

    def encode(self, out: Outgoing) -> Sequence[Record]:
        change = out.change
        key = change.key.encode() if isinstance(change.key, str) else change.key
        kept = json_text.members(change.meta) if out.native and change.meta else {}
        if change.op is Operation.MESSAGE:
            if "tombstone" not in kept:
                out.lose("message", "Arcion's rows hold changes of rows only")
            return [Record(None, tombstone_key(change, kept))]
        was_snapshot = out.native and "cursor" not in kept
        snapshot = was_snapshot if self._options.mode is None else self._options.mode == "snapshot"
        row = OutgoingRow.of(change)
        if not snapshot:
            self._choose(out, row)
            columns, fields = _realtime(out, row, kept, self._chosen)
        else:
            if not was_snapshot:
                _check_snapshot(out)
                if change.after_image is not Image.FULL:
                    return []
                row.show_key(deletes=False)
            columns = _columns(out, row, kept)
            fields = [_cell(row.after, name) for name in columns]
        printed = self._print(fields, kept, snapshot)
        if not printed:
            out.lose("null", "a row of one column that is NULL is an empty line; set null_text")
            return []
        headers = ((HEADER if self._options.include_header else COLUMNS, self._header(tuple(columns), snapshot)),)
        return [Record(printed.encode(), key, headers)]

    def _choose(self, out: Outgoing, row: OutgoingRow) -> None:
        if self._options.after_image is not None:
            row.choose_after(out, self._options.after_image)
        if self._options.before_image is not None:
            row.choose_before(out, self._options.before_image)

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
    out: Outgoing, row: OutgoingRow, kept: Mapping[str, bytes], chosen: bool
) -> tuple[list[str], list[Field]]:
    change = out.change
    cursor_text = _text(kept["cursor"]) if "cursor" in kept else None
    ours = cursor_text is None or (
        "changeling" in cursor_text and cursor.read(quote(cursor_text)).changeling is not None
    )
    if ours:
        row.show_key(change.op is Operation.DELETE)
    columns = _columns(out, row, kept)
    if cursor_text is None or (ours and chosen):
        # Our cursor describes the images as they were before the user chose others.
        cursor_text = cursor.write(change, out.source, extras_of(change, row, columns))
    fields: list[Field] = []
    for name in columns:
        bits = IN_AFTER * (name in row.after) + IN_BEFORE * (name in row.before)
        fields += (_cell(row.after, name), _cell(row.before, name), str(bits))
    total = _text(kept["operationcount"]) if "operationcount" in kept else counts.write(out.counts)
    return columns, [*fields, LETTERS[change.op], cursor_text, total]


def _columns(out: Outgoing, row: OutgoingRow, kept: Mapping[str, bytes]) -> list[str]:
    """All columns of the file, in order: its original ones, else the schema's; then the key's and those of the images."""
    known: Iterable[str] = ()
    if "columns" in kept:
        known = map(json_text.string, json_text.items(kept["columns"]))
    elif not out.native and out.schema is not None:
        known = [column.name for column in out.schema.columns]
    apart = [name for name in row.key if name not in row.columns]
    return list(dict.fromkeys([*known, *apart, *row.columns]))


def _cell(cells: Mapping[str, bytes], name: str) -> Field:
    value = cells.get(name, b"null")
    return None if value == b"null" else text_of(value)
