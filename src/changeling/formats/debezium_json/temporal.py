"""Debezium's counts of days, milliseconds, microseconds and nanoseconds, and its ISO texts, as canonical values and back."""

import re
from fractions import Fraction

import msgspec

from changeling.formats.time_spans import Interval, months_and_nanos
from changeling.model import canonical, json_text, times
from changeling.model.canonical import Convert, timestamp_text
from changeling.model.errors import CannotCarry, Rejected
from changeling.model.json_text import quote
from changeling.model.types import Type

DAY = 86_400 * times.NANOS_PER_SECOND
MILLI, MICRO, NANO = 1_000_000, 1_000, 1
_UNIT_NAMES = {DAY: "a day", MILLI: "a millisecond", MICRO: "a microsecond", NANO: "a nanosecond"}
_FIRST, _LAST = times.parse("0001-01-01")[0], times.parse("9999-12-31T23:59:59.999999999")[0]
_INTEGER = re.compile(rb"-?\d{1,30}")
# What PostgreSQL's driver, and so Debezium, writes for the infinities, in whatever unit the column counts.
_ENDS = {b"9223372036825200000": b'"infinity"', b"-9223372036832400000": b'"-infinity"'}
_END_COUNTS = {text: count for count, text in _ENDS.items()}
_END_YEARS = {"+292278994-": b'"infinity"', "-292275055-": b'"-infinity"'}


def _shown(raw: bytes) -> str:
    return raw[:60].decode(errors="replace")


def _count(raw: bytes) -> int:
    if not _INTEGER.fullmatch(raw):
        raise Rejected(f"{_shown(raw)} is not a whole number")
    return int(raw)


def from_count(unit: int, kind: str) -> Convert:
    """From a count of `unit` nanoseconds since 1970 to the canonical timestamp; text is read as the type's usual one."""
    as_text = canonical.reader(Type(kind))
    zone = "Z" if kind == "timestamptz" else ""

    def read(raw: bytes) -> bytes:
        if raw[:1] == b'"':
            return as_text(raw)
        if raw in _ENDS:
            return _ENDS[raw]
        nanos = _count(raw) * unit
        if not _FIRST <= nanos <= _LAST:
            raise Rejected(f"{_shown(raw)} lies outside the years 1 to 9999")
        return quote(timestamp_text(nanos)[:10] if kind == "date" else timestamp_text(nanos) + zone)

    return read


def to_count(unit: int) -> Convert:
    """From the canonical timestamp to a count of `unit` nanoseconds since 1970; raises `CannotCarry` on a part of one."""

    def write(raw: bytes) -> bytes:
        if raw in _END_COUNTS:
            return _END_COUNTS[raw]
        return str(_whole(_nanos(raw), unit, raw)).encode()

    return write


def _nanos(raw: bytes) -> int:
    text = json_text.string(raw)
    try:
        return times.parse(text)[0]
    except Rejected:
        raise CannotCarry("types", f"no count of time can express {text[:60]!r}; write times=isostring") from None


def _whole(nanos: int, unit: int, raw: bytes) -> int:
    count, rest = divmod(nanos, unit)
    if rest:
        raise CannotCarry("types", f"{_shown(raw)} is finer than {_UNIT_NAMES[unit]}; write times=isostring")
    return count


def zoned(raw: bytes) -> bytes:
    """A ZonedTimestamp; the years that stand for the infinities become these."""
    text = canonical.text_of(raw)
    return _END_YEARS.get(text[:11]) or canonical.reader(Type("timestamptz"))(raw)


def iso_date(raw: bytes) -> bytes:
    """An IsoDate such as `2020-02-29Z`: its Z is no zone, a date has none."""
    return canonical.reader(Type("date"))(_without_zone(raw))


def iso_time(raw: bytes) -> bytes:
    """An IsoTime such as `10:15:30Z`: its Z is no zone, the column has none."""
    return canonical.reader(Type("time"))(_without_zone(raw))


def _without_zone(raw: bytes) -> bytes:
    return raw[:-2] + b'"' if raw[:1] == b'"' and raw[-2:-1] == b"Z" else raw


def with_zone(raw: bytes) -> bytes:
    """The Z that Debezium's ISO texts of dates and timestamps end in."""
    return raw if not raw[-2:-1].isdigit() else raw[:-1] + b'Z"'


def time_with_zone(raw: bytes) -> bytes:
    """The Z that Debezium's ISO text of a time ends in; raises `CannotCarry` on one with a zone, which is a ZonedTime."""
    if b"+" in raw or b"-" in raw:
        raise CannotCarry("types", f"{_shown(raw)} has a zone, and its column none: give the original_type timetz")
    return with_zone(raw)


def from_midnight(unit: int) -> Convert:
    """From a count of `unit` nanoseconds since midnight to the canonical time of day."""

    def read(raw: bytes) -> bytes:
        if raw[:1] == b'"':
            return canonical.reader(Type("time"))(raw)
        nanos = _count(raw) * unit
        if not 0 <= nanos <= DAY:
            raise Rejected(f"{_shown(raw)} is no time of day; a column of such durations is of type string or int64")
        seconds, rest = divmod(nanos, times.NANOS_PER_SECOND)
        minutes, seconds = divmod(seconds, 60)
        return quote(f"{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}{times.fraction(rest)}")

    return read


def to_midnight(unit: int) -> Convert:
    """From the canonical time of day to a count of `unit` nanoseconds since midnight."""

    def write(raw: bytes) -> bytes:
        text = json_text.string(raw)
        if not text[-1:].isdigit() or "+" in text or "-" in text:
            raise CannotCarry("types", f"{text!r} has a zone, a count since midnight has none; write times=isostring")
        hour, minute, second = text.split(":")
        whole, _, part = second.partition(".")
        nanos = (int(hour) * 3600 + int(minute) * 60 + int(whole)) * times.NANOS_PER_SECOND + int(part.ljust(9, "0"))
        return str(_whole(nanos, unit, raw)).encode()

    return write


def from_interval(raw: bytes) -> bytes:
    """An Interval such as `P1Y2M3DT4H5M6.78S` as months, days and nanoseconds; objects pass."""
    if raw[:2] in (b'"P', b'"-', b'"+'):
        return msgspec.json.encode(_interval(json_text.string(raw)))
    return canonical.reader(Type("interval"))(raw)


def _interval(text: str) -> Interval:
    dates, _, clock = text.partition("T")
    months, days = months_and_nanos(dates if dates.strip("+-") != "P" else "P0D")
    nanos = months_and_nanos(f"{dates[: dates.index('P')]}PT{clock}")[1] if clock else Fraction(0)
    days /= DAY
    if any(part.denominator != 1 for part in (months, days, nanos)):
        raise Rejected(f"{text[:60]!r} has a part of a month, a day or a nanosecond")
    return Interval(int(months), int(days), int(nanos))


def to_interval(raw: bytes) -> bytes:
    """Months, days and nanoseconds as Debezium's text of an interval, every part named."""
    found = msgspec.json.decode(raw, type=Interval)
    sign = -1 if found.months < 0 else 1
    years, months = divmod(abs(found.months), 12)
    minus = "-" if found.nanos < 0 else ""
    seconds, part = divmod(abs(found.nanos), times.NANOS_PER_SECOND)
    minutes, seconds = divmod(seconds, 60)
    shown = f"{seconds}{f'.{part:09d}'.rstrip('0') if part else ''}"
    hours = f"{minus}{minutes // 60}H{minus}{minutes % 60}M{minus}{shown}S".replace("-0H", "0H").replace("-0M", "0M")
    return quote(f"P{sign * years}Y{sign * months}M{found.days}DT{hours.replace('-0S', '0S')}")
