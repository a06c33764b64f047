"""Sequence ids as positions, and times."""

import re

from changeling.model import times
from changeling.model.errors import Rejected
from changeling.model.position import encode as position_of

NANOS_PER_MILLI = 1_000_000
_FILE_AND_OFFSET = re.compile(r"[^:]*?\.?([0-9]+):([0-9]+)")
_SECONDS = range(10**9, 10**10)


def position(text: str, side: str) -> str:
    """The position of a record by its sequence id, the before side first.

    Ids are digits, ordered as numbers; older ones name a binlog file and an offset, as in `mysql-bin.000010:7461`.
    """
    half = 1 if side == "after" else 0
    if text.isascii() and text.isdigit():
        return position_of(_number(text), half)
    if match := _FILE_AND_OFFSET.fullmatch(text):
        return position_of(_number(match[1]), _number(match[2]), half)
    raise Rejected(
        f"the sequence id {text!r} is neither digits nor a binlog file and offset like mysql-bin.000010:7461"
    )


def _number(digits: str) -> int:
    if len(digits) > 1000:
        raise Rejected(f"a sequence id has {len(digits):,} digits")
    return int(digits)


def means_seconds(number: int) -> bool:
    """Whether a time counts seconds: ten digits do, any other count is of milliseconds."""
    return abs(number) in _SECONDS


def nanos(number: int) -> int:
    """A time in milliseconds, or in seconds where it has ten digits, as nanoseconds."""
    return times.from_units(number, times.NANOS_PER_SECOND if means_seconds(number) else NANOS_PER_MILLI)
