"""Arcion's NATIVE records into changes: the envelope, and the bare row of a snapshot."""

import functools
from collections.abc import Collection, Sequence, Set

from changeling.envelope import message_keys
from changeling.envelope.cells import Cells, Members
from changeling.envelope.one import ONE
from changeling.envelope.reading import ChangeCells, Reader
from changeling.formats.arcion_json import table_name
from changeling.formats.arcion_json.assembly import (
    RecordPlan,
    Shown,
    change_of,
    key_of,
    known,
    table_of_topic,
    without_nulls,
)
from changeling.formats.arcion_json.envelope import NULL_CELL
from changeling.formats.arcion_json.read import letter_of, side_of
from changeling.formats.options import ReadOptions
from changeling.model import json_text
from changeling.model.change import Change, Record
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName

MEMBERS = ("tableName", "opType", "cursor", "before", "after")
"""The members of a record in the order in which Arcion writes them."""


class ArcionNativeRead(ReadOptions, frozen=True, kw_only=True):
    """NATIVE records leave no choice."""


def reader(options: ArcionNativeRead) -> Reader:
    """A function from a record to its change."""
    table_of = functools.lru_cache(maxsize=4096)(functools.partial(known, options))

    @functools.lru_cache(maxsize=4096)
    def plan_of(raw_table: bytes) -> RecordPlan:
        name = table_name.read(raw_table)
        raw = json_text.compact(raw_table)
        usual = raw == json_text.compact(table_name.write(name))
        return RecordPlan(table_of(name or options.table), b"" if usual else raw)

    def read(cells: Cells, record: Record) -> ChangeCells | Sequence[Change]:
        value = record.value
        if value is None:
            cells.alone()
            return [message_keys.tombstone(record, table_of_topic(options, record.topic))]
        members = cells.members(value)
        if "opType" not in members:
            cells.alone()
            return [_bare_row(options, table_of_topic(options, record.topic), members, record.key)]
        if "exists" in members:
            cells.refuse("a record with `exists` is one of Arcion's JSON files: read it as arcion-json")
        if "cursor" not in members:
            cells.refuse("not a record of Arcion: it has no 'cursor'")
        plan = cells.each(plan_of, members.get("tableName", b"null"))
        sides = (side_of(cells, members, "before"), side_of(cells, members, "after"))
        change, usual = change_of(
            cells, plan, cells.each(letter_of, members["opType"]), members["cursor"], _look, sides
        )
        meta: Members = {"record": value if cells.many else json_text.compact(value)}
        if tuple(members) == MEMBERS and cells.only(cells.mask(usual) & ~cells.contains(value, [NULL_CELL])):
            # Those of a group have no blanks that would have to go.
            raw_cursor = members["cursor"] if cells.many else json_text.compact(members["cursor"])
            meta = {"tableName": cells.each(_raw_table, plan), "cursor": raw_cursor}
        else:
            cells.alone()
        return change._replace(meta=cells.sparse({**meta, **message_keys.kept(cells, record.key, change.key)}))

    return read


def _raw_table(plan: RecordPlan) -> bytes | None:
    return plan.raw_table or None


def _look(cells: Cells, plan: RecordPlan, op: Operation, old: Members | None, new: Members | None) -> Shown:
    if op is Operation.DELETE and new:
        cells.refuse(f"a delete with {', '.join(new)} in after: it must be null")
    table, columns = plan.table, tuple(dict.fromkeys([*(new or ()), *(old or ())]))
    before_image, after_image = completeness(op, set(old or ()), set(new or ()), table.key, table.columns)
    before, after = without_nulls(cells, old or {}), without_nulls(cells, new or {})
    return Shown(before, after, before_image, after_image, columns, cells.mask(old != {} and new != {}))


def _bare_row(
    options: ReadOptions, name: TableName | None, members: dict[str, bytes], message_key: bytes | None
) -> Change:
    if members.get("tableName", b"")[:1] == b"{" or not members:
        raise Rejected("not a record of Arcion: it has no 'opType'")
    if name is None:
        raise Rejected("a bare row names no table; say which with --table")
    table, row = known(options, name), without_nulls(ONE, members)
    key = key_of(ONE, table.key, None, row)
    texts = [column for column, value in members.items() if value == NULL_CELL]
    meta = {"row": b"true", **({"null_texts": quote(texts)} if texts else {})}
    return Change(
        op=Operation.READ,
        table=name,
        key=key,
        after=json_text.join((row or {}).items()),
        after_image=Image.FULL,
        meta=json_text.join({**meta, **message_keys.kept(ONE, message_key, key)}.items()),
        schema=table.schema,
    )


def completeness(
    op: Operation, before: Set[str], after: Set[str], key: Collection[str], columns: Set[str]
) -> tuple[Image, Image]:
    """How complete `before` and `after` are, given the columns that they show: NATIVE records have no `exists`.

    `columns` are all of the table, empty where they are not known. An insert is always full. Without columns, a delete is
    full unless it shows only the key, and an update is full if both sides show the same columns and more than the key; else
    it has its key before, and what it changed after.
    """
    if columns:
        smaller = Image.FULL if op is Operation.INSERT else Image.PARTIAL
        return _by_columns(before, key, columns, Image.KEY), _by_columns(after, (), columns, smaller)
    is_key = before == set(key)
    if op is Operation.UPDATE:
        if before and before == after and not is_key:
            return Image.FULL, Image.FULL
        by_key = Image.KEY if is_key or not key else Image.FULL
        return by_key if before else Image.NONE, Image.PARTIAL if after else Image.NONE
    known_before = Image.KEY if is_key else Image.FULL
    return known_before if before else Image.NONE, Image.FULL if after else Image.NONE


def _by_columns(shown: Set[str], key: Collection[str], columns: Set[str], smaller: Image) -> Image:
    if not shown:
        return Image.NONE
    if shown >= columns:
        return Image.FULL
    return smaller if not key or shown == set(key) else Image.PARTIAL
