"""`arcion-json`: the JSON files of Arcion's internal CDC format (seed 000): the envelope of all modes, and the bare row of a snapshot.

`arcion-native` is the same envelope without its last two members, and another spelling of NULL.
"""

import functools
from collections.abc import Sequence
from operator import attrgetter
from typing import Literal, NamedTuple

import msgspec

from changeling.envelope import message_keys
from changeling.envelope.cells import Cell, Cells, Members, Names
from changeling.envelope.reading import ChangeCells, Reader
from changeling.envelope.rows import ImageColumns, by_rows
from changeling.envelope.scalar_cells import SCALARS
from changeling.envelope.writing import RecordCells, Writer, kept
from changeling.formats import arcion
from changeling.formats.arcion import cursor, incoming, outgoing, table_name
from changeling.formats.arcion.incoming import NULL_CELL, Kind, Plan
from changeling.formats.capabilities import carrying
from changeling.formats.options import ReadOptions, WriteOptions
from changeling.model import json_text
from changeling.model.change import Change, Record
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Operation

MEMBERS = ("tableName", "opType", "cursor", "before", "after", "exists", "operationcount")
"""The members of a record in the order in which Arcion writes them."""
_KEPT = ("tableName", "cursor", "exists", "operationcount")
"""What is used of a record that is kept as a whole, and whose images are to be others."""
_letter = json_text.labelled("opType", msgspec.json.Decoder(str).decode)
_LETTERS = {operation: quote(letter) for operation, letter in incoming.LETTERS.items()}
_OBJECTS = {side: json_text.labelled(side, json_text.members) for side in ("before", "after")}


class Layout(NamedTuple):
    """What distinguishes Arcion's two dialects of JSON."""

    members: Names
    null: bytes
    """How NULL is spelled."""
    other_null: bytes
    """Is read as NULL, too."""
    other_nulls: str
    """The member of `meta` that names the columns of a bare row with that spelling."""
    look: incoming.Look

    @property
    def has_exists(self) -> bool:
        """Records say which image shows which columns; the others have message keys of their own instead."""
        return "exists" in self.members


JSON = Layout(MEMBERS, NULL_CELL, b"null", "nulls", functools.partial(incoming.by_presence, NULL_CELL))


class ArcionJsonRead(ReadOptions, frozen=True, kw_only=True):
    """Options of a reader of Arcion's JSON."""

    mode: Literal["snapshot", "full", "realtime"] | None = None
    """Which mode wrote the records; JSON has one layout for all of them."""


class ArcionJsonWrite(WriteOptions, frozen=True, kw_only=True):
    """Options of a writer of Arcion's JSON."""

    before_image: Literal["KEY", "ALL"] | None = None
    """The content of `before`: the key, or the whole row; by default as the change has it."""
    after_image: Literal["UPDATED", "ALL"] | None = None
    """The content of `after`: what an update changed, or the whole row; by default as the change has it."""
    mode: Literal["snapshot", "full", "realtime"] | None = None
    """Which mode the records are for; JSON has one layout for all of them."""


def reader(options: ArcionJsonRead) -> Reader:
    """A function from a record to its change."""
    return reader_of(JSON, options, is_snapshot=options.mode == "snapshot")


def reader_of(layout: Layout, options: ReadOptions, *, is_snapshot: bool = False) -> Reader:
    """A function from a record of that layout to its change; inserts of a snapshot have no position in any log."""
    known = functools.lru_cache(maxsize=4096)(functools.partial(Plan.of, options))

    @functools.lru_cache(maxsize=4096)
    def plan_of(raw_table: bytes, exists: bytes) -> Plan:
        name, presence = table_name.read(raw_table), incoming.Presence.of(exists)
        head = {"tableName": json_text.compact(raw_table)}
        if not layout.has_exists and head["tableName"] == json_text.compact(table_name.write(name)):
            del head["tableName"]
        if layout.has_exists and (presence.columns or None) not in (presence.before, presence.after):
            head["columns"] = quote(presence.columns)
        if not presence.as_text:
            head["exists"] = json_text.compact(exists)
        start = json_text.join(head.items())[:-1] + (b"," if head else b"")
        return known(name or options.table)._replace(presence=presence, kept=start)

    def read(cells: Cells, record: Record) -> ChangeCells | Sequence[Change]:
        members = {} if record.value is None else cells.members(record.value)
        if "opType" not in members:
            cells.one_by_one()
            table = options.table_of_topic(record.topic)
            if record.value is None:
                return [message_keys.tombstone(record, table)]
            return _bare_row(layout, Plan.of(options, table), members, record.key)
        if "exists" in members and not layout.has_exists:
            cells.refuse("a record with `exists` is one of Arcion's JSON files: read it as arcion-json")
        for name in ("cursor", "exists"):
            if name in layout.members and name not in members:
                cells.refuse(f"not a record of Arcion: it has no {name!r}")
        plan = cells.each(plan_of, members.get("tableName", b"null"), members.get("exists", b"{}"))
        sides = [cells.value(members, side) for side in _OBJECTS]
        for check, raw in zip(_OBJECTS.values(), sides, strict=True):
            if raw is not None and not cells.usually(cells.starts(raw, b"{") | ~cells.present(raw)):
                check(raw)
        read_cursor = cursor.read(cells, members["cursor"])
        noted = cells.fields(read_cursor.changeling)
        kind = incoming.kind_of(cells, plan, cells.each(_letter, members["opType"]), noted)
        *row, usual = cells.by_value(functools.partial(_row, layout), kind, *sides)
        change = incoming.change_of(cells, kind, read_cursor, noted, row)
        if is_snapshot:
            found = cells.equal(change.op, Operation.INSERT) & ~cells.present(change.position)
            change = change._replace(op=cells.where(found, Operation.READ, change.op))
        if tuple(members) == layout.members and cells.usually(cells.mask(usual)):
            # Those of a group have no blanks that would have to go.
            raw_cursor = members["cursor"] if cells.is_columnar else json_text.compact(members["cursor"])
            counts = [b',"operationcount":', members["operationcount"]] if layout.has_exists else []
            meta = cells.joined(cells.each(attrgetter("kept"), plan), b'"cursor":', raw_cursor, *counts, b"}")
        else:
            cells.one_by_one()
            meta = json_text.join([("record", json_text.compact(record.value or b""))])
        if not layout.has_exists:
            meta = cells.merged(meta, cells.sparse(message_keys.kept(cells, record.key, change.key)))
        return change._replace(meta=meta)

    return read


def _row(layout: Layout, cells: Cells, kind: Kind, *sides: Cell) -> Sequence[Cell]:
    """As `row_of`; a side that says nothing, as that before an insert, is known without taking it apart."""
    presence = kind.plan.presence
    shown = zip((presence.before, presence.after), sides, strict=True)
    known = [not names and cells.all(cells.equal(side, presence.silent)) for names, side in shown]

    def made(part: Cells, *found: Members | None) -> Sequence[Cell]:
        given = iter(found)
        nothing = dict.fromkeys(presence.columns, NULL_CELL)
        old, new = (nothing if is_known else next(given) for is_known in known)
        return incoming.row_of(layout.look, kind, part, old, new)

    return cells.by_shape(made, [side for side, is_known in zip(sides, known, strict=True) if not is_known])


def _bare_row(layout: Layout, plan: Plan, members: dict[str, bytes], message_key: bytes | None) -> ChangeCells:
    if members.get("tableName", b"")[:1] == b"{" or not members:
        raise Rejected("not a record of Arcion: it has no 'opType'")
    if plan.table is None:
        raise Rejected("a bare row names no table; say which with --table")
    row = {name: b"null" if value == NULL_CELL else value for name, value in members.items()}
    change = incoming.row_found(SCALARS, plan, row)
    meta, odd = {"row": b"true"}, [name for name, value in members.items() if value == layout.other_null]
    if odd:
        meta[layout.other_nulls] = quote(odd)
    if not layout.has_exists:
        meta |= message_keys.kept(SCALARS, message_key, change.key)
    return change._replace(meta=json_text.join(meta.items()))


def writer(options: ArcionJsonWrite) -> Writer:
    """A function from a change to its record."""
    return writer_of(JSON, options.before_image, options.after_image)


def writer_of(
    layout: Layout, before: Literal["KEY", "ALL"] | None = None, after: Literal["UPDATED", "ALL"] | None = None
) -> Writer:
    """A function from a change to its record of that layout, with these images."""
    chosen = before is not None or after is not None

    def write(cells: Cells, out: Cell) -> Sequence[RecordCells]:
        change, meta = out.change, kept(cells, out)
        if not cells.usually(cells.one_of(change.op, outgoing.ROWS)):
            return outgoing.without_row(cells, out, meta)
        key = message_keys.restored(cells, meta, change.key)
        if "row" in meta:
            cells.one_by_one()
            return [RecordCells(_bare_row_text(layout, change, meta), key)]
        if "record" in meta:
            cells.one_by_one()
            if not chosen:
                return [RecordCells(meta["record"], key)]
            record = json_text.members(meta["record"])
            meta = {name: record[name] for name in _KEPT if name in record}
        raw_cursor, table = meta.get("cursor"), meta.get("tableName")
        ours = outgoing.is_ours(cells, raw_cursor)

        def made(cells: Cells, given: ImageColumns, columns: Cell, exists: Cell) -> Sequence[Cell]:
            """Both images, `exists`, and what the cursor notes."""
            row = outgoing.OutgoingRow(out, cells, given)
            row.choose(before, after)
            if ours:
                row.show_key()
            if not layout.has_exists:
                # What a reader takes for a full row depends on what it knows of the table: so it is always noted.
                sides = (row.image(side, side, layout.null) if side else b"null" for side in (row.before, row.after))
                return *sides, None, row.note(None)
            spelled = {} if exists is None else json_text.members(cells.common(exists))
            names = row.names(spelled or None if columns is None else outgoing.names_in(cells.common(columns)))
            sides = (row.image(side, names, layout.null) for side in (row.before, row.after))
            bits = {name: row.exists(name) for name in names}
            shown = {name: bit if spelled.get(name, b'"')[:1] != b'"' else str(bit) for name, bit in bits.items()}
            return *sides, quote(shown), row.note(names) if ours else None

        shown_before, shown_after, exists, note = by_rows(cells, change, made, meta.get("columns"), meta.get("exists"))
        if raw_cursor is None or (ours and chosen):
            # Our cursor describes the images as they were before the user chose others.
            raw_cursor = cursor.write(cells, out, note)
            raw_cursor = cells.quoted(raw_cursor) if layout.has_exists else raw_cursor
        members = {
            "tableName": cells.each(table_name.write, change.table) if table is None else table,
            "opType": cells.each(_LETTERS.get, change.op),
            "cursor": raw_cursor,
            "before": shown_before,
            "after": shown_after,
        }
        if layout.has_exists:
            counts = meta.get("operationcount")
            members |= {
                "exists": exists,
                "operationcount": cells.quoted(outgoing.totals(cells, out)) if counts is None else counts,
            }
        return [RecordCells(cells.json_object(members), key)]

    return write


def _bare_row_text(layout: Layout, change: Change, meta: Members) -> bytes:
    others = outgoing.names_in(meta.get(layout.other_nulls, b"[]"))
    return json_text.join(
        (name, value if value != b"null" else layout.other_null if name in others else layout.null)
        for name, value in json_text.members(change.after or b"{}").items()
    )


FORMAT = arcion.dialect(
    name="arcion-json",
    summary="Arcion's internal CDC format as JSON: every value as text, presence in `exists`, order in `cursor`",
    read_options=ArcionJsonRead,
    write_options=ArcionJsonWrite,
    reader=reader,
    writer=writer,
    carries=carrying(all_but=(*arcion.NOT_CARRIED, "null-text")),
    signs=(("opType", "exists"),),
)
