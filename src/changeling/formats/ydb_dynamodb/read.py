"""Stream records into changes: YDB's, Amazon's, and the batches of Lambda and GetRecords."""

import contextlib
import functools
import operator
import re
from collections.abc import Callable, Sequence
from decimal import ROUND_FLOOR, Decimal, InvalidOperation
from typing import Literal

from changeling.envelope.cells import Cell, Cells, Members, as_bytes
from changeling.envelope.key_in_row import check_key
from changeling.envelope.reading import ChangeCells, Reader, change_of
from changeling.envelope.scalar_cells import SCALARS
from changeling.formats.changefeed import KnownTable, table_of
from changeling.formats.options import ReadOptions
from changeling.formats.ydb_dynamodb import types
from changeling.model import json_text, times
from changeling.model.change import Change, Record
from changeling.model.errors import Rejected, inside
from changeling.model.json_text import quote
from changeling.model.operation import Operation
from changeling.model.position import encode as position_of
from changeling.model.table import TableName

BATCH = "Records"
"""The member with the records of a Lambda event or of a GetRecords answer; in a shell, what else the batch contains."""
EVENT_SOURCE = b'"ydb:document-table"'
_EVENTS = {b'"INSERT"': Operation.INSERT, b'"MODIFY"': Operation.UPSERT, b'"REMOVE"': Operation.DELETE}
_BODY = ("ApproximateCreationDateTime", "Keys", "NewImage", "OldImage", "SequenceNumber", "SizeBytes", "StreamViewType")
"""The members of `dynamodb` in their usual order."""
_IMAGES = ("NewImage", "OldImage")
_ARN = re.compile(r"arn:[^:]*:dynamodb:[^:]*:[^:]*:table/([^/]+)(?:/.*)?", re.DOTALL)
_UNITS = (times.NANOS_PER_SECOND, times.NANOS_PER_MILLI, 1_000, 1)
_LIMIT = 2**63

_TEXT, _DIGITS = r'"[^"\\\x00-\x1f]*"', "-?(?:0|[1-9][0-9]*)"
_FLAT = rf'"(?:[SB]":{_TEXT}|N":"{_DIGITS}(?:\.[0-9]+)?"|BOOL":(?:true|false))'


def _nested(value: str) -> str:
    """A value of plain ones, or a list or a document of such."""
    return rf'{{(?:{_FLAT}|"L":\[(?:{value}(?:,{value})*)?\]|"M":{{(?:{_TEXT}:{value}(?:,{_TEXT}:{value})*)?}})}}'


_PAIR = rf'{_TEXT}:(?:{_nested(_nested("{" + _FLAT + "}"))}|{{"NULL":true}})'
_PLAIN_IMAGE = rf"{{(?:{_PAIR}(?:,{_PAIR})*)?}}"
"""An image of plain values, not nested deep: nothing in it can be wrong, so it need not be parsed."""
_KEY_PAIR = rf'{_TEXT}:{{"(?:[SB]":{_TEXT}|N":"(?:0|-?[1-9][0-9]*)(?:\.[0-9]*[1-9])?")}}'
_PLAIN_KEY = rf"{{{_KEY_PAIR}(?:,{_KEY_PAIR})*}}"


class YdbDynamodbRead(ReadOptions, frozen=True, kw_only=True):
    """Options of a reader of stream records."""

    order: Literal["sequence", "arrival"] = "sequence"
    """What orders the changes: SequenceNumber, or the place of arrival (each shard of a YDB table counts on its own)."""


def reader(options: YdbDynamodbRead) -> Reader:
    """A function from a record to its changes: several where the record is a batch."""
    known_table = functools.lru_cache(maxsize=4096)(functools.partial(_table, options))

    def read(cells: Cells, record: Record) -> ChangeCells | Sequence[Change]:
        if record.value is None:
            cells.one_by_one()
            return _tombstone(record, options.table)
        found = cells.members(record.value)
        if BATCH in found:
            cells.one_by_one()
            return _batch(found, lambda inner, arn: read_one(SCALARS, inner, record.topic, arn))
        return read_one(cells, found, record.topic, None)

    def read_one(cells: Cells, found: Members, topic: Cell, batch_arn: bytes | None) -> ChangeCells:
        if "dynamodb" not in found:
            cells.refuse("not a stream record: it has no `dynamodb`")
        body = cells.members(found["dynamodb"], "dynamodb", optional=_IMAGES, usual=_BODY)
        arn = {"eventSourceARN": batch_arn, **found}
        names = (cells.value(arn, "eventSourceARN"), cells.value(found, "tableName"))
        table = cells.each(known_table, *names, topic)
        new, old = (_image(cells, name, cells.value(body, name)) for name in _IMAGES)
        taken = [*_IMAGES]
        if "Keys" in body:
            key = _key(cells, body["Keys"], new, old)
            if cells.usually(cells.equal(key, body["Keys"])):
                taken.append("Keys")
        else:
            cells.one_by_one()
            key = _declared_key(table.key, new, old)
        sequence = None if options.order == "arrival" else body.get("SequenceNumber")
        from_ydb = cells.equal(found.get("eventSource", EVENT_SOURCE), EVENT_SOURCE)
        there = cells.present(new), cells.present(old)
        return ChangeCells(
            op=cells.each(_operation, found.get("eventName", b"null"), from_ydb, *there),
            table=cells.each(operator.attrgetter("name"), table),
            key=key,
            before=old,
            after=new,
            position=None if sequence is None else _position(cells, sequence),
            commit_time=cells.each_row(read_time, cells.value(body, "ApproximateCreationDateTime")),
            meta=cells.json_object({**found, "dynamodb": cells.json_object(body, taken)}),
            schema=cells.each(operator.attrgetter("schema"), table),
        )

    return read


def _batch(found: Members, read_one: Callable[[Members, bytes | None], ChangeCells]) -> list[Change]:
    """The records of a Lambda event or of a GetRecords answer."""
    with inside(f"`{BATCH}`"):
        records = list(map(json_text.members, json_text.items(found.pop(BATCH))))
    if not records:
        raise Rejected(f"`{BATCH}` is empty: there is no record in this batch")
    changes = []
    for place, record in enumerate(records):
        with inside(f"{BATCH}[{place}]"):
            change = change_of(read_one(record, found.get("eventSourceARN")))
        if found:
            change.meta = SCALARS.merged(change.meta, SCALARS.json_object({BATCH: SCALARS.json_object(found)}))
        changes.append(change)
    return changes


def _table(options: ReadOptions, arn: bytes | None, name: bytes | None, topic: str | None) -> KnownTable:
    """The table that a record names, else that of the user or of the topic's path."""
    match = None if arn is None else _ARN.fullmatch(_text("eventSourceARN", arn))
    named = match[1] if match else _text("tableName", name) if name else None
    table = TableName(None, None, named) if named else options.table or table_of(topic)
    if table is None:
        raise Rejected(_NAMELESS)
    return KnownTable(table, options.key_of(table), options.schema_text(table))


_NAMELESS = "the record names no table: it has no eventSourceARN, and no topic path/to/table/feed; give --table"


def _text(name: str, raw: bytes) -> str:
    with inside(f"`{name}`"):
        return json_text.string(raw)


def _tombstone(record: Record, table: TableName | None) -> ChangeCells:
    key, meta = None, b'{"tombstone":true}'
    if record.key is not None:
        # A message key is free text: where it is no `Keys` object, the tombstone has no row to name.
        with contextlib.suppress(ValueError):
            key = _keys(SCALARS, record.key)
        if key != record.key:
            meta = b'{"tombstone":true,"messageKey":%b}' % quote(record.key.decode())
    return ChangeCells(Operation.MESSAGE, table or table_of(record.topic), key, meta=meta)


def _operation(event: bytes, from_ydb: bool, has_new: bool, has_old: bool) -> Operation:
    if event not in _EVENTS:
        raise Rejected(f"eventName is {event[:60].decode()}: it must be INSERT, MODIFY or REMOVE")
    op = _EVENTS[event]
    if op is Operation.INSERT and has_old:
        raise Rejected("an INSERT cannot have an OldImage")
    if op is Operation.DELETE and has_new:
        raise Rejected("a REMOVE cannot have a NewImage")
    # YDB's MODIFY without an old image may be an insert; everyone else's INSERT says so in every mode.
    return Operation.UPDATE if op is Operation.UPSERT and (has_old or not from_ydb) else op


def _image(cells: Cells, name: str, raw: Cell) -> Cell:
    """An image as a change has it: the wire's text, except that `{"NULL":true}` is `null`; None where there is none."""
    if raw is None or cells.usually(cells.matches(raw, _PLAIN_IMAGE) | ~cells.present(raw)):
        # No text in a plain image contains quotes, so that these can only be values.
        return cells.changed(raw, types.NULL, lambda image: as_bytes(image).replace(types.NULL, b"null"))
    with inside(f"`{name}`"):
        columns, nulls = json_text.members(raw), {}
        for column, value in columns.items():
            with inside(f"column {column!r}"):
                if types.plain(types.read(value)) == b"null":
                    nulls[column] = b"null"
    return json_text.join({**columns, **nulls}.items()) if nulls else raw


def _keys(cells: Cells, raw: Cell) -> Cell:
    """`Keys` in the canonical spelling; raises `Rejected` naming the column that cannot be part of a key."""
    if cells.usually(cells.matches(raw, _PLAIN_KEY)):
        names = cells.names(raw)
        if names == tuple(sorted(names)):
            return raw
    cells.one_by_one()
    with inside("`Keys`"):
        columns = json_text.members(raw)
    if not columns:
        raise Rejected("`Keys` names no column")
    return _canonical_key(columns)


def _canonical_key(columns: Members) -> bytes:
    pairs = []
    for column, value in columns.items():
        with inside(f"key column {column!r}"):
            pairs.append((column, types.key_value(value)))
    return json_text.join(sorted(pairs))


def _key(cells: Cells, raw: Cell, new: Cell, old: Cell) -> Cell:
    """The key in the canonical spelling; a row that has another one is not the row of this record."""
    key = _keys(cells, raw)
    for row in (new, old):
        if row is None:
            continue
        held = cells.members(key)
        shown = cells.columns(row, tuple(held))
        equal = functools.reduce(operator.and_, (cells.equal(shown[name], value) for name, value in held.items()))
        if not cells.usually(equal | ~cells.present(row)):
            check_key(json_text.members(key), as_bytes(row), types.key_value)
    return key


def _declared_key(names: tuple[str, ...], new: bytes | None, old: bytes | None) -> bytes | None:
    """The key where the record has no `Keys`: the columns that the user named, out of an image."""
    if not names:
        return None
    row = json_text.members(new or old or b"{}")
    if missing := [name for name in names if name not in row]:
        raise Rejected(f"the record has no `Keys`, and no image shows the key columns {', '.join(missing)}")
    return _canonical_key({name: row[name] for name in names})


def _position(cells: Cells, raw: Cell) -> Cell:
    """The number that orders the records of a shard."""
    (number,) = cells.captured(raw, '"0*(?P<number>[0-9]{1,18})"')
    if cells.usually(cells.present(number)):
        return cells.position(number)
    digits = _text("SequenceNumber", raw)
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 99:
        raise Rejected(f"`SequenceNumber` must be digits, got {digits[:60]!r}")
    return position_of(int(digits))


def read_time(raw: bytes | None) -> int | None:
    """Nanoseconds of a creation time: a number in the largest unit that keeps it before 2262, or ISO-8601 text.

    Amazon counts seconds (some tools print them with a fraction or as text), YDB milliseconds, Kinesis microseconds.
    """
    if raw is None:
        return None
    # The seconds of our days have 10 digits, the milliseconds 13: with as many zeros as make 19 they are nanoseconds.
    whole, _, fraction = raw.partition(b".")
    digits = whole + fraction
    if len(whole) in (10, 13) and digits.isdigit() and len(digits) <= 19:
        usual = int(digits.ljust(19, b"0"))
        if usual < _LIMIT:
            return usual
    shown = _text("ApproximateCreationDateTime", raw) if raw[:1] == b'"' else raw.decode()
    try:
        value = Decimal(shown)
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite():
        if raw[:1] != b'"':
            raise Rejected("`ApproximateCreationDateTime` must be a number or an ISO-8601 text")
        return times.from_units(times.parse(shown)[0], 1)
    if value.adjusted() <= 20:
        for unit in _UNITS:
            nanos = int((value * unit).to_integral_value(ROUND_FLOOR))
            if -_LIMIT <= nanos < _LIMIT:
                return nanos
    raise Rejected(f"the time {shown[:60]} lies outside the years 1677 to 2262")
