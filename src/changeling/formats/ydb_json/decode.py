"""Changefeed records into changes: rows in all five modes, barriers, schema records."""

import contextlib
import functools
import re
from collections.abc import Sequence

import msgspec

from changeling.formats.format import Decode
from changeling.formats.key_in_row import check_key
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
from changeling.model.change import Change, Record, Transaction
from changeling.model.errors import Rejected, UsageError
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.position import encode as position_of
from changeling.model.table import TableName

_EMPTY = re.compile(rb"\{\s*\}")
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


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


def decoder(options: YdbJsonRead) -> Decode:
    """A function from one wire record to its change; raises `UsageError` where nothing names the key columns."""
    if options.table is not None:
        named = bool(options.key_of(options.table))
    else:
        named = bool(options.key) or any(schema.key for schema in options.schemas)
    if not named:
        raise UsageError(
            "ydb-json: records hold the values of the key without the names of its columns;"
            " name them with --key a,b or in a schema"
        )
    return _Reader(options).decode


class _Reader:
    def __init__(self, options: YdbJsonRead) -> None:
        self._options, self._mode = options, Mode.named(options.mode)
        self._by_topic = functools.lru_cache(maxsize=4096)(self._topic_table)

    def decode(self, record: Record) -> Sequence[Change]:
        if record.value is None:
            return [self._tombstone(record)]
        found = _members(record.value)
        table = self._by_topic(record.topic)
        if table is None:
            raise Rejected("the record names no table, and neither does a topic path/to/table/feed; give --table")
        if "resolved" in found:
            return [_barrier(found, table)]
        if "tableChanges" in found:
            return [_schema_change(found, table)]
        return [self._row(found, table)]

    def _topic_table(self, topic: str | None) -> _Table | None:
        name = self._options.table
        if name is None:
            name = table_of(topic)
            if name is None:
                return None
        key, schema = self._options.key_of(name), self._options.schema_of(name)
        if not key:
            raise Rejected(f"nothing names the key columns of table {name}; give --key, or a schema with a key")
        schema_text = None if schema is None else msgspec.structs.replace(schema, key=key).to_json()
        return _Table(name, key, tuple(map(quote, key)), schema_text)

    def _row(self, found: dict[str, msgspec.Raw], table: _Table) -> Change:
        flags = [flag for flag in FLAGS if flag in found]
        if len(flags) != 1:
            said = f"has {' and '.join(flags)}" if flags else f"has none of {', '.join(FLAGS)}"
            raise Rejected(f"the record {said}: it must have exactly one, since they say what happened")
        flag = flags[0]
        key, key_note = _key(found, table.key)
        content, new, old = _object(found, flag), _object(found, "newImage"), _object(found, "oldImage")
        columns = None if content is None or _EMPTY.fullmatch(content) else content
        for row in (columns, new, old):
            # YDB's own images have no key columns.
            if row is not None and any(name in row for name in table.quoted_key):
                check_key(json_text.members(key), row)
        after, after_image = new, Image.FULL if new is not None else Image.NONE
        if flag == "erase":
            if columns is not None:
                raise Rejected("`erase` must be {}: an erase has no columns")
            if new is not None:
                raise Rejected("an erase cannot have a newImage")
            op = Operation.DELETE
        else:
            if new is None and (columns is not None or self._mode is Mode.UPDATES):
                after, after_image = columns or b"{}", Image.FULL if flag == "reset" else Image.PARTIAL
            op = Operation.REPLACE if flag == "reset" else self._written(new is not None, old is not None)
        kept = {} if new is None or columns is None else {flag: columns}
        change = Change(
            op=op,
            table=table.name,
            key=key,
            before=old,
            after=after,
            before_image=Image.NONE if old is None else Image.FULL,
            after_image=after_image,
            schema=table.schema,
            meta=_shell(found, {**kept, **key_note} if kept else key_note),
        )
        return _stamped(change, found)

    def _written(self, has_new: bool, has_old: bool) -> Operation:
        if has_old:
            return Operation.UPDATE
        if has_new and self._mode is Mode.NEW_AND_OLD_IMAGES:
            return Operation.INSERT
        return Operation.UPSERT

    def _tombstone(self, record: Record) -> Change:
        table = self._by_topic(record.topic)
        key: bytes | None = None
        note: dict[str, bytes] = {}
        if table is not None and record.key is not None:
            # A message key is free text: where it is not the key array, the tombstone has no key.
            with contextlib.suppress(ValueError):
                key, note = _key({"key": msgspec.Raw(record.key)}, table.key)
        return Change(
            op=Operation.MESSAGE,
            table=self._options.table if table is None else table.name,
            key=key,
            meta=json_text.join([("tombstone", b"true"), *note.items()]),
        )


def _key(found: dict[str, msgspec.Raw], names: tuple[str, ...]) -> tuple[bytes, dict[str, bytes]]:
    """The canonical key, and what must be remembered to print the array again: nothing, names, or all of it."""
    raw = found.get("key")
    if raw is None:
        raise Rejected("the record has no `key`")
    if bytes(raw)[:1] != b"[":
        raise Rejected("`key` must be an array of the key's values")
    parts = json_text.items(raw)
    if len(parts) != len(names):
        raise Rejected(f"`key` has {len(parts)} values, the key has {len(names)} columns: {', '.join(names)}")
    pairs = list(zip(names, parts, strict=True))
    plain = [(name, json_text.canonical(part)) for name, part in pairs]
    key = json_text.join(sorted(plain))
    if plain != pairs:
        return key, {"key": json_text.join(pairs)}
    if len(names) > 1 and list(names) != sorted(names):
        return key, {"key": quote(names)}
    return key, {}


def _object(found: dict[str, msgspec.Raw], name: str) -> bytes | None:
    if name not in found:
        return None
    raw = bytes(found[name])
    if raw[:1] != b"{":
        raise Rejected(f"`{name}` must be an object")
    return raw


def _shell(found: dict[str, msgspec.Raw], kept: dict[str, bytes]) -> bytes | None:
    """The record's members in their order, without what the change itself contains; None for a plain record."""
    order = tuple(found)
    if not kept:
        if order in PLAIN_ORDERS:
            return None
        if MEMBERS.issuperset(order):
            return _order_alone(order)
    return json_text.join(
        (name, kept.get(name, b"null") if name in MEMBERS else bytes(raw)) for name, raw in found.items()
    )


@functools.lru_cache(maxsize=1024)
def _order_alone(order: tuple[str, ...]) -> bytes:
    return json_text.join((name, b"null") for name in order)


def _stamped(change: Change, found: dict[str, msgspec.Raw]) -> Change:
    if "ts" in found:
        step, transaction = read_stamp("ts", found["ts"])
        change.position = position_of(step, transaction)
        change.commit_time = commit_time_of(step)
        change.transaction = Transaction(str(transaction))
    return change


def _barrier(found: dict[str, msgspec.Raw], table: _Table) -> Change:
    if others := [name for name in found if name in MEMBERS and name != "resolved"]:
        raise Rejected(f"`resolved` is the only member of a record, this one also has {', '.join(others)}")
    step, transaction = read_stamp("resolved", found["resolved"])
    return Change(
        op=Operation.BARRIER,
        table=table.name,
        position=position_of(step, transaction),
        commit_time=commit_time_of(step),
        schema=table.schema,
        meta=_shell(found, {}),
    )


def _schema_change(found: dict[str, msgspec.Raw], table: _Table) -> Change:
    if others := [name for name in found if name in MEMBERS and name not in ("tableChanges", "ts")]:
        raise Rejected(f"a schema record has `tableChanges` and `ts`, this one also has {', '.join(others)}")
    if "ts" not in found:
        raise Rejected("a schema record must have `ts`: without it nothing says which rows it applies to")
    raw = found["tableChanges"]
    change = Change(
        op=Operation.DDL,
        table=table.name,
        schema=read_schema(raw, table.name, table.key).to_json(),
        meta=_shell(found, {"tableChanges": bytes(raw)}),
    )
    return _stamped(change, found)
