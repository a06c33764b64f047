"""Spans of time: YDB counts microseconds, the canonical text is ISO-8601, PostgreSQL's own types print words."""

import re
from fractions import Fraction

import msgspec

from changeling.model import json_text, times, types
from changeling.model.canonical import reader
from changeling.model.errors import CannotCarry, Rejected
from changeling.model.json_text import quote

_PART = r"(?:([+-]?\d+(?:\.\d+)?){})?"
_ISO = re.compile(
    r"([+-]?)P" + "".join(_PART.format(unit) for unit in "YMWD") + "(?:T" + "".join(map(_PART.format, "HMS")) + ")?"
)
_MICROS = (604_800_000_000, 86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000)
"""Of a week, a day, an hour, a minute and a second."""
_INTEGER = re.compile(rb"-?\d{1,40}")
_WORDS = re.compile(
    r"(?:([+-]?\d+) years?)? ?(?:([+-]?\d+) mons?)? ?(?:([+-]?\d+) days?)? ?"
    r"(?:([+-]?)(\d+):(\d{2}):(\d{2})(?:\.(\d{1,9}))?)?"
)


class _Interval(msgspec.Struct):
    months: int
    days: int
    nanos: int


def from_micros(raw: bytes) -> bytes:
    """A count of microseconds as ISO-8601: -300500 is `PT-0.3005S`, a day is `PT24H`. Text passes as it is."""
    if raw[:1] == b'"':
        return raw
    if not _INTEGER.fullmatch(raw):
        raise Rejected(f"{raw[:60].decode(errors='replace')} is not a whole number of microseconds")
    total = int(raw)
    minus = "-" if total < 0 else ""
    minutes, micros = divmod(abs(total), 60_000_000)
    hours, minutes = divmod(minutes, 60)
    seconds, micros = divmod(micros, 1_000_000)
    fraction = f".{micros:06d}".rstrip("0") if micros else ""
    shown = f"{minus}{hours}H" if hours else ""
    shown += f"{minus}{minutes}M" if minutes else ""
    if seconds or micros or not shown:
        shown += f"{minus}{seconds}{fraction}S"
    return quote(f"PT{shown}")


def to_micros(raw: bytes) -> bytes:
    """An ISO-8601 duration as microseconds; raises `CannotCarry` on years, months, or a part of a microsecond."""
    text = json_text.string(raw)
    match = _ISO.fullmatch(text)
    if match is None:
        raise Rejected(f"{text[:60]!r} is not an ISO-8601 duration such as PT2H30M")
    sign, years, months, *parts = match.groups()
    if any(Fraction(part) for part in (years, months) if part):
        raise CannotCarry("types", f"{text!r} has years or months, and an Interval counts microseconds")
    total = sum((Fraction(part) * unit for part, unit in zip(parts, _MICROS, strict=True) if part), Fraction(0))
    if total.denominator != 1:
        raise CannotCarry("types", f"{text!r} is finer than the microseconds of an Interval")
    return str(-total if sign == "-" else total).encode()


def from_words(raw: bytes) -> bytes:
    """PostgreSQL's text of an interval (`1 mon -2 days 03:04:05.6`) as months, days and nanoseconds."""
    text = json_text.string(raw) if raw[:1] == b'"' else ""
    match = _WORDS.fullmatch(text) if text else None
    if match is None:
        return reader(types.Type("interval"))(raw)
    years, months, days, sign, hours, minutes, seconds, fraction = match.groups()
    nanos = ((int(hours or 0) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)) * times.NANOS_PER_SECOND
    nanos += int((fraction or "0").ljust(9, "0"))
    found = _Interval(int(years or 0) * 12 + int(months or 0), int(days or 0), -nanos if sign == "-" else nanos)
    return msgspec.json.encode(found)


def to_words(raw: bytes) -> bytes:
    """Months, days and nanoseconds as PostgreSQL prints an interval; raises `CannotCarry` below a microsecond."""
    found = msgspec.json.decode(raw, type=_Interval)
    if found.nanos % 1000:
        raise CannotCarry("types", f"an interval of {found.nanos} nanoseconds is finer than PostgreSQL's microseconds")
    shown = [f"{found.months} mons"] if found.months else []
    shown += [f"{found.days} days"] if found.days else []
    if found.nanos or not shown:
        seconds, nanos = divmod(abs(found.nanos), times.NANOS_PER_SECOND)
        minutes, seconds = divmod(seconds, 60)
        minus = "-" if found.nanos < 0 else ""
        shown.append(f"{minus}{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}{times.fraction(nanos)}")
    return quote(" ".join(shown))
