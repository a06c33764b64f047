"""Arcion's JSON records into changes: the envelope in all its spellings, and the bare row of a snapshot."""

import functools
from collections.abc import Sequence
from typing import Literal

import msgspec

from changeling.envelope import message_keys
from changeling.envelope.cells import Cell, Cells, Members
from changeling.envelope.one import ONE
from changeling.envelope.reading import ChangeCells, Reader
from changeling.formats.arcion_json import images, table_name
from changeling.formats.arcion_json.assembly import (
    RecordPlan,
    Shown,
    change_of,
    key_of,
    known,
    table_of_topic,
    without_nulls,
)
from changeling.formats.arcion_json.envelope import MEMBERS, NULL_CELL
from changeling.formats.options import ReadOptions
from changeling.model import json_text
from changeling.model.change import Change, Record
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName

_text = msgspec.json.Decoder(str).decode


class ArcionJsonRead(ReadOptions, frozen=True, kw_only=True):
    """Options of a reader of Arcion's JSON."""

    mode: Literal["snapshot", "full", "realtime"] | None = None
    """Which mode wrote the records; JSON has one layout for all of them."""


def reader(options: ArcionJsonRead) -> Reader:
    """A function from a record to its change."""
    table_of = functools.lru_cache(maxsize=4096)(functools.partial(known, options))

    @functools.lru_cache(maxsize=4096)
    def plan_of(raw_table: bytes, exists: bytes) -> RecordPlan:
        name = table_name.read(raw_table) or options.table
        return RecordPlan(table_of(name), json_text.compact(raw_table), images.presence(exists))

    def read(cells: Cells, record: Record) -> ChangeCells | Sequence[Change]:
        value = record.value
        if value is None:
            cells.alone()
            return [message_keys.tombstone(record, table_of_topic(options, record.topic))]
        members = cells.members(value)
        if "opType" not in members:
            cells.alone()
            return [_bare_row(options, table_of_topic(options, record.topic), members)]
        for name in ("cursor", "exists"):
            if name not in members:
                cells.refuse(f"not a record of Arcion: it has no {name!r}")
        plan = cells.each(plan_of, members.get("tableName", b"null"), members["exists"])
        sides = (side_of(cells, members, "before"), side_of(cells, members, "after"))
        change, usual = change_of(
            cells, plan, cells.each(letter_of, members["opType"]), members["cursor"], _look, sides
        )
        if options.mode == "snapshot":
            # An insert of a snapshot has no position in any log.
            found = cells.equal(change.op, Operation.INSERT) & ~cells.present(change.position)
            change = change._replace(op=cells.where(found, Operation.READ, change.op))
        if tuple(members) != MEMBERS or not cells.only(cells.mask(usual)):
            cells.alone()
            return change._replace(meta=json_text.join([("record", json_text.compact(value))]))
        head = cells.each(_meta_head, plan, members["exists"])
        rest = [b',"cursor":', members["cursor"], b',"operationcount":', members["operationcount"], b"}"]
        return change._replace(meta=cells.joined(head, *rest))

    return read


def letter_of(raw: bytes) -> str:
    """The letter of the operation."""
    try:
        return _text(raw)
    except msgspec.ValidationError as error:
        raise Rejected(f"opType: {error}") from None


def side_of(cells: Cells, members: Members, side: str) -> Cell:
    """The object of one side, None where there is none; rejects anything else."""
    return cells.object_or_none(cells.value(members, side), side)


def _look(cells: Cells, plan: RecordPlan, op: Operation, old: Members | None, new: Members | None) -> Shown:
    exists = plan.exists or images.presence(b"{}")
    before, usual_before = _shown(cells, "before", old, exists, exists.before)
    after, usual_after = _shown(cells, "after", new, exists, exists.after)
    if op is Operation.DELETE and after is not None:
        cells.refuse(f"a delete with {', '.join(after)} in after: exists may be 0 or 2 only")
    return Shown(
        before,
        after,
        images.before_image(exists.before, exists.columns, plan.table.key),
        images.after_image(exists.after, exists.columns),
        exists.columns,
        usual_before & usual_after,
    )


def _shown(
    cells: Cells, side: str, found: Members | None, exists: images.Presence, present: Sequence[str]
) -> tuple[Members | None, Cell]:
    """The image that these cells show, and whether they are usual: all texts, those that say nothing the text `null`."""
    columns = found or {}
    for name in columns:
        if name not in exists.columns:
            cells.refuse(f"column {name!r} is in {side}, but not in exists")
    for name in present:
        if name not in columns:
            cells.refuse(f"column {name!r} is missing from {side}, where exists says it is")
    usual = cells.mask(found is not None and tuple(columns) == exists.columns)
    for name, value in columns.items():
        usual &= cells.starts(value, b'"') if name in present else cells.equal(value, NULL_CELL)
    return without_nulls(cells, {name: value for name, value in columns.items() if name in present}), usual


def _meta_head(plan: RecordPlan, exists: bytes) -> bytes:
    head = b'{"tableName":%b' % plan.raw_table
    presence = plan.exists or images.presence(exists)
    full = len(presence.columns) in (len(presence.before), len(presence.after)) and presence.columns
    if not full:
        head += b',"columns":%b' % quote(presence.columns)
    return head if presence.as_text else head + b',"exists":%b' % json_text.compact(exists)


def _bare_row(options: ReadOptions, name: TableName | None, members: dict[str, bytes]) -> Change:
    if members.get("tableName", b"")[:1] == b"{" or not members:
        raise Rejected("not a record of Arcion: it has no 'opType'")
    if name is None:
        raise Rejected("a bare row names no table; say which with --table")
    table, row = known(options, name), without_nulls(ONE, members)
    nulls = [name for name, value in members.items() if value == b"null"]
    return Change(
        op=Operation.READ,
        table=name,
        key=key_of(ONE, table.key, None, row),
        after=json_text.join((row or {}).items()),
        after_image=Image.FULL,
        meta=quote({"row": True, "nulls": nulls} if nulls else {"row": True}),
        schema=table.schema,
    )
