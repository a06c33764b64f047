"""DataWorks' rows into changes: JSON objects or rows of CSV, each one image of its row."""

import functools
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from changeling.envelope import message_keys
from changeling.envelope.cells import Cell, Cells, Members
from changeling.envelope.csv_rows import RowStyle
from changeling.envelope.one import ONE
from changeling.envelope.reading import ChangeCells, Reader
from changeling.formats.dataworks import sequence
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
    Shape,
    roles_of,
)
from changeling.formats.dataworks.options import DataworksRead
from changeling.formats.framing import HEADER
from changeling.model import json_text
from changeling.model.canonical import text_of
from changeling.model.change import Change, Record
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName

_PLAIN = (
    r'~{~"_sequence_id_"~:~"(?P<sequence>[0-9]{1,99})"~,~"_operation_type_"~:~"(?P<letter>[IUD])"~,'
    r'~"_execute_time_"~:~(?P<time>-?[1-9][0-9]{0,17}|0|null)~,~"_before_image_"~:~"(?P<before>[YN])"~,'
    r'~"_after_image_"~:~"(?P<after>[YN])"~,~'.replace("~", r"[ \t\r\n]*")
)
"""The metadata of nearly every record: first, in order, and in plain spelling; the row follows."""
_INTEGER = re.compile(r"-?[0-9]{1,30}")
_QUOTED = [quote(name) for name in RESERVED]


def reader(options: DataworksRead) -> Reader:
    """A function from a record to its change."""
    return _Reader(options).read


class _Table(NamedTuple):
    """What all rows of one table share."""

    name: TableName | None
    schema: str | None
    key: tuple[str, ...]
    key_is_row: bool
    """The table has no other columns than the key."""


class _Fields(NamedTuple):
    """The metadata of a record, its names resolved."""

    sequence: Cell
    shape: Cell
    time: Cell


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
        self._style = RowStyle(options.delimiter, options.quote, options.null_text)

    def read(self, cells: Cells, record: Record) -> ChangeCells | Sequence[Change]:
        if record.value is None:
            cells.alone()
            return [message_keys.tombstone(record, self._table(None, record.topic).name)]
        header = dict(record.headers).get(HEADER)
        if header is not None or not cells.branch(cells.starts(record.value, b"{")):
            return self._csv(cells, record, header)
        sequence_id, letter, time, before, after, rest = cells.behind(record.value, _PLAIN)
        if not cells.only(cells.starts(rest, b'"')):
            return [self._json(record, record.value)]
        image = cells.joined(b"{", rest)
        number = cells.number(cells.value({TIME: time}, TIME))
        seconds = sequence.means_seconds(cells, number)
        if not cells.only(~cells.contains(image, _QUOTED) & ~seconds) and (seconds or _is_unusual(image)):
            return [self._json(record, record.value)]
        try:
            cells.check_object(image)
        except msgspec.DecodeError:
            return [self._json(record, record.value)]
        fields = _Fields(sequence_id, cells.each(_shape, letter, before, after), number)
        return _change(cells, fields, cells.each(self._table, None, record.topic), image, record.key)

    def _json(self, record: Record, value: bytes) -> Change:
        """A record whose metadata is not first, has older names, or another spelling."""
        members = json_text.members(value)
        roles = roles_of(members)
        taken = set(roles.values())
        row = {name: part for name, part in members.items() if name not in taken}
        source_table = members.get(SOURCE_TABLE, b"null")
        table = self._table(None if source_table == b"null" else _text(SOURCE_TABLE, source_table), record.topic)
        sequence_id, letter = (_text(name, members[roles[name]]) for name in (SEQUENCE, OPERATION))
        time = _time(None if members[roles[TIME]] == b"null" else _text(TIME, members[roles[TIME]]))
        flags = [_text(name, members[roles[name]]) for name in (BEFORE, AFTER)]
        fields = _Fields(sequence_id, _shape(letter, *flags), time)
        shell = json_text.join((name, part if name in taken else b"null") for name, part in members.items())
        return _one(fields, table, json_text.join(row.items()), record.key, {"envelope": shell})

    def _csv(self, cells: Cells, record: Cell, header: bytes | None) -> ChangeCells:
        plan = cells.common(cells.each(functools.partial(self._header, header), record.topic))
        found, _, quoted = cells.csv_row(record.value, self._style)
        if len(found) != len(plan.names):
            cells.refuse(f"the row has {len(found)} fields, its header {len(plan.names)}")
        metadata = {name: found[place] for name, place in plan.roles.items()}
        for name, field in metadata.items():
            if name not in (TIME, SOURCE_TABLE):
                cells.expect(cells.present(field), f"`{name}` is empty")
        row = {name: cells.quoted(found[place]) for name, place in plan.data}
        time = metadata[TIME]
        whole = cells.matches(time, _INTEGER.pattern) | ~cells.present(time)
        cells.expect(whole, lambda: f"`{TIME}` must be a whole number of milliseconds, it is {time[:40]!r}")
        shape = cells.each(_shape, metadata[OPERATION], metadata[BEFORE], metadata[AFTER])
        fields = _Fields(metadata[SEQUENCE], shape, cells.number(time))
        kept: Members = {"layout": b'"csv"'}
        if quoted:
            kept["quoted"] = quote([plan.names[place] for place in quoted])
        spelled = cells.equal(cells.printed(fields.time), time) & ~sequence.means_seconds(cells, fields.time)
        if not (plan.plain and cells.only(spelled | ~cells.present(time))):
            cells.alone()
            taken = set(plan.roles.values())
            shell = {name: found[place] if place in taken else None for place, name in enumerate(plan.names)}
            kept["envelope"] = quote(shell)
        table = cells.each(self._table, metadata.get(SOURCE_TABLE), record.topic)
        return _change(cells, fields, table, cells.shell(row), record.key, kept, row)

    def _read_header(self, header: bytes | None, topic: str | None) -> _Header:
        if header is None:
            schema = self._options.schema_of(self._table(None, topic).name)
            if schema is None:
                raise Rejected(
                    "neither a JSON object, nor a CSV row with a known header; name the columns with --columns"
                )
            names = [*METADATA, *(column.name for column in schema.columns)]
        else:
            names = [name or "" for name in self._style.split(header.decode().removeprefix("\ufeff")).fields]
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
            schema is not None and {column.name for column in schema.columns} == set(key),
        )


def _text(name: str, raw: bytes) -> str:
    if raw == b"null" or raw[:1] in b"{[":
        raise Rejected(f"`{name}` must be a text, it is {raw[:20].decode(errors='replace')}")
    return text_of(raw)


def _time(text: str | None) -> int | None:
    if text is not None and not _INTEGER.fullmatch(text):
        raise Rejected(f"`{TIME}` must be a whole number of milliseconds, it is {text[:40]!r}")
    return None if text is None else int(text)


def _shape(letter: str, before: str, after: str) -> Shape:
    found = SHAPES.get((letter, before, after))
    if found is None:
        raise Rejected(_unknown(letter, before, after))
    return found


def _one(fields: _Fields, table: _Table, image: bytes, record_key: bytes | None, kept: dict[str, bytes]) -> Change:
    return Change(**_change(ONE, fields, table, image, record_key, kept)._asdict())


def _change(
    cells: Cells,
    fields: _Fields,
    table: Cell,
    image: Cell,
    record_key: Cell,
    kept: Members | None = None,
    row: Members | None = None,
) -> ChangeCells:
    """A change; `row` are the columns of its image, where they are known."""
    is_before, half = cells.holds(_is_before, fields.shape), cells.holds(_is_half, fields.shape)
    names, key_is_row = cells.common(cells.each(_key, table))
    key = None
    if names:
        columns = cells.columns(image, names) if row is None else {name: row.get(name) for name in names}
        for name, value in columns.items():
            cells.expect(cells.present(value), f"the row lacks key column {name!r}")
        key = cells.key(columns)
    before = cells.where(is_before, image, None)
    size = Image.FULL
    if row is not None and names and not key_is_row:
        size = _size(len(names), row)
    elif names and not key_is_row:
        size = cells.first(cells.by_names(functools.partial(_size, len(names)), before), Image.FULL)
    side = cells.where(half, cells.where(is_before, b'"before"', b'"after"'), None)
    return ChangeCells(
        op=cells.each(_operation, fields.shape),
        table=cells.each(_name, table),
        key=key,
        before=before,
        after=cells.where(is_before, None, image),
        before_image=cells.where(is_before, size, Image.NONE),
        after_image=cells.where(is_before, Image.NONE, Image.FULL),
        position=sequence.position(cells, fields.sequence, is_before),
        commit_time=sequence.nanos(cells, fields.time),
        transaction=cells.transaction(fields.sequence, complete=cells.where(half & is_before, None, True)),
        meta=cells.sparse({"half": side, **(kept or {}), **message_keys.kept(cells, record_key, key)}),
        schema=cells.each(_schema, table),
    )


def _is_before(shape: Shape) -> bool:
    return shape.side == "before"


def _is_half(shape: Shape) -> bool:
    return shape.half


def _operation(shape: Shape) -> Operation:
    return shape.op


def _name(table: _Table) -> TableName | None:
    return table.name


def _schema(table: _Table) -> str | None:
    return table.schema


def _key(table: _Table) -> tuple[tuple[str, ...], bool]:
    return table.key, table.key_is_row


def _size(key_columns: int, row: Mapping[str, object]) -> Image:
    return Image.KEY if len(row) == key_columns else Image.FULL


def _is_unusual(image: bytes) -> bool:
    """Whether a row has a column of a reserved name; what is no row at all is looked at elsewhere."""
    try:
        return not RESERVED.isdisjoint(json_text.members(image))
    except msgspec.DecodeError:
        return True


def _unknown(letter: str, before: str, after: str) -> str:
    if letter not in ("I", "U", "D"):
        return f"unknown `{OPERATION}` {letter!r}: DataWorks has I, U and D"
    flags = (before, after)
    if not set(flags) <= {"Y", "N"}:
        return f"`{BEFORE}` and `{AFTER}` must be Y or N, they are {flags[0]!r} and {flags[1]!r}"
    wanted = [f"{shape[1]} and {shape[2]}" for shape in SHAPES if shape[0] == letter]
    return (
        f"`{BEFORE}` {flags[0]} and `{AFTER}` {flags[1]} do not go with operation type {letter}: "
        f"it has {', or '.join(wanted)}"
    )
