"""Rows of Arcion's CSV into changes: rows of a snapshot, and operations with NEW, OLD and EXISTS of each column."""

import functools
from collections.abc import Sequence
from typing import NamedTuple

from changeling.formats.arcion_csv import envelope
from changeling.formats.arcion_csv.options import ArcionCsvRead
from changeling.formats.arcion_csv.rows import Field, Row, RowStyle
from changeling.formats.arcion_json import images
from changeling.formats.arcion_json.assembly import Key, change_of, tombstone
from changeling.formats.arcion_json.assembly import Plan as ArcionPlan
from changeling.formats.format import Decode
from changeling.formats.framing import HEADER, CsvRows
from changeling.model.change import Change, Record
from changeling.model.errors import Rejected, UsageError
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName


def decoder(options: ArcionCsvRead) -> Decode:
    """A function from one row to its change."""
    if options.header is False and not options.knows_columns:
        raise UsageError("without a header the columns must be given: --columns name:type,… or --schema FILE")
    return _Reader(options).decode


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


class _Plan(NamedTuple):
    """What all rows of one file with the same EXISTS share."""

    arcion: ArcionPlan
    new: tuple[tuple[str, int], ...]
    old: tuple[tuple[str, int], ...]
    """The columns that a side shows, and their places."""
    not_new: tuple[int, ...]
    not_old: tuple[int, ...]
    """The places of those that it does not."""


class _Frame:
    """What all rows of one file share."""

    def __init__(self, options: ArcionCsvRead, columns: tuple[str, ...], table: TableName | None) -> None:
        self.columns, self.table = columns, table
        self.snapshot = options.mode == "snapshot"
        self.header: list[Field] = [*envelope.header_of(columns, self.snapshot)]
        self._null_text = options.null_text
        self._key_names = options.key_of(table)
        self.key = Key(self._key_names) if self._key_names else None
        schema = options.schema_of(table)
        self.schema = None if schema is None else schema.to_json()
        self.plan = functools.lru_cache(maxsize=4096)(self._make_plan)

    def _make_plan(self, bits: tuple[Field, ...]) -> _Plan:
        shown = (self._null_text if bit is None else bit for bit in bits)
        found = images.presence(quote(dict(zip(self.columns, shown, strict=True))))
        before_image = images.before_image(found.before.present, self.columns, self._key_names)
        after_image = images.after_image(found.after.present, self.columns)
        # A full row after the change, or before a delete, has the columns and their order.
        known = after_image is Image.FULL or (after_image is Image.NONE and before_image is Image.FULL)
        head = b"{" if known else b'{"columns":%b,' % quote(self.columns)
        places = {name: place for place, name in enumerate(self.columns)}
        return _Plan(
            ArcionPlan(self.table, self.schema, self.key, frozenset(places), found, before_image, after_image, head),
            tuple((name, places[name]) for name in found.after.present),
            tuple((name, places[name]) for name in found.before.present),
            tuple(places[name] for name in found.after.absent),
            tuple(places[name] for name in found.before.absent),
        )


class _Reader:
    def __init__(self, options: ArcionCsvRead) -> None:
        self._options = options
        self._style = RowStyle(options.delimiter, options.quote, options.escape, options.null_text, trim=options.trim)
        self._frame = functools.lru_cache(maxsize=1024)(self._make_frame)

    def decode(self, record: Record) -> Sequence[Change]:
        if record.value is None:
            return [self._tombstone(record)]
        header = None
        for name, value in record.headers:
            if name == HEADER and self._options.header is not False:
                header = value
        frame = self._frame(header, record.topic)
        text = record.value.decode()
        row = self._style.split(text)
        if row.fields == frame.header and (self._options.header is None or not frame.snapshot):
            raise Rejected("the row is a header: with -o header=true the first row of each file is taken for one")
        return [_snapshot(frame, row, text) if frame.snapshot else _realtime(frame, row, text)]

    def _make_frame(self, header: bytes | None, topic: str | None) -> _Frame:
        table = self._options.table
        if table is None and topic is not None:
            table = TableName(None, None, topic)
        schema = self._options.schema_of(table)
        known = () if schema is None else tuple(column.name for column in schema.columns)
        snapshot = self._options.mode == "snapshot"
        if header is None:
            if not known:
                raise Rejected("the columns are not known: there is no header, and none are given with --columns")
            return _Frame(self._options, known, table)
        style, null_text = self._style, self._options.null_text
        found = style.split(header.decode().removeprefix("\ufeff")).fields
        names = [null_text if name is None else name for name in found]
        try:
            columns = envelope.columns_of(names, snapshot)
        except Rejected:
            # A header of other names than ours still counts the columns that the user gave.
            if not known or len(names) != len(envelope.header_of(known, snapshot)):
                raise
            columns = known
        return _Frame(self._options, columns, table)

    def _tombstone(self, record: Record) -> Change:
        table = self._options.table
        if table is None and record.topic is not None:
            table = TableName(None, None, record.topic)
        return tombstone(record, table)


def _snapshot(frame: _Frame, row: Row, text: str) -> Change:
    if len(row.fields) != len(frame.columns):
        raise envelope.wrong_width(len(row.fields), frame.columns, True)
    after = dict(zip(frame.columns, row.fields, strict=True))
    return Change(
        op=Operation.READ,
        table=frame.table,
        key=None if frame.key is None else frame.key.text(after, None),
        after=quote(after),
        after_image=Image.FULL,
        meta=None if row.usual else quote({"record": text}),
        schema=frame.schema,
    )


def _realtime(frame: _Frame, row: Row, text: str) -> Change:
    fields, width = row.fields, 3 * len(frame.columns)
    if len(fields) != width + 3:
        raise envelope.wrong_width(len(fields), frame.columns, False)
    new, old = fields[0:width:3], fields[1:width:3]
    plan = frame.plan(tuple(fields[2:width:3]))
    letter, cursor, counts = fields[width:]
    after = {name: new[place] for name, place in plan.new} or None
    before = {name: old[place] for name, place in plan.old} or None
    raw_cursor = quote(cursor)
    change = change_of(plan.arcion, "NULL" if letter is None else letter, raw_cursor, before, after)
    meta = b'%b"cursor":%b,"operationcount":%b' % (plan.arcion.meta_head, raw_cursor, quote(counts))
    usual = row.usual
    for place in plan.not_new:
        usual = usual and new[place] is None
    for place in plan.not_old:
        usual = usual and old[place] is None
    change.meta = meta + (b"}" if usual else b',"record":%b}' % quote(text))
    return change
