"""Days and timestamps as counts of a unit since 1970, which several dialects write."""

import re

from changeling.model import canonical, json_text, times
from changeling.model.canonical import Convert, timestamp_text
from changeling.model.errors import CannotCarry, Rejected
from changeling.model.json_text import quote
from changeling.model.types import Type

DAY, SECOND = 86_400 * times.NANOS_PER_SECOND, times.NANOS_PER_SECOND
MILLI, MICRO, NANO = times.NANOS_PER_MILLI, 1_000, 1
_UNIT_NAMES = {DAY: "a day", SECOND: "a second", MILLI: "a millisecond", MICRO: "a microsecond", NANO: "a nanosecond"}
_FIRST, _LAST = times.parse("0001-01-01")[0], times.parse("9999-12-31T23:59:59.999999999")[0]
_INTEGER = re.compile(rb"-?\d{1,30}")


def whole_number(raw: bytes) -> int:
    """A count; raises `Rejected` on anything else."""
    if not _INTEGER.fullmatch(raw):
        raise Rejected(f"{shown(raw)} is not a whole number")
    return int(raw)


def whole_units(raw: bytes, nanos: int, unit: int, unit_name: str | None = None, advice: str = "") -> bytes:
    """The nanoseconds of a value as a count of units; raises `CannotCarry` on a part of one."""
    count, rest = divmod(nanos, unit)
    if rest:
        raise CannotCarry("types", f"{shown(raw)} is finer than {unit_name or _UNIT_NAMES[unit]}{advice}")
    return b"%d" % count


def shown(raw: bytes) -> str:
    """The beginning of a value, for reasons."""
    return raw[:60].decode(errors="replace")


def timestamp_from(unit: int, kind: str) -> Convert:
    """From a count of `unit` nanoseconds since 1970 to the canonical timestamp; text is read as the type's usual one."""
    as_text = canonical.reader(Type(kind))
    zone = "Z" if kind == "timestamptz" else ""

    def read(raw: bytes) -> bytes:
        if raw[:1] == b'"':
            return as_text(raw)
        nanos = whole_number(raw) * unit
        if not _FIRST <= nanos <= _LAST:
            raise Rejected(f"{shown(raw)} lies outside the years 1 to 9999")
        return quote(timestamp_text(nanos)[:10] if kind == "date" else timestamp_text(nanos) + zone)

    return read


def timestamp_to(unit: int, unknown: str, unit_name: str | None = None, advice: str = "") -> Convert:
    """From the canonical timestamp to a count of `unit` nanoseconds since 1970.

    Raises `CannotCarry` on anything but a time between the years 1 and 9999, as infinity (`unknown` says so), and on a part of a unit.
    """

    def write(raw: bytes) -> bytes:
        text = json_text.string(raw)
        try:
            nanos, _ = times.parse(text)
        except Rejected:
            raise CannotCarry("types", f"{unknown} {text[:60]!r}{advice}") from None
        return whole_units(raw, nanos, unit, unit_name, advice)

    return write
