"""DataWorks' rows into changes: JSON objects or rows of CSV, each one image of its row."""

import functools
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from changeling.formats.dataworks import message_key, sequence
from changeling.formats.dataworks.csv_rows import CsvStyle
from changeling.formats.dataworks.envelope import (
    AFTER,
    BEFORE,
    METADATA,
    OPERATION,
    RESERVED,
    SEQUENCE,
    SHAPES,
    SOURCE_TABLE,
    TIME,
    roles_of,
)
from changeling.formats.dataworks.options import DataworksRead
from changeling.formats.format import Decode
from changeling.formats.framing import HEADER
from changeling.model import json_text
from changeling.model.canonical import text_of
from changeling.model.change import Change, Record, Transaction
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_PLAIN = re.compile(
    rb'~{~"_sequence_id_"~:~"([0-9]{1,99})"~,~"_operation_type_"~:~"([IUD])"~,'
    rb'~"_execute_time_"~:~(-?[1-9][0-9]{0,17}|0|null)~,~"_before_image_"~:~"([YN])"~,'
    rb'~"_after_image_"~:~"([YN])"~,~(?=")'.replace(b"~", rb"[ \t\r\n]*")
)
"""The metadata of nearly every record: first, in order, and in plain spelling; the row follows."""
_INTEGER = re.compile(r"-?[0-9]{1,30}")
_HALF = {"before": b'"half":"before"', "after": b'"half":"after"'}
_HALF_META = {side: b"{%b}" % half for side, half in _HALF.items()}


def decoder(options: DataworksRead) -> Decode:
    """A function from one wire record to its change."""
    return _Reader(options).decode


class _Table(NamedTuple):
    """What all rows of one table share."""

    name: TableName | None
    schema: str | None
    key: tuple[str, ...]
    key_head: bytes | None
    """The text before the value in the key object of a single column."""
    key_is_row: bool
    """The table has no other columns than the key."""


class _Fields(msgspec.Struct, gc=False):
    """The metadata of a record, its names resolved."""

    sequence: str
    letter: str
    time: int | None
    before: str
    after: str


class _Header(NamedTuple):
    """Where a CSV file has its fields."""

    names: tuple[str, ...]
    roles: Mapping[str, int]
    data: tuple[tuple[str, int], ...]
    plain: bool
    """The five fields come first, by today's names, and the rest is data."""


class _Reader:
    def __init__(self, options: DataworksRead) -> None:
        self._options = options
        self._table = functools.lru_cache(maxsize=4096)(self._table_named)
        self._header = functools.lru_cache(maxsize=1024)(self._read_header)
        self._style = CsvStyle(options.delimiter, options.quote, options.null_text)

    def decode(self, record: Record) -> Sequence[Change]:
        value = record.value
        if value is None:
            return [self._tombstone(record)]
        for name, header in record.headers:
            if name == HEADER and header is not None:
                return [self._csv(record, value, header)]
        match = _PLAIN.match(value)
        if match is None:
            return [self._json(record, value) if value.lstrip()[:1] == b"{" else self._csv(record, value, None)]
        image = b"{%b" % value[match.end() :].rstrip()
        time = match[3]
        number = None if time == b"null" else int(time)
        try:
            row = _members(image)
        except msgspec.DecodeError:
            return [self._json(record, value)]
        if not RESERVED.isdisjoint(row) or (number is not None and sequence.means_seconds(number)):
            return [self._json(record, value)]
        fields = _Fields(match[1].decode(), match[2].decode(), number, match[4].decode(), match[5].decode())
        return [_change(fields, self._table(None, record.topic), row, image, record.key, [])]

    def _json(self, record: Record, value: bytes) -> Change:
        """A record whose metadata is not first, has older names, or another spelling."""
        members = json_text.members(value)
        roles = roles_of(members)
        taken = set(roles.values())
        row = {name: part for name, part in members.items() if name not in taken}
        source_table = members.get(SOURCE_TABLE, b"null")
        table = self._table(None if source_table == b"null" else _text(SOURCE_TABLE, source_table), record.topic)
        fields = _Fields(
            _text(SEQUENCE, members[roles[SEQUENCE]]),
            _text(OPERATION, members[roles[OPERATION]]),
            _time(None if members[roles[TIME]] == b"null" else _text(TIME, members[roles[TIME]])),
            _text(BEFORE, members[roles[BEFORE]]),
            _text(AFTER, members[roles[AFTER]]),
        )
        shell = json_text.join((name, part if name in taken else b"null") for name, part in members.items())
        return _change(fields, table, row, json_text.join(row.items()), record.key, [("envelope", shell)])

    def _csv(self, record: Record, value: bytes, header: bytes | None) -> Change:
        plan = self._header(header, record.topic)
        cells, quoted = self._style.parse(value)
        if len(cells) != len(plan.names):
            raise Rejected(f"the row has {len(cells)} fields, its header {len(plan.names)}")
        metadata = {name: cells[place] for name, place in plan.roles.items()}
        for name, cell in metadata.items():
            if cell is None and name not in (TIME, SOURCE_TABLE):
                raise Rejected(f"`{name}` is empty")
        row = {name: cells[place] for name, place in plan.data}
        time = metadata[TIME]
        fields = _Fields(
            metadata[SEQUENCE] or "",
            metadata[OPERATION] or "",
            _time(time),
            metadata[BEFORE] or "",
            metadata[AFTER] or "",
        )
        kept = [("layout", b'"csv"')]
        if quoted:
            kept.append(("quoted", quote([plan.names[place] for place in quoted])))
        if not plan.plain or (
            time is not None and (str(fields.time) != time or sequence.means_seconds(fields.time or 0))
        ):
            taken = set(plan.roles.values())
            shell = {name: cells[place] if place in taken else None for place, name in enumerate(plan.names)}
            kept.append(("envelope", quote(shell)))
        table = self._table(metadata.get(SOURCE_TABLE), record.topic)
        raws = {name: b"null" if row[name] is None else quote(row[name]) for name in table.key if name in row}
        return _change(fields, table, {**row, **raws}, quote(row), record.key, kept)

    def _read_header(self, header: bytes | None, topic: str | None) -> _Header:
        if header is None:
            schema = self._options.schema_of(self._table(None, topic).name)
            if schema is None:
                raise Rejected(
                    "neither a JSON object, nor a CSV row with a known header; name the columns with --columns"
                )
            names = [*METADATA, *(column.name for column in schema.columns)]
        else:
            names = [name or "" for name in self._style.parse(header.removeprefix(b"\xef\xbb\xbf")).fields]
        if len(set(names)) < len(names) or "" in names:
            raise Rejected(f"the header names a column twice, or not at all: {', '.join(names)}")
        roles = {role: names.index(name) for role, name in roles_of(names).items()}
        data = tuple((name, place) for place, name in enumerate(names) if place not in roles.values())
        return _Header(tuple(names), roles, data, tuple(names[:5]) == METADATA and len(roles) == len(METADATA))

    def _table_named(self, source_table: str | None, topic: str | None) -> _Table:
        name = self._options.table
        if source_table is not None and (name is None or name.name != source_table):
            name = TableName(None, None, source_table)
        if name is None and topic is not None:
            name = TableName(None, None, topic)
        schema, key = self._options.schema_of(name), self._options.key_of(name)
        return _Table(
            name,
            None if schema is None else schema.to_json(),
            key,
            b"{%b:" % quote(key[0]) if len(key) == 1 else None,
            schema is not None and {column.name for column in schema.columns} == set(key),
        )

    def _tombstone(self, record: Record) -> Change:
        key = message_key.as_key(record.key)
        meta = json_text.join([("tombstone", b"true"), *message_key.kept(record.key, key)])
        return Change(op=Operation.MESSAGE, table=self._table(None, record.topic).name, key=key, meta=meta)


def _text(name: str, raw: bytes) -> str:
    if raw == b"null" or raw[:1] in b"{[":
        raise Rejected(f"`{name}` must be a text, it is {raw[:20].decode(errors='replace')}")
    return text_of(raw)


def _time(text: str | None) -> int | None:
    if text is not None and not _INTEGER.fullmatch(text):
        raise Rejected(f"`{TIME}` must be a whole number of milliseconds, it is {text[:40]!r}")
    return None if text is None else int(text)


def _change(
    fields: _Fields,
    table: _Table,
    row: Mapping[str, object],
    image: bytes,
    record_key: bytes | None,
    kept: list[tuple[str, bytes]],
) -> Change:
    shape = SHAPES.get((fields.letter, fields.before, fields.after))
    if shape is None:
        raise Rejected(_unknown(fields))
    op, side, half = shape
    key = _key(table, row)
    size = Image.FULL
    if side == "before" and key is not None and len(row) == len(table.key) and not table.key_is_row:
        size = Image.KEY
    if record_key is not None:
        kept.extend(message_key.kept(record_key, key))
    meta: bytes | None = None
    if kept:
        parts = b",".join(b"%b:%b" % (quote(name), part) for name, part in kept)
        meta = b"{%b,%b}" % (_HALF[side], parts) if half else b"{%b}" % parts
    elif half:
        meta = _HALF_META[side]
    change = Change(
        op=op,
        table=table.name,
        key=key,
        position=sequence.position(fields.sequence, side),
        commit_time=None if fields.time is None else sequence.nanos(fields.time),
        transaction=Transaction(fields.sequence, complete=None if half and side == "before" else True),
        meta=meta,
        schema=table.schema,
    )
    if side == "before":
        change.before, change.before_image = image, size
    else:
        change.after, change.after_image = image, size
    return change


def _key(table: _Table, row: Mapping[str, object]) -> bytes | None:
    if not table.key:
        return None
    for name in table.key:
        if name not in row:
            raise Rejected(f"the row lacks key column {name!r}")
    if table.key_head is not None:
        return b"%b%b}" % (table.key_head, json_text.canonical(bytes(row[table.key[0]])))  # type: ignore[call-overload]
    return json_text.canonical_key((name, bytes(row[name])) for name in table.key)  # type: ignore[call-overload]


def _unknown(fields: _Fields) -> str:
    if fields.letter not in ("I", "U", "D"):
        return f"unknown `{OPERATION}` {fields.letter!r}: DataWorks has I, U and D"
    flags = (fields.before, fields.after)
    if not set(flags) <= {"Y", "N"}:
        return f"`{BEFORE}` and `{AFTER}` must be Y or N, they are {flags[0]!r} and {flags[1]!r}"
    wanted = [f"{shape[1]} and {shape[2]}" for shape in SHAPES if shape[0] == fields.letter]
    return (
        f"`{BEFORE}` {flags[0]} and `{AFTER}` {flags[1]} do not go with operation type {fields.letter}: "
        f"it has {', or '.join(wanted)}"
    )
