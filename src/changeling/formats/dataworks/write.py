"""Changes into DataWorks' rows: the five metadata fields, then the columns; an update is two rows of one sequence id."""

import functools
from collections.abc import Sequence

import msgspec

from changeling.envelope import message_keys
from changeling.envelope.cells import Cell, Cells, Members
from changeling.envelope.csv_rows import RowStyle
from changeling.envelope.rows import Row
from changeling.envelope.writing import RecordCells, Writer, kept, milliseconds
from changeling.formats.dataworks import sequence
from changeling.formats.dataworks.envelope import (
    AFTER,
    BEFORE,
    FLAGS,
    LETTERS,
    OPERATION,
    RESERVED,
    SEQUENCE,
    SOURCE_TABLE,
    TIME,
    TYPES,
    roles_of,
)
from changeling.formats.dataworks.options import DataworksWrite
from changeling.formats.dataworks.rows import sides
from changeling.formats.framing import HEADER
from changeling.model import json_text, position
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName, schema_from_json

_ROWS = [operation.value for operation in LETTERS]


def writer(options: DataworksWrite) -> Writer:
    """A function from a change to its rows."""
    style = RowStyle(options.delimiter, options.quote, options.null_text)
    header_of = functools.lru_cache(maxsize=1024)(functools.partial(_header, style))

    def write(cells: Cells, out: Cell) -> Sequence[RecordCells]:
        change = out.change
        topic = cells.each(topic_of, change.table)
        meta = kept(cells, out)
        if not cells.only(cells.one_of(change.op, _ROWS)):
            return [RecordCells(None, message_keys.restored(cells, meta, change.key), topic)]
        read_in = "csv" if "layout" in meta else "json"
        layout = options.layout or (read_in if out.native else "json")
        if "envelope" in meta or "quoted" in meta or (read_in == "csv" and layout == "json"):
            cells.alone()
        # What surrounded the row is worth keeping only in its original layout.
        shell = json_text.members(meta["envelope"]) if "envelope" in meta and layout == read_in else None
        named = options.source_table or b"_source_table_" in meta.get("envelope", b"")
        metadata = _metadata(cells, out, options.start, named) if shell is None else {}
        rows = sides(cells, out, _nothing if out.native else _check_names)
        records = []
        for side, image, key, size in (
            ("before", rows.before, rows.old_key, change.before_image),
            ("after", rows.after, change.key, change.after_image),
        ):
            flags = dict(zip((BEFORE, AFTER), map(quote, FLAGS[side]), strict=True))
            there = cells.present(image)
            own_key = message_keys.restored(cells, meta, key)
            if layout == read_in == "json" or not cells.any(there):
                value = _in_shell(shell, flags, image) if shell else _json(cells, {**metadata, **flags}, image)
                records.append(RecordCells(value, own_key, topic, where=there))
            elif layout == "json":
                value = _json(cells, {**metadata, **flags}, _typed(image, change.schema))
                records.append(RecordCells(value, own_key, topic))
            else:
                row = _every_column(cells, out, image, size)
                needless = msgspec.json.decode(meta.get("quoted", b"[]"), type=set[str])
                value, names = _csv(cells, style, {**metadata, **flags}, shell, needless, row)
                headers = [(HEADER, cells.each(header_of, names))]
                records.append(RecordCells(value, own_key, topic, headers, where=there))
        return records

    return write


def topic_of(table: TableName | None) -> str | None:
    """The topic of a table: its name."""
    return None if table is None else table.name


def _metadata(cells: Cells, out: Cell, start: int, named: bool) -> Members:
    change = out.change
    found = {
        SEQUENCE: cells.quoted(_own_sequence(cells, change))
        if out.native
        else cells.joined(b'"', cells.digits(cells.plus(out.running, start - 1)), b'"'),
        OPERATION: cells.each(_letter, change.op),
        TIME: _time(cells, out),
        BEFORE: b"",
        AFTER: b"",
    }
    if named:
        found[SOURCE_TABLE] = cells.each(_source_table, change.table)
    return found


def _letter(op: Operation) -> bytes:
    return quote(LETTERS[op])


def _source_table(table: TableName | None) -> bytes:
    return quote(None if table is None else table.name)


def _own_sequence(cells: Cells, change: Cell) -> Cell:
    name = cells.fields(change.transaction).id
    return name if cells.only(cells.present(name)) else str(position.decode(change.position or "")[0])


def _time(cells: Cells, out: Cell) -> Cell:
    millis = milliseconds(cells, out, "a record's time has milliseconds, this one has more digits")
    seconds = sequence.means_seconds(cells, millis)
    cells.lose(
        out,
        seconds,
        "commit_time",
        lambda: f"the time {millis} in milliseconds has ten digits, which readers take for seconds",
    )
    return cells.digits(cells.where(seconds, None, millis))


def _nothing(cells: Cells, row: Row) -> Sequence[Cell]:
    return ()


def _check_names(cells: Cells, row: Row) -> Sequence[Cell]:
    for name in (*(row.before or ()), *(row.after or ())):
        if name in RESERVED:
            cells.refuse(f"the column {name!r} has the name of a metadata field")
    return ()


def _json(cells: Cells, metadata: Members, image: Cell) -> Cell:
    """A record: the metadata, then the row."""
    parts: list[Cell] = []
    for name, text in metadata.items():
        parts += [(b"," if parts else b"{") + json_text.head(name), text]
    return cells.with_front(cells.joined(*parts), image)


def _in_shell(shell: dict[str, bytes], flags: dict[str, bytes], image: str | bytes | None) -> bytes | None:
    return None if image is None else json_text.join(_fields_in(shell, flags, json_text.members(image)).items())


def _fields_in(shell: dict[str, bytes], flags: dict[str, bytes], row: dict[str, bytes]) -> dict[str, bytes]:
    """The record as it was: metadata in its places and under its names, the row's values between."""
    taken = {name: role for role, name in roles_of(shell).items()}
    found = {
        name: flags.get(taken[name], part) if name in taken else row[name]
        for name, part in shell.items()
        if name in taken or name in row
    }
    return {**found, **row}


def _every_column(cells: Cells, out: Cell, image: Cell, size: Cell) -> Cell:
    if out.native or cells.only(cells.equal(size, Image.FULL) | ~cells.present(image)):
        return image
    row, schema = json_text.members(image), out.schema
    names = [column.name for column in schema.columns] if schema is not None else list(row)
    if any(name not in row for name in names):
        out.lose("partial", "a row of CSV has a field for every column, and cannot leave one out")
    return json_text.join({**{name: row.get(name, b"null") for name in names}, **row}.items())


def _csv(
    cells: Cells, style: RowStyle, metadata: Members, shell: Members | None, needless: set[str], row: Cell
) -> Sequence[Cell]:
    """A row of CSV, and the names of its fields."""

    def made(part: Cells, columns: Members | None, *own: Cell) -> Sequence[Cell]:
        given, row = dict(zip(metadata, own, strict=True)), columns or {}
        found = _fields_in(shell, given, row) if shell else {**given, **row}
        quoted = [place for place, name in enumerate(found) if name in needless]
        return part.csv_text([part.csv_field(value) for value in found.values()], style, quoted), quote([*found])

    return cells.by_members(made, (row,), *metadata.values())


def _header(style: RowStyle, names: bytes) -> bytes:
    return style.print(list(map(json_text.string, json_text.items(names)))).encode()


def _typed(image: str | bytes, text: str | None) -> str | bytes:
    """Texts of CSV as the values of JSON, where the columns' types are known."""
    if text is None:
        return image
    schema = schema_from_json(text)
    pairs = []
    for name, raw in json_text.members(image).items():
        column = schema.column(name)
        if column is not None and raw != b"null":
            try:
                raw = TYPES.reader(column.canonical)(raw)
            except Rejected as error:
                raise Rejected(f"column {name!r}: {error}") from None
            write = TYPES.writer(column.canonical)
            raw = raw if write is None else write(raw)
        pairs.append((name, raw))
    return json_text.join(pairs)
