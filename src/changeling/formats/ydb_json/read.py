"""Changefeed records into changes: rows in all five modes, barriers, schema records."""

import contextlib
import functools
from collections.abc import Sequence

import msgspec

from changeling.envelope.cells import Cell, Cells, Members
from changeling.envelope.key_in_row import check_key
from changeling.envelope.one import ONE
from changeling.envelope.reading import ChangeCells, Reader
from changeling.formats.options import ReadOptions
from changeling.formats.ydb_json.envelope import (
    FLAGS,
    MEMBERS,
    PLAIN_ORDERS,
    Mode,
    commit_time_of,
    read_stamp,
)
from changeling.formats.ydb_json.table_changes import read_schema
from changeling.formats.ydb_json.topic import table_of
from changeling.model import json_text
from changeling.model.change import Change, Record
from changeling.model.errors import Rejected, UsageError
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.position import encode as position_of
from changeling.model.table import TableName

_EMPTY = r"\{\s*\}"
_MILLISECOND = 1_000_000


class YdbJsonRead(ReadOptions, frozen=True, kw_only=True):
    """Options of a reader of YDB's changefeeds."""

    mode: str | None = None
    """The changefeed's MODE; it distinguishes an empty update from one that shows nothing, and inserts from updates."""

    def __post_init__(self) -> None:
        Mode.named(self.mode)


class _Table(msgspec.Struct, frozen=True):
    name: TableName
    key: tuple[str, ...]
    quoted_key: tuple[bytes, ...]
    schema: str | None


def reader(options: YdbJsonRead) -> Reader:
    """A function from a record to its change; raises `UsageError` where nothing names the key columns."""
    if options.table is not None:
        named = bool(options.key_of(options.table))
    else:
        named = bool(options.key) or any(schema.key for schema in options.schemas)
    if not named:
        raise UsageError(
            "ydb-json: records hold the values of the key without the names of its columns;"
            " name them with --key a,b or in a schema"
        )
    by_topic = functools.lru_cache(maxsize=4096)(functools.partial(_topic_table, options))
    mode = Mode.named(options.mode)

    def read(cells: Cells, record: Record) -> ChangeCells | Sequence[Change]:
        table = cells.common(cells.each(by_topic, record.topic))
        if record.value is None:
            cells.alone()
            return [_tombstone(record, table, options)]
        found = cells.members(record.value)
        if table is None:
            cells.refuse("the record names no table, and neither does a topic path/to/table/feed; give --table")
        if "resolved" in found or "tableChanges" in found:
            cells.alone()
            return [_barrier(found, table) if "resolved" in found else _schema_change(found, table)]
        return _row(cells, found, table, mode)

    return read


def _topic_table(options: YdbJsonRead, topic: str | None) -> _Table | None:
    name = options.table
    if name is None:
        name = table_of(topic)
        if name is None:
            return None
    key, schema = options.key_of(name), options.schema_of(name)
    if not key:
        raise Rejected(f"nothing names the key columns of table {name}; give --key, or a schema with a key")
    schema_text = None if schema is None else msgspec.structs.replace(schema, key=key).to_json()
    return _Table(name, key, tuple(map(quote, key)), schema_text)


def _row(cells: Cells, found: Members, table: _Table, mode: Mode | None) -> ChangeCells:
    flags = [flag for flag in FLAGS if flag in found]
    if len(flags) != 1:
        said = f"has {' and '.join(flags)}" if flags else f"has none of {', '.join(FLAGS)}"
        cells.refuse(f"the record {said}: it must have exactly one, since they say what happened")
    (flag,) = flags
    key, kept = _key(cells, found, table.key)
    content, new, old = (_object(cells, found, name) for name in (flag, "newImage", "oldImage"))
    columns = cells.where(cells.matches(content, _EMPTY), None, content)
    for row in (columns, new, old):
        # YDB's own images have no key columns.
        if not cells.only(~cells.contains(row, table.quoted_key)):
            check_key(json_text.members(key), row)
    after, after_image = new, Image.NONE if new is None else Image.FULL
    if flag == "erase":
        cells.expect(~cells.present(columns), "`erase` must be {}: an erase has no columns")
        cells.expect(~cells.present(new), "an erase cannot have a newImage")
        op = Operation.DELETE
    else:
        if new is None:
            after = cells.first(columns, b"{}") if mode is Mode.UPDATES else columns
            shown = Image.FULL if flag == "reset" else Image.PARTIAL
            after_image = cells.where(cells.present(after), shown, Image.NONE)
        op = Operation.REPLACE if flag == "reset" else _written(mode, new is not None, old is not None)
    if new is not None and cells.branch(cells.present(columns)):
        kept = {flag: columns, **kept}
    return _stamped(
        cells,
        found,
        ChangeCells(
            op=op,
            table=table.name,
            key=key,
            before=old,
            after=after,
            before_image=Image.NONE if old is None else Image.FULL,
            after_image=after_image,
            schema=table.schema,
            meta=_shell(cells, found, kept),
        ),
    )


def _written(mode: Mode | None, has_new: bool, has_old: bool) -> Operation:
    if has_old:
        return Operation.UPDATE
    if has_new and mode is Mode.NEW_AND_OLD_IMAGES:
        return Operation.INSERT
    return Operation.UPSERT


def _tombstone(record: Record, table: _Table | None, options: YdbJsonRead) -> Change:
    key: bytes | None = None
    note: Members = {}
    if table is not None and record.key is not None:
        # A message key is free text: where it is not the key array, the tombstone has no key.
        with contextlib.suppress(ValueError):
            key, note = _key(ONE, {"key": record.key}, table.key)
    return Change(
        op=Operation.MESSAGE,
        table=options.table if table is None else table.name,
        key=key,
        meta=json_text.join([("tombstone", b"true"), *note.items()]),
    )


def _key(cells: Cells, found: Members, names: tuple[str, ...]) -> tuple[Cell, Members]:
    """The canonical key, and what must be remembered to print the array again: nothing, names, or all of it."""
    if "key" not in found:
        cells.refuse("the record has no `key`")
    raw = found["key"]
    cells.expect(cells.starts(raw, b"["), "`key` must be an array of the key's values")
    parts = cells.items(
        raw,
        len(names),
        lambda count: f"`key` has {count} values, the key has {len(names)} columns: {', '.join(names)}",
    )
    columns = dict(zip(names, parts, strict=True))
    key = cells.key(columns)
    if not cells.only(cells.all_canonical(parts)):
        return key, {"key": json_text.join(columns.items())}
    if len(names) > 1 and list(names) != sorted(names):
        return key, {"key": quote(names)}
    return key, {}


def _object(cells: Cells, found: Members, name: str) -> Cell:
    if name not in found:
        return None
    cells.expect(cells.starts(found[name], b"{"), f"`{name}` must be an object")
    return found[name]


def _shell(cells: Cells, found: Members, kept: Members) -> Cell:
    """The record's members in their order, without what the change itself contains; None for a plain record."""
    order = tuple(found)
    if not kept:
        if order in PLAIN_ORDERS:
            return None
        if MEMBERS.issuperset(order):
            return _order_alone(order)
    return cells.shell({**found, **kept}, [name for name in order if name in MEMBERS and name not in kept])


@functools.lru_cache(maxsize=1024)
def _order_alone(order: tuple[str, ...]) -> bytes:
    return json_text.join((name, b"null") for name in order)


def _stamped(cells: Cells, found: Members, change: ChangeCells) -> ChangeCells:
    if "ts" not in found:
        return change
    stamp = cells.captured(found["ts"], r"\[\s*(?P<step>[0-9]{1,12})\s*,\s*(?P<transaction>[0-9]{1,18})\s*\]")
    if not cells.only(cells.all_present(stamp)):
        stamp = read_stamp("ts", found["ts"])
        return change._replace(commit_time=commit_time_of(stamp[0]), **_place(cells, *stamp))
    return change._replace(commit_time=cells.time(stamp[0], _MILLISECOND), **_place(cells, *stamp))


def _place(cells: Cells, step: Cell, transaction: Cell) -> dict[str, Cell]:
    return {
        "position": cells.position(step, transaction),
        "transaction": cells.transaction(cells.printed(transaction)),
    }


def _barrier(found: Members, table: _Table) -> Change:
    if others := [name for name in found if name in MEMBERS and name != "resolved"]:
        raise Rejected(f"`resolved` is the only member of a record, this one also has {', '.join(others)}")
    step, transaction = read_stamp("resolved", found["resolved"])
    return Change(
        op=Operation.BARRIER,
        table=table.name,
        position=position_of(step, transaction),
        commit_time=commit_time_of(step),
        schema=table.schema,
        meta=_shell(ONE, found, {}),
    )


def _schema_change(found: Members, table: _Table) -> Change:
    if others := [name for name in found if name in MEMBERS and name not in ("tableChanges", "ts")]:
        raise Rejected(f"a schema record has `tableChanges` and `ts`, this one also has {', '.join(others)}")
    if "ts" not in found:
        raise Rejected("a schema record must have `ts`: without it nothing says which rows it applies to")
    raw = found["tableChanges"]
    change = ChangeCells(
        op=Operation.DDL,
        table=table.name,
        schema=read_schema(raw, table.name, table.key).to_json(),
        meta=_shell(ONE, found, {"tableChanges": raw}),
    )
    return Change(**_stamped(ONE, found, change)._asdict())
