"""DataWorks' whole-database messages into changes: rows, halves of updates, marks, heartbeats and DDL."""

import functools
from collections.abc import Sequence
from itertools import compress
from operator import attrgetter
from typing import NamedTuple

import msgspec

from changeling.envelope import message_keys
from changeling.envelope.cells import Cell, Cells, Condition, Members
from changeling.envelope.reading import ChangeCells, Reader
from changeling.formats.dataworks import position_of
from changeling.formats.dataworks_message.types import WireSchema, WireSource, own_schema, parse
from changeling.formats.member_order import follows
from changeling.formats.options import ReadOptions
from changeling.model import json_text, times
from changeling.model.canonical import text_of
from changeling.model.change import Change, Record
from changeling.model.errors import Rejected, nearest
from changeling.model.json_text import quote
from changeling.model.operation import ROW_OPERATIONS, Image, Operation
from changeling.model.table import Column, TableName, TableSchema

OPERATIONS = {
    "INSERT": Operation.INSERT,
    "UPDATE_AFTER": Operation.UPDATE,
    "UPDATE_BEFOR": Operation.UPDATE,
    "UPDATE": Operation.UPDATE,
    "DELETE": Operation.DELETE,
    "TRUNCATE": Operation.TRUNCATE,
    "TRANSACTION_BEGIN": Operation.BEGIN,
    "TRANSACTION_END": Operation.COMMIT,
    "XACOMMIT": Operation.COMMIT,
    "MHEARTBEAT": Operation.BARRIER,
    **dict.fromkeys(("QUERY", "CREATE", "ALTER", "ERASE", "RENAME", "CINDEX", "DINDEX"), Operation.DDL),
    **dict.fromkeys(("GTID", "XAROLLBACK"), Operation.MESSAGE),
}
"""Every `op` that is published; case matters, and the first half of an update is spelled as published."""
NAMES: dict[Operation, str] = {
    **{operation: name for name, operation in reversed(OPERATIONS.items()) if operation is not Operation.MESSAGE},
    Operation.READ: "INSERT",
    Operation.UPSERT: "UPDATE_AFTER",
    Operation.REPLACE: "UPDATE_AFTER",
}
"""The `op` that is written where no closer one is known: the first one of an operation."""
BEFORE_HALF = "UPDATE_BEFOR"
MESSAGE = ("schema", "payload", "version")
PAYLOAD = ("before", "after", "sequenceId", "scn", "op", "timestamp", "ddl")
TIMES = ("eventTime", "systemTime", "checkpointTime")
"""The members of a message in the order in which it is written."""
IMAGES = ("before", "after")
_SIDES = {"INSERT": (False, True), "DELETE": (True, False), BEFORE_HALF: (True, False)}
"""Which images a row operation has; an update has the row after, and may have the one before."""
_text = json_text.named("op", msgspec.json.Decoder(str).decode)
_schema = msgspec.json.Decoder(WireSchema | None).decode


class DataworksMessageRead(ReadOptions, frozen=True, kw_only=True):
    """Options of a reader of DataWorks' messages: only those of every reader."""


class _TableInfo(NamedTuple):
    """What a message's `schema` and the user say about its table."""

    table: TableName | None
    schema: str | None
    key: tuple[str, ...]
    columns: frozenset[str]
    """The columns that the message lists."""
    wire: bytes | None
    """The wire's schema, for `meta`."""
    source: bytes | None
    """Or only what the change does not contain, if all else can be written from it."""


class _Message(NamedTuple):
    """The parts of a message."""

    message: Members
    payload: Members
    before: Cell
    after: Cell
    number: Cell
    time: Cell
    kept: Members
    """What `meta` keeps beside the schema; of a message that is not in its plain shape, all of it but the images."""


def reader(options: DataworksMessageRead) -> Reader:
    """A function from a message to its change."""

    @functools.lru_cache(maxsize=4096)
    def info_of(raw: bytes) -> _TableInfo:
        try:
            wire = _schema(raw) or WireSchema()
        except msgspec.ValidationError as error:
            raise Rejected(f"schema: {error}") from None
        source, key = wire.source or WireSource(), tuple(wire.primary_key or ())
        name = source.table_name
        table = None if name is None else TableName(source.db_name, source.schema_name, name)
        typed = ((column, parse(column.type)) for column in wire.data_column or ())
        # A type that is not published stays unknown: its values pass as they are.
        columns = tuple(Column(column.name, str(kind), column.type) for column, kind in typed if kind is not None)
        given = options.schema_of(table or options.table)
        own = TableSchema(columns, key) if wire.data_column else None
        schema, rest = given or own, None
        if given is None and own is not None and table is not None:
            members = json_text.members(json_text.members(raw)["source"])
            rest = json_text.join((name, part) for name, part in members.items() if name in ("dbType", "dbVersion"))
            rest = rest if own_schema(own.to_json(), table, rest) == json_text.compact(raw) else None
        return _TableInfo(
            table,
            None if schema is None else schema.to_json(),
            key or options.key_of(table or options.table),
            frozenset(column.name for column in wire.data_column or ()),
            json_text.compact(raw) if rest is None else None,
            rest,
        )

    def read(cells: Cells, record: Record) -> ChangeCells | Sequence[Change]:
        if record.value is None:
            cells.one_by_one()
            return [message_keys.tombstone(record, None)]
        message, payload, before, after, number, time, rest = _message(cells, record.value)
        info, name = cells.each(info_of, message.get("schema", b"null")), cells.each(_text, payload["op"])
        op = cells.each(_operation, name)
        is_row = cells.usually(cells.one_of(op, list(ROW_OPERATIONS)))
        table = cells.each(lambda info: info.table or (options.table if is_row else None), info)
        key, before_image, after_image = None, Image.NONE, Image.NONE
        if is_row:
            cells.expect(
                cells.present(table),
                "the message names no table: `schema.source.tableName` is missing; say which with --table",
            )
            plan = cells.each(lambda *plan: plan, info, name)
            key, before_image, after_image = cells.by_value(_row, plan, before, after)
        elif before is not None or after is not None:
            raise Rejected(f"op {name} with a row: only inserts, updates and deletes have one")
        half = cells.one_of(name, (BEFORE_HALF, "UPDATE_AFTER")) & (cells.present(before) ^ cells.present(after))
        cells.expect(
            ~half | cells.present(number),
            lambda: f"op {name} without `payload.sequenceId`, which names the other half of the update",
        )
        ends = cells.present(after) | cells.equal(op, Operation.COMMIT)
        position = None
        if cells.usually(cells.present(number)):
            position = position_of(cells, number, ~ends)
        elif op is Operation.BARRIER:
            # Without a position of its own a heartbeat cannot say what came before it.
            op = Operation.MESSAGE
        side = cells.where(cells.present(after), b'"after"', b'"before"')
        meta = {
            "half": cells.where(half, side, None),
            "op": cells.where(half, None, cells.each(_other_name, name, op)),
        }
        if "record" not in rest:
            meta |= {"source": cells.each(attrgetter("source"), info), "schema": cells.each(attrgetter("wire"), info)}
        meta |= rest
        if op is Operation.DDL:
            meta["statement"] = _statement_in(payload.get("ddl"))
        return ChangeCells(
            op=op,
            table=table,
            key=key,
            before=before,
            after=after,
            before_image=before_image,
            after_image=after_image,
            position=position,
            commit_time=cells.time(time, times.NANOS_PER_MILLI),
            transaction=cells.transaction(
                cells.where(half, number, None), complete=cells.where(cells.present(before), None, True)
            ),
            meta=cells.sparse({**meta, **message_keys.kept(cells, record.key, key)}),
            schema=cells.each(attrgetter("schema"), info),
        )

    return read


def _message(cells: Cells, value: Cell) -> _Message:
    message = cells.members(value)
    payload = _object(cells, "payload", message.get("payload"))
    cells.expect(cells.starts(payload.get("op"), b'"'), "not a message of DataWorks: `payload.op` is missing")
    stamp = _object(cells, "payload.timestamp", payload.get("timestamp"))
    if "eventTime" not in stamp:
        cells.refuse("`payload.timestamp.eventTime` is missing, which every message must have")
    (before, is_usual), (after, is_also) = (_side(cells, payload, side) for side in IMAGES)
    in_order = follows(tuple(message), MESSAGE, ("schema", "payload")) and follows(tuple(stamp), TIMES, TIMES[:1])
    in_order &= follows(tuple(payload), PAYLOAD, ("before", "after", "sequenceId", "op", "timestamp"))
    given, number, time = payload.get("sequenceId"), cells.value(payload, "sequenceId"), stamp["eventTime"]
    plain = cells.mask(in_order) & is_usual & is_also & (cells.starts(given, b'"') | ~cells.present(number))
    for own in stamp.values():
        plain &= cells.matches(own, "-?[0-9]{1,18}|null")
    if cells.usually(plain):
        number, time = cells.text(number), cells.parse_int(cells.value(stamp, "eventTime"))
        rest = {
            "sequenceId": cells.where(cells.matches(number, "0|[1-9][0-9]*"), None, given),
            **{name: stamp.get(name) for name in TIMES[1:]},
            **{name: payload.get(name) for name in ("scn", "ddl")},
            "version": message.get("version"),
        }
        return _Message(message, payload, before, after, number, time, rest)
    shown = dict(payload)
    for side, image in zip(IMAGES, (before, after), strict=True):
        if image is not None:
            shown[side] = json_text.join({**json_text.members(payload[side]), "dataColumn": b"null"}.items())
    whole = json_text.join({**message, "payload": json_text.join(shown.items())}.items())
    number = None if number is None else text_of(number)
    return _Message(message, payload, before, after, number, _event_time(time), {"record": whole})


def _object(cells: Cells, name: str, raw: Cell) -> Members:
    cells.expect(cells.starts(raw, b"{"), f"not a message of DataWorks: `{name}` must be an object")
    return cells.members(raw)


def _side(cells: Cells, payload: Members, side: str) -> tuple[Cell, Condition]:
    """The row of a side, None where it has none; and whether nothing else is there."""
    raw = cells.value(payload, side)
    around = _object(cells, f"payload.{side}", cells.first(raw, b'{"dataColumn":null}'))
    columns = cells.object_or_none(cells.value(around, "dataColumn"), f"payload.{side}.dataColumn")
    image = cells.where(cells.equal(columns, b"{}"), None, columns)
    alone = cells.mask(tuple(around) == ("dataColumn",))
    return image, ~cells.present(raw) | (cells.present(image) & alone)


def _event_time(raw: bytes) -> int | None:
    try:
        return msgspec.json.decode(raw, type=int | None, strict=False)
    except msgspec.ValidationError:
        raise Rejected("`payload.timestamp.eventTime` must be a whole number of milliseconds") from None


def _operation(name: str) -> Operation:
    if name not in OPERATIONS:
        raise Rejected(f"unknown `payload.op` {name!r} (case matters); {nearest(name, OPERATIONS)}")
    return OPERATIONS[name]


def _other_name(name: str, op: Operation) -> bytes | None:
    return None if NAMES.get(op) == name else quote(name)


def _row(cells: Cells, plan: tuple[_TableInfo, str], before: Cell, after: Cell) -> Sequence[Cell]:
    """The key of rows, and how complete their images are."""
    info, name = plan

    def sized(part: Cells, old: Members | None, new: Members | None) -> Sequence[Cell]:
        wanted = _SIDES.get(name, (old is not None, True))
        if (old is not None, new is not None) != wanted:
            part.refuse(f"op {name} must have a row in {' and '.join(compress(IMAGES, wanted))}, and in no other side")
        key = part.row_key(new or old or {}, info.key)
        size = Image.NONE if old is None else _size(old, info)
        if old is not None and info.key and old.keys() == set(info.key) != info.columns:
            size = Image.KEY
        return key, size, Image.NONE if new is None else _size(new, info)

    return cells.by_shape(sized, (before, after))


def _size(row: Members, info: _TableInfo) -> Image:
    return Image.FULL if info.columns <= row.keys() else Image.PARTIAL


def _statement_in(ddl: bytes | None) -> bytes | None:
    """The statement of a DDL message by a name that does not depend on the dialect."""
    text = b"null" if ddl is None else ddl if ddl[:1] != b"{" else json_text.members(ddl).get("text", b"null")
    return text if text[:1] == b'"' else None
