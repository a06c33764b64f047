"""Rows of Arcion's CSV into changes: rows of a snapshot, and operations with NEW, OLD and EXISTS of each column."""

import functools
from collections.abc import Sequence

from changeling.envelope import message_keys
from changeling.envelope.cells import Cells, Members
from changeling.envelope.one import ONE
from changeling.envelope.reading import ChangeCells, Reader
from changeling.formats.arcion_csv import envelope
from changeling.formats.arcion_csv.options import ArcionCsvRead
from changeling.formats.arcion_csv.rows import Field, Row, RowStyle
from changeling.formats.arcion_json import images
from changeling.formats.arcion_json.assembly import RecordPlan, Shown, change_of, key_of, known, table_of_topic
from changeling.formats.framing import HEADER, CsvRows
from changeling.model.change import Change, Record
from changeling.model.errors import Rejected, UsageError
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName


def reader(options: ArcionCsvRead) -> Reader:
    """A function from a row to its change."""
    if options.header is False and not options.knows_columns:
        raise UsageError("without a header the columns must be given: --columns name:type,… or --schema FILE")
    style = RowStyle(options.delimiter, options.quote, options.escape, options.null_text, trim=options.trim)
    frame_of = functools.lru_cache(maxsize=1024)(functools.partial(_frame, options, style))

    def read(cells: Cells, record: Record) -> ChangeCells | Sequence[Change]:
        cells.alone()
        if record.value is None:
            return [message_keys.tombstone(record, table_of_topic(options, record.topic))]
        header = None
        for name, value in record.headers:
            if name == HEADER and options.header is not False:
                header = value
        frame = frame_of(header, record.topic)
        text = record.value.decode()
        row = style.split(text)
        if row.fields == frame.header and (options.header is None or not frame.snapshot):
            raise Rejected("the row is a header: with -o header=true the first row of each file is taken for one")
        return _snapshot(frame, row, text) if frame.snapshot else _realtime(frame, row, text)

    return read


def framing(options: ArcionCsvRead) -> CsvRows:
    """Rows with a header where one is expected; where columns are given, a first row that is their header is one, too."""
    usual = None
    schema = options.schema_of(options.table)
    if options.header is None and schema is not None:
        columns = [column.name for column in schema.columns]
        style = RowStyle(options.delimiter, options.quote, options.escape, options.null_text)
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

    def _plan(self, bits: tuple[Field, ...]) -> RecordPlan:
        shown = (self._null_text if bit is None else bit for bit in bits)
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


def _snapshot(frame: _Frame, row: Row, text: str) -> ChangeCells:
    if len(row.fields) != len(frame.columns):
        raise envelope.wrong_width(len(row.fields), frame.columns, True)
    after = {name: quote(field) for name, field in zip(frame.columns, row.fields, strict=True)}
    return ChangeCells(
        op=Operation.READ,
        table=frame.table.name,
        key=key_of(ONE, frame.table.key, None, after),
        after=ONE.shell(after),
        after_image=Image.FULL,
        meta=None if row.usual else quote({"record": text}),
        schema=frame.table.schema,
    )


def _realtime(frame: _Frame, row: Row, text: str) -> ChangeCells:
    fields, width = row.fields, 3 * len(frame.columns)
    if len(fields) != width + 3:
        raise envelope.wrong_width(len(fields), frame.columns, False)
    new, old = (quote(dict(zip(frame.columns, fields[first:width:3], strict=True))) for first in (0, 1))
    letter, cursor, counts = fields[width:]
    raw_cursor = quote(cursor)
    plan = frame.plan(tuple(fields[2:width:3]))
    change, usual = change_of(ONE, plan, "NULL" if letter is None else letter, raw_cursor, (old, new), _look)
    # A full row after the change, or before a delete, has the columns and their order.
    full = Image.FULL in (change.after_image, change.before_image if change.after is None else None)
    meta = {
        "columns": None if full else quote(frame.columns),
        "cursor": raw_cursor,
        "operationcount": quote(counts),
        "record": None if row.usual and usual else quote(text),
    }
    return change._replace(meta=ONE.sparse(meta))


def _look(cells: Cells, plan: RecordPlan, op: Operation, old: Members | None, new: Members | None) -> Shown:
    exists = plan.exists or images.presence(b"{}")
    (before, no_rest), (after, none_either) = (
        _side(columns or {}, present) for columns, present in ((old, exists.before), (new, exists.after))
    )
    if op is Operation.DELETE and after is not None:
        raise Rejected(f"a delete with {', '.join(after)} in after: exists may be 0 or 2 only")
    return Shown(
        before,
        after,
        images.before_image(exists.before, exists.columns, plan.table.key),
        images.after_image(exists.after, exists.columns),
        exists.columns,
        cells.mask(no_rest and none_either),
    )


def _side(columns: Members, present: Sequence[str]) -> tuple[Members | None, bool]:
    """The columns that a side shows, and whether the fields of the others are NULL."""
    others = (value for name, value in columns.items() if name not in present)
    return {name: columns[name] for name in present} or None, all(value == b"null" for value in others)
