"""`canal`: the flat messages that Alibaba's Canal writes to Kafka for MySQL's binlog, every value as text."""

import functools
import re
from collections.abc import Sequence
from itertools import zip_longest
from operator import attrgetter
from typing import NamedTuple

import msgspec

from changeling.envelope import message_keys
from changeling.envelope.cells import Cell, Cells, Members, Names
from changeling.envelope.reading import ChangeCells, Reader
from changeling.envelope.rows import ImageColumns, by_rows
from changeling.envelope.writing import RecordCells, Writer, kept, milliseconds
from changeling.formats.all_text import ALL_TEXT
from changeling.formats.capabilities import carrying
from changeling.formats.format import Format
from changeling.formats.options import ReadOptions, WriteOptions
from changeling.model import json_text, times, types
from changeling.model.change import Change, Record
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.table import Column, TableName, TableSchema, schema_from_json
from changeling.model.types import Type

_OPERATIONS = {"INSERT": Operation.INSERT, "UPDATE": Operation.UPDATE, "DELETE": Operation.DELETE}
_ROWS = {
    **{operation: name for name, operation in _OPERATIONS.items()},
    **dict.fromkeys((Operation.READ, Operation.UPSERT, Operation.REPLACE), "INSERT"),
}
_NAMES = {**_ROWS, Operation.TRUNCATE: "TRUNCATE", Operation.DDL: "QUERY"}
_TAKEN = ("data", "old")
"""Members whose values the change itself contains: `meta` keeps the others, and the order of all."""
_IMAGES = ("key", "before", "after", "before_image", "after_image")
_INTEGERS = {"tinyint": "int8", "smallint": "int16", "int": "int32", "bigint": "int64"}
_OTHERS = {"float": "float32", "double": "float64", "datetime": "timestamp", "timestamp": "timestamptz"}
_SAME = {name: name for name in ("decimal", "json", "date", "time")}
_MYSQL = {"mediumint": "int32", **_INTEGERS, **_OTHERS, **_SAME}
_WIRE = {
    **{kind: name for name, kind in _MYSQL.items()},
    **{f"u{kind}": f"{name} unsigned" for name, kind in _INTEGERS.items()},
}
_TYPE = re.compile(r"([a-z]+)(?:\((\d+)(?:,(\d+))?\))?( unsigned)?")
_string = msgspec.json.Decoder(str).decode
_type, _database_name, _table_name = (json_text.named(name, _string) for name in ("type", "database", "table"))
_columns = json_text.named("mysqlType", msgspec.json.Decoder(dict[str, str] | None).decode)
_key_names = json_text.named("pkNames", msgspec.json.Decoder(list[str] | None).decode)


class CanalRead(ReadOptions, frozen=True, kw_only=True):
    """Canal's messages leave no choice."""


class CanalWrite(WriteOptions, frozen=True, kw_only=True):
    """Canal's messages leave no choice."""


class _Table(NamedTuple):
    """What a message says about its table."""

    name: TableName
    key: Names
    schema: str | None


def reader(options: CanalRead) -> Reader:
    """A function from a message to its change; one of several rows gives a change for each."""

    @functools.lru_cache(maxsize=4096)
    def table_of(database: bytes, table: bytes, key: bytes, columns: bytes) -> _Table:
        catalog = None if database == b"null" else _database_name(database) or None
        name = options.table if table == b"null" else TableName(catalog, None, _table_name(table))
        if name is None:
            raise Rejected("the message names no table; say which with --table")
        names = tuple(_key_names(key) or ()) or options.key_of(name)
        schema = options.schema_of(name) or _schema(_columns(columns), names)
        return _Table(name, names, None if schema is None else schema.to_json())

    def read(cells: Cells, record: Record) -> ChangeCells | Sequence[Change]:
        if record.value is None:
            cells.one_by_one()
            return [message_keys.tombstone(record, options.table)]
        message = cells.members(record.value)
        if "type" not in message:
            cells.refuse("not a message of Canal: it has no 'type'")
        op = cells.each(_operation, message["type"], message.get("isDdl", b"false"))
        texts = (message.get(name, b"null") for name in ("database", "table", "pkNames", "mysqlType"))
        table = cells.each(table_of, *texts)
        time = cells.value(message, "es")
        whole = cells.matches(time, "-?[0-9]{1,18}") | ~cells.present(time)
        cells.expect(whole, "`es` must be a whole number of milliseconds")
        data, old = (cells.value(message, name) for name in _TAKEN)
        for name, rows in (("data", data), ("old", old)):
            cells.expect(cells.starts(rows, b"[") | ~cells.present(rows), f"`{name}` must be a list of rows")
        change = ChangeCells(
            op=op,
            table=cells.each(attrgetter("name"), table),
            commit_time=cells.time(cells.parse_int(time), times.NANOS_PER_MILLI),
            schema=cells.each(attrgetter("schema"), table),
            meta=cells.json_object(message, _TAKEN),
        )
        if not cells.usually(cells.one_of(op, list(_ROWS))):
            statement = message.get("sql", b'""')
            return change._replace(meta=json_text.join({**message, "statement": statement}.items()))
        cells.expect(cells.present(data), "a message without rows: `data` is missing")
        plan = cells.each(lambda table, op: (table.key, op), table, op)

        def changed(row: Cell, shown: Cell) -> ChangeCells:
            return change._replace(**dict(zip(_IMAGES, cells.by_value(_images, plan, row, shown), strict=True)))

        if cells.is_columnar:
            shown = None if old is None else cells.items(cells.first(old, b"[null]"), 1, str)[0]
            return changed(cells.items(data, 1, str)[0], shown)
        rows, before = json_text.items(data), json_text.items(old or b"[]")
        if not rows:
            raise Rejected("a message without rows: `data` is empty")
        is_lone = old is not None and len(rows) == 1
        if (before or is_lone) and len(before) != len(rows):
            raise Rejected(f"{len(rows)} rows in `data`, but {len(before)} in `old`")
        return [Change(**changed(row, shown)._asdict()) for row, shown in zip_longest(rows, before)]

    return read


def _operation(raw: bytes, is_ddl: bytes) -> Operation:
    name = _type(raw)
    if name == "TRUNCATE":
        return Operation.TRUNCATE
    if is_ddl == b"true":
        return Operation.DDL
    if name not in _OPERATIONS:
        raise Rejected(f"unknown type {name!r}: a row has INSERT, UPDATE or DELETE, and a statement isDdl")
    return _OPERATIONS[name]


def _images(cells: Cells, plan: tuple[Names, Operation], row: Cell, shown: Cell) -> Sequence[Cell]:
    """What a row in `data` and one in `old` say."""
    cells.expect(cells.starts(row, b"{"), "a row in `data` must be an object")
    old = cells.value({"old": shown}, "old")
    cells.expect(cells.starts(old, b"{") | ~cells.present(old), "a row in `old` must be an object")
    names, op = plan

    def made(part: Cells, new: Members, old: Members | None, row: Cell, shown: Cell) -> Sequence[Cell]:
        key = part.key_of(names, new)
        if old is not None and op is Operation.DELETE:
            part.refuse("a DELETE with a row in `old`: the row before is in `data`")
        if old is not None and op is Operation.INSERT:
            part.refuse("an INSERT with a row in `old`: there was none before")
        if op is Operation.DELETE:
            return key, row, None, Image.KEY if names and set(names) == set(new) else Image.FULL, Image.NONE
        if old is None:
            return key, None, row, Image.NONE, Image.FULL
        whole = Image.FULL if new.keys() <= old.keys() else Image.PARTIAL
        return key, shown, row, Image.KEY if names and set(names) == set(old) else whole, Image.FULL

    return cells.by_shape(made, (row, old), row, old)


def _schema(columns: dict[str, str] | None, key: Names) -> TableSchema | None:
    if not columns:
        return None
    return TableSchema(tuple(Column(name, str(_parse(wire)), wire) for name, wire in columns.items()), key)


def _parse(wire: str) -> Type:
    """The canonical type of MySQL's; text where it is another one."""
    found = _TYPE.fullmatch(wire.lower())
    kind = _MYSQL.get(found[1]) if found else None
    if found is None or kind is None:
        return Type("string")
    if kind == "decimal" and found[2]:
        return types.decimal(int(found[2]), int(found[3] or 0))
    return Type(f"u{kind}" if found[4] and kind.startswith("int") else kind)


def writer(options: CanalWrite) -> Writer:
    """A function from a change to its message."""
    return _write


def _write(cells: Cells, out: Cell) -> Sequence[RecordCells]:
    change, meta = out.change, kept(cells, out)
    if "tombstone" in meta:
        return [RecordCells(None, message_keys.restored(cells, meta, change.key))]
    is_row = cells.usually(cells.one_of(change.op, list(_ROWS)))
    data, old, key, columns = by_rows(cells, change, _written, out.native) if is_row else (None,) * 4
    if meta:
        members = {name: text for name, text in meta.items() if is_row or name != "statement"}
        return [RecordCells(cells.refilled(members, {"data": data, "old": old}), change.key)]
    millis = milliseconds(cells, out, "a message's time has milliseconds, this one has more digits")
    statement = b'""' if is_row else json_text.members(change.meta or b"{}").get("statement", b'""')
    members = {
        "data": cells.or_null(data),
        "database": cells.each(lambda table: quote(None if table is None else table.catalog), change.table),
        "es": cells.int_json(millis),
        "id": cells.int_json(out.running),
        "isDdl": b"false" if is_row else b"true",
        "mysqlType": cells.or_null(columns),
        "old": cells.or_null(old),
        "pkNames": cells.or_null(key),
        "sql": statement if statement[:1] == b'"' else b'""',
        "sqlType": b"null",
        "table": cells.each(lambda table: quote("" if table is None else table.name), change.table),
        "ts": cells.int_json(millis),
        "type": cells.each(lambda op: quote(_NAMES[op]), change.op),
    }
    return [RecordCells(cells.json_object(members), change.key)]


def _written(cells: Cells, row: ImageColumns, native: bool) -> Sequence[Cell]:
    """`data`, `old`, `pkNames` and `mysqlType`."""
    kind, key = row.kind, row.key or {}
    before, after = (
        side if native or side is None else {**{name: key[name] for name in key if name not in side}, **side}
        for side in (row.before, row.after)
    )
    deleted = kind.op is Operation.DELETE
    shown = before if deleted else after
    old = None if deleted or before is None else cells.array_of([cells.json_object(before)])
    columns = None
    if kind.schema is not None:
        columns = quote({column.name: _wire(column) for column in schema_from_json(kind.schema).columns})
    return cells.array_of([cells.json_object(key if shown is None else shown)]), old, quote(list(key) or None), columns


def _wire(column: Column) -> str:
    kind = column.canonical
    if kind.kind == "decimal" and kind.precision is not None:
        return f"decimal({kind.precision},{kind.scale})"
    return _WIRE.get(kind.kind, "text")


FORMAT = Format(
    name="canal",
    summary="Canal's flat messages of MySQL's binlog: rows of texts, and what an update changed",
    read_options=CanalRead,
    write_options=CanalWrite,
    reader=reader,
    writer=writer,
    carries=carrying(
        *("insert", "update", "delete", "truncate", "ddl", "before", "after", "key-change", "keyless", "composite-key"),
        *("commit_time", "table", "catalog", "null", "null-text"),
    ),
    types=ALL_TEXT,
    position="none: the place of arrival",
    signs=(("isDdl", "mysqlType"), ("isDdl", "pkNames")),
)
