"""Arcion's cursor: the time and the position of a change in the source's log, whatever the source.

A cursor that we write for a change of another dialect has one more member, `changeling`, which contains what Arcion cannot
express; reading restores it.
"""

import functools
import re
from typing import Any, NamedTuple

import msgspec

from changeling.envelope.cells import Cell, Cells, Part
from changeling.envelope.one import ONE
from changeling.model import json_text, times
from changeling.model import position as positions
from changeling.model.change import Transaction
from changeling.model.errors import Rejected
from changeling.model.operation import Image, Operation

_NANOS_PER_MILLI = 1_000_000
_LOG_NUMBER = re.compile(r"([0-9]+)\Z")

Number = int | str | None
"""Arcion prints numbers both bare and as text."""


class Extras(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """What a change of another dialect has and Arcion's record cannot express."""

    op: Operation | None = None
    """Where `opType` alone would be read as another one."""
    key: list[str] | dict[str, str | None] | None = None
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


class Note(NamedTuple):
    """What the extras say besides the time and the transaction; few records differ in it."""

    op: Operation | None
    key: tuple[str, ...]
    values: tuple[str | None, ...] | None
    """Those of the key columns, where the cells would give others."""
    before_image: Image | None
    after_image: Image | None


_PART = Part("", Cursor)


def read(cells: Cells, raw: Cell) -> Any:
    """The cursor of a record: a JSON object in a string, or the object itself.

    Blanks inside member names do not count. Raises `Rejected` on anything else.
    """
    try:
        text = cells.text(raw) if cells.branch(cells.starts(raw, b'"')) else raw
        # Only a name printed with blanks (or escapes that may hide some) needs the slow way.
        if cells.only(~cells.contains(text, (b" ", b"\\"))):
            return cells.struct(_PART, text)
        return _PART.decoder.decode(_squeezed(text))
    except msgspec.DecodeError as error:
        raise Rejected(f"cursor is not a JSON object in a string: {error}") from None


def note(cursor: Cursor) -> Note | None:
    """What the extras say, as far as it is not about one record alone."""
    extras = cursor.changeling
    if extras is None:
        return None
    key = extras.key or ()
    values = tuple(key.values()) if isinstance(key, dict) else None
    return Note(extras.op, tuple(key), values, extras.before_image, extras.after_image)


def transaction(cursor: Cursor) -> Transaction | None:
    """The transaction of a change of another dialect."""
    return None if cursor.changeling is None else cursor.changeling.transaction


def _squeezed(text: str) -> bytes:
    return json_text.join(("".join(name.split()), value) for name, value in json_text.members(text).items())


def positions_of(cells: Cells, cursor: Any) -> Cell:
    """The sortable positions of cursors: those of ours are texts that need no conversion."""
    text = cells.as_text(cursor.position)
    if cells.branch(cells.is_set(cursor.changeling) & cells.is_position(text)):
        return text
    return cells.each_row(position, cursor)


def position(cursor: Cursor) -> str | None:
    """The sortable position, or None where the cursor has none of the known kinds.

    MySQL: number of the log, position, logSeqNum. Commit logs: dscId, mutId, partNum. Ours: the text that we wrote.
    """
    place, log = cursor.position, cursor.log
    if isinstance(place, str) and _is_sortable(place, cursor.changeling is not None):
        return place
    if place is not None and log is not None and (file := _log_part(log)) is not None:
        middle, last = _integer(place, "position"), _integer(cursor.log_seq_num, "logSeqNum")
        return f"{file}.{positions.encode(middle)}.{_repeated(last)}"
    dsc = cursor.dsc_id if cursor.dsc_id is not None else cursor.dsc_i
    if dsc is not None and cursor.mut_id is not None:
        middle, last = _integer(cursor.mut_id, "mutId"), _integer(cursor.part_num, "partNum")
        return f"{_repeated(_integer(dsc, 'dscId'))}.{positions.encode(middle)}.{_repeated(last)}"
    return None


def before_arrival(op: str) -> tuple[int, ...]:
    """The numbers in front of the place of arrival of a row of a snapshot, which has no cursor: changes follow it.

    No cursor has a position that sorts before these: there is no log 0 with a place 0.
    """
    return (0, 0) if op == Operation.READ else ()


def commit_time(cursor: Cursor) -> int | None:
    """When the query ran, in nanoseconds, or None."""
    if cursor.changeling is not None and cursor.changeling.time_ns is not None:
        return times.from_units(cursor.changeling.time_ns, 1)
    if cursor.timestamp is None:
        return None
    return times.from_units(_integer(cursor.timestamp, "timestamp"), _NANOS_PER_MILLI)


def extraction_time(meta: str) -> int | None:
    """When a change was taken from the source's log, in nanoseconds, from its `meta`; None where that does not contain it."""
    raw = json_text.members(meta).get("cursor")
    try:
        millis = None if raw is None else read(ONE, raw).extraction_timestamp
        return None if millis is None else times.from_units(_integer(millis, "extractionTimestamp"), _NANOS_PER_MILLI)
    except Rejected:
        return None


def _is_sortable(place: str, ours: bool) -> bool:
    # Twelve digits that begin with 10 are both a number and a position: only a cursor of ours decides for the latter.
    if not (ours or place.startswith("0") or "." in place):
        return False
    try:
        positions.decode(place)
    except Rejected:
        return False
    return True


# The outer parts of a position repeat from change to change, and encoding them is a third of reading a cursor.
_repeated = functools.lru_cache(maxsize=4096)(positions.encode)


@functools.lru_cache(maxsize=4096)
def _log_part(log: str) -> str | None:
    found = _LOG_NUMBER.search(log)
    return positions.encode(int(found[1])) if found and len(found[1]) < 100 else None


def _integer(value: Number, name: str) -> int:
    if isinstance(value, int):
        return value
    if value is None:
        return 0
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 100):
        raise Rejected(f"cursor: {name} is {value!r}, not a number")
    return int(value)


def write(cells: Cells, out: Any, note: Cell) -> Cell:
    """The cursor of a change that did not come with one, as text; `note` are the members that a `Note` reads."""
    change = out.change
    millis = cells.units(change.commit_time, _NANOS_PER_MILLI)
    exact = cells.equal(cells.time(millis, _NANOS_PER_MILLI), change.commit_time)
    declared = cells.fields(change.transaction)
    transaction = {
        "id": cells.quoted(declared.id),
        "order": cells.digits(declared.order),
        "total": cells.digits(declared.total),
        "complete": cells.each(json_text.quote, declared.complete),
    }
    extras = cells.sparse(
        {
            "time_ns": cells.printed(cells.where(exact, None, change.commit_time)),
            "transaction": cells.where(cells.present(declared.id), cells.shell(transaction), None),
        }
    )
    timed = cells.printed(millis)
    return cells.shell(
        {
            "extractorId": b"0",
            "timestamp": timed,
            "extractionTimestamp": timed,
            "log": cells.quoted(out.source),
            "position": cells.where(cells.present(change.position), cells.quoted(change.position), None),
            "v": b"2",
            "changeling": cells.merged(note, extras),
        }
    )
