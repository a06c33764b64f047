"""Records that are no rows: tombstones, transaction marks, schema changes, heartbeats."""

import msgspec

from changeling.formats.debezium_json.envelope import Boundary, Source
from changeling.formats.debezium_json.message import Members, Message, key_columns, members, remembered
from changeling.formats.debezium_json.origin import commit_time, finest, place_of, table_of, transaction_id
from changeling.formats.debezium_json.positions import position_of
from changeling.model import json_text, position
from changeling.model.change import Change, Record, Transaction
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Operation
from changeling.model.table import TableName

_boundary = msgspec.json.Decoder(Boundary).decode
_source = json_text.named("source", msgspec.json.Decoder(Source).decode)
_BOUNDARIES = {"BEGIN": Operation.BEGIN, "END": Operation.COMMIT}
_SCHEMA_CHANGE = frozenset({"ddl", "tableChanges", "historyRecord"})
_CLOCKS = frozenset({"ts_ms", "ts_us", "ts_ns"})


def tombstone(record: Record, message: Message, declared: TableName | None) -> Change:
    """A message without a value: it lets a compacted topic forget the key, and says nothing about the row."""
    columns, _ = key_columns(message.key)
    try:
        table = table_of(declared, None, None, None, record.topic)
    except Rejected:
        table = None
    change = Change(
        op=Operation.MESSAGE,
        table=table,
        key=None if columns is None else json_text.canonical_key(columns.items()),
    )
    kept = b',"record":%b' % record.value if record.value is not None else b""
    change.meta = b'{"tombstone":true%b%b}' % (kept, _outside_value(record, message, change.key))
    return change


def other(record: Record, message: Message) -> Change:
    """A record that has no `op`; raises `Rejected` if it is none of Debezium's."""
    envelope = _with_history(message.envelope or {})
    if "status" in envelope and "id" in envelope:
        change = _transaction_mark(envelope)
    elif "source" in envelope and not _SCHEMA_CHANGE.isdisjoint(envelope):
        change = _schema_change(envelope)
    elif envelope and envelope.keys() <= _CLOCKS:
        change = Change(op=Operation.MESSAGE, commit_time=commit_time(Source(), envelope))
    else:
        raise Rejected(
            "not an event of Debezium: it has no `op`; a flattened record (ExtractNewRecordState) has no operation"
        )
    head = b'{"record":%b' % (record.value or b"null")
    if change.op is Operation.DDL and envelope.get("ddl", b"null") != b"null":
        head = b'{"statement":%b,%b' % (envelope["ddl"], head[1:])
    change.meta = head + _outside_value(record, message, None) + b"}"
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


def _outside_value(record: Record, message: Message, key: str | bytes | None) -> bytes:
    """What is kept in addition to the value: the key, and the topic, which no table's name implies."""
    kept_outside = remembered(msgspec.structs.replace(message, wrapper=None, pair=()), key)
    return kept_outside if record.topic is None else b'%b,"topic":%b' % (kept_outside, quote(record.topic))


def _transaction_mark(envelope: Members) -> Change:
    found = _boundary(json_text.join(envelope.items()))
    op = _BOUNDARIES.get(found.status)
    if op is None:
        raise Rejected(f"a transaction's status is {found.status!r}: it must be BEGIN or END")
    if found.position is not None:
        position.decode(found.position)
    return Change(
        op=op,
        position=found.position,
        commit_time=finest(found),
        transaction=Transaction(transaction_id(found.id), complete=True if op is Operation.COMMIT else None),
    )


def _schema_change(envelope: Members) -> Change:
    source = _source(envelope["source"])
    name = source.table or source.collection
    return Change(
        op=Operation.DDL,
        table=TableName(*place_of(source), name) if name else None,
        position=position_of(source, (source.connector or "").lower(), None),
        commit_time=commit_time(source, envelope),
    )
