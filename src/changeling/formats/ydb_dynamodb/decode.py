"""Stream records into changes: YDB's, Amazon's, and the batches of Lambda and GetRecords."""

import functools
from collections.abc import Sequence
from typing import Literal

import msgspec

from changeling.envelope.key_in_row import check_key
from changeling.formats.format import Decode
from changeling.formats.options import ReadOptions
from changeling.formats.ydb_dynamodb import attributes, envelope, images
from changeling.formats.ydb_dynamodb.envelope import BATCH, EVENT_SOURCE, EVENTS
from changeling.formats.ydb_json.topic import table_of
from changeling.model import json_text
from changeling.model.change import Change, Record
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.position import encode as position_of
from changeling.model.table import TableName

_body = json_text.named("dynamodb", envelope.members)
_items = msgspec.json.Decoder(list[dict[str, msgspec.Raw]]).decode
_YDB_SOURCE = quote(EVENT_SOURCE)
_Members = dict[str, msgspec.Raw]
_IN_THE_CHANGE = msgspec.Raw(b"null")
"""The placeholder in the shell for a value that the change itself contains."""


class YdbDynamodbRead(ReadOptions, frozen=True, kw_only=True):
    """Options of a reader of stream records."""

    order: Literal["sequence", "arrival"] = "sequence"
    """What orders the changes: SequenceNumber, or the place of arrival (each shard of a YDB table counts on its own)."""


class _Table(msgspec.Struct, frozen=True):
    name: TableName
    key: tuple[str, ...]
    schema: str | None


def decoder(options: YdbDynamodbRead) -> Decode:
    """A function from one wire record to its changes: several where the record is a batch."""
    return _Reader(options).decode


class _Reader:
    def __init__(self, options: YdbDynamodbRead) -> None:
        self._options = options
        self._by_arrival = options.order == "arrival"
        self._table = functools.lru_cache(maxsize=4096)(self._find_table)

    def decode(self, record: Record) -> Sequence[Change]:
        if record.value is None:
            return [self._tombstone(record, record.key)]
        found = envelope.members(record.value)
        if BATCH in found:
            return self._batch(found, record.topic)
        return [self._change(found, record.topic, None)]

    def _batch(self, found: _Members, topic: str | None) -> list[Change]:
        """The records of a Lambda event or of a GetRecords answer."""
        try:
            records = _items(found.pop(BATCH))
        except msgspec.DecodeError as error:
            raise Rejected(f"`{BATCH}`: {error}") from None
        if not records:
            raise Rejected(f"`{BATCH}` is empty: there is no record in this batch")
        changes = []
        for place, record in enumerate(records):
            try:
                change = self._change(record, topic, found.get("eventSourceARN"))
            except ValueError as error:
                raise Rejected(f"{BATCH}[{place}]: {error}") from None
            if found:
                change.meta = b"%b,%b:%b}" % (_bytes(change.meta)[:-1], quote(BATCH), envelope.shell(found))
            changes.append(change)
        return changes

    def _change(self, found: _Members, topic: str | None, batch_arn: msgspec.Raw | None) -> Change:
        if "dynamodb" not in found:
            raise Rejected("not a stream record: it has no `dynamodb`")
        body = _body(found["dynamodb"])
        table = self._table(_optional(found.get("eventSourceARN", batch_arn)), _optional(found.get("tableName")), topic)
        new = _image(body, "NewImage")
        old = _image(body, "OldImage")
        if "Keys" in body:
            key: bytes | None = _key(body, new, old)
        else:
            key = _declared_key(table.key, new, old)
        time = body.get("ApproximateCreationDateTime")
        sequence = None if self._by_arrival else body.get("SequenceNumber")
        op = _operation(found, new, old)
        found["dynamodb"] = msgspec.Raw(envelope.shell(body))
        return Change(
            op=op,
            table=table.name,
            key=key,
            before=old,
            after=new,
            before_image=Image.NONE if old is None else Image.FULL,
            after_image=Image.NONE if new is None else Image.FULL,
            position=None if sequence is None else position_of(envelope.read_sequence(sequence)),
            commit_time=None if time is None else envelope.read_time(bytes(time)),
            meta=envelope.shell(found),
            schema=table.schema,
        )

    def _find_table(self, arn: bytes | None, name: bytes | None, topic: str | None) -> _Table:
        named = envelope.table_of_arn(envelope.text("eventSourceARN", arn)) if arn is not None else None
        if named is None and name is not None:
            named = envelope.text("tableName", name)
        table = TableName(None, None, named) if named else self._table_from_outside(topic)
        if table is None:
            raise Rejected(
                "the record names no table: it has no eventSourceARN, and no topic path/to/table/feed; give --table"
            )
        schema = self._options.schema_of(table)
        return _Table(table, self._options.key_of(table), None if schema is None else schema.to_json())

    def _table_from_outside(self, topic: str | None) -> TableName | None:
        """The table of records that do not name one: from the user, or from the topic's path."""
        if self._options.table is not None:
            return self._options.table
        return table_of(topic)

    def _tombstone(self, record: Record, message_key: bytes | None) -> Change:
        change = Change(op=Operation.MESSAGE, table=self._table_from_outside(record.topic), meta=b'{"tombstone":true}')
        if message_key is not None:
            try:
                change.key = images.read_key(message_key)
            except ValueError:
                # A message key is free text: where it is no `Keys` object, the tombstone has no row to name.
                change.key = None
            if change.key != message_key:
                change.meta = b'{"tombstone":true,"messageKey":%b}' % quote(message_key.decode())
        return change


def _optional(raw: msgspec.Raw | None) -> bytes | None:
    text = b"null" if raw is None else bytes(raw)
    return None if text == b"null" else text


def _bytes(text: str | bytes | None) -> bytes:
    return text if isinstance(text, bytes) else (text or "").encode()


def _image(body: _Members, name: str) -> bytes | None:
    if name not in body:
        return None
    image = images.read_image(name, bytes(body[name]))
    body[name] = _IN_THE_CHANGE
    return image


def _key(body: _Members, new: bytes | None, old: bytes | None) -> bytes:
    raw = bytes(body["Keys"])
    key = images.read_key(raw)
    for row in (new, old):
        if row is not None:
            check_key(json_text.members(key), row, attributes.canonical)
    if key == raw:
        body["Keys"] = _IN_THE_CHANGE
    return key


def _operation(found: _Members, new: bytes | None, old: bytes | None) -> Operation:
    event = bytes(found["eventName"]) if "eventName" in found else b"null"
    op = EVENTS.get(event)
    if op is None:
        raise Rejected(f"eventName is {event[:60].decode()}: it must be INSERT, MODIFY or REMOVE")
    if op is Operation.INSERT and old is not None:
        raise Rejected("an INSERT cannot have an OldImage")
    if op is Operation.DELETE and new is not None:
        raise Rejected("a REMOVE cannot have a NewImage")
    if op is Operation.UPSERT and (old is not None or not _is_from_ydb(found)):
        return Operation.UPDATE
    return op


def _is_from_ydb(found: _Members) -> bool:
    """YDB's MODIFY without an old image may be an insert; everyone else's INSERT says so in every mode."""
    return "eventSource" not in found or bytes(found["eventSource"]) == _YDB_SOURCE


def _declared_key(names: tuple[str, ...], new: bytes | None, old: bytes | None) -> bytes | None:
    """The key where the record has no `Keys`: the columns that the user named, out of an image."""
    if not names:
        return None
    row = json_text.members(new or old or b"{}")
    if missing := [name for name in names if name not in row]:
        raise Rejected(f"the record has no `Keys`, and no image shows the key columns {', '.join(missing)}")
    return images.canonical_key({name: row[name] for name in names})
