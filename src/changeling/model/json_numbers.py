"""What a JSON number needs of a column to be stored exactly, where no schema says it.

Needs are words, and those of several numbers are the words of all of them: in whatever order numbers come, and in whatever
batches, they need the same type.
"""

import math
import re
from collections.abc import Iterable
from decimal import Decimal

from changeling.model.types import INTEGER_RANGES, STORED_DIGITS, decimal

INTEGER = "int"
"""A whole number of 64 bits."""
DOUBLE = "double"
"""A number with an exponent that is the shortest spelling of a double's value, or equal to it."""
ANY_SIZE = "number"
"""A number that neither the widest decimal nor a double holds."""
LONG = "long"
"""A number with other digits than the nearest double has."""

_PARTS = re.compile(r"-?([0-9]+)(?:\.([0-9]+))?([eE][+-]?[0-9]+)?")
_LOW, _HIGH = INTEGER_RANGES["int64"]
EXACT_DIGITS = 15
"""Numbers of this many digits are distinct doubles, as far as these have the range."""


def needs(text: str) -> frozenset[str]:
    """The needs of one number: `int`, `decimal(p,s)`, `double` or `number`; and `long` where a double does not hold it."""
    found = _PARTS.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:60]} is not a number of JSON")
    whole, fraction, exponent = found.groups()
    if exponent is not None:
        return frozenset([DOUBLE]) if is_double(text) else frozenset([ANY_SIZE, LONG])
    scale = len(fraction or "")
    digits = max(scale + (0 if whole == "0" else len(whole)), 1)
    kind = str(decimal(digits, scale)) if digits <= STORED_DIGITS else ANY_SIZE
    if fraction is None and digits < STORED_DIGITS and _LOW <= int(text) <= _HIGH:
        kind = INTEGER
    return frozenset([kind] if digits <= EXACT_DIGITS or is_double(text) else [kind, LONG])


def without_zeros(text: str) -> str:
    """A number in plain digits with no zeros at the end of its fraction: numbers that are equal are equal texts."""
    short = text.rstrip("0").removesuffix(".") if "." in text else text
    return "0" if short == "-0" else short


def are_numbers(kinds: Iterable[str]) -> bool:
    """Whether these are needs of numbers, and of nothing else."""
    return all(kind in (INTEGER, DOUBLE, ANY_SIZE, LONG) or kind.startswith("decimal(") for kind in kinds)


def is_double(text: str) -> bool:
    """Whether a double holds the number: its shortest spelling is the same number."""
    number = float(text)
    if not math.isfinite(number):
        return False
    if number == 0:
        return not text.lower().partition("e")[0].strip("-0.")
    return Decimal(repr(number)) == Decimal(text)
