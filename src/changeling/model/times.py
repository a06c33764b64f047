"""Timestamps as nanoseconds since 1970 in UTC, and as RFC 3339 text for people; spans of time as settings have them: `10s`, `30d`."""

import re
from datetime import datetime, timedelta

from changeling.model.errors import Rejected, UsageError

NANOS_PER_SECOND, NANOS_PER_MILLI = 1_000_000_000, 1_000_000
_LIMIT = 2**63
_EPOCH = datetime(1970, 1, 1)
_ISO = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?(Z|z|[+-]\d{2}(?::?\d{2})?(?::?\d{2})?)?)?"
    r"(?:\[[^\]]*\])?"
)


def from_units(value: int, nanos_per_unit: int) -> int:
    """A count of units since 1970 as nanoseconds; raises `Rejected` outside of the range of 64 bits (1677 to 2262)."""
    nanos = value * nanos_per_unit
    if not -_LIMIT <= nanos < _LIMIT:
        raise Rejected(f"the time {value} lies outside the years 1677 to 2262")
    return nanos


def fraction(nanos: int) -> str:
    """The part of a second as `.123`, `.123456`, `.123456789` or nothing: the fewest digits that are exact."""
    if not nanos:
        return ""
    digits = f"{nanos:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f".{digits}"


def to_text(nanos: int) -> str:
    """RFC 3339 in UTC with 0, 3, 6 or 9 fraction digits, the fewest that are exact."""
    seconds, rest = divmod(nanos, NANOS_PER_SECOND)
    time = _EPOCH + timedelta(seconds=seconds)
    return f"{time:%Y-%m-%dT%H:%M:%S}{fraction(rest)}Z" if time.year > 999 else _early(time, rest)


def _early(time: datetime, rest: int) -> str:
    return f"{time.isoformat()}{fraction(rest)}Z"


def parse(text: str) -> tuple[int, bool]:
    """Nanoseconds of an ISO-8601 date or timestamp, and whether it named an offset (one without is read as UTC).

    Python's integers have no limit, so every year from 1 to 9999 is exact; raises `Rejected` on anything else.
    """
    match = _ISO.fullmatch(text)
    if match is None:
        raise Rejected(f"{text!r} is not an ISO-8601 time such as 2023-12-25T10:15:30.123Z")
    day, minute, second, part, offset = match.groups()
    try:
        naive = datetime.fromisoformat(f"{day}T{minute or '00:00'}:{second or '00'}")
    except ValueError as error:
        raise Rejected(f"{text!r} is not a time: {error}") from None
    delta = naive - _EPOCH
    nanos = (delta.days * 86_400 + delta.seconds - _offset_seconds(offset)) * NANOS_PER_SECOND
    return nanos + int((part or "0").ljust(9, "0")), offset is not None


def _offset_seconds(offset: str | None) -> int:
    if offset is None or offset in "Zz":
        return 0
    digits = offset[1:].replace(":", "").ljust(6, "0")
    seconds = int(digits[:2]) * 3600 + int(digits[2:4]) * 60 + int(digits[4:])
    return -seconds if offset[0] == "-" else seconds


_SPAN = re.compile(r"([0-9]{1,12}) *(ms|s|m|h|d)")
_MILLIS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def is_span(text: str) -> bool:
    """Whether a text is a span."""
    return _SPAN.fullmatch(text) is not None


def span_millis(text: str) -> int:
    """The milliseconds of a span such as `10s`; raises `UsageError` where it is not one."""
    match = _SPAN.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not a span of time: write a number and ms, s, m, h or d, as in 10s")
    return int(match[1]) * _MILLIS[match[2]]
