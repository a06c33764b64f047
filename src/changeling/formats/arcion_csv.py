"""`arcion-csv`: the CSV files of Arcion's internal CDC format, rows of a snapshot and realtime rows (seed 000)."""

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Literal, NamedTuple, TypeAlias

import msgspec

from changeling.envelope import message_keys
from changeling.envelope.cells import Cell, Cells
from changeling.envelope.csv_rows import CsvRow, Field, RowStyle
from changeling.envelope.reading import ChangeCells, Reader
from changeling.envelope.rows import ImageColumns, by_rows
from changeling.envelope.writing import RecordCells, Writer, kept
from changeling.formats import arcion
from changeling.formats.arcion import cursor, incoming, outgoing
from changeling.formats.arcion.incoming import Kind, Plan
from changeling.formats.capabilities import carrying
from changeling.formats.framing import COLUMNS, HEADER, CsvRows
from changeling.formats.options import ReadOptions, WriteOptions
from changeling.model import json_text
from changeling.model.change import Change, Record
from changeling.model.errors import Rejected, UsageError
from changeling.model.json_text import quote
from changeling.model.operation import NEW_ROW_OPERATIONS, Image

SUFFIXES = ("_NEW", "_OLD", "_EXISTS")
"""The three fields of each column: the value after the change, the one before it, and which of the two exist."""
METADATA = ("opType", "cursor", "operationcount")
"""The last three fields of a realtime row."""
Letter: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[\x01-\x09\x0b\x0c\x0e-\x7f]\Z")]
"""One ASCII character that does not end a line."""
_texts = msgspec.json.Decoder(list[str | None]).decode
_look = functools.partial(incoming.by_presence, b"null")


class ArcionCsvRead(ReadOptions, frozen=True, kw_only=True):
    """Options of a reader of Arcion's CSV."""

    mode: Literal["snapshot", "full", "realtime"] = "realtime"
    """Which mode wrote the rows: `snapshot` has only the columns, `full` has the layout of `realtime`."""
    header: bool | None = None
    """Whether a file begins with a row of names; by default it does if no columns are given."""
    delimiter: Letter = ","
    """The delimiter of fields."""
    quote: Letter = '"'
    """The quote around a field; inside it is doubled."""
    escape: Letter | None = None
    """The character that escapes the next one."""
    null_text: str = "NULL"
    """The field that is NULL when it is not quoted."""
    trim: bool = False
    """Strips blanks around fields; those inside of quotes stay."""


class ArcionCsvWrite(WriteOptions, frozen=True, kw_only=True):
    """Options of a writer of Arcion's CSV."""

    mode: Literal["snapshot", "full", "realtime"] | None = None
    """Which layout to write; without a choice rows keep the one they were read in, others are `realtime`."""
    include_header: bool = True
    """Whether a file begins with a row of names."""
    delimiter: Letter = ","
    """The delimiter of fields."""
    quote: Letter = '"'
    """The quote around a field that needs one."""
    escape: Letter | None = None
    """The character that escapes a quote inside of quotes; without one, the quote is doubled."""
    null_text: str = "NULL"
    """How NULL is written; a text that looks the same is quoted."""
    before_image: Literal["KEY", "ALL"] | None = None
    """What is OLD: the key, or the whole row; by default as the change has it."""
    after_image: Literal["UPDATED", "ALL"] | None = None
    """What is NEW: what an update changed, or the whole row; by default as the change has it."""


def header_of(columns: Sequence[str], snapshot: bool) -> list[str]:
    """The names of the fields."""
    return list(columns) if snapshot else [name + suffix for name in columns for suffix in SUFFIXES] + list(METADATA)


def columns_of(header: Sequence[str], snapshot: bool) -> tuple[str, ...]:
    """The columns that a header names; the last three names of a realtime header may be others than ours.

    Raises `Rejected` where it is not such a header.
    """
    columns, front = tuple(header), header[: -len(METADATA)]
    if snapshot and columns[-len(METADATA) :] == METADATA:
        raise Rejected(f"the header is one of realtime rows, not of a snapshot: {_shown(header)}; -o mode=realtime")
    if not snapshot:
        columns = tuple(name[: -len(SUFFIXES[0])] for name in front[:: len(SUFFIXES)])
        wanted = header_of(columns, snapshot)[: -len(METADATA)]
        if not columns or [name.lower() for name in front] != [name.lower() for name in wanted]:
            raise Rejected(
                f"not a header of realtime rows: {_shown(header)}; it has c_NEW, c_OLD and c_EXISTS for each column c, then "
                f"{', '.join(METADATA)}. Files without a header need -o header=false and --columns, snapshots -o mode=snapshot"
            )
    if not columns or len(set(columns)) < len(columns) or not all(columns):
        raise Rejected(f"the header names a column twice, or not at all: {_shown(header)}")
    return columns


def wrong_width(found: int, columns: Sequence[str], snapshot: bool) -> str:
    """Why a row with this number of fields does not fit these columns."""
    count, wide = len(columns), len(header_of(columns, snapshot=False))
    names = f"{count} columns ({_shown(columns)})"
    if snapshot:
        hint = "; it has the width of a realtime row: -o mode=realtime" if found == wide else ""
        return f"the row has {found} fields, a snapshot row of {names} has {count}{hint}"
    hint = "; it has the width of a snapshot row: -o mode=snapshot" if found == count else ""
    return f"the row has {found} fields, a realtime row of {names} has 3 x {count} + 3 = {wide}{hint}"


def _shown(names: Iterable[str]) -> str:
    text = ", ".join(names)
    return text if len(text) <= 200 else text[:197] + "..."


def is_header_or_row(fields: Sequence[str]) -> bool:
    """Whether these are the fields of a realtime row or its header. Those of a snapshot show nothing: any CSV looks like them."""
    if len(fields) <= len(METADATA) or len(fields) % len(SUFFIXES):
        return False
    letter, cursor, _ = end = tuple(fields[-len(METADATA) :])
    return end == METADATA or (len(letter) == 1 and letter.isupper() and cursor.startswith("{"))


def framing(options: ArcionCsvRead) -> CsvRows:
    """Rows with a header where one is expected; where columns are given, a first row that is their header is one, too."""
    columns, usual = options.columns_of(options.table), None
    if options.header is None and columns:
        usual = _style(options).print(header_of(columns, options.mode == "snapshot")).encode()
    return CsvRows(options.delimiter, options.quote, options.escape, expects_header(options), usual)


def expects_header(options: ArcionCsvRead) -> bool:
    """Whether the first row of a file names its columns: by the option, else if no columns are given."""
    return not options.columns_of(options.table) if options.header is None else options.header


def _style(options: ArcionCsvRead | ArcionCsvWrite, *, trim: bool = False) -> RowStyle:
    return RowStyle(options.delimiter, options.quote, options.null_text, options.escape, trim=trim)


class _Frame(NamedTuple):
    """What all rows of one file share."""

    columns: tuple[str, ...]
    header: Sequence[Field]
    plan: Plan
    plan_of: Callable[[bytes], Plan]
    """The plan of rows with these EXISTS."""


def reader(options: ArcionCsvRead) -> Reader:
    """A function from a row to its change."""
    if options.header is False and not options.knows_columns:
        raise UsageError("without a header the columns must be given: --columns name:type,… or --schema FILE")
    style, snapshot = _style(options, trim=options.trim), options.mode == "snapshot"

    @functools.lru_cache(maxsize=1024)
    def frame_of(header: bytes | None, topic: str | None) -> _Frame:
        plan = Plan.of(options, options.table_of_topic(topic))
        given = options.columns_of(plan.table)
        columns = given if header is None else _columns(options, style, header, given)
        if not columns:
            raise Rejected("the columns are not known: there is no header, and none are given with --columns")

        @functools.lru_cache(maxsize=4096)
        def plan_of(bits: bytes) -> Plan:
            exists = [options.null_text if bit is None else bit for bit in _texts(bits)]
            return plan._replace(presence=incoming.Presence.of(quote(dict(zip(columns, exists, strict=True)))))

        return _Frame(columns, header_of(columns, snapshot), plan, plan_of)

    def read(cells: Cells, record: Record) -> ChangeCells | Sequence[Change]:
        if record.value is None:
            cells.one_by_one()
            return [message_keys.tombstone(record, options.table_of_topic(record.topic))]
        header = None if options.header is False else dict(record.headers).get(HEADER)
        frame = cells.common(cells.each(functools.partial(frame_of, header), record.topic))
        row = cells.csv_row(record.value, style)
        if (options.header is None or not snapshot) and len(row.fields) == len(frame.header):
            same = map(cells.equal, row.fields, frame.header)
            cells.expect(~functools.reduce(operator.and_, same), _HEADER_AS_ROW)
        elif len(row.fields) != len(frame.header):
            cells.refuse(wrong_width(len(row.fields), frame.columns, snapshot))
        if not snapshot:
            return _operation(cells, frame, row, record.value)
        values = dict(zip(frame.columns, map(cells.quoted, row.fields), strict=True))
        return incoming.row_found(
            cells, frame.plan, values, None if row.usual else quote({"record": record.value.decode()})
        )

    return read


_HEADER_AS_ROW = "the row is a header: with -o header=true the first row of each file is taken for one"


def _columns(options: ArcionCsvRead, style: RowStyle, header: bytes, given: tuple[str, ...]) -> tuple[str, ...]:
    """The columns of a file by its header; one of other names than ours still counts those that the user gave."""
    fields = style.split(header.decode().removeprefix("\ufeff")).fields
    names = [options.null_text if name is None else name for name in fields]
    snapshot = options.mode == "snapshot"
    try:
        return columns_of(names, snapshot)
    except Rejected:
        if not given or len(names) != len(header_of(given, snapshot)):
            raise
        return given


def _operation(cells: Cells, frame: _Frame, row: CsvRow, text: Cell) -> ChangeCells:
    """A realtime row."""
    fields, width = [cells.quoted(field) for field in row.fields], 3 * len(frame.columns)
    raw_cursor, counts = fields[width + 1 :]
    plan = cells.each(frame.plan_of, cells.array_of(fields[2:width:3]))
    letter = cells.first(row.fields[width], "NULL")
    read_cursor = cursor.read(cells, raw_cursor)
    noted = cells.fields(read_cursor.changeling)
    kind = incoming.kind_of(cells, plan, letter, noted)

    def made(part: Cells, kind: Kind, *values: Cell) -> Sequence[Cell]:
        new, old = (dict(zip(frame.columns, values[start::2], strict=True)) for start in (0, 1))
        return incoming.row_of(_look, kind, part, old, new)

    *found, usual = cells.by_value(made, kind, *(field for at, field in enumerate(fields[:width]) if at % 3 < 2))
    change = incoming.change_of(cells, kind, read_cursor, noted, found)
    # A full row after the change, or before a delete, has the columns and their order.
    full = cells.equal(change.after_image, Image.FULL)
    full |= cells.equal(change.before_image, Image.FULL) & ~cells.present(change.after)
    meta = {
        "columns": cells.where(full, None, quote(frame.columns)),
        "cursor": raw_cursor,
        "operationcount": counts,
        "record": cells.where(cells.mask(usual) & cells.mask(row.usual), None, cells.quoted(text)),
    }
    return change._replace(meta=cells.sparse(meta))


def writer(options: ArcionCsvWrite) -> Writer:
    """A function from a change to its row."""
    style = _style(options)
    header_name = HEADER if options.include_header else COLUMNS
    chosen = options.before_image is not None or options.after_image is not None

    @functools.lru_cache(maxsize=1024)
    def header_text(snapshot: bool, names: bytes) -> bytes:
        return style.print(header_of(outgoing.names_in(names), snapshot)).encode()

    def write(cells: Cells, out: Cell) -> Sequence[RecordCells]:
        change, meta = out.change, kept(cells, out)
        if not cells.usually(cells.one_of(change.op, outgoing.ROWS)):
            return outgoing.without_row(cells, out, meta)
        was_snapshot = out.native and "cursor" not in meta
        snapshot = was_snapshot if options.mode is None else options.mode == "snapshot"
        becomes_snapshot = snapshot and not was_snapshot
        if becomes_snapshot:
            _check_snapshot(cells, out)
            if not cells.usually(cells.equal(change.after_image, Image.FULL)):
                return []
        raw_cursor = meta.get("cursor")
        ours = not snapshot and outgoing.is_ours(cells, raw_cursor)

        def made(cells: Cells, given: ImageColumns, kept_names: Cell) -> Sequence[Cell]:
            """The fields of the columns, their names, and what the cursor notes."""
            row = outgoing.OutgoingRow(out, cells, given)
            if not snapshot:
                row.choose(options.before_image, options.after_image)
            if ours or becomes_snapshot:
                row.show_key()
            apart = [name for name in row.key if name not in row.held]
            names = row.names(None if kept_names is None else outgoing.names_in(cells.common(kept_names)), apart)
            fields: list[Cell] = []
            for name in names:
                fields.append(cells.csv_field(row.after.get(name)))
                if not snapshot:
                    fields += (cells.csv_field(row.before.get(name)), str(row.exists(name)))
            return cells.csv_text(fields, style), quote(names), row.note(names) if ours else None

        value, names, note = by_rows(cells, change, made, meta.get("columns"))
        lacking = cells.equal(names, b"[]")
        cells.lose(out, lacking, "keys-only", "a row of CSV has columns, and this change has neither a key nor a value")
        if not snapshot:
            # Our cursor describes the images as they were before the user chose others.
            is_new = raw_cursor is None or (ours and chosen)
            place = cursor.write(cells, out, note) if is_new else cells.text(cells.value(meta, "cursor"))
            counted = "operationcount" in meta
            counts = cells.text(cells.value(meta, "operationcount")) if counted else outgoing.totals(cells, out)
            end = cells.csv_text([cells.each(incoming.LETTERS.get, change.op), place, counts], style)
            value = cells.joined(value, options.delimiter.encode(), end)
        if "record" in meta:
            cells.one_by_one()
            value = _original(style, json_text.string(meta["record"]), value.decode(), snapshot)
        empty = cells.equal(value, b"")
        cells.lose(out, empty & ~lacking, "null", "a row of one column that is NULL is an empty line; set null_text")
        header = cells.each(functools.partial(header_text, snapshot), names)
        return [RecordCells(value, change.key, headers=[(header_name, header)], where=~(lacking | empty))]

    return write


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
    for place in range(2, len(said) - len(METADATA), 3):
        bits = said[place] or "0"
        if bits in "02":
            said[place - 2] = None
        if bits in "01":
            said[place - 1] = None
    return said


def _check_snapshot(cells: Cells, out: Cell) -> None:
    """Loses what a row of a snapshot cannot express."""
    change = out.change
    if not cells.usually(cells.one_of(change.op, NEW_ROW_OPERATIONS)):
        out.lose(change.op.value, f"a snapshot contains rows as they are found, and no {change.op.value}s")
    losses = {
        "keys-only": (cells.equal(change.after_image, Image.NONE), f"{_FULL}, and this change has only the key"),
        "partial": (cells.equal(change.after_image, Image.PARTIAL), f"{_FULL}, and this change has only part of one"),
        "before": (cells.one_of(change.before_image, (Image.FULL, Image.PARTIAL)), "a snapshot contains each row once"),
        "commit_time": (cells.present(change.commit_time), "rows of a snapshot have no time"),
        "transaction": (cells.present(change.transaction), "rows of a snapshot have no transaction"),
        "position": (~cells.mask(out.arrived), "rows of a snapshot have no position"),
    }
    for feature, (condition, why) in losses.items():
        cells.lose(out, condition, feature, why)


_FULL = "a snapshot contains full rows"

FORMAT = arcion.dialect(
    name="arcion-csv",
    summary="Arcion's internal CDC format as CSV: rows of a snapshot, or NEW, OLD and EXISTS of each column",
    read_options=ArcionCsvRead,
    write_options=ArcionCsvWrite,
    reader=reader,
    writer=writer,
    # A file is one table, and does not say which: catalog, schema and name come from the reader's options.
    carries=carrying(all_but=(*arcion.NOT_CARRIED, "table")),
    framing=framing,
    names_table=False,
    row_sign=is_header_or_row,
)
