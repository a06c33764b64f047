"""DataWorks' whole-database messages into changes: rows, halves of updates, marks, heartbeats and DDL."""

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from changeling.envelope import message_keys
from changeling.envelope.cells import Cell, Cells, Members
from changeling.envelope.reading import ChangeCells, Reader
from changeling.formats.dataworks import sequence
from changeling.formats.dataworks_message import schema
from changeling.formats.dataworks_message.envelope import BEFORE_HALF, MESSAGE, NAMES, OPERATIONS, PAYLOAD, TIMES
from changeling.formats.dataworks_message.schema import TableInfo
from changeling.formats.member_order import follows
from changeling.formats.options import ReadOptions
from changeling.model import json_text, times
from changeling.model.canonical import text_of
from changeling.model.change import Change, Record
from changeling.model.errors import Rejected, nearest
from changeling.model.json_text import quote
from changeling.model.operation import ROW_OPERATIONS, Image, Operation

_IMAGES = ("before", "after")
_SIDES = {"INSERT": (False, True), "DELETE": (True, False), BEFORE_HALF: (True, False)}
"""Which images a row operation has; an update has the row after, and may have the one before."""
_ROWS = [operation.value for operation in ROW_OPERATIONS]
_HALVES = (BEFORE_HALF, "UPDATE_AFTER")
_COLUMNS = ("dataColumn",)
_NUMBER, _TIME = "0|[1-9][0-9]*", "-?[0-9]{1,18}|null"
_text = json_text.named("op", msgspec.json.Decoder(str).decode)


class DataworksMessageRead(ReadOptions, frozen=True, kw_only=True):
    """Options of a reader of DataWorks' messages: only those of every reader."""


def reader(options: DataworksMessageRead) -> Reader:
    """A function from a message to its change."""
    info_of = schema.reader(options)

    def read(cells: Cells, record: Record) -> ChangeCells | Sequence[Change]:
        if record.value is None:
            cells.alone()
            return [message_keys.tombstone(record, None)]
        found = _usual(cells, record.value) or _as_it_is(record.value)
        message, payload, before, after, number = found.message, found.payload, found.before, found.after, found.number
        info, name = cells.each(info_of, message.get("schema", b"null")), cells.each(_text, payload["op"])
        op = cells.each(_operation, name)
        is_row = cells.only(cells.one_of(op, _ROWS))
        table = cells.each(functools.partial(_table, options, is_row), info)
        cells.expect(cells.mask(not is_row) | cells.present(table), _NO_TABLE)
        key, before_image, after_image = None, Image.NONE, Image.NONE
        if is_row:
            key, before_image, after_image = cells.by_value(_row, cells.each(_pair, info, name), before, after)
        elif before is not None or after is not None:
            raise Rejected(f"op {name} with a row: only inserts, updates and deletes have one")
        half = cells.one_of(name, _HALVES) & (cells.present(before) ^ cells.present(after))
        cells.expect(~half | cells.present(number), lambda: f"op {name} {_NO_NUMBER}")
        ends = cells.present(after) | cells.equal(op, Operation.COMMIT)
        position = None
        if cells.only(cells.present(number)):
            position = sequence.position(cells, number, ~ends)
        elif op is Operation.BARRIER:
            # Without a position of its own a heartbeat cannot say what came before it.
            op = Operation.MESSAGE
        side = cells.where(cells.present(after), b'"after"', b'"before"')
        meta = {
            "half": cells.where(half, side, None),
            "op": cells.where(half, None, cells.each(_other_name, name, op)),
        }
        if found.times is None:
            meta["record"] = found.whole
        else:
            meta |= {"source": cells.each(_kept_source, info), "schema": cells.each(_kept_schema, info)}
            meta["sequenceId"] = cells.where(cells.matches(number, _NUMBER), None, payload["sequenceId"])
            meta |= {name: found.times.get(name) for name in TIMES[1:]}
            meta |= {name: payload.get(name) for name in ("scn", "ddl")}
        if op is Operation.DDL:
            meta["statement"] = _statement(payload.get("ddl"))
        if found.times is not None:
            meta["version"] = message.get("version")
        return ChangeCells(
            op=op,
            table=table,
            key=key,
            before=before,
            after=after,
            before_image=before_image,
            after_image=after_image,
            position=position,
            commit_time=cells.time(cells.number(found.time), times.NANOS_PER_MILLI),
            transaction=cells.transaction(
                cells.where(half, number, None), complete=cells.where(cells.present(before), None, True)
            ),
            meta=cells.sparse({**meta, **message_keys.kept(cells, record.key, key)}),
            schema=cells.each(_schema, info),
        )

    return read


_NO_TABLE = "the message names no table: `schema.source.tableName` is missing; say which with --table"
_NO_NUMBER = "without `payload.sequenceId`, which names the other half of the update"


class _Message(NamedTuple):
    """The parts of a message."""

    message: Members
    payload: Members
    before: Cell
    after: Cell
    number: Cell
    time: Cell
    times: Members | None = None
    """None where the message is not in its plain shape."""
    whole: bytes | None = None
    """Then, all of it but the images."""


def _usual(cells: Cells, value: Cell) -> _Message | None:
    """The parts of a message in its plain shape; None where it has another one."""
    if not follows(cells.names(value), MESSAGE, ("schema", "payload")):
        return None
    message = cells.members(value)
    if not cells.only(cells.starts(message["payload"], b"{")) or not follows(
        cells.names(message["payload"]), PAYLOAD, ("before", "after", "sequenceId", "op", "timestamp")
    ):
        return None
    payload = cells.members(message["payload"])
    usual = cells.starts(payload["op"], b'"') & cells.starts(payload["timestamp"], b"{")
    usual &= cells.starts(payload["sequenceId"], b'"') | cells.equal(payload["sequenceId"], b"null")
    if not cells.only(usual) or not follows(cells.names(payload["timestamp"]), TIMES, TIMES[:1]):
        return None
    times = cells.members(payload["timestamp"])
    for time in times.values():
        if not cells.only(cells.matches(time, _TIME)):
            return None
    images = []
    for side in _IMAGES:
        raw = cells.first(cells.value(payload, side), b'{"dataColumn":null}')
        if not cells.only(cells.starts(raw, b"{")) or cells.names(raw) != _COLUMNS:
            return None
        image = cells.value(cells.members(raw), "dataColumn")
        if not cells.only(cells.starts(image, b"{") | ~cells.present(image)):
            _columns(f"payload.{side}.dataColumn", image)
        there = ~cells.equal(payload[side], b"null")
        if not cells.only((cells.present(image) & ~cells.equal(image, b"{}")) | ~there):
            return None
        images.append(image)
    number = cells.text(cells.value(payload, "sequenceId"))
    return _Message(message, payload, images[0], images[1], number, cells.value(times, "eventTime"), times)


def _columns(name: str, image: bytes) -> dict[str, bytes]:
    try:
        return json_text.members(image)
    except msgspec.DecodeError as error:
        raise Rejected(f"{name}: {error}") from None


def _as_it_is(value: bytes) -> _Message:
    """A message with members missing, added or empty: all of it is kept, except the images."""
    message = json_text.members(value)
    payload = _object("payload", message.get("payload"))
    if payload.get("op", b"null")[:1] != b'"':
        raise Rejected("not a message of DataWorks: `payload.op` is missing")
    number, time = payload.get("sequenceId", b"null"), _event_time(payload.get("timestamp"))
    before, after = (_side(payload, name) for name in _IMAGES)
    shown = dict(payload)
    for name, image in zip(_IMAGES, (before, after), strict=True):
        if image is not None:
            shape = json_text.members(payload[name])
            shown[name] = json_text.join((k, b"null" if k == "dataColumn" else v) for k, v in shape.items())
    whole = json_text.join({**message, "payload": json_text.join(shown.items())}.items())
    return _Message(message, payload, before, after, None if number == b"null" else text_of(number), time, whole=whole)


def _side(payload: Mapping[str, bytes], name: str) -> bytes | None:
    raw = payload.get(name, b"null")
    columns = b"null" if raw == b"null" else _object(f"payload.{name}", raw).get("dataColumn", b"null")
    if columns == b"null" or not _object(f"payload.{name}.dataColumn", columns):
        return None
    return columns


def _object(name: str, raw: bytes | None) -> dict[str, bytes]:
    if raw is None or raw[:1] != b"{":
        raise Rejected(f"not a message of DataWorks: `{name}` must be an object")
    return json_text.members(raw)


def _event_time(stamp: bytes | None) -> str | None:
    raw = _object("payload.timestamp", stamp).get("eventTime")
    if raw is None:
        raise Rejected("`payload.timestamp.eventTime` is missing, which every message must have")
    try:
        found = msgspec.json.decode(raw, type=int | None, strict=False)
    except msgspec.ValidationError:
        raise Rejected("`payload.timestamp.eventTime` must be a whole number of milliseconds") from None
    return None if found is None else str(found)


def _operation(name: str) -> Operation:
    if name not in OPERATIONS:
        raise Rejected(f"unknown `payload.op` {name!r} (case matters); {nearest(name, OPERATIONS)}")
    return OPERATIONS[name]


def _other_name(name: str, op: Operation) -> bytes | None:
    return None if NAMES.get(op) == name else quote(name)


def _table(options: ReadOptions, is_row: bool, info: TableInfo) -> object:
    return info.table or (options.table if is_row else None)


def _kept_source(info: TableInfo) -> bytes | None:
    return info.meta[1] if info.meta[0] == "source" else None


def _kept_schema(info: TableInfo) -> bytes | None:
    return info.meta[1] if info.meta[0] == "schema" else None


def _schema(info: TableInfo) -> str | None:
    return info.schema


def _pair(info: TableInfo, name: str) -> tuple[TableInfo, str]:
    return info, name


def _row(cells: Cells, plan: tuple[TableInfo, str], before: Cell, after: Cell) -> Sequence[Cell]:
    """The key of rows, and how complete their images are."""
    info, name = plan

    def sized(part: Cells, old: Members | None, new: Members | None) -> Sequence[Cell]:
        wanted = _SIDES.get(name, (old is not None, True))
        if (old is not None, new is not None) != wanted:
            sides = " and ".join(side for side, is_wanted in zip(_IMAGES, wanted, strict=True) if is_wanted)
            part.refuse(f"op {name} must have a row in {sides}, and in no other side")
        row = old if new is None else new
        for column in info.key:
            if row is not None and column not in row:
                part.refuse(f"the row lacks key column {column!r}")
        key = part.key({column: row[column] for column in info.key}) if info.key and row is not None else None
        return key, _size(old, info, is_before=True), _size(new, info, is_before=False)

    return cells.by_members(sized, (before, after))


def _size(row: Members | None, info: TableInfo, *, is_before: bool) -> Image:
    if row is None:
        return Image.NONE
    if is_before and info.key and row.keys() == set(info.key) != info.columns:
        return Image.KEY
    return Image.FULL if info.columns <= row.keys() else Image.PARTIAL


def _statement(ddl: bytes | None) -> bytes | None:
    """The statement of a DDL message by a name that does not depend on the dialect."""
    text = b"null" if ddl is None else ddl if ddl[:1] != b"{" else json_text.members(ddl).get("text", b"null")
    return text if text[:1] == b'"' else None
