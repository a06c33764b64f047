"""Durations and intervals: dialects count units of time or print PostgreSQL's text; canonical are ISO-8601 and an object."""

import re
from decimal import Context, Decimal
from fractions import Fraction

import msgspec

from changeling.model import json_text, times
from changeling.model.canonical import Convert
from changeling.model.errors import CannotCarry, Rejected
from changeling.model.json_text import quote

MICROSECOND, NANOSECOND = 1_000, 1
_UNITS = {MICROSECOND: "microseconds", NANOSECOND: "nanoseconds"}
_PART = r"(?:([+-]?\d+(?:\.\d+)?){})?"
_ISO = re.compile(
    r"([+-]?)P(?=.)"
    + "".join(_PART.format(unit) for unit in "YMWD")
    + "(?:T(?=.)"
    + "".join(map(_PART.format, "HMS"))
    + ")?"
)
_SECONDS = (604_800, 86_400, 3_600, 60, 1)
"""Of a week, a day, an hour, a minute and a second."""
_WORDS = re.compile(
    r"(?:([+-]?\d+) years?)? ?(?:([+-]?\d+) mons?)? ?(?:([+-]?\d+) days?)? ?"
    r"(?:([+-]?)(\d+):(\d{2}):(\d{2})(?:\.(\d{1,9}))?)?"
)


class Interval(msgspec.Struct, forbid_unknown_fields=True):
    """The canonical interval: its three parts are never converted into each other."""

    months: int = 0
    days: int = 0
    nanos: int = 0


_MAX_DIGITS = 40
"""Counts have fewer digits than this in front of the point."""


def from_count(unit: int) -> Convert:
    """A count of `unit` nanoseconds as ISO-8601: -300500 microseconds are `PT-0.3005S`, a day is `PT24H`. Text passes."""

    def read(raw: bytes) -> bytes:
        if raw[:1] == b'"':
            return raw
        try:
            count = Decimal(raw.decode())
        except (ArithmeticError, UnicodeDecodeError):
            raise Rejected(f"{_shown(raw)} is not a count of {_UNITS[unit]}") from None
        if count and not -_MAX_DIGITS < count.adjusted() < _MAX_DIGITS:
            raise Rejected(f"{_shown(raw)} is not a whole number of {_UNITS[unit]}")
        # By default, the product would be rounded to 28 digits.
        nanos = Context(prec=len(raw) + _MAX_DIGITS).multiply(count, Decimal(unit)) if count else Decimal(0)
        if nanos != nanos.to_integral_value():
            raise Rejected(f"{_shown(raw)} is not a whole number of {_UNITS[unit]}")
        return quote(iso_text(int(nanos)))

    return read


def iso_text(total: int) -> str:
    """Nanoseconds as an ISO-8601 duration in hours, minutes and seconds."""
    minus = "-" if total < 0 else ""
    seconds, nanos = divmod(abs(total), times.NANOS_PER_SECOND)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    shown = "".join(f"{minus}{amount}{unit}" for amount, unit in ((hours, "H"), (minutes, "M")) if amount)
    if seconds or nanos or not shown:
        part = f".{nanos:09d}".rstrip("0") if nanos else ""
        shown += f"{minus}{seconds}{part}S"
    return f"PT{shown}"


def to_count(unit: int, bits: int | None = None) -> Convert:
    """An ISO-8601 duration as a count of `unit` nanoseconds.

    Raises `CannotCarry` on years or months, which have no fixed length, on a part of a unit, and on more than `bits` allow.
    """

    def write(raw: bytes) -> bytes:
        text = json_text.string(raw)
        months, total = months_and_nanos(text)
        if months:
            raise CannotCarry("types", f"{text!r} has years or months, which cannot be counted in {_UNITS[unit]}")
        total /= unit
        if total.denominator != 1:
            raise CannotCarry("types", f"{text!r} is finer than {_UNITS[unit]}")
        if bits is not None and abs(total) >= 2 ** (bits - 1):
            raise CannotCarry("types", f"{text!r} is more than {bits} bits of {_UNITS[unit]} allow")
        return str(total).encode()

    return write


def months_and_nanos(text: str) -> tuple[Fraction, Fraction]:
    """The parts of an ISO-8601 duration; raises `Rejected` if it is not one."""
    match = _ISO.fullmatch(text)
    if match is None:
        raise Rejected(f"{text[:60]!r} is not an ISO-8601 duration such as PT2H30M")
    sign, years, months, *parts = match.groups()
    sense = -1 if sign == "-" else 1
    seconds = sum((Fraction(part) * unit for part, unit in zip(parts, _SECONDS, strict=True) if part), Fraction(0))
    return sense * (Fraction(years or 0) * 12 + Fraction(months or 0)), sense * seconds * times.NANOS_PER_SECOND


def from_words(raw: bytes) -> bytes:
    """PostgreSQL's text of an interval (`1 mon -2 days 03:04:05.6`) as months, days and nanoseconds; all else passes."""
    text = json_text.string(raw) if raw[:1] == b'"' else ""
    match = _WORDS.fullmatch(text) if text else None
    if match is None:
        return raw
    years, months, days, sign, hours, minutes, seconds, part = match.groups()
    nanos = ((int(hours or 0) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)) * times.NANOS_PER_SECOND
    nanos += int((part or "0").ljust(9, "0"))
    found = Interval(int(years or 0) * 12 + int(months or 0), int(days or 0), -nanos if sign == "-" else nanos)
    return msgspec.json.encode(found)


def to_words(unit: int = NANOSECOND) -> Convert:
    """Months, days and nanoseconds as PostgreSQL prints an interval; raises `CannotCarry` on a part of a `unit`."""

    def write(raw: bytes) -> bytes:
        found = msgspec.json.decode(raw, type=Interval)
        if found.nanos % unit:
            raise CannotCarry("types", f"an interval of {found.nanos} nanoseconds is finer than {_UNITS[unit]}")
        shown = [f"{found.months} mons"] if found.months else []
        shown += [f"{found.days} days"] if found.days else []
        if found.nanos or not shown:
            seconds, nanos = divmod(abs(found.nanos), times.NANOS_PER_SECOND)
            minutes, seconds = divmod(seconds, 60)
            minus = "-" if found.nanos < 0 else ""
            shown.append(f"{minus}{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}{times.fraction(nanos)}")
        return quote(" ".join(shown))

    return write


def _shown(raw: bytes) -> str:
    return raw[:60].decode(errors="replace")
