"""Arcion's JSON records into changes: the envelope in all its spellings, and the bare row of a snapshot."""

import functools
from collections.abc import Sequence
from typing import Literal

import msgspec

from changeling.formats.arcion_json import images, table_name
from changeling.formats.arcion_json.assembly import Key, Plan, Row, change_of, tombstone
from changeling.formats.arcion_json.envelope import MEMBERS, NULL_TEXT, Envelope
from changeling.formats.arcion_json.images import Cell
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
_op = msgspec.json.Decoder(str).decode
_NULL_CELL = quote(NULL_TEXT)


class ArcionJsonRead(ReadOptions, frozen=True, kw_only=True):
    """Options of a reader of Arcion's JSON."""

    mode: Literal["snapshot", "full", "realtime"] | None = None
    """Which mode wrote the records; JSON has one layout for all of them."""


def decoder(options: ArcionJsonRead) -> Decode:
    """A function from one wire record to its change."""
    return _Reader(options).decode


class _Reader:
    def __init__(self, options: ArcionJsonRead) -> None:
        self._options = options
        self._plan = functools.lru_cache(maxsize=4096)(self._make_plan)
        self._schema = functools.lru_cache(maxsize=4096)(self._schema_text)

    def decode(self, record: Record) -> Sequence[Change]:
        if record.value is None:
            return [self._tombstone(record)]
        try:
            found = _envelope(record.value)
        except msgspec.ValidationError:
            return [self._other_shape(record, record.value)]
        plan = self._plan(bytes(found.table_name), bytes(found.exists))
        columns = plan.presence.columns
        if tuple(found.before) != columns or tuple(found.after) != columns or not is_usual(record.value, MEMBERS):
            return [self._other_shape(record, record.value)]
        try:
            before = plan.presence.before.pick(found.before)
            after = plan.presence.after.pick(found.after)
        except KeyError:
            return [self._other_shape(record, record.value)]
        change = self._snapshot_read(change_of(plan, found.op_type, found.cursor, before, after))
        change.meta = b'%b,"cursor":%b,"operationcount":%b}' % (plan.meta_head, found.cursor, found.operationcount)
        return [change]

    def _snapshot_read(self, change: Change) -> Change:
        """The change; an insert of a snapshot, without a position in any log, becomes a read."""
        if change.position is None and change.op is Operation.INSERT and self._options.mode == "snapshot":
            change.op = Operation.READ
        return change

    def _make_plan(self, raw_table: bytes, raw_exists: bytes) -> Plan:
        table = table_name.read(raw_table) or self._options.table
        found = images.presence(raw_exists)
        names = self._options.key_of(table)
        before_image = images.before_image(found.before.present, found.columns, names)
        after_image = images.after_image(found.after.present, found.columns)
        head = b'{"tableName":%b' % json_text.compact(raw_table)
        if Image.FULL not in (before_image, after_image):
            head += b',"columns":%b' % quote(found.columns)
        if not found.as_text:
            head += b',"exists":%b' % json_text.compact(raw_exists)
        key = Key(names) if names else None
        return Plan(table, self._schema(table), key, frozenset(found.columns), found, before_image, after_image, head)

    def _other_shape(self, record: Record, value: bytes) -> Change:
        members = json_text.members(value)
        if "opType" not in members:
            return self._bare_row(record, members)
        for name in ("cursor", "exists"):
            if name not in members:
                raise Rejected(f"not a record of Arcion: it has no {name!r}")
        try:
            letter = _op(members["opType"])
        except msgspec.ValidationError as error:
            raise Rejected(f"opType: {error}") from None
        plan = self._plan(members.get("tableName", b"null"), members["exists"])
        before = _cells("before", members, plan, plan.presence.before.present)
        after = _cells("after", members, plan, plan.presence.after.present)
        change = self._snapshot_read(change_of(plan, letter, members["cursor"], before, after))
        change.meta = b'{"record":%b}' % json_text.compact(value)
        return change

    def _bare_row(self, record: Record, members: dict[str, bytes]) -> Change:
        if members.get("tableName", b"")[:1] == b"{" or not members:
            raise Rejected("not a record of Arcion: it has no 'opType'")
        table = self._options.table
        if table is None and record.topic is not None:
            table = TableName(None, None, record.topic)
        if table is None:
            raise Rejected("a bare row names no table; say which with --table")
        row: Row = {name: _cell(value) for name, value in members.items()}
        key = self._options.key_of(table)
        nulls = [name for name, value in members.items() if value == b"null"]
        return Change(
            op=Operation.READ,
            table=table,
            key=Key(key).text(row, None) if key else None,
            after=quote(row),
            after_image=Image.FULL,
            meta=quote({"row": True, "nulls": nulls} if nulls else {"row": True}),
            schema=self._schema(table),
        )

    def _tombstone(self, record: Record) -> Change:
        table = self._options.table
        if table is None and record.topic is not None:
            table = TableName(None, None, record.topic)
        return tombstone(record, table)

    def _schema_text(self, table: TableName | None) -> str | None:
        schema = self._options.schema_of(table)
        return None if schema is None else schema.to_json()


def _cells(side: str, members: dict[str, bytes], plan: Plan, present: Sequence[str]) -> Row | None:
    raw = members.get(side, b"null")
    try:
        cells = {} if raw == b"null" else json_text.members(raw)
    except msgspec.ValidationError as error:
        raise Rejected(f"{side}: {error}") from None
    for name in cells:
        if name not in plan.names:
            raise Rejected(f"column {name!r} is in {side}, but not in exists")
    for name in present:
        if name not in cells:
            raise Rejected(f"column {name!r} is missing from {side}, where exists says it is")
    return {name: _cell(cells[name]) for name in cells if name in present} or None


def _cell(raw: bytes) -> Cell:
    return None if raw in (_NULL_CELL, b"null") else msgspec.Raw(raw)
