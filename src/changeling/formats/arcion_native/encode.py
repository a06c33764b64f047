"""Changes into Arcion's NATIVE records: native ones as they were, others with a cursor that contains what Arcion cannot express."""

from collections.abc import Mapping, Sequence

from changeling.formats.arcion_json import cursor, table_name
from changeling.formats.arcion_json.encode import cell_of, extras_of
from changeling.formats.arcion_json.envelope import LETTERS, NULL_TEXT
from changeling.formats.arcion_json.row import Cells, OutgoingRow
from changeling.formats.format import Encode, Outgoing
from changeling.formats.options import WriteOptions
from changeling.model import json_text
from changeling.model.change import Change, Record
from changeling.model.json_text import quote
from changeling.model.operation import Operation

_NULL_CELL = quote(NULL_TEXT)


class ArcionNativeWrite(WriteOptions, frozen=True, kw_only=True):
    """NATIVE records leave no choice."""


def encoder(options: ArcionNativeWrite) -> Encode:
    """A function from one change to its record."""
    return encode


def encode(out: Outgoing) -> Sequence[Record]:
    """The record of a change; refuses what is no change of a row."""
    change = out.change
    key = change.key.encode() if isinstance(change.key, str) else change.key
    meta = json_text.members(change.meta) if out.native and change.meta else {}
    if "message_key" in meta:
        key = json_text.string(meta["message_key"]).encode()
    if change.op is Operation.MESSAGE:
        if "tombstone" not in meta:
            out.lose("message", "Arcion's records hold changes of rows only")
        return [Record(None, key)]
    if "row" in meta:
        return [Record(_bare_row(change, meta), key)]
    return [Record(meta.get("record") or _envelope(out, meta), key)]


def _bare_row(change: Change, meta: Mapping[str, bytes]) -> bytes:
    texts = set(map(json_text.string, json_text.items(meta.get("null_texts", b"[]"))))
    cells = json_text.members(change.after or b"{}")
    return json_text.join((name, _NULL_CELL if name in texts else value) for name, value in cells.items())


def _envelope(out: Outgoing, kept: Mapping[str, bytes]) -> bytes:
    change = out.change
    row = OutgoingRow.of(change)
    raw_cursor = kept.get("cursor")
    if raw_cursor is None or (b"changeling" in raw_cursor and cursor.read(raw_cursor).changeling is not None):
        row.show_key(change.op is Operation.DELETE)
    if raw_cursor is None:
        raw_cursor = _cursor(out, row)
    return json_text.join(
        [
            ("tableName", kept.get("tableName") or table_name.write(change.table)),
            ("opType", quote(LETTERS[change.op])),
            ("cursor", raw_cursor),
            ("before", _image(out, row.before)),
            ("after", _image(out, row.after)),
        ]
    )


def _cursor(out: Outgoing, row: OutgoingRow) -> bytes:
    extras = extras_of(out.change, row, [])
    # What a reader takes for a full row depends on what it knows of the table: so it is always written.
    extras.before_image, extras.after_image = row.before_image, row.after_image
    return cursor.write(out.change, out.source, extras).encode()


def _image(out: Outgoing, cells: Cells) -> bytes:
    """One side as an object, null where it shows nothing; the text `null` is a loss, since it is read as NULL."""
    if not cells:
        return b"null"
    return json_text.join(
        (name, value if value == b"null" else cell_of(out, name, value)) for name, value in cells.items()
    )
