"""`canal`: the flat messages that Alibaba's Canal writes to Kafka for MySQL's binlog, every value as text."""

import functools
import re
from collections.abc import Sequence

import msgspec

from changeling.envelope import message_keys
from changeling.envelope.cells import Cell, Cells, Members
from changeling.envelope.reading import ChangeCells, Reader
from changeling.envelope.rows import Row, by_rows
from changeling.envelope.writing import RecordCells, Writer, kept
from changeling.formats.all_text import ALL_TEXT
from changeling.formats.capabilities import carrying
from changeling.formats.format import Format, Outgoing
from changeling.formats.options import ReadOptions, WriteOptions
from changeling.model import json_text, types
from changeling.model.change import Change, Record
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.table import Column, TableName, TableSchema, schema_from_json
from changeling.model.types import Type

_OPERATIONS = {"INSERT": Operation.INSERT, "UPDATE": Operation.UPDATE, "DELETE": Operation.DELETE}
_NAMES = {
    **{operation: name for name, operation in _OPERATIONS.items()},
    **dict.fromkeys((Operation.READ, Operation.UPSERT, Operation.REPLACE), "INSERT"),
    Operation.TRUNCATE: "TRUNCATE",
    Operation.DDL: "QUERY",
}
_ROWS = [operation.value for operation in _NAMES if operation not in (Operation.TRUNCATE, Operation.DDL)]
_MILLISECOND = 1_000_000
_TAKEN = ("data", "old")
"""Members whose values the change itself contains: `meta` keeps the others, and the order of all."""
_MYSQL = {
    "tinyint": "int8",
    "smallint": "int16",
    "mediumint": "int32",
    "int": "int32",
    "bigint": "int64",
    "float": "float32",
    "double": "float64",
    "decimal": "decimal",
    "json": "json",
    "date": "date",
    "datetime": "timestamp",
    "timestamp": "timestamptz",
    "time": "time",
}
_WIRE = {
    **{kind: name for name, kind in _MYSQL.items() if name != "mediumint"},
    "uint8": "tinyint unsigned",
    "uint16": "smallint unsigned",
    "uint32": "int unsigned",
    "uint64": "bigint unsigned",
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


def reader(options: CanalRead) -> Reader:
    """A function from a message to its change; one of several rows gives a change for each."""

    @functools.lru_cache(maxsize=4096)
    def plan(
        database: bytes, table: bytes, key: bytes, columns: bytes
    ) -> tuple[TableName, tuple[str, ...], str | None]:
        catalog = None if database == b"null" else _database_name(database) or None
        name = options.table if table == b"null" else TableName(catalog, None, _table_name(table))
        if name is None:
            raise Rejected("the message names no table; say which with --table")
        names = tuple(_key_names(key) or ()) or options.key_of(name)
        schema = options.schema_of(name) or _schema(_columns(columns), names)
        return name, names, None if schema is None else schema.to_json()

    def read(cells: Cells, record: Record) -> ChangeCells | Sequence[Change]:
        if record.value is None:
            cells.alone()
            return [message_keys.tombstone(record, options.table)]
        message = cells.members(record.value)
        if "type" not in message:
            cells.refuse("not a message of Canal: it has no 'type'")
        kind = cells.each(_kind, message["type"], message.get("isDdl", b"false"))
        texts = (message.get(name, b"null") for name in ("database", "table", "pkNames", "mysqlType"))
        known = cells.each(plan, *texts)
        time = cells.value(message, "es")
        whole = cells.matches(time, "-?[0-9]{1,18}") | ~cells.present(time)
        cells.expect(whole, "`es` must be a whole number of milliseconds")
        for name in _TAKEN:
            rows = cells.value(message, name)
            cells.expect(cells.starts(rows, b"[") | ~cells.present(rows), f"`{name}` must be a list of rows")
        change = ChangeCells(
            op=kind,
            table=cells.each(_first, known),
            commit_time=cells.time(cells.number(time), _MILLISECOND),
            schema=cells.each(_last, known),
            meta=cells.shell(message, _TAKEN),
        )
        if not cells.only(cells.one_of(kind, _ROWS)):
            statement = message.get("sql", b'""')
            return change._replace(meta=json_text.join({**message, "statement": statement}.items()))
        data, before = cells.value(message, "data"), cells.value(message, "old")
        cells.expect(cells.present(data), "a message without rows: `data` is missing")
        if cells.many or len(json_text.items(data)) == 1:
            return _row(cells, change, known, message)
        rows, old = json_text.items(data), json_text.items(before or b"[]")
        if not rows:
            raise Rejected("a message without rows: `data` is empty")
        if old and len(old) != len(rows):
            raise Rejected(f"{len(rows)} rows in `data`, but {len(old)} in `old`")
        found = []
        for place, row in enumerate(rows):
            one = {**message, "data": b"[%b]" % row, **({"old": b"[%b]" % old[place]} if old else {})}
            found.append(Change(**_row(cells, change, known, one)._asdict()))
        return found

    return read


def _kind(raw: bytes, is_ddl: bytes) -> Operation:
    name = _type(raw)
    if name == "TRUNCATE":
        return Operation.TRUNCATE
    if is_ddl == b"true":
        return Operation.DDL
    if name not in _OPERATIONS:
        raise Rejected(f"unknown type {name!r}: a row has INSERT, UPDATE or DELETE, and a statement isDdl")
    return _OPERATIONS[name]


def _first(plan: Sequence[object]) -> object:
    return plan[0]


def _last(plan: Sequence[object]) -> object:
    return plan[2]


def _row(cells: Cells, change: ChangeCells, known: Cell, message: Members) -> ChangeCells:
    """The change of a message with one row."""
    raw_old = cells.value(message, "old")
    (row,) = cells.items(message["data"], 1, lambda count: f"{count} rows in `data`")
    cells.expect(cells.starts(row, b"{"), "a row in `data` must be an object")
    old = None
    if raw_old is not None:
        (shown,) = cells.items(cells.first(raw_old, b"[null]"), 1, lambda count: f"{count} rows in `old`")
        old = cells.value({"old": shown}, "old")
        cells.expect(cells.starts(old, b"{") | ~cells.present(old), "a row in `old` must be an object")
    plan = cells.each(_pair, known, change.op)
    key, before, after, before_image, after_image = cells.by_value(_images, plan, row, old)
    return change._replace(key=key, before=before, after=after, before_image=before_image, after_image=after_image)


def _pair(known: tuple[TableName, tuple[str, ...], str | None], op: Operation) -> tuple[tuple[str, ...], Operation]:
    return known[1], op


def _images(cells: Cells, plan: tuple[tuple[str, ...], Operation], row: Cell, old: Cell) -> Sequence[Cell]:
    names, op = plan

    def made(part: Cells, new: Members | None, old: Members | None, row: Cell, shown: Cell) -> Sequence[Cell]:
        columns = new or {}
        for name in names:
            if name not in columns:
                part.refuse(f"the row lacks key column {name!r}")
        key = part.key({name: columns[name] for name in names}) if names else None
        if op is Operation.DELETE:
            if old is not None:
                part.refuse("a DELETE with a row in `old`: the row before is in `data`")
            return key, row, None, Image.KEY if names and set(names) == set(columns) else Image.FULL, Image.NONE
        if old is not None and op is Operation.INSERT:
            part.refuse("an INSERT with a row in `old`: there was none before")
        if old is None:
            return key, None, row, Image.NONE, Image.FULL
        whole = Image.FULL if columns.keys() <= old.keys() else Image.PARTIAL
        return key, shown, row, Image.KEY if names and set(names) == set(old) else whole, Image.FULL

    return cells.by_members(made, (row, old), row, old)


def _schema(columns: dict[str, str] | None, key: tuple[str, ...]) -> TableSchema | None:
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

    def write(cells: Cells, out: Cell) -> Sequence[RecordCells]:
        change, meta = out.change, kept(cells, out)
        if "tombstone" in meta:
            return [RecordCells(None, message_keys.restored(cells, meta, change.key))]
        is_row = cells.only(cells.one_of(change.op, _ROWS))
        if meta and not is_row:
            return [
                RecordCells(cells.shell({name: text for name, text in meta.items() if name != "statement"}), change.key)
            ]
        data, old, key, columns = by_rows(cells, change, _written, out.native) if is_row else (b"null",) * 4
        if meta:
            value = cells.filled_shell(meta, {"data": data, "old": cells.first(old, meta.get("old"))})
        else:
            value = _message(cells, out, data, cells.filled(old), key, columns)
        return [RecordCells(value, change.key)]

    return write


def _written(cells: Cells, row: Row, native: bool) -> Sequence[Cell]:
    """`data`, `old`, `pkNames` and `mysqlType`."""
    kind, key = row.kind, row.key or {}
    before, after = (
        columns
        if native or columns is None
        else {**{name: key[name] for name in key if name not in columns}, **columns}
        for columns in (row.before, row.after)
    )
    deleted = kind.op is Operation.DELETE
    shown = (key if before is None else before) if deleted else (key if after is None else after)
    old = None if deleted or before is None else cells.array_of([cells.shell(before)])
    columns = (
        b"null" if kind.schema is None else quote({c.name: _wire(c) for c in schema_from_json(kind.schema).columns})
    )
    return cells.array_of([cells.shell(shown)]), old, quote(list(key) or None), columns


def _wire(column: Column) -> str:
    kind = column.canonical
    if kind.kind == "decimal" and kind.precision is not None:
        return f"decimal({kind.precision},{kind.scale})"
    return _WIRE.get(kind.kind, "text")


def _message(cells: Cells, out: Cell, data: Cell, old: Cell, key: Cell, columns: Cell) -> Cell:
    change = out.change
    time = change.commit_time
    millis = cells.units(time, _MILLISECOND)
    finer = cells.present(time) & ~cells.equal(cells.time(millis, _MILLISECOND), time)
    cells.lose(out, finer, "commit_time", "a message's time has milliseconds, this one has more digits")
    statement = not cells.many and change.op in (Operation.TRUNCATE, Operation.DDL)
    return cells.shell(
        {
            "data": data,
            "database": cells.each(_database, change.table),
            "es": cells.digits(millis),
            "id": cells.digits(out.running),
            "isDdl": b"true" if statement else b"false",
            "mysqlType": columns,
            "old": old,
            "pkNames": key,
            "sql": _statement(out) if statement else b'""',
            "sqlType": b"null",
            "table": cells.each(_table, change.table),
            "ts": cells.digits(millis),
            "type": cells.each(_name, change.op),
        }
    )


def _statement(out: Outgoing) -> bytes:
    found = json_text.members(out.change.meta).get("statement", b'""') if out.change.meta else b'""'
    return found if found[:1] == b'"' else b'""'


def _database(table: TableName | None) -> bytes:
    return quote(None if table is None else table.catalog)


def _table(table: TableName | None) -> bytes:
    return quote("" if table is None else table.name)


def _name(op: Operation) -> bytes:
    return quote(_NAMES[op])


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
