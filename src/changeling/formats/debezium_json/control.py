"""Records that are no rows: tombstones, transaction marks, schema changes, heartbeats."""

import functools

import msgspec

from changeling.envelope.cells import Cell, Cells
from changeling.envelope.one import ONE
from changeling.envelope.reading import ChangeCells
from changeling.formats.debezium_json.envelope import Boundary, Source
from changeling.formats.debezium_json.message import Members, Message, key_columns, members, remembered
from changeling.formats.debezium_json.origin import commit_time, finest, place_of, table_of_topic, transaction_id
from changeling.formats.debezium_json.positions import position_of
from changeling.model import json_text, position
from changeling.model.change import Change, Record, Transaction
from changeling.model.errors import Rejected
from changeling.model.operation import Operation
from changeling.model.table import TableName

_boundary = msgspec.json.Decoder(Boundary).decode
_source = json_text.named("source", msgspec.json.Decoder(Source).decode)
_BOUNDARIES = {"BEGIN": Operation.BEGIN, "END": Operation.COMMIT}
_SCHEMA_CHANGE = frozenset({"ddl", "tableChanges", "historyRecord"})
_CLOCKS = frozenset({"ts_ms", "ts_us", "ts_ns"})


def tombstone(cells: Cells, record: Cell, message: Message, declared: TableName | None) -> ChangeCells:
    """A message without a value: it lets a compacted topic forget the key, and says nothing about the row."""
    columns, _ = key_columns(cells, message.key)
    key = None if columns is None else cells.key_in_row(columns, None)
    kept = b"" if record.value is None else cells.joined(b',"record":', record.value)
    return ChangeCells(
        op=Operation.MESSAGE,
        table=cells.each(functools.partial(_table_or_none, declared), record.topic),
        key=key,
        meta=cells.joined(b'{"tombstone":true', kept, *_outside_value(cells, record, message, key), b"}"),
    )


def _table_or_none(declared: TableName | None, topic: str | None) -> TableName | None:
    try:
        return table_of_topic(declared, None, None, topic)
    except Rejected:
        return None


def other(record: Record, message: Message) -> Change:
    """A record that has no `op`; raises `Rejected` if it is none of Debezium's."""
    envelope = _with_history(message.envelope or {})
    if "status" in envelope and "id" in envelope:
        change = _transaction_mark(envelope)
    elif "source" in envelope and not _SCHEMA_CHANGE.isdisjoint(envelope):
        change = _schema_change(envelope)
    elif envelope and envelope.keys() <= _CLOCKS:
        change = Change(op=Operation.MESSAGE, commit_time=commit_time(ONE, Source(), envelope))
    else:
        raise Rejected(
            "not an event of Debezium: it has no `op`; a flattened record (ExtractNewRecordState) has no operation"
        )
    head = b'{"record":%b' % (record.value or b"null")
    if change.op is Operation.DDL and envelope.get("ddl", b"null") != b"null":
        head = b'{"statement":%b,%b' % (envelope["ddl"], head[1:])
    change.meta = head + b"".join(_outside_value(ONE, record, message, None)) + b"}"
    return change


def _with_history(envelope: Members) -> Members:
    """The envelope with the members of its `historyRecord`, the form in which Flink's connectors send schema changes."""
    raw = envelope.get("historyRecord")
    if raw is None or "source" not in envelope:
        return envelope
    try:
        history = members(json_text.string(raw) if raw[:1] == b'"' else raw)
    except msgspec.DecodeError:
        raise Rejected("`historyRecord` must be an object, or one as text") from None
    return {**history, **envelope}


def _outside_value(cells: Cells, record: Cell, message: Message, key: Cell) -> list[Cell]:
    """What is kept in addition to the value: the key, and the topic, which no table's name implies."""
    topic = cells.joined(b',"topic":', cells.quoted(record.topic))
    kept_outside = remembered(cells, message._replace(wrapper=None, pair=()), key)
    return [*kept_outside, cells.where(cells.present(record.topic), topic, b"")]


def _transaction_mark(envelope: Members) -> Change:
    found = _boundary(json_text.join(envelope.items()))
    op = _BOUNDARIES.get(found.status)
    if op is None:
        raise Rejected(f"a transaction's status is {found.status!r}: it must be BEGIN or END")
    if found.position is not None:
        position.decode(found.position)
    is_end = op is Operation.COMMIT
    count = found.event_count if is_end and isinstance(found.event_count, int) else None
    return Change(
        op=op,
        position=found.position,
        commit_time=finest(ONE, found),
        transaction=Transaction(transaction_id(found.id), total=count, complete=is_end or None),
    )


def _schema_change(envelope: Members) -> Change:
    source = _source(envelope["source"])
    name = source.table or source.collection
    return Change(
        op=Operation.DDL,
        table=TableName(*place_of(source), name) if name else None,
        position=position_of(ONE, source, None),
        commit_time=commit_time(ONE, source, envelope),
    )
