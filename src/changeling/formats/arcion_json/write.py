"""Changes into Arcion's JSON records: native ones as they were, others with a cursor that contains what Arcion cannot express."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from changeling.envelope import message_keys
from changeling.envelope.cells import Cell, Cells, Members
from changeling.envelope.rows import Row, by_rows
from changeling.envelope.writing import RecordCells, Writer, kept
from changeling.formats.arcion_json import cursor, table_name
from changeling.formats.arcion_json.envelope import LETTERS, MEMBERS, NULL_CELL
from changeling.formats.arcion_json.images import IN_AFTER, IN_BEFORE
from changeling.formats.arcion_json.row import OutgoingRow
from changeling.formats.options import WriteOptions
from changeling.model import json_text
from changeling.model.change import Change
from changeling.model.json_text import quote
from changeling.model.operation import Operation

_KEPT = ("tableName", "cursor", "exists", "operationcount")
ROWS = [operation.value for operation in LETTERS]


class ArcionJsonWrite(WriteOptions, frozen=True, kw_only=True):
    """Options of a writer of Arcion's JSON."""

    before_image: Literal["KEY", "ALL"] | None = None
    """The content of `before`: the key, or the whole row; by default as the change has it."""
    after_image: Literal["UPDATED", "ALL"] | None = None
    """The content of `after`: what an update changed, or the whole row; by default as the change has it."""
    mode: Literal["snapshot", "full", "realtime"] | None = None
    """Which mode the records are for; JSON has one layout for all of them."""


def writer(options: ArcionJsonWrite) -> Writer:
    """A function from a change to its record."""
    chosen = options.before_image is not None or options.after_image is not None

    def write(cells: Cells, out: Cell) -> Sequence[RecordCells]:
        change, meta = out.change, kept(cells, out)
        if not cells.only(cells.one_of(change.op, ROWS)):
            return without_row(cells, out, meta)
        if "row" in meta:
            cells.alone()
            return [RecordCells(_bare_row(change, meta), change.key)]
        if "record" in meta:
            cells.alone()
            if not chosen:
                return [RecordCells(meta["record"], change.key)]
            record = json_text.members(meta["record"])
            meta = {name: record[name] for name in _KEPT if name in record}
        raw_cursor = meta.get("cursor")
        ours = is_ours(cells, raw_cursor)
        make = functools.partial(_row, out, options, ours)
        before, after, exists, note = by_rows(cells, change, make, meta.get("columns"), meta.get("exists"))
        if raw_cursor is None or (ours and chosen):
            # Our cursor describes the images as they were before the user chose others.
            raw_cursor = cells.quoted(cursor.write(cells, out, note))
        table = meta.get("tableName")
        members = (
            cells.each(table_name.write, change.table) if table is None else table,
            cells.each(letter, change.op),
            raw_cursor,
            before,
            after,
            exists,
            meta.get("operationcount") or cells.quoted(totals(cells, out)),
        )
        return [RecordCells(cells.shell(dict(zip(MEMBERS, members, strict=True))), change.key)]

    return write


def is_ours(cells: Cells, raw_cursor: Cell) -> bool:
    """Whether we wrote the cursor, or will."""
    if raw_cursor is None or not cells.branch(cells.contains(raw_cursor, [b"changeling"])):
        return raw_cursor is None
    return cells.branch(cells.present(cells.fields(cursor.read(cells, raw_cursor).changeling)))


def letter(op: Operation) -> bytes:
    """The letter of an operation."""
    return quote(LETTERS[op])


def without_row(cells: Cells, out: Any, meta: Members) -> list[RecordCells]:
    """A tombstone; any other message is a loss."""
    if "tombstone" not in meta:
        out.lose("message", "Arcion's records hold changes of rows only")
        return []
    return [RecordCells(None, message_keys.restored(cells, meta, out.change.key))]


def totals(cells: Cells, out: Cell) -> Cell:
    """Arcion's `operationcount`: how many operations of each kind an output contains so far."""
    kinds = ("insert", "update", "delete", "replace")
    return cells.shell({f"{kind}Count": cells.digits(getattr(out.counts, kind)) for kind in kinds})


def _bare_row(change: Change, meta: Mapping[str, bytes]) -> bytes:
    bare_nulls = set(map(json_text.string, json_text.items(meta.get("nulls", b"[]"))))
    cells = json_text.members(change.after or b"{}")
    return json_text.join(
        (name, NULL_CELL if value == b"null" and name not in bare_nulls else value) for name, value in cells.items()
    )


def _row(
    out: Cell, options: ArcionJsonWrite, ours: bool, cells: Cells, given: Row, columns: Cell, exists: Cell
) -> Sequence[Cell]:
    """Both images, `exists`, and what the cursor notes."""
    row = OutgoingRow.of(cells, given)
    held = row.columns
    row.choose(out, options.before_image, options.after_image)
    if ours:
        row.show_key(row.op is Operation.DELETE)
    spelled = json_text.members(cells.common(exists)) if exists is not None else {}
    names = _columns(row, cells.common(columns), spelled, held, out.native)
    images = (
        cells.shell({name: row.cell(out, name, image.get(name, b"null")) for name in names})
        for image in (row.before, row.after)
    )
    bits = {name: _exists(row, name, spelled.get(name)) for name in names}
    return *images, json_text.join(bits.items()), json_text.join(row.note(names).items()) if ours else None


def _columns(
    row: OutgoingRow, kept_names: bytes | None, spelled: Iterable[str], held: Sequence[str], native: bool
) -> list[str]:
    """All columns of the record, in order: its original ones, else the schema's, and any other that an image shows."""
    known: Iterable[str] = () if native else row.known_columns
    if kept_names is not None:
        known = map(json_text.string, json_text.items(kept_names))
    elif spelled:
        known = spelled
    return list(dict.fromkeys([*known, *held, *row.after, *row.before]))


def _exists(row: OutgoingRow, name: str, spelled: bytes | None) -> bytes:
    bits = IN_AFTER * (name in row.after) + IN_BEFORE * (name in row.before)
    return b'"%d"' % bits if spelled is None or spelled[:1] == b'"' else b"%d" % bits
