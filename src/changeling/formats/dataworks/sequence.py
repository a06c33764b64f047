"""Sequence ids as positions, and times."""

import re

from changeling.envelope.cells import Cell, Cells, Condition
from changeling.model import times
from changeling.model.errors import Rejected
from changeling.model.position import encode as position_of

_FILE_AND_OFFSET = re.compile(r"[^:]*?\.?([0-9]+):([0-9]+)")


def position(cells: Cells, text: Cell, is_before: Condition) -> Cell:
    """The position of a record by its sequence id, the before side first.

    Ids are digits, ordered as numbers; older ones name a binlog file and an offset, as in `mysql-bin.000010:7461`.
    """
    half = cells.where(is_before, 0, 1)
    (number,) = cells.captured(text, r"(?P<number>[0-9]{1,18})")
    if cells.only(cells.present(number)):
        return cells.position(number, half)
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


def means_seconds(cells: Cells, number: Cell) -> Condition:
    """Whether a time counts seconds: ten digits do, any other count is of milliseconds."""
    positive = ~cells.less(number, 10**9) & cells.less(number, 10**10)
    return positive | (~cells.less(number, 1 - 10**10) & cells.less(number, 1 - 10**9))


def nanos(cells: Cells, number: Cell) -> Cell:
    """A time in milliseconds, or in seconds where it has ten digits, as nanoseconds."""
    milliseconds = cells.only(~means_seconds(cells, number))
    return cells.time(number, times.NANOS_PER_MILLI if milliseconds else times.NANOS_PER_SECOND)
