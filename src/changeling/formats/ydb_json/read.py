"""Changefeed records into changes: rows in all five modes, barriers, schema records."""

import contextlib
import functools
from collections.abc import Sequence

import msgspec

from changeling.envelope.cells import Cell, Cells, Members, as_bytes
from changeling.envelope.key_in_row import check_key
from changeling.envelope.reading import ChangeCells, Reader
from changeling.envelope.scalar_cells import SCALARS
from changeling.formats.changefeed import NAMELESS, UINT64_END, ChangefeedRead, KnownTable, Mode, time_of_step
from changeling.formats.time_counts import MILLI
from changeling.formats.ydb_json.schema import read_schema
from changeling.model import json_text
from changeling.model.change import Change, Record
from changeling.model.errors import Rejected, UsageError
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation

FLAGS = {"update": Operation.UPSERT, "reset": Operation.REPLACE, "erase": Operation.DELETE}
"""What happened to the row: a record has exactly one."""
MEMBERS = ("key", *FLAGS, "newImage", "oldImage", "ts", "resolved", "tableChanges")
"""What a record says about the change, in the order of YDB's documentation; any other member (`user`) is kept as it is."""
_EMPTY = r"\{\s*\}"
_STAMP = r"\[\s*(?P<step>[0-8]?[0-9]{1,12})\s*,\s*(?P<transaction>[0-9]{1,18})\s*\]"
_pair = msgspec.json.Decoder(tuple[int, int]).decode


def reader(options: ChangefeedRead) -> Reader:
    """A function from a record to its change; raises `UsageError` where nothing names the key columns."""
    named = options.key or any(schema.key for schema in options.schemas)
    if not (named if options.table is None else options.key_of(options.table)):
        raise UsageError(
            "ydb-json: records hold the values of the key without the names of its columns;"
            " name them with --key a,b or in a schema"
        )
    by_topic = functools.lru_cache(maxsize=4096)(functools.partial(_table, options))
    mode = Mode.named(options.mode)

    def read(cells: Cells, record: Record) -> ChangeCells | Sequence[Change]:
        table = cells.common(cells.each(by_topic, record.topic))
        if record.value is None:
            cells.one_by_one()
            return _tombstone(record, table)
        found = cells.members(record.value)
        if table is None:
            cells.refuse(NAMELESS)
        if "resolved" in found:
            return _barrier(cells, found, table)
        if "tableChanges" in found:
            return _schema_change(cells, found, table)
        return _row(cells, found, table, mode)

    return read


def _table(options: ChangefeedRead, topic: str | None) -> KnownTable | None:
    name = options.table_of(topic)
    if name is None:
        return None
    key = options.key_of(name)
    if not key:
        raise Rejected(f"nothing names the key columns of table {name}; give --key, or a schema with a key")
    return KnownTable(name, key, options.keyed_schema_text(name))


def _tombstone(record: Record, table: KnownTable | None) -> ChangeCells:
    key: bytes | None = None
    kept: Members = {}
    if table is not None and record.key is not None:
        # A message key is free text: where it is not the key array, the tombstone has no key.
        with contextlib.suppress(ValueError):
            key, kept = _key(SCALARS, {"key": record.key}, table.key)
    meta = json_text.join([("tombstone", b"true"), *kept.items()])
    return ChangeCells(Operation.MESSAGE, None if table is None else table.name, key, meta=meta)


def _barrier(cells: Cells, found: Members, table: KnownTable) -> ChangeCells:
    if others := [name for name in found if name in MEMBERS and name != "resolved"]:
        cells.refuse(f"`resolved` is the only member of a record, this one also has {', '.join(others)}")
    stamp = {**_stamp(cells, found, "resolved"), "transaction": None}
    meta = _shell(cells, found, _odd_spelling(cells, found, "resolved"))
    return ChangeCells(Operation.BARRIER, table.name, schema=table.schema, meta=meta, **stamp)


def _schema_change(cells: Cells, found: Members, table: KnownTable) -> ChangeCells:
    if others := [name for name in found if name in MEMBERS and name not in ("tableChanges", "ts")]:
        cells.refuse(f"a schema record has `tableChanges` and `ts`, this one also has {', '.join(others)}")
    if "ts" not in found:
        cells.refuse("a schema record must have `ts`: without it nothing says which rows it applies to")
    schema = cells.each(lambda raw: read_schema(raw, table).to_json(), found["tableChanges"])
    kept = {"tableChanges": found["tableChanges"], **_odd_spelling(cells, found, "ts")}
    meta = _shell(cells, found, kept)
    return ChangeCells(Operation.DDL, table.name, schema=schema, meta=meta, **_stamp(cells, found, "ts"))


def _row(cells: Cells, found: Members, table: KnownTable, mode: Mode | None) -> ChangeCells:
    flags = [flag for flag in FLAGS if flag in found]
    if len(flags) != 1:
        said = f"has {' and '.join(flags)}" if flags else f"has none of {', '.join(FLAGS)}"
        cells.refuse(f"the record {said}: it must have exactly one, since they say what happened")
    (flag,) = flags
    op = FLAGS[flag]
    key, kept = _key(cells, found, table.key)
    for name in (flag, "newImage", "oldImage"):
        if name in found:
            cells.expect(cells.starts(found[name], b"{"), f"`{name}` must be an object")
    content, new, old = found[flag], found.get("newImage"), found.get("oldImage")
    columns = cells.where(cells.matches(content, _EMPTY), None, content)
    for row in (columns, new, old):
        # YDB's own images have no key columns.
        if not cells.usually(~cells.contains(row, list(map(quote, table.key)))):
            check_key(json_text.members(key), as_bytes(row))
    after, after_image = new, None
    if op is Operation.DELETE:
        cells.expect(~cells.present(columns), "`erase` must be {}: an erase has no columns")
        cells.expect(~cells.present(new), "an erase cannot have a newImage")
    elif new is None:
        after = cells.first(columns, b"{}") if mode is Mode.UPDATES else columns
    if op is Operation.UPSERT:
        if new is None:
            after_image = cells.where(cells.present(after), Image.PARTIAL, Image.NONE)
        if old is not None:
            op = Operation.UPDATE
        elif new is not None and mode is Mode.NEW_AND_OLD_IMAGES:
            op = Operation.INSERT
    if new is not None and cells.branch(cells.present(columns)):
        kept = {flag: columns, **kept}
    kept = {**kept, **_odd_spelling(cells, found, "ts")}
    return ChangeCells(
        op=op,
        table=table.name,
        key=key,
        before=old,
        after=after,
        after_image=after_image,
        schema=table.schema,
        meta=_shell(cells, found, kept),
        **(_stamp(cells, found, "ts") if "ts" in found else {}),
    )


def _key(cells: Cells, found: Members, names: tuple[str, ...]) -> tuple[Cell, Members]:
    """The canonical key, and what must be remembered to print the array again: nothing, names, or all of it."""
    if "key" not in found:
        cells.refuse("the record has no `key`")
    raw = found["key"]
    cells.expect(cells.starts(raw, b"["), "`key` must be an array of the key's values")
    wanted = f"the key has {len(names)} columns: {', '.join(names)}"
    parts = cells.items(raw, len(names), lambda count: f"`key` has {count} values, {wanted}")
    columns = dict(zip(names, parts, strict=True))
    key = cells.key(columns)
    if not cells.usually(cells.all_canonical(parts)):
        return key, {"key": json_text.join(columns.items())}
    return key, {} if list(names) == sorted(names) else {"key": quote(names)}


def _shell(cells: Cells, found: Members, kept: Members) -> Cell:
    """The record's members in their order, without what the change itself contains; None for a plain record."""
    if not kept and set(found).issubset(MEMBERS):
        return _order(tuple(found))
    return cells.json_object({**found, **kept}, [name for name in found if name in MEMBERS and name not in kept])


@functools.lru_cache(maxsize=1024)
def _order(names: tuple[str, ...]) -> bytes | None:
    """The members of a record without their values; None where they are in their usual order.

    `reset` with `newImage` is not usual, since a change alone does not show which of the two contained the row.
    """
    if names == tuple(name for name in MEMBERS if name in names) and not {"reset", "newImage"}.issubset(names):
        return None
    return json_text.join((name, b"null") for name in names)


def _stamp(cells: Cells, found: Members, name: str) -> dict[str, Cell]:
    """The position, the commit time and the transaction that the `ts` or the `resolved` of a record says."""
    step, transaction = cells.captured(found[name], _STAMP)
    if cells.usually(cells.present(step)):
        time = cells.time(step, MILLI)
    else:
        step, transaction = _large_stamp(found[name], name)
        time = time_of_step(step)
    return {
        "position": cells.position(step, transaction),
        "commit_time": time,
        "transaction": cells.transaction(cells.int_text(transaction)),
    }


def _odd_spelling(cells: Cells, found: Members, name: str) -> Members:
    """A stamp that has a sign, which only a zero may have: printed from its numbers, it would be without."""
    raw = found.get(name)
    return {} if cells.usually(~cells.contains(raw, [b"-"])) else {name: raw}


def _large_stamp(raw: bytes, name: str) -> tuple[int, int]:
    """The step and the transaction's id; raises `Rejected` if they are not such a pair."""
    with contextlib.suppress(msgspec.DecodeError):
        step, transaction = _pair(raw)
        if 0 <= step < UINT64_END and 0 <= transaction < UINT64_END:
            return step, transaction
    raise Rejected(f"`{name}` must be [step, txId], two whole numbers of 64 bits")
