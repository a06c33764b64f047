"""Arcion's cursor: the time and the position of a change in the source's log, whatever the source.

A cursor that we write for a change of another dialect has one more member, `changeling`, which contains what Arcion cannot
express; reading restores it.
"""

import functools
import re

import msgspec

from changeling.model import json_text, times
from changeling.model import position as positions
from changeling.model.change import Change, Transaction
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


_decode = msgspec.json.Decoder(Cursor).decode
_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode


def read(raw: bytes | msgspec.Raw) -> Cursor:
    """The cursor of a record: a JSON object in a string, or the object itself.

    Blanks inside member names do not count. Raises `Rejected` on anything else.
    """
    try:
        text = _text(raw)
    except msgspec.ValidationError:
        text = bytes(raw).decode()
    try:
        # Only a name printed with blanks (or escapes that may hide some) needs the slow way.
        return _decode(_squeezed(text) if " " in text or "\\" in text else text)
    except msgspec.DecodeError as error:
        raise Rejected(f"cursor is not a JSON object in a string: {error}") from None


def _squeezed(text: str) -> bytes:
    return json_text.join(("".join(name.split()), value) for name, value in json_text.members(text).items())


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


def before_arrival(change: Change) -> tuple[int, ...]:
    """The numbers in front of the place of arrival of a row of a snapshot, which has no cursor: changes follow it.

    No cursor has a position that sorts before these: there is no log 0 with a place 0.
    """
    return (0, 0) if change.op is Operation.READ else ()


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
        millis = None if raw is None else read(raw).extraction_timestamp
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


def write(change: Change, source: str, extras: Extras) -> str:
    """The cursor of a change that did not come with one."""
    members: dict[str, object] = {"extractorId": 0}
    if change.commit_time is not None:
        milliseconds, rest = divmod(change.commit_time, _NANOS_PER_MILLI)
        members["timestamp"] = members["extractionTimestamp"] = milliseconds
        if rest:
            extras.time_ns = change.commit_time
    members["log"] = source
    if change.position is not None:
        members["position"] = change.position
    members["v"] = 2
    extras.transaction = change.transaction
    members["changeling"] = extras
    return _encode(members).decode()
