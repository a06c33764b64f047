"""Arcion's cursor: the time and the position of a change in the source's log, whatever the source.

A cursor that we write for a change of another dialect has one more member, `changeling`, which contains what Arcion cannot
express; reading restores it.
"""

import re
from typing import Any

import msgspec

from changeling.envelope.cells import Cell, Cells, MemberStruct
from changeling.envelope.scalar_cells import SCALARS
from changeling.model import json_text, times
from changeling.model.change import Transaction
from changeling.model.errors import Rejected
from changeling.model.operation import Image, Operation

_LOG_NUMBER = re.compile(r"([0-9]+)\Z")

Number = int | str | None
"""Arcion prints numbers both bare and as text."""


class Extras(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """What a change of another dialect has and Arcion's record cannot express."""

    op: Operation | None = None
    """Where `opType` alone would be read as another one."""
    key: tuple[str, ...] | dict[str, str | None] | None = None
    """The names of the key columns; the key itself where the cells would give another one."""
    before_image: Image | None = None
    after_image: Image | None = None
    """How complete an image is, where `exists` would say otherwise."""
    time_ns: int | None = None
    """The commit time, where it is not whole milliseconds."""
    transaction: Transaction | None = None


class Cursor(msgspec.Struct, rename="camel", gc=False):
    """The members of a cursor that order changes or time them; the others are kept with the record's text."""

    timestamp: Number = None
    extraction_timestamp: Number = None
    log: str | None = None
    position: Number = None
    log_seq_num: Number = None
    dsc_id: Number = None
    dsc_i: Number = None
    """`dscId` as Arcion's own pages print it."""
    mut_id: Number = None
    part_num: Number = None
    changeling: Extras | None = None


_CURSOR = MemberStruct("", Cursor)


def read(cells: Cells, raw: Cell) -> Any:
    """The cursor of a record: a JSON object in a string, or the object itself.

    Blanks inside member names do not count. Raises `Rejected` on anything else.
    """
    try:
        text = cells.text(raw) if cells.branch(cells.starts(raw, b'"')) else raw
        # Only a name printed with blanks (or escapes that may hide some) needs the slow way.
        if cells.usually(~cells.contains(text, (b" ", b"\\"))):
            return cells.struct(_CURSOR, text)
        return _CURSOR.decoder.decode(_squeezed(text))
    except msgspec.DecodeError as error:
        raise Rejected(f"cursor is not a JSON object in a string: {error}") from None


def _squeezed(text: str) -> bytes:
    return json_text.join(("".join(name.split()), value) for name, value in json_text.members(text).items())


def position(cells: Cells, cursor: Any) -> Cell:
    """The sortable position, or None where the cursor has none of the known kinds.

    MySQL: number of the log, position, logSeqNum. Commit logs: dscId, mutId, partNum. Ours: the text that we wrote.
    """
    text = cells.as_text(cursor.position)
    # Twelve digits that begin with 10 are both a number and a position: only a cursor of ours decides for the latter.
    plain = cells.is_set(cursor.changeling)
    if not cells.all(plain):
        plain |= cells.matches(text, r"0.*|.*\..*")
    if cells.branch(plain & cells.is_position(text)):
        return text
    log = cells.each(_log_number, cursor.log)
    if cells.branch(cells.present(log) & cells.present(cursor.position)):
        rest = _number(cells, cursor.position, "position"), _number(cells, cursor.log_seq_num, "logSeqNum")
        return cells.position(log, *rest)
    dsc = cells.first(cursor.dsc_id, cursor.dsc_i)
    if cells.branch(cells.present(dsc) & cells.present(cursor.mut_id)):
        rest = _number(cells, cursor.mut_id, "mutId"), _number(cells, cursor.part_num, "partNum")
        return cells.position(_number(cells, dsc, "dscId"), *rest)
    return None


def _number(cells: Cells, value: Cell, name: str) -> Cell:
    return cells.first(cells.int_or_text(value, f"cursor: {name}"), 0)


def before_arrival(op: str) -> tuple[int, ...]:
    """The numbers in front of the place of arrival of a row of a snapshot, which has no cursor: changes follow it.

    No cursor has a position that sorts before these: there is no log 0 with a place 0.
    """
    return (0, 0) if op == Operation.READ else ()


def commit_time(cells: Cells, cursor: Any, exact: Cell) -> Cell:
    """When the query ran, in nanoseconds, or None; `exact` is the time that our own cursor notes."""
    if cells.all(cells.present(exact)):
        return cells.time(exact, 1)
    millis = cells.int_or_text(cursor.timestamp, "cursor: timestamp")
    return cells.first(cells.time(exact, 1), cells.time(millis, times.NANOS_PER_MILLI))


def extraction_time(meta: str) -> int | None:
    """When a change was taken from the source's log, in nanoseconds, from its `meta`; None where that does not contain it."""
    raw = json_text.members(meta).get("cursor")
    try:
        millis = None if raw is None else read(SCALARS, raw).extraction_timestamp
        nanos: int | None = SCALARS.time(
            SCALARS.int_or_text(millis, "cursor: extractionTimestamp"), times.NANOS_PER_MILLI
        )
        return nanos
    except Rejected:
        return None


def _log_number(log: str | None) -> int | None:
    found = _LOG_NUMBER.search(log or "")
    return int(found[1]) if found and len(found[1]) < 100 else None


def _transaction(transaction: Transaction | None) -> bytes | None:
    return None if transaction is None else json_text.quote(transaction)


def write(cells: Cells, out: Any, note: Cell) -> Cell:
    """The cursor of a change that did not come with one, as text; `note` are the members of `Extras` that its row gives."""
    change = out.change
    millis = cells.units(change.commit_time, times.NANOS_PER_MILLI)
    exact = cells.equal(cells.time(millis, times.NANOS_PER_MILLI), change.commit_time)
    extras = {
        "time_ns": cells.int_text(cells.where(exact, None, change.commit_time)),
        "transaction": cells.each_row(_transaction, change.transaction),
    }
    timed = cells.int_text(millis)
    return cells.json_object(
        {
            "extractorId": b"0",
            "timestamp": timed,
            "extractionTimestamp": timed,
            "log": cells.quoted(out.source),
            "position": cells.where(cells.present(change.position), cells.quoted(change.position), None),
            "v": b"2",
            "changeling": cells.merged(note, cells.sparse(extras)),
        }
    )
