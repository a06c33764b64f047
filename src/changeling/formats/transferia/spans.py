"""Spans of time: Transferia counts nanoseconds in its own type, and passes on the words in which PostgreSQL prints its."""

import re
from fractions import Fraction

import msgspec

from changeling.model import json_text, times
from changeling.model.errors import CannotCarry, Rejected
from changeling.model.json_text import quote

_COUNT = re.compile(rb"-?\d{1,30}")
_AMOUNT = r"(?:([+-]?\d+(?:\.\d+)?){})?"
_ISO = re.compile(
    "([+-]?)P" + "".join(map(_AMOUNT.format, "YMWD")) + "(?:T" + "".join(map(_AMOUNT.format, "HMS")) + ")?"
)
_SECONDS = (604_800, 86_400, 3_600, 60, 1)
"""Of a week, a day, an hour, a minute, a second."""
_WORDS = re.compile(
    r"(?:([+-]?\d+) years?)? ?(?:([+-]?\d+) mons?)? ?(?:([+-]?\d+) days?)? ?"
    r"(?:([+-]?)(\d+):(\d{2}):(\d{2})(?:\.(\d{1,9}))?)?"
)


class _Interval(msgspec.Struct):
    months: int = 0
    days: int = 0
    nanos: int = 0


def from_nanos(raw: bytes) -> bytes:
    """A count of nanoseconds as ISO-8601 text, in hours, minutes and seconds; text passes as it is."""
    if not _COUNT.fullmatch(raw):
        return raw
    total = int(raw)
    minus = "-" if total < 0 else ""
    seconds, nanos = divmod(abs(total), times.NANOS_PER_SECOND)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    shown = "".join(f"{minus}{amount}{unit}" for amount, unit in ((hours, "H"), (minutes, "M")) if amount)
    if seconds or nanos or not shown:
        part = f".{nanos:09d}".rstrip("0") if nanos else ""
        shown += f"{minus}{seconds}{part}S"
    return quote(f"PT{shown}")


def to_nanos(raw: bytes) -> bytes:
    """An ISO-8601 duration as nanoseconds; raises `CannotCarry` on years, months, or part of a nanosecond."""
    text = json_text.string(raw)
    match = _ISO.fullmatch(text)
    if match is None:
        raise Rejected(f"{text[:60]!r} is not an ISO-8601 duration such as PT2H30M")
    sign, years, months, *amounts = match.groups()
    if any(Fraction(amount) for amount in (years, months) if amount):
        raise CannotCarry("types", f"{text!r} has years or months, and an interval of Transferia counts nanoseconds")
    pairs = zip(amounts, _SECONDS, strict=True)
    total = sum((Fraction(amount) * unit for amount, unit in pairs if amount), Fraction(0)) * times.NANOS_PER_SECOND
    if total.denominator != 1 or abs(total) >= 2**63:
        raise CannotCarry("types", f"{text!r} is no whole count of nanoseconds in 64 bits")
    return str(-total if sign == "-" else total).encode()


def from_words(raw: bytes) -> bytes:
    """PostgreSQL's text of an interval (`1 mon -2 days 03:04:05.6`) as months, days and nanoseconds."""
    text = json_text.string(raw) if raw[:1] == b'"' else ""
    match = _WORDS.fullmatch(text) if text else None
    if match is None:
        return raw
    years, months, days, sign, hours, minutes, seconds, part = match.groups()
    nanos = ((int(hours or 0) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)) * times.NANOS_PER_SECOND
    nanos += int((part or "0").ljust(9, "0"))
    return msgspec.json.encode(
        _Interval(int(years or 0) * 12 + int(months or 0), int(days or 0), -nanos if sign == "-" else nanos)
    )


def to_words(raw: bytes) -> bytes:
    """Months, days and nanoseconds in the words of PostgreSQL; more digits than its six where there are more."""
    found = msgspec.json.decode(raw, type=_Interval)
    shown = [f"{found.months} mons"] if found.months else []
    shown += [f"{found.days} days"] if found.days else []
    if found.nanos or not shown:
        seconds, nanos = divmod(abs(found.nanos), times.NANOS_PER_SECOND)
        minutes, seconds = divmod(seconds, 60)
        minus = "-" if found.nanos < 0 else ""
        shown.append(f"{minus}{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}{times.fraction(nanos)}")
    return quote(" ".join(shown))
