"""Debezium's events into changes: rows of every connector, with and without the schema part."""

import functools
from collections.abc import Sequence

import msgspec

from changeling.envelope.cells import Cell, Cells, Part
from changeling.envelope.reading import ChangeCells, Reader
from changeling.formats.debezium_json import control
from changeling.formats.debezium_json.connect_schema import columns_of, key_columns_of
from changeling.formats.debezium_json.envelope import DOCUMENTS, LETTERS, OPERATIONS, Placeholder, Source
from changeling.formats.debezium_json.images import before_image
from changeling.formats.debezium_json.message import Message, key_columns, remembered, take_apart
from changeling.formats.debezium_json.options import DebeziumRead
from changeling.formats.debezium_json.origin import commit_time, table_of, transaction_of
from changeling.formats.debezium_json.positions import position_of
from changeling.formats.debezium_json.row import OddRow, Row, row_key
from changeling.model import json_text
from changeling.model.change import Change, Record
from changeling.model.errors import Rejected
from changeling.model.operation import ROW_OPERATIONS, Image, Operation
from changeling.model.table import Column, TableName, TableSchema

_SOURCE = Part("source", Source)
_op = json_text.named("op", msgspec.json.Decoder(str).decode)
IMAGES = ("before", "after")


def reader(options: DebeziumRead) -> Reader:
    """A function from a message to its change."""
    placeholder = Placeholder(options.placeholder)
    schema_text = functools.lru_cache(maxsize=4096)(functools.partial(_schema_text, options))
    key_names = functools.lru_cache(maxsize=4096)(options.key_of)

    def read(cells: Cells, record: Record) -> ChangeCells | Sequence[Change]:
        message = take_apart(cells, record)
        envelope = message.envelope
        if envelope is None:
            return control.tombstone(cells, record, message, options.table)
        if "op" not in envelope:
            cells.alone()
            return [control.other(record, message)]
        source = cells.struct(_SOURCE, cells.value(envelope, "source"))
        op = cells.each(_operation, envelope["op"])
        transaction = transaction_of(cells, cells.value(envelope, "transaction"), source)
        found = ChangeCells(
            op=op,
            position=position_of(cells, source, transaction),
            commit_time=commit_time(cells, source, envelope),
            transaction=transaction,
        )
        if not cells.only(cells.one_of(op, _OF_TABLES)):
            meta = cells.joined(b'{"envelope":', cells.shell(envelope, ()), *remembered(cells, message, None), b"}")
            return found._replace(meta=meta)
        table = table_of(cells, options.table, source, record.topic)
        columns, key_schema = key_columns(cells, message.key)
        row = Row()
        if cells.only(cells.one_of(op, _ROWS)):
            names = cells.common(cells.each(key_names, table))
            row = _row(cells, message, source, op, columns, names)
        marks = cells.fields(source.changeling)
        taken = [side for side in IMAGES if cells.any(cells.present(getattr(row, side)))]
        return found._replace(
            op=_marked_operation(cells, marks.op, op),
            table=table,
            key=row.key,
            before=row.before,
            after=row.after,
            before_image=cells.where(
                cells.present(row.before), cells.first(marks.before_image, row.before_image), Image.NONE
            ),
            after_image=cells.where(
                cells.present(row.after), cells.first(marks.after_image, row.after_image), Image.NONE
            ),
            meta=cells.joined(
                b'{"envelope":',
                cells.shell(envelope, taken),
                row.note,
                *remembered(cells, message, row.key),
                b"}",
            ),
            schema=cells.each(schema_text, table, (message.wrapper or {}).get("schema"), key_schema),
        )

    def _row(cells: Cells, message: Message, source: Source, op: Cell, columns: Cell, names: tuple[str, ...]) -> Row:
        """The images and the key of a relational row; all others are looked at by themselves."""
        before, after = (cells.value(message.envelope or {}, side) for side in IMAGES)
        deleted = cells.equal(op, Operation.DELETE)
        plain = cells.holds(_is_relational, source.connector) & (deleted ^ cells.starts(after, b"{"))
        plain &= ~cells.present(before) | (cells.starts(before, b"{") & ~cells.starts(before, b"{}"))
        plain &= ~(deleted & cells.present(after))
        plain &= ~(cells.contains(before, placeholder.traces) | cells.contains(after, placeholder.traces))
        if not cells.only(plain):
            return OddRow(message, source, op, columns).read(placeholder, names)
        key = row_key(cells, cells.first(after, before), columns, names)
        seen = cells.by_names(before_image, before, after, key)
        return Row(key, before, after, seen, Image.FULL)

    return read


_ROWS = [operation.value for operation in ROW_OPERATIONS]
_OF_TABLES = [*_ROWS, Operation.TRUNCATE.value]


def _operation(raw: bytes) -> Operation:
    letter = _op(raw)
    if letter not in OPERATIONS:
        raise Rejected(f"unknown op {letter!r}: Debezium has c, u, d, r, t and m")
    return OPERATIONS[letter]


def _is_relational(connector: str | None) -> bool:
    return (connector or "").lower() not in DOCUMENTS


def _marked_operation(cells: Cells, marked: Cell, op: Cell) -> Cell:
    """The operation that our own records name, which must be written with the same letter, or else that of the letter."""
    if not cells.any(cells.present(marked)):
        return op
    return cells.each(_checked_mark, marked, op)


def _checked_mark(marked: Operation | None, op: Operation) -> Operation:
    if marked is None:
        return op
    if LETTERS.get(marked) != LETTERS[op]:
        raise Rejected(f"source.changeling says {marked}, which is not written as op {LETTERS[op]!r}")
    return marked


def _schema_text(
    options: DebeziumRead, table: TableName, value_schema: bytes | None, key_schema: bytes | None
) -> str | None:
    """The record's schema with the column types that the user declared; one of the two if the other is missing."""
    declared = options.schema_of(table)
    columns = None if value_schema is None else columns_of(value_schema)
    if columns is None:
        return None if declared is None else declared.to_json()
    key = options.key_of(table) or (() if key_schema is None else key_columns_of(key_schema))
    if declared is None:
        return TableSchema(columns, key).to_json()
    known = {column.name: column for column in columns}
    merged = [_overridden(declared.column(name), column) for name, column in known.items()]
    merged += [column for column in declared.columns if column.name not in known]
    return TableSchema(tuple(merged), key, declared.table, declared.id).to_json()


def _overridden(declared: Column | None, own: Column) -> Column:
    if declared is None:
        return own
    return Column(own.name, declared.type, declared.original_type or own.original_type, declared.nullable)
