"""Stream records into changes: YDB's, Amazon's, and the batches of Lambda and GetRecords."""

import functools
import operator
from collections.abc import Sequence
from typing import Literal

import msgspec

from changeling.envelope.cells import Cell, Cells, Members, as_bytes
from changeling.envelope.key_in_row import check_key
from changeling.envelope.one import ONE
from changeling.envelope.reading import ChangeCells, Reader
from changeling.formats.options import ReadOptions
from changeling.formats.ydb_dynamodb import attributes, envelope, images
from changeling.formats.ydb_dynamodb.envelope import BATCH, BODY, EVENT_SOURCE, EVENTS
from changeling.formats.ydb_json.topic import table_of
from changeling.model import json_text
from changeling.model.change import Change, Record
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.position import encode as position_of
from changeling.model.table import TableName

_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_IMAGES = ("NewImage", "OldImage")
_YDB_SOURCE = quote(EVENT_SOURCE)
_SECONDS, _MILLIS = "(?P<whole>[1-8][0-9]{9})", "(?P<whole>[1-8][0-9]{12})"
_WITH_FRACTION = r"(?P<whole>[1-8][0-9]{9})\.(?P<fraction>[0-9]{3})"


class YdbDynamodbRead(ReadOptions, frozen=True, kw_only=True):
    """Options of a reader of stream records."""

    order: Literal["sequence", "arrival"] = "sequence"
    """What orders the changes: SequenceNumber, or the place of arrival (each shard of a YDB table counts on its own)."""


class _Table(msgspec.Struct, frozen=True):
    name: TableName
    key: tuple[str, ...]
    schema: str | None


def reader(options: YdbDynamodbRead) -> Reader:
    """A function from a record to its changes: several where the record is a batch."""
    return _Reader(options).read


class _Reader:
    def __init__(self, options: YdbDynamodbRead) -> None:
        self._options = options
        self._by_arrival = options.order == "arrival"
        self._table = functools.lru_cache(maxsize=4096)(self._find_table)

    def read(self, cells: Cells, record: Record) -> ChangeCells | Sequence[Change]:
        if record.value is None:
            cells.alone()
            return [self._tombstone(record, record.key)]
        found = cells.members(record.value)
        if BATCH in found:
            cells.alone()
            return self._batch(found, record.topic)
        return self._change(cells, found, record.topic, None)

    def _batch(self, found: Members, topic: str | None) -> list[Change]:
        """The records of a Lambda event or of a GetRecords answer."""
        try:
            records = list(map(json_text.members, _items(found.pop(BATCH))))
        except msgspec.DecodeError as error:
            raise Rejected(f"`{BATCH}`: {error}") from None
        if not records:
            raise Rejected(f"`{BATCH}` is empty: there is no record in this batch")
        changes = []
        for place, record in enumerate(records):
            try:
                change = Change(**self._change(ONE, record, topic, found.get("eventSourceARN"))._asdict())
            except ValueError as error:
                raise Rejected(f"{BATCH}[{place}]: {error}") from None
            if found:
                change.meta = ONE.merged(change.meta, ONE.shell({BATCH: ONE.shell(found)}))
            changes.append(change)
        return changes

    def _change(self, cells: Cells, found: Members, topic: Cell, batch_arn: bytes | None) -> ChangeCells:
        if "dynamodb" not in found:
            cells.refuse("not a stream record: it has no `dynamodb`")
        body = cells.members(found["dynamodb"], "dynamodb", optional=_IMAGES, usual=BODY)
        arn = {"eventSourceARN": batch_arn, **found}
        names = (cells.value(arn, "eventSourceARN"), cells.value(found, "tableName"))
        table = cells.each(self._table, *names, topic)
        new, old = (images.read_image(cells, name, cells.value(body, name)) for name in _IMAGES)
        taken = [*_IMAGES]
        if "Keys" in body:
            key = _key(cells, body["Keys"], new, old)
            if cells.only(cells.equal(key, body["Keys"])):
                taken.append("Keys")
        else:
            cells.alone()
            key = _declared_key(table.key, new, old)
        sequence = None if self._by_arrival else body.get("SequenceNumber")
        from_ydb = cells.equal(found.get("eventSource", _YDB_SOURCE), _YDB_SOURCE)
        there = cells.present(new), cells.present(old)
        return ChangeCells(
            op=cells.each(_operation, found.get("eventName", b"null"), from_ydb, *there),
            table=cells.each(_name, table),
            key=key,
            before=old,
            after=new,
            before_image=cells.where(there[1], Image.FULL, Image.NONE),
            after_image=cells.where(there[0], Image.FULL, Image.NONE),
            position=None if sequence is None else _position(cells, sequence),
            commit_time=_time(cells, cells.value(body, "ApproximateCreationDateTime")),
            meta=cells.shell({**found, "dynamodb": cells.shell(body, taken)}),
            schema=cells.each(_schema, table),
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
                change.key = images.read_key(ONE, message_key)
            except ValueError:
                # A message key is free text: where it is no `Keys` object, the tombstone has no row to name.
                change.key = None
            if change.key != message_key:
                change.meta = b'{"tombstone":true,"messageKey":%b}' % quote(message_key.decode())
        return change


def _name(table: _Table) -> TableName:
    return table.name


def _schema(table: _Table) -> str | None:
    return table.schema


def _position(cells: Cells, raw: Cell) -> Cell:
    (number,) = cells.captured(raw, '"0*(?P<number>[0-9]{1,18})"')
    if cells.only(cells.present(number)):
        return cells.position(number)
    return position_of(envelope.read_sequence(raw))


def _time(cells: Cells, raw: Cell) -> Cell:
    """The commit time, mostly seconds, perhaps with a fraction, or milliseconds of our days."""
    if raw is None:
        return None
    (seconds,), (millis,) = (cells.captured(raw, pattern) for pattern in (_SECONDS, _MILLIS))
    whole, fraction = cells.captured(raw, _WITH_FRACTION)
    found = cells.first(
        cells.time(seconds, 1_000_000_000),
        cells.time(millis, 1_000_000),
        cells.plus(cells.time(whole, 1_000_000_000), cells.time(fraction, 1_000_000)),
    )
    return found if cells.only(cells.present(found) | ~cells.present(raw)) else envelope.read_time(raw)


def _key(cells: Cells, raw: Cell, new: Cell, old: Cell) -> Cell:
    """The key in the canonical spelling; a row that has another one is not the row of this record."""
    key = images.read_key(cells, raw)
    for row in (new, old):
        if row is None:
            continue
        held = cells.members(key)
        shown = cells.columns(row, tuple(held))
        same = ~cells.present(row)
        equal = [cells.equal(shown[name], value) for name, value in held.items()]
        same |= functools.reduce(operator.and_, equal)
        if not cells.only(same):
            check_key(json_text.members(key), as_bytes(row), attributes.canonical)
    return key


def _operation(event: bytes, from_ydb: bool, has_new: bool, has_old: bool) -> Operation:
    op = EVENTS.get(event)
    if op is None:
        raise Rejected(f"eventName is {event[:60].decode()}: it must be INSERT, MODIFY or REMOVE")
    if op is Operation.INSERT and has_old:
        raise Rejected("an INSERT cannot have an OldImage")
    if op is Operation.DELETE and has_new:
        raise Rejected("a REMOVE cannot have a NewImage")
    # YDB's MODIFY without an old image may be an insert; everyone else's INSERT says so in every mode.
    if op is Operation.UPSERT and (has_old or not from_ydb):
        return Operation.UPDATE
    return op


def _declared_key(names: tuple[str, ...], new: bytes | None, old: bytes | None) -> bytes | None:
    """The key where the record has no `Keys`: the columns that the user named, out of an image."""
    if not names:
        return None
    row = json_text.members(new or old or b"{}")
    if missing := [name for name in names if name not in row]:
        raise Rejected(f"the record has no `Keys`, and no image shows the key columns {', '.join(missing)}")
    return images.canonical_key({name: row[name] for name in names})
