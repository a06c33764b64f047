"""DataWorks' whole-database messages into changes: rows, halves of updates, marks, heartbeats and DDL."""

from collections.abc import Mapping, Sequence

import msgspec

from changeling.envelope.one import ONE
from changeling.formats.dataworks import message_key, sequence
from changeling.formats.dataworks_message import schema
from changeling.formats.dataworks_message.envelope import BEFORE_HALF, NAMES, OPERATIONS, Envelope, Payload, Side
from changeling.formats.dataworks_message.schema import TableInfo
from changeling.formats.format import Decode
from changeling.formats.member_order import is_usual
from changeling.formats.options import ReadOptions
from changeling.model import json_text, times
from changeling.model.canonical import text_of
from changeling.model.change import Change, Record, Transaction
from changeling.model.errors import Rejected, nearest
from changeling.model.json_text import quote
from changeling.model.operation import ROW_OPERATIONS, Image, Operation

_envelope = msgspec.json.Decoder(Envelope).decode
_columns = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_times = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_EMPTY = (b"null", b"{}")
_SIDES = {"INSERT": (False, True), "DELETE": (True, False), BEFORE_HALF: (True, False)}
"""Which images a row operation has; an update has the row after, and may have the one before."""

Row = Mapping[str, msgspec.Raw]
Kept = list[tuple[str, bytes]]


class DataworksMessageRead(ReadOptions, frozen=True, kw_only=True):
    """Options of a reader of DataWorks' messages: only those of every reader."""


def decoder(options: DataworksMessageRead) -> Decode:
    """A function from one message to its change."""
    return _Reader(options).decode


class _Reader:
    def __init__(self, options: DataworksMessageRead) -> None:
        self._options = options
        self._table_info = schema.reader(options)

    def decode(self, record: Record) -> Sequence[Change]:
        value = record.value
        if value is None:
            key = message_key.as_key(record.key)
            meta = json_text.join([("tombstone", b"true"), *message_key.kept(ONE, record.key, key)])
            return [Change(op=Operation.MESSAGE, key=key, meta=meta)]
        try:
            found = _envelope(value)
        except msgspec.ValidationError:
            return [self._other_shape(record, value)]
        payload = found.payload
        before, after = _plain_side(payload.before), _plain_side(payload.after)
        if before in _EMPTY or after in _EMPTY or not _is_usual(value):
            return [self._other_shape(record, value)]
        info = self._table_info(bytes(found.schema))
        change = self._change(info, payload.op, before, after, payload.sequence_id, payload.timestamp.event)
        _keep(change, record, payload.op, _plain_meta(change, info, payload, found))
        return [change]

    def _other_shape(self, record: Record, value: bytes) -> Change:
        """A message with members missing, added or empty: all of it is kept, except the images."""
        message = json_text.members(value)
        payload = _object("payload", message.get("payload"))
        op, stamp = payload.get("op", b"null"), payload.get("timestamp")
        if op[:1] != b'"':
            raise Rejected("not a message of DataWorks: `payload.op` is missing")
        number = payload.get("sequenceId", b"null")
        info = self._table_info(message.get("schema", b"null"))
        change = self._change(
            info,
            json_text.string(op),
            _side(payload, "before"),
            _side(payload, "after"),
            None if number == b"null" else text_of(number),
            _event_time(stamp),
        )
        for name in ("before", "after"):
            if getattr(change, name) is not None:
                shape = json_text.members(payload[name])
                payload[name] = json_text.join((k, b"null" if k == "dataColumn" else v) for k, v in shape.items())
        message["payload"] = json_text.join(payload.items())
        kept = [("record", json_text.join(message.items())), *_statement(change, payload.get("ddl"))]
        _keep(change, record, json_text.string(op), kept)
        return change

    def _change(
        self,
        info: TableInfo,
        name: str,
        before: bytes | None,
        after: bytes | None,
        number: str | None,
        event_time: int | None,
    ) -> Change:
        op = OPERATIONS.get(name)
        if op is None:
            raise Rejected(f"unknown `payload.op` {name!r} (case matters); {nearest(name, OPERATIONS)}")
        change = Change(op=op, table=info.table, schema=info.schema)
        change.commit_time = None if event_time is None else times.from_units(event_time, sequence.NANOS_PER_MILLI)
        if op in ROW_OPERATIONS:
            self._add_row(change, info, name, before, after)
        elif before is not None or after is not None:
            raise Rejected(f"op {name} with a row: only inserts, updates and deletes have one")
        if number is not None:
            behind = change.after is not None or op is Operation.COMMIT
            change.position = sequence.position(ONE, number, not behind)
        elif op is Operation.BARRIER:
            # Without a position of its own a heartbeat cannot say what came before it.
            change.op = Operation.MESSAGE
        if _is_half(change, name):
            if number is None:
                raise Rejected(f"op {name} without `payload.sequenceId`, which names the other half of the update")
            change.transaction = Transaction(number, complete=True if change.before is None else None)
        return change

    def _add_row(self, change: Change, info: TableInfo, name: str, before: bytes | None, after: bytes | None) -> None:
        wants_before, wants_after = _SIDES.get(name, (before is not None, True))
        if (before is not None, after is not None) != (wants_before, wants_after):
            sides = " and ".join(side for side, wanted in (("before", wants_before), ("after", wants_after)) if wanted)
            raise Rejected(f"op {name} must have a row in {sides}, and in no other side")
        change.table = info.table or self._options.table
        if change.table is None:
            raise Rejected("the message names no table: `schema.source.tableName` is missing; say which with --table")
        for side, image in (("before", before), ("after", after)):
            if image is None:
                continue
            try:
                row = _columns(image)
            except msgspec.DecodeError as error:
                raise Rejected(f"payload.{side}.dataColumn: {error}") from None
            size = _size(row, info, side)
            if side == "before":
                change.before, change.before_image = image, size
            else:
                change.after, change.after_image = image, size
            change.key = _key(info, row)


def _is_usual(value: bytes) -> bool:
    """Whether the members of a message in the plain shape come in the order in which it is written."""
    message = _columns(value)
    payload = _columns(message["payload"])
    return (
        is_usual(value, ("schema", "payload", "version"))
        and is_usual(message["payload"], ("before", "after", "sequenceId", "scn", "op", "timestamp", "ddl"))
        and is_usual(payload["timestamp"], ("eventTime", "systemTime", "checkpointTime"))
    )


def _is_half(change: Change, name: str) -> bool:
    return name in (BEFORE_HALF, "UPDATE_AFTER") and (change.before is None) != (change.after is None)


def _size(row: Row, info: TableInfo, side: str) -> Image:
    key = set(info.key)
    if side == "before" and key and row.keys() == key != info.columns:
        return Image.KEY
    return Image.FULL if info.columns <= row.keys() else Image.PARTIAL


def _key(info: TableInfo, row: Row) -> bytes | None:
    names = info.key
    if not names:
        return None
    for name in names:
        if name not in row:
            raise Rejected(f"the row lacks key column {name!r}")
    if info.key_head is not None:
        return b"%b%b}" % (info.key_head, json_text.canonical(bytes(row[names[0]])))
    return json_text.canonical_key((name, bytes(row[name])) for name in names)


def _plain_side(side: Side | None) -> bytes | None:
    return None if side is None else bytes(side.columns)


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


def _event_time(stamp: bytes | None) -> int | None:
    raw = _object("payload.timestamp", stamp).get("eventTime")
    if raw is None:
        raise Rejected("`payload.timestamp.eventTime` is missing, which every message must have")
    try:
        return msgspec.json.decode(raw, type=int | None, strict=False)
    except msgspec.ValidationError:
        raise Rejected("`payload.timestamp.eventTime` must be a whole number of milliseconds") from None


def _plain_meta(change: Change, info: TableInfo, payload: Payload, found: Envelope) -> Kept:
    kept: Kept = [info.meta]
    number = payload.sequence_id
    if number is None or not number.isdigit() or (number[0] == "0" and number != "0"):
        kept.append(("sequenceId", quote(number)))
    stamp = payload.timestamp
    if stamp.system is not msgspec.UNSET:
        kept.append(("systemTime", quote(stamp.system)))
    if stamp.checkpoint is not msgspec.UNSET:
        kept.append(("checkpointTime", quote(stamp.checkpoint)))
    if payload.scn is not msgspec.UNSET:
        kept.append(("scn", bytes(payload.scn)))
    if payload.ddl is not msgspec.UNSET:
        kept.append(("ddl", bytes(payload.ddl)))
        kept.extend(_statement(change, bytes(payload.ddl)))
    if found.version is not msgspec.UNSET:
        kept.append(("version", bytes(found.version)))
    return kept


def _statement(change: Change, ddl: bytes | None) -> Kept:
    """The statement of a DDL message by a name that does not depend on the dialect."""
    if change.op is not Operation.DDL or ddl is None:
        return []
    text = ddl if ddl[:1] != b"{" else json_text.members(ddl).get("text", b"null")
    return [("statement", text)] if text[:1] == b'"' else []


def _keep(change: Change, record: Record, name: str, kept: Kept) -> None:
    if _is_half(change, name):
        kept.insert(0, ("half", b'"before"' if change.after is None else b'"after"'))
    elif NAMES.get(change.op) != name:
        kept.insert(0, ("op", quote(name)))
    if record.key is not None:
        kept.extend(message_key.kept(ONE, record.key, change.key if isinstance(change.key, bytes) else None))
    change.meta = json_text.join(kept)
