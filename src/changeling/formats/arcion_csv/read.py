"""Rows of Arcion's CSV into changes: rows of a snapshot, and operations with NEW, OLD and EXISTS of each column."""

import functools
import operator
from collections.abc import Sequence

import msgspec

from changeling.envelope import message_keys
from changeling.envelope.cells import Cell, Cells, Members
from changeling.envelope.csv_rows import Field, Row, RowStyle
from changeling.envelope.reading import ChangeCells, Reader
from changeling.formats.arcion_csv import envelope
from changeling.formats.arcion_csv.options import ArcionCsvRead
from changeling.formats.arcion_json import images
from changeling.formats.arcion_json.assembly import RecordPlan, Shown, change_of, key_of, known, table_of_topic
from changeling.formats.framing import HEADER, CsvRows
from changeling.model.change import Change, Record
from changeling.model.errors import Rejected, UsageError
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName

_texts = msgspec.json.Decoder(list[str | None]).decode


def reader(options: ArcionCsvRead) -> Reader:
    """A function from a row to its change."""
    if options.header is False and not options.knows_columns:
        raise UsageError("without a header the columns must be given: --columns name:type,… or --schema FILE")
    style = RowStyle(options.delimiter, options.quote, options.null_text, options.escape, trim=options.trim)
    frame_of = functools.lru_cache(maxsize=1024)(functools.partial(_frame, options, style))

    def read(cells: Cells, record: Record) -> ChangeCells | Sequence[Change]:
        if record.value is None:
            cells.alone()
            return [message_keys.tombstone(record, table_of_topic(options, record.topic))]
        header = None if options.header is False else dict(record.headers).get(HEADER)
        frame = cells.common(cells.each(functools.partial(frame_of, header), record.topic))
        row = cells.csv_row(record.value, style)
        if options.header is None or not frame.snapshot:
            same = map(cells.equal, row.fields, frame.header)
            is_header = cells.mask(len(row.fields) == len(frame.header)) & functools.reduce(operator.and_, same)
            cells.expect(~is_header, _HEADER_AS_ROW)
        return (_snapshot if frame.snapshot else _realtime)(cells, frame, row, record.value)

    return read


_HEADER_AS_ROW = "the row is a header: with -o header=true the first row of each file is taken for one"


def framing(options: ArcionCsvRead) -> CsvRows:
    """Rows with a header where one is expected; where columns are given, a first row that is their header is one, too."""
    usual = None
    schema = options.schema_of(options.table)
    if options.header is None and schema is not None:
        columns = [column.name for column in schema.columns]
        style = RowStyle(options.delimiter, options.quote, options.null_text, options.escape)
        usual = style.print(envelope.header_of(columns, options.mode == "snapshot")).encode()
    return CsvRows(options.delimiter, options.quote, options.escape, expects_header(options), usual)


def expects_header(options: ArcionCsvRead) -> bool:
    """Whether the first row of a file names its columns: by the option, else if no columns are given."""
    return options.schema_of(options.table) is None if options.header is None else options.header


class _Frame:
    """What all rows of one file share."""

    def __init__(self, options: ArcionCsvRead, columns: tuple[str, ...], name: TableName | None) -> None:
        self.columns, self.table = columns, known(options, name)
        self.snapshot = options.mode == "snapshot"
        self.header: list[Field] = [*envelope.header_of(columns, self.snapshot)]
        self._null_text = options.null_text
        self.plan = functools.lru_cache(maxsize=4096)(self._plan)

    def _plan(self, bits: bytes) -> RecordPlan:
        shown = (self._null_text if bit is None else bit for bit in _texts(bits))
        return RecordPlan(self.table, b"", images.presence(quote(dict(zip(self.columns, shown, strict=True)))))


def _frame(options: ArcionCsvRead, style: RowStyle, header: bytes | None, topic: str | None) -> _Frame:
    table = table_of_topic(options, topic)
    schema = options.schema_of(table)
    given = () if schema is None else tuple(column.name for column in schema.columns)
    snapshot = options.mode == "snapshot"
    if header is None:
        if not given:
            raise Rejected("the columns are not known: there is no header, and none are given with --columns")
        return _Frame(options, given, table)
    found = style.split(header.decode().removeprefix("\ufeff")).fields
    names = [options.null_text if name is None else name for name in found]
    try:
        columns = envelope.columns_of(names, snapshot)
    except Rejected:
        # A header of other names than ours still counts the columns that the user gave.
        if not given or len(names) != len(envelope.header_of(given, snapshot)):
            raise
        columns = given
    return _Frame(options, columns, table)


def _snapshot(cells: Cells, frame: _Frame, row: Row, text: Cell) -> ChangeCells:
    if len(row.fields) != len(frame.columns):
        cells.refuse(envelope.wrong_width(len(row.fields), frame.columns, True))
    after = dict(zip(frame.columns, map(cells.quoted, row.fields), strict=True))
    return ChangeCells(
        op=Operation.READ,
        table=frame.table.name,
        key=key_of(cells, frame.table.key, None, after),
        after=cells.shell(after),
        after_image=Image.FULL,
        meta=None if row.usual else quote({"record": text.decode()}),
        schema=frame.table.schema,
    )


def _realtime(cells: Cells, frame: _Frame, row: Row, text: Cell) -> ChangeCells:
    fields, width = [cells.quoted(field) for field in row.fields], 3 * len(frame.columns)
    if len(fields) != width + 3:
        cells.refuse(envelope.wrong_width(len(fields), frame.columns, False))
    sides = (*fields[1:width:3], *fields[:width:3])
    raw_cursor, counts = fields[width + 1 :]
    plan = cells.each(frame.plan, cells.array_of(fields[2:width:3]))
    letter = cells.first(row.fields[width], "NULL")
    change, usual = change_of(cells, plan, letter, raw_cursor, _look, sides, frame.columns)
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


def _look(cells: Cells, plan: RecordPlan, op: Operation, old: Members | None, new: Members | None) -> Shown:
    exists = plan.exists or images.presence(b"{}")
    if op is Operation.DELETE and exists.after:
        cells.refuse(f"a delete with {', '.join(exists.after)} in after: exists may be 0 or 2 only")
    usual = cells.mask(True)
    for side, present in ((old or {}, exists.before), (new or {}, exists.after)):
        for name, value in side.items():
            if name not in present:
                usual &= cells.equal(value, b"null")
    return Shown(
        {name: (old or {})[name] for name in exists.before} or None,
        {name: (new or {})[name] for name in exists.after} or None,
        images.before_image(exists.before, exists.columns, plan.table.key),
        images.after_image(exists.after, exists.columns),
        exists.columns,
        usual,
    )
