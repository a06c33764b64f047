"""Arcion's NATIVE records into changes: the envelope, and the bare row of a snapshot."""

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from changeling.formats.arcion_json import table_name
from changeling.formats.arcion_json.assembly import Key, change_of
from changeling.formats.arcion_json.assembly import Plan as ArcionPlan
from changeling.formats.arcion_json.envelope import NULL_TEXT, OPERATIONS
from changeling.formats.arcion_json.images import Cell, Presence, Side
from changeling.formats.arcion_native.envelope import MEMBERS, Cells, Envelope
from changeling.formats.arcion_native.images import completeness
from changeling.formats.format import Decode
from changeling.formats.member_order import is_usual
from changeling.formats.options import ReadOptions
from changeling.model import json_text
from changeling.model.change import Change, Record
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName

_envelope = msgspec.json.Decoder(Envelope).decode
_cells = msgspec.json.Decoder(Cells | None).decode
_op = msgspec.json.Decoder(str).decode
_NULL_CELL = quote(NULL_TEXT)
_NULLS = (b"null", _NULL_CELL)

_Open = tuple[Change, bytes]
"""A change, and its meta without the closing bracket."""


class ArcionNativeRead(ReadOptions, frozen=True, kw_only=True):
    """NATIVE records leave no choice."""


def decoder(options: ArcionNativeRead) -> Decode:
    """A function from one wire record to its change."""
    return _Reader(options).decode


class _Table(NamedTuple):
    """What all records of one table share."""

    name: TableName | None
    schema: str | None
    columns: frozenset[str]
    key_names: tuple[str, ...]
    key: Key | None
    meta_head: bytes


class _Reader:
    def __init__(self, options: ArcionNativeRead) -> None:
        self._options = options
        self._table = functools.lru_cache(maxsize=4096)(self._read_table)
        self._plan = functools.lru_cache(maxsize=4096)(self._make_plan)

    def decode(self, record: Record) -> Sequence[Change]:
        value = record.value
        change, meta = self._tombstone(record) if value is None else self._change(record, value)
        if record.key is not None and record.key != change.key:
            meta += b',"message_key":%b' % quote(record.key.decode())
        change.meta = meta + b"}"
        return [change]

    def _change(self, record: Record, value: bytes) -> _Open:
        try:
            found = _envelope(value)
        except msgspec.ValidationError:
            return self._other_shape(record, value)
        raw_table, raw_cursor = bytes(found.table_name), bytes(found.cursor)
        change = self._row(raw_table, found.op_type, raw_cursor, found.before, found.after)
        if found.before == {} or found.after == {} or _NULL_CELL in value or not is_usual(value, MEMBERS):
            return change, b'{"record":%b' % json_text.compact(value)
        return change, b'%b"cursor":%b' % (self._table(raw_table).meta_head, json_text.compact(raw_cursor))

    def _read_table(self, raw: bytes) -> _Table:
        name = table_name.read(raw)
        usual = json_text.compact(raw) == json_text.compact(table_name.write(name))
        head = b"{" if usual else b'{"tableName":%b,' % json_text.compact(raw)
        return self._known(name or self._options.table, head)

    def _known(self, name: TableName | None, head: bytes) -> _Table:
        schema, key = self._options.schema_of(name), self._options.key_of(name)
        columns = frozenset() if schema is None else frozenset(column.name for column in schema.columns)
        return _Table(name, None if schema is None else schema.to_json(), columns, key, Key(key) if key else None, head)

    def _make_plan(
        self, raw_table: bytes, op: Operation, before: tuple[str, ...], after: tuple[str, ...]
    ) -> ArcionPlan:
        table = self._table(raw_table)
        before_image, after_image = completeness(op, set(before), set(after), table.key_names, table.columns)
        columns = tuple(dict.fromkeys([*after, *before]))
        presence = Presence(columns, Side(before, ()), Side(after, ()), True)
        return ArcionPlan(
            table.name, table.schema, table.key, frozenset(columns), presence, before_image, after_image, b""
        )

    def _row(
        self, raw_table: bytes, letter: str, raw_cursor: bytes, before: Cells | None, after: Cells | None
    ) -> Change:
        op = OPERATIONS.get(letter, Operation.MESSAGE)
        if op is Operation.DELETE and after:
            raise Rejected(f"a delete with {', '.join(after)} in after: it must be null")
        plan = self._plan(raw_table, op, tuple(before or ()), tuple(after or ()))
        return change_of(plan, letter, raw_cursor, _image(before), _image(after))

    def _other_shape(self, record: Record, value: bytes) -> _Open:
        members = json_text.members(value)
        if "opType" not in members:
            return self._bare_row(record, members)
        if "exists" in members:
            raise Rejected("a record with `exists` is one of Arcion's JSON files: read it as arcion-json")
        if "cursor" not in members:
            raise Rejected("not a record of Arcion: it has no 'cursor'")
        try:
            letter = _op(members["opType"])
            before, after = (_cells(members.get(side, b"null")) for side in ("before", "after"))
        except msgspec.ValidationError as error:
            raise Rejected(f"opType, before or after: {error}") from None
        change = self._row(members.get("tableName", b"null"), letter, members["cursor"], before, after)
        return change, b'{"record":%b' % json_text.compact(value)

    def _bare_row(self, record: Record, members: Mapping[str, bytes]) -> _Open:
        if members.get("tableName", b"")[:1] == b"{" or not members:
            raise Rejected("not a record of Arcion: it has no 'opType'")
        name = self._table_from_outside(record)
        if name is None:
            raise Rejected("a bare row names no table; say which with --table")
        table = self._known(name, b"")
        row = _image({column: msgspec.Raw(value) for column, value in members.items()})
        texts = [column for column, value in members.items() if value == _NULL_CELL]
        change = Change(
            op=Operation.READ,
            table=name,
            key=None if table.key is None else table.key.text(row, None),
            after=quote(row),
            after_image=Image.FULL,
            schema=table.schema,
        )
        return change, b'{"row":true' + (b',"null_texts":%b' % quote(texts) if texts else b"")

    def _table_from_outside(self, record: Record) -> TableName | None:
        if self._options.table is not None or record.topic is None:
            return self._options.table
        return TableName(None, None, record.topic)

    def _tombstone(self, record: Record) -> _Open:
        key = None
        if record.key is not None and record.key[:1] == b"{":
            key = json_text.canonical_key(json_text.members(record.key).items())
        return Change(op=Operation.MESSAGE, table=self._table_from_outside(record), key=key), b'{"tombstone":true'


def _image(cells: Cells | None) -> Mapping[str, Cell] | None:
    """The cells of one side, NULL as None; None where there are none."""
    return {name: None if bytes(value) in _NULLS else value for name, value in cells.items()} if cells else None
