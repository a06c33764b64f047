"""Debezium's events into changes: rows of every connector, with and without the schema part, and records that are not rows."""

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from changeling.envelope.cells import Absent, Cell, Cells, Members
from changeling.envelope.reading import ChangeCells, Reader
from changeling.envelope.scalar_cells import SCALARS
from changeling.formats import debezium_envelope
from changeling.formats.debezium_envelope import IMAGES, Headers, document_key, key_columns, remembered, row_key
from changeling.formats.debezium_json import source_block
from changeling.formats.debezium_json.images import PLACEHOLDER, Placeholder, before_image, mongodb_key, mongodb_update
from changeling.formats.debezium_json.schema import schema_text
from changeling.formats.debezium_json.source_block import DOCUMENTS, MONGODB, XTDB, YDB
from changeling.formats.options import ReadOptions
from changeling.model import json_text
from changeling.model.change import Change, Record, Transaction
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import ROW_OPERATIONS, Image, Operation

OPERATIONS = {**debezium_envelope.OPERATIONS, "t": Operation.TRUNCATE, "m": Operation.MESSAGE}
LETTERS = {**debezium_envelope.LETTERS, Operation.TRUNCATE: "t", Operation.MESSAGE: "m"}
PAIR = ("key", "value")
OLD_KEY, NEW_KEY = "__debezium.oldkey", "__debezium.newkey"
"""The headers of the two halves of a key change, each with the key of the other."""
_BINARY = (
    "this is Avro or another binary form in Confluent's framing (first byte 0x00), and only JSON is read:"
    " set the connector's converter to org.apache.kafka.connect.json.JsonConverter"
)
_OF_TABLES = ROW_OPERATIONS | {Operation.TRUNCATE}
_operation = debezium_envelope.operation_by(OPERATIONS, "Debezium")


class DebeziumRead(ReadOptions, frozen=True, kw_only=True):
    """Options of a reader of Debezium's events."""

    placeholder: str = PLACEHOLDER
    """The connector's `unavailable.value.placeholder`: a column with this value is absent."""


class Message(NamedTuple):
    """The parts of a record.

    `wrapper` is set if the envelope was in a `payload`, `pair` if key and value were in one object: it has their names in
    order.
    """

    envelope: Members | None
    wrapper: Members | None
    key: Cell
    headers: Headers
    pair: tuple[str, ...] = ()


class RowCells(NamedTuple):
    """The key and the images of a row."""

    key: Cell = None
    before: Cell = None
    after: Cell = None
    before_image: Cell = Image.NONE
    after_image: Cell = Image.NONE
    notes: Mapping[str, Cell] = {}
    """What `meta` must keep of the images."""


def reader(options: DebeziumRead) -> Reader:
    """A function from a message to its change."""
    placeholder = Placeholder(options.placeholder)
    known_schema = functools.lru_cache(maxsize=4096)(functools.partial(schema_text, options))
    key_names = functools.lru_cache(maxsize=4096)(options.key_of)

    def read(cells: Cells, record: Record) -> ChangeCells | Sequence[Change]:
        message = _take_apart(cells, record)
        envelope = message.envelope
        if envelope is None:
            table = source_block.table_of(cells, options.table, Absent(), record.topic)
            return _tombstone(cells, record, message, table)
        if "op" not in envelope:
            cells.one_by_one()
            return [_control(record, message, envelope)]
        source = cells.struct(source_block.SOURCE, cells.value(envelope, "source"))
        connector = cells.each(source_block.connector_of, source.connector)
        op = cells.each(_operation, envelope["op"])
        transaction = source_block.transaction_of(cells, cells.value(envelope, "transaction"), source, connector)
        position = source_block.position_of(cells, source, connector, transaction)
        time = source_block.commit_time(cells, source, envelope)
        row, table, schema = RowCells(), None, None
        if cells.usually(cells.one_of(op, _OF_TABLES)):
            table = source_block.table_of(cells, options.table, source, record.topic)
            cells.expect(
                cells.present(table), "the event names no table: source.table is missing; say which with --table"
            )
            columns, key_schema = key_columns(cells, message.key)
            if cells.usually(cells.one_of(op, ROW_OPERATIONS)):
                row = read_row(cells, message, connector, op, columns, cells.common(cells.each(key_names, table)))
            schema = cells.each(known_schema, table, (message.wrapper or {}).get("schema"), key_schema)
        marks = cells.fields(None if table is None else source.changeling)
        taken = [side for side in IMAGES if cells.any(cells.present(getattr(row, side)))]
        meta = {"envelope": cells.json_object(envelope, taken), **row.notes}
        meta |= remembered(cells, message, row.key, message.wrapper)
        if message.pair:
            meta["pair"] = b"true" if message.pair == PAIR else quote(message.pair)
        return ChangeCells(
            op=cells.each(_marked_operation, marks.op, op),
            table=table,
            key=row.key,
            before=row.before,
            after=row.after,
            before_image=_shown(cells, row.before, marks.before_image, row.before_image),
            after_image=_shown(cells, row.after, marks.after_image, row.after_image),
            position=position,
            commit_time=time,
            transaction=transaction,
            meta=cells.json_object(meta),
            schema=schema,
        )

    def read_row(
        cells: Cells, message: Message, connector: Cell, op: Cell, columns: Cell, names: tuple[str, ...]
    ) -> RowCells:
        """The images and the key of a relational row; all others are looked at by themselves."""
        before, after = (cells.value(message.envelope or {}, side) for side in IMAGES)
        deleted = cells.equal(op, Operation.DELETE)
        plain = ~cells.one_of(connector, DOCUMENTS) & (deleted ^ cells.starts(after, b"{"))
        plain &= ~cells.present(before) | (cells.starts(before, b"{") & ~cells.starts(before, b"{}"))
        plain &= ~(deleted & cells.present(after))
        plain &= ~(cells.contains(before, placeholder.traces) | cells.contains(after, placeholder.traces))
        if not cells.usually(plain):
            return odd_row(message, connector, op, columns, names)
        key = row_key(cells, cells.first(after, before), columns, names)
        return RowCells(key, before, after, cells.each_object(before_image, before, after, key), Image.FULL)

    def odd_row(
        message: Message, connector: str, op: Operation, columns: bytes | None, names: tuple[str, ...]
    ) -> RowCells:
        """A row whose images are text, lack columns, or are in other members."""
        notes: Members = {}
        before, notes["text_before"] = _image(message, "before")
        after, notes["text_after"] = _image(message, "after")
        deleted, after_image = op is Operation.DELETE, Image.FULL
        if deleted:
            if after is not None and json_text.members(after):
                raise Rejected("op 'd' with a row in `after`")
            after = None
        elif after is None and op is Operation.UPDATE and connector == MONGODB:
            notes["derived"] = b"true"
            after, after_image = mongodb_update(message.envelope or {})
        elif after is None:
            # An update of YDB may have only the key.
            after_image = Image.NONE
            if op is not Operation.UPDATE or connector != YDB:
                advice = "; a scan of YDB's OLD_IMAGE mode is read with ydb-debezium" if connector == YDB else ""
                raise Rejected(f"op {LETTERS[op]!r} without a row in `after`{advice}")
        own_before, notes["unavailable_before"] = placeholder.taken_from(before)
        own_after, notes["unavailable_after"] = placeholder.taken_from(after)
        if own_after is not after:
            after_image = Image.PARTIAL
        row = own_before if deleted else own_after
        found = mongodb_key(columns, row) if connector == MONGODB else None
        if connector == XTDB and not names:
            found = document_key(row, message.key)
        key: bytes | None = found or row_key(
            SCALARS, own_before if (columns, row) == (None, None) else row, columns, names
        )
        if op is Operation.INSERT and after_image is Image.PARTIAL:
            old_key, _ = key_columns(SCALARS, dict(message.headers).get(OLD_KEY))
            if old_key not in (None, b"{}"):
                # Values that the event lacks are those of the row that had this key.
                notes["old_key"] = SCALARS.key_in_row(old_key, None)
        if own_before is not before:
            return RowCells(key, own_before, own_after, Image.PARTIAL, after_image, notes)
        kind = SCALARS.each_object(before_image, before, after, key)
        if connector in DOCUMENTS:
            # Documents have no fixed columns: one with fewer of them is still full.
            kind = Image.KEY if deleted and before == key else Image.FULL
        return RowCells(key, before, own_after, kind, after_image, notes)

    return read


def _take_apart(cells: Cells, record: Record) -> Message:
    """The parts of a record; one that is not JSON is rejected."""
    value, key, headers = record.value, record.key, record.headers
    if value is None:
        return Message(None, None, key, headers)
    cells.expect(~cells.starts(value, b"\0"), _BINARY)
    found = cells.members(value)
    message = Message(found, None, key, headers)
    if "op" in found:
        return message
    if found.keys() == set(PAIR) and cells.branch(cells.starts(found["value"], b"{")):
        cells.one_by_one()
        inner = _take_apart(cells, Record(found["value"]))
        return inner._replace(key=None if found["key"] == b"null" else found["key"], pair=tuple(found))
    if "payload" not in found:
        return message
    payload = cells.value(found, "payload")
    envelope = cells.members(payload, "payload") if cells.usually(cells.present(payload)) else None
    return message._replace(envelope=envelope, wrapper=found)


def _shown(cells: Cells, image: Cell, *kinds: Cell) -> Cell:
    """How complete an image is: as it is marked, or as it seems."""
    return cells.where(cells.present(image), cells.first(*kinds), Image.NONE)


def _marked_operation(marked: Operation | None, op: Operation) -> Operation:
    """The operation that our own records name, which must be written with the same letter, or else that of the letter."""
    if marked is not None and LETTERS.get(marked) != LETTERS[op]:
        raise Rejected(f"source.changeling says {marked}, which is not written as op {LETTERS[op]!r}")
    return marked or op


def _image(message: Message, side: str) -> tuple[bytes | None, bytes | None]:
    """An image, and the note that it is in a text."""
    raw = (message.envelope or {}).get(side, b"null")
    if raw == b"null":
        return None, None
    text, columns = _object(side, raw)
    # Arcion writes {} for a missing row.
    return None if side == "before" and not columns else text, None if text is raw else b"true"


def _object(name: str, raw: bytes) -> tuple[bytes, Members]:
    """An object, or the one in a text, and its members."""
    text = json_text.string(raw).encode() if raw[:1] == b'"' else raw
    try:
        return text, json_text.members(text)
    except msgspec.DecodeError:
        raise Rejected(f"`{name}` must be an object, or one as text") from None


_CLOCKS = frozenset({"ts_ms", "ts_us", "ts_ns"})
_BOUNDARIES = {"BEGIN": Operation.BEGIN, "END": Operation.COMMIT}
_SCHEMA_CHANGE = frozenset({"ddl", "tableChanges", "historyRecord"})


class _Boundary(msgspec.Struct, gc=False):
    """A record of the transaction topic."""

    status: str
    id: source_block.Number
    event_count: source_block.Number = None
    ts_ms: source_block.Number = None
    ts_ns: source_block.Number = None
    position: str | None = None


def _tombstone(cells: Cells, record: Cell, message: Message, table: Cell) -> ChangeCells:
    """A message without a value: it lets a compacted topic forget the key, and says nothing about the row."""
    columns, _ = key_columns(cells, message.key)
    key = None if columns is None else cells.key_in_row(columns, None)
    kept = {"tombstone": b"true", "record": record.value, **_outside_value(cells, record, message, key)}
    return ChangeCells(op=Operation.MESSAGE, table=table, key=key, meta=cells.json_object(kept))


def _control(record: Record, message: Message, envelope: Members) -> Change:
    """A record that has no `op`; raises `Rejected` if it is not one of Debezium's."""
    statement = None
    if "source" in envelope and "historyRecord" in envelope:
        # Flink's connectors send schema changes in this form.
        envelope = {**_object("historyRecord", envelope["historyRecord"])[1], **envelope}
    if "status" in envelope and "id" in envelope:
        change = _transaction_mark(envelope)
    elif "source" in envelope and not _SCHEMA_CHANGE.isdisjoint(envelope):
        change = _schema_change(envelope)
        statement = SCALARS.value(envelope, "ddl")
    elif envelope and envelope.keys() <= _CLOCKS:
        change = Change(op=Operation.MESSAGE, commit_time=source_block.created(envelope))
    else:
        raise Rejected(
            "not an event of Debezium: it has no `op`; a flattened record (ExtractNewRecordState) has no operation"
        )
    outside = _outside_value(SCALARS, record, message, None)
    change.meta = SCALARS.json_object({"statement": statement, "record": record.value, **outside})
    return change


def _outside_value(cells: Cells, record: Cell, message: Message, key: Cell) -> Members:
    """What is kept in addition to the value: the key, and the topic, which no table's name implies."""
    topic = cells.where(cells.present(record.topic), cells.quoted(record.topic), None)
    return {**remembered(cells, message, key), "topic": topic}


def _transaction_mark(envelope: Members) -> Change:
    found = msgspec.json.decode(json_text.join(envelope.items()), type=_Boundary)
    op = _BOUNDARIES.get(found.status)
    if op is None:
        raise Rejected(f"a transaction's status is {found.status!r}: it must be BEGIN or END")
    if found.position is not None:
        SCALARS.check_position(found.position)
    is_end = op is Operation.COMMIT
    count = found.event_count if is_end and isinstance(found.event_count, int) else None
    return Change(
        op=op,
        position=found.position,
        commit_time=source_block.finest(SCALARS, found),
        transaction=Transaction(source_block.transaction_id(found.id), total=count, complete=is_end or None),
    )


def _schema_change(envelope: Members) -> Change:
    source = SCALARS.struct(source_block.SOURCE, envelope["source"])
    return Change(
        op=Operation.DDL,
        table=source_block.table_of(SCALARS, None, source, None),
        position=source_block.position_of(SCALARS, source, source_block.connector_of(source.connector), None),
        commit_time=source_block.commit_time(SCALARS, source, envelope),
    )
