"""Debezium's events into changes: rows of every connector, with and without the schema part."""

import functools
from collections.abc import Callable, Sequence

import msgspec

from changeling.formats.debezium_json import control
from changeling.formats.debezium_json.connect_schema import columns_of, key_columns_of
from changeling.formats.debezium_json.envelope import DOCUMENTS, OPERATIONS, Placeholder, Source
from changeling.formats.debezium_json.message import Members, Message, key_columns, remembered, shell, take_apart
from changeling.formats.debezium_json.options import DebeziumRead
from changeling.formats.debezium_json.origin import commit_time, place_of, table_of, transaction_of
from changeling.formats.debezium_json.positions import position_of
from changeling.formats.debezium_json.row import TAKEN, OddRow, mark, plain_row
from changeling.formats.format import Decode
from changeling.model import json_text
from changeling.model.change import Change, Record
from changeling.model.errors import Rejected
from changeling.model.operation import ROW_OPERATIONS, Operation
from changeling.model.table import Column, TableName, TableSchema

_source = json_text.named("source", msgspec.json.Decoder(Source).decode)
_op = json_text.named("op", msgspec.json.Decoder(str).decode)


def decoder(options: DebeziumRead) -> Decode:
    """A function from one wire record to its change."""
    return _Reader(options).decode


def schema_texts(options: DebeziumRead) -> Callable[[TableName, bytes | None, bytes | None], str | None]:
    """A function from a table and the schema parts of a value and of a key to the schema of a change, as text."""
    return functools.lru_cache(maxsize=4096)(functools.partial(_schema_text, options))


class _Reader:
    def __init__(self, options: DebeziumRead) -> None:
        self._options = options
        self._placeholder = Placeholder(options.placeholder)
        self._table = functools.lru_cache(maxsize=4096)(functools.partial(table_of, options.table))
        self._schema = schema_texts(options)
        self._key_names = functools.lru_cache(maxsize=4096)(options.key_of)

    def decode(self, record: Record) -> Sequence[Change]:
        message = take_apart(record)
        if message.envelope is None:
            return [control.tombstone(record, message, self._options.table)]
        if "op" not in message.envelope:
            return [control.other(record, message)]
        return [self._event(record, message, message.envelope)]

    def _event(self, record: Record, message: Message, envelope: Members) -> Change:
        raw = envelope.get("source", b"null")
        source = Source() if raw == b"null" else _source(raw)
        connector = (source.connector or "").lower()
        op = OPERATIONS.get(letter := _op(envelope["op"]))
        if op is None:
            raise Rejected(f"unknown op {letter!r}: Debezium has c, u, d, r, t and m")
        transaction = transaction_of(envelope.get("transaction", b"null"), source, connector)
        change = Change(
            op=op,
            position=position_of(source, connector, transaction),
            commit_time=commit_time(source, envelope),
            transaction=transaction,
        )
        if op is Operation.MESSAGE:
            change.meta = b'{"envelope":%b%b}' % (shell(envelope, ()), remembered(message, None))
            return change
        table = source.table or source.collection
        change.table = self._table(*place_of(source), table, None if table else record.topic)
        value_schema = message.wrapper.get("schema") if message.wrapper is not None else None
        columns, key_schema = key_columns(message.key)
        change.schema = self._schema(change.table, value_schema, key_schema)
        note = b""
        if op in ROW_OPERATIONS:
            names = self._key_names(change.table)
            odd = connector in DOCUMENTS or source.changeling is not None
            if odd or not plain_row(change, envelope, columns, names, self._placeholder):
                note = OddRow(change, envelope, connector, columns, message).read(self._placeholder, names)
                mark(change, source.changeling)
        change.meta = b'{"envelope":%b%b%b}' % (
            shell(envelope, TAKEN[change.before is not None, change.after is not None]),
            note,
            remembered(message, change.key),
        )
        return change


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
