"""Changes into Arcion's JSON records: native ones as they were, others with a cursor that contains what Arcion cannot express."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from changeling.formats.arcion_json import counts, cursor, table_name
from changeling.formats.arcion_json.assembly import tombstone_key
from changeling.formats.arcion_json.cursor import Extras
from changeling.formats.arcion_json.envelope import LETTERS, NULL_TEXT, OPERATIONS
from changeling.formats.arcion_json.images import IN_AFTER, IN_BEFORE
from changeling.formats.arcion_json.row import Cells, OutgoingRow
from changeling.formats.format import Encode, LeftOut, Outgoing
from changeling.formats.options import WriteOptions
from changeling.model import json_text
from changeling.model.canonical import text_of
from changeling.model.change import Change, Record
from changeling.model.json_text import quote
from changeling.model.operation import Operation

_NULL_CELL = quote(NULL_TEXT)
_KEPT = ("tableName", "cursor", "exists", "operationcount")


class ArcionJsonWrite(WriteOptions, frozen=True, kw_only=True):
    """Options of a writer of Arcion's JSON."""

    before_image: Literal["KEY", "ALL"] | None = None
    """The content of `before`: the key, or the whole row; by default as the change has it."""
    after_image: Literal["UPDATED", "ALL"] | None = None
    """The content of `after`: what an update changed, or the whole row; by default as the change has it."""
    mode: Literal["snapshot", "full", "realtime"] | None = None
    """Which mode the records are for; JSON has one layout for all of them."""


def encoder(options: ArcionJsonWrite) -> Encode:
    """A function from one change to its record."""
    chosen = options.before_image is not None or options.after_image is not None

    def encode(out: Outgoing) -> Sequence[Record]:
        change = out.change
        key = change.key.encode() if isinstance(change.key, str) else change.key
        meta = json_text.members(change.meta) if out.native and change.meta else {}
        if change.op is Operation.MESSAGE:
            if "tombstone" not in meta:
                out.lose("message", "Arcion's records hold changes of rows only")
                return []
            return [Record(None, tombstone_key(change, meta))]
        if "row" in meta:
            return [Record(_bare_row(change, meta), key)]
        if "record" in meta and not chosen:
            return [Record(meta["record"], key)]
        row = OutgoingRow.of(change)
        if options.after_image is not None:
            row.choose_after(out, options.after_image)
        if options.before_image is not None:
            row.choose_before(out, options.before_image)
        if "record" in meta:
            record = json_text.members(meta["record"])
            meta = {name: record[name] for name in _KEPT if name in record}
        return [Record(_envelope(out, row, meta, chosen), key)]

    return encode


def _bare_row(change: Change, meta: Mapping[str, bytes]) -> bytes:
    bare_nulls = set(map(json_text.string, json_text.items(meta.get("nulls", b"[]"))))
    cells = json_text.members(change.after or b"{}")
    return json_text.join(
        (name, _NULL_CELL if value == b"null" and name not in bare_nulls else value) for name, value in cells.items()
    )


def _envelope(out: Outgoing, row: OutgoingRow, kept: Mapping[str, bytes], chosen: bool) -> bytes:
    change = out.change
    raw_cursor = kept.get("cursor")
    ours = raw_cursor is None or (b"changeling" in raw_cursor and cursor.read(raw_cursor).changeling is not None)
    if ours:
        row.show_key(change.op is Operation.DELETE)
    if ours and chosen:
        # The cursor describes the images as they were before the user chose others.
        raw_cursor = None
    columns = _columns(out, row, kept)
    if raw_cursor is None:
        raw_cursor = quote(cursor.write(change, out.source, extras_of(change, row, columns)))
    spelled = json_text.members(kept["exists"]) if "exists" in kept else {}
    return json_text.join(
        [
            ("tableName", kept.get("tableName") or table_name.write(change.table)),
            ("opType", quote(LETTERS[change.op])),
            ("cursor", raw_cursor),
            ("before", _image(out, row.before, columns)),
            ("after", _image(out, row.after, columns)),
            ("exists", json_text.join((name, _exists(row, name, spelled.get(name))) for name in columns)),
            ("operationcount", kept.get("operationcount") or quote(counts.write(out.counts))),
        ]
    )


def _columns(out: Outgoing, row: OutgoingRow, kept: Mapping[str, bytes]) -> list[str]:
    """All columns of the record, in order: its original ones, else the schema's, and any other that an image shows."""
    known: Iterable[str] = ()
    if "columns" in kept:
        known = map(json_text.string, json_text.items(kept["columns"]))
    elif "exists" in kept:
        known = json_text.members(kept["exists"])
    elif not out.native and out.schema is not None:
        known = [column.name for column in out.schema.columns]
    return list(dict.fromkeys([*known, *row.columns, *row.after, *row.before]))


def extras_of(change: Change, row: OutgoingRow, columns: list[str]) -> Extras:
    """What Arcion cannot express, to be written into the cursor."""
    extras = Extras()
    if OPERATIONS[LETTERS[change.op]] is not change.op:
        extras.op = change.op
    if row.key:
        same = row.shown_key() == row.key
        extras.key = list(row.key) if same else {name: _key_text(value) for name, value in row.key.items()}
    # An image without columns is none, except where the change has one that shows nothing.
    if row.before_image is not row.seen_before(columns):
        extras.before_image = row.before_image
    if row.after_image is not row.seen_after(columns):
        extras.after_image = row.after_image
    return extras


def _key_text(value: bytes) -> str | None:
    return None if value == b"null" else text_of(value)


def _image(out: Outgoing, cells: Cells, columns: list[str]) -> bytes:
    return json_text.join((name, cell_of(out, name, cells.get(name, b"null"))) for name in columns)


def cell_of(out: Outgoing, name: str, value: bytes) -> bytes:
    """A value in an image; the text `null` is a loss."""
    if value == b"null":
        return _NULL_CELL
    if value == _NULL_CELL or (b"\\" in value and value[:1] == b'"' and json_text.string(value) == NULL_TEXT):
        out.lose("null-text", f"column {name!r} is the text 'null', which Arcion's JSON reads as NULL")
        if name in json_text.members(out.change.key or b"{}"):
            raise LeftOut("null-text")
    return value


def _exists(row: OutgoingRow, name: str, spelled: bytes | None) -> bytes:
    bits = IN_AFTER * (name in row.after) + IN_BEFORE * (name in row.before)
    return b'"%d"' % bits if spelled is None or spelled[:1] == b'"' else b"%d" % bits
