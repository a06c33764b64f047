"""XTDB events into changes: all three shapes that its documents and envelopes come in."""

import functools
from collections.abc import Sequence

import msgspec

from changeling.formats.format import Decode
from changeling.formats.options import ReadOptions
from changeling.formats.xtdb.envelope import (
    OPERATIONS,
    TOPIC_PREFIX,
    AnyTransaction,
    DocumentId,
    Envelope,
    Source,
    in_order,
)
from changeling.formats.xtdb.envelope import Transaction as WireTransaction
from changeling.model import json_text, times
from changeling.model.change import Change, Record, Transaction
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.position import encode as position_of
from changeling.model.table import TableName

_envelope = msgspec.json.Decoder(Envelope).decode
_source = json_text.named("source", msgspec.json.Decoder(Source).decode)
_transaction = json_text.named("transaction", msgspec.json.Decoder(AnyTransaction | None).decode)
_document_id = msgspec.json.Decoder(DocumentId).decode
_op = json_text.named("op", msgspec.json.Decoder(str).decode)
_time = json_text.named("ts_ms", msgspec.json.Decoder(int | None).decode)
_payload = json_text.named("payload", json_text.members)


class XtdbRead(ReadOptions, frozen=True, kw_only=True):
    """Options of an XTDB reader."""

    topic_prefix: str = TOPIC_PREFIX
    """The prefix of the table's name in a topic; read where a record itself names no table."""


def decoder(options: XtdbRead) -> Decode:
    """A function from one wire record to its change."""
    reader = _Reader(options)
    return reader.decode


class _Reader:
    def __init__(self, options: XtdbRead) -> None:
        self._options = options
        self._table = functools.lru_cache(maxsize=4096)(TableName)
        self._schema = functools.lru_cache(maxsize=4096)(self._schema_text)

    def decode(self, record: Record) -> Sequence[Change]:
        if record.value is None:
            return [self._tombstone(record)]
        try:
            found = _envelope(record.value)
        except msgspec.ValidationError:
            return [self._other_shape(record, record.value)]
        source = _source(found.source)
        if found.ts_ms != source.ts_ms or not in_order(record.value, bytes(found.source)):
            return [self._other_shape(record, record.value)]
        change = self._change(record, found.op, found.before, found.after, source, found.transaction)
        change.meta = b'{"source":%b}' % found.source
        return [change]

    def _other_shape(self, record: Record, value: bytes) -> Change:
        wrapper = json_text.members(value)
        payload = wrapper.get("payload")
        envelope = _payload(payload) if payload is not None else wrapper
        for name in ("op", "source"):
            if name not in envelope:
                raise Rejected(f"not an XTDB event: it has no {name!r}")
        before, after = _document(envelope, "before"), _document(envelope, "after")
        transaction = _transaction(envelope.get("transaction", b"null"))
        source = _source(envelope["source"])
        if source.ts_ms is None and source.system_time is None:
            source.ts_ms = _time(envelope.get("ts_ms", b"null"))
        change = self._change(record, _op(envelope["op"]), before, after, source, transaction)
        meta = [("envelope", json_text.join((name, _shell(name, part)) for name, part in envelope.items()))]
        objects = [name for name in ("before", "after") if envelope.get(name, b"")[:1] == b"{"]
        if objects:
            meta.append(("objects", quote(objects)))
        if payload is not None:
            meta.append(("wrapper", json_text.join((k, b"null" if k == "payload" else v) for k, v in wrapper.items())))
        change.meta = json_text.join(meta)
        return change

    def _change(
        self,
        record: Record,
        letter: str,
        before: str | bytes | None,
        after: str | bytes | None,
        source: Source,
        transaction: WireTransaction | AnyTransaction | None,
    ) -> Change:
        op = OPERATIONS.get(letter)
        if op is None:
            raise Rejected(f"unknown op {letter!r}: XTDB has c, u, d and r")
        if (after is None) is not (op is Operation.DELETE):
            raise Rejected(f"op {letter!r} {'without' if after is None else 'with'} a document in `after`")
        row = before if op is Operation.DELETE else after
        key = self._key(row, record.key)
        before_image = Image.NONE if before is None else Image.FULL
        if op is Operation.DELETE and before is not None and _bytes(before) == key:
            before_image = Image.KEY
        if after is not None and before is not None:
            _document_id(before)
        for document in (before, after):
            if document is not None and len(document) > 2 * json_text.DEPTH_LIMIT:
                json_text.check_depth(_bytes(document))
        table = (
            self._table(source.db, None, source.table)
            if source.table is not None
            else self._by_topic(record, source.db)
        )
        time = source.ts_ms if source.ts_ms is not None else source.system_time
        return Change(
            op=op,
            table=table,
            key=key,
            before=before,
            after=after,
            before_image=before_image,
            after_image=Image.NONE if after is None else Image.FULL,
            position=position_of(source.tx_id, 0 if transaction is None else transaction.data_collection_order),
            commit_time=None if time is None else times.from_units(time, 1_000_000),
            transaction=None
            if transaction is None
            else Transaction(transaction.id, transaction.data_collection_order, transaction.total_order),
            schema=self._schema(table),
        )

    def _key(self, row: str | bytes | None, message_key: bytes | None) -> bytes:
        if row is not None:
            if self._options.key:
                columns = json_text.members(row)
                missing = [name for name in self._options.key if name not in columns]
                if missing:
                    raise Rejected(f"the document lacks the key columns {', '.join(missing)}")
                return json_text.canonical_key((name, columns[name]) for name in self._options.key)
            found = _document_id(row)
            raw = found.id if found.id is not msgspec.UNSET else found.old_id
            if raw is not msgspec.UNSET:
                return b'{"_id":%b}' % json_text.canonical(bytes(raw))
        if message_key is None:
            raise Rejected("no record id: neither `_id` nor `xt/id` in the document, and no message key")
        return b'{"_id":%b}' % quote(message_key.decode())

    def _by_topic(self, record: Record, catalog: str | None = None) -> TableName | None:
        prefix = self._options.topic_prefix
        if record.topic is not None and record.topic.startswith(prefix):
            return self._table(catalog, None, record.topic[len(prefix) :])
        declared = self._options.table
        if declared is None and record.value is not None:
            raise Rejected("the event names no table: source.table is missing; say which with --table")
        return (
            declared
            if declared is None or declared.catalog is not None
            else self._table(catalog, declared.schema, declared.name)
        )

    def _schema_text(self, table: TableName | None) -> str | None:
        schema = self._options.schema_of(table)
        return None if schema is None else schema.to_json()

    def _tombstone(self, record: Record) -> Change:
        return Change(
            op=Operation.MESSAGE,
            table=self._by_topic(record),
            key=None if record.key is None else b'{"_id":%b}' % quote(record.key.decode()),
            meta=b'{"tombstone":true}',
        )


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def _document(envelope: dict[str, bytes], side: str) -> str | bytes | None:
    raw = envelope.get(side, b"null")
    if raw == b"null":
        return None
    text = json_text.string(raw) if raw[:1] == b'"' else raw
    if text.lstrip()[:1] not in ("{", b"{"):
        raise Rejected(f"`{side}` must be a JSON object, or one as text")
    if isinstance(text, str):
        return text
    return raw


def _shell(name: str, part: bytes) -> bytes:
    return b"null" if name in ("before", "after") else part
