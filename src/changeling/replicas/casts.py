"""Converts whole columns of JSON values into stored ones with Arrow alone, where values have the usual spelling.

Each pattern lets through only what Arrow's cast reads as the canonical reader does, and never fails on. All else is
left to be read value by value.
"""

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from changeling.model.types import INTEGER_RANGES, Type
from changeling.replicas.stored_types import arrow_type, is_exact_decimal


class Cast(NamedTuple):
    """A stored column, and which of its values are converted; the others are NULL."""

    array: pa.Array
    right: pa.BooleanArray


NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
"""A number as JSON has it."""
# All numbers of 18 digits and most of 19: none of them needs a range check.
_LONG = r"-?(?:0|[1-9][0-9]{0,17}|[1-8][0-9]{18})"
_UNSIGNED_LONG = r"0|[1-9][0-9]{0,18}"
# Longer ones are rare and are read one by one: the reader limits the number of digits.
_PLAIN_DECIMAL = r"-?(?:0|[1-9][0-9]{0,199})(?:\.[0-9]{1,200})?"
# Valid days only; February 29 of years that are multiples of 100 is left to the reader.
_DAY = (
    r"(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    r"|02-(?:0[1-9]|1[0-9]|2[0-8]))|[0-9]{2}(?:0[48]|[2468][048]|[13579][26])-02-29)"
)
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_OFFSET = r"(?:Z|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)"
_MOMENT = rf"{_DAY}[T ]{_CLOCK}(?:\.[0-9]{{1,6}})?{_OFFSET}?"
_NOT_ZEROS = r"(?:[1-9][0-9]{2}|[0-9][1-9][0-9]|[0-9]{2}[1-9])"
_TIME = rf"{_CLOCK}(?:\.(?:[0-9]{{3}}){{0,2}}{_NOT_ZEROS})?{_OFFSET}?"
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_UNESCAPED = r'[^"\\\x00-\x1f]*'
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""The first day of year 1 and the last of 9999, counted from 1970."""
_MICROS_PER_DAY = 86_400_000_000


def cast(texts: pa.Array, kind: Type) -> Cast:
    """A column of JSON values (as binary) in `arrow_type(kind)`; what must be read one by one is marked as not right."""
    if is_exact_decimal(kind):
        return _exact_decimals(texts, kind)
    if kind.kind in INTEGER_RANGES:
        return _integers(texts, kind)
    found = _CASTS.get(kind.kind)
    return _nothing(texts, kind) if found is None else found(texts, kind)


def matches(texts: pa.Array, pattern: str) -> pa.BooleanArray:
    """Which values match the whole pattern; NULL always does."""
    return pc.fill_null(pc.match_substring_regex(texts, f"^(?:{pattern})$"), True)


def _nothing(texts: pa.Array, kind: Type) -> Cast:
    return Cast(pa.nulls(len(texts), arrow_type(kind)), texts.is_null())


def _where(right: pa.BooleanArray, array: pa.Array) -> Cast:
    if pc.all(right).as_py():
        return Cast(array, right)
    return Cast(pc.if_else(right, array, pa.scalar(None, array.type)), right)


def _bare(texts: pa.Array, pattern: str) -> Cast:
    """ASCII values that match the pattern, quoted or not, without the quotes."""
    found = _where(matches(texts, f'{pattern}|"(?:{pattern})"'), texts)
    return Cast(pc.ascii_trim(found.array.cast(pa.string()), '"'), found.right)


def _unquoted(texts: pa.Array, pattern: str) -> Cast:
    """Strings whose content matches the pattern and has no escapes, without the quotes."""
    found = _where(matches(texts, f'"{pattern}"'), texts)
    return Cast(pc.binary_slice(found.array, 1, -1), found.right)


def _integers(texts: pa.Array, kind: Type) -> Cast:
    if kind.kind == "uint64":
        found = _bare(texts, _UNSIGNED_LONG)
        return Cast(found.array.cast(arrow_type(kind)), found.right)
    found = _bare(texts, _LONG)
    numbers = found.array.cast(pa.int64())
    if kind.kind == "int64":
        return Cast(numbers, found.right)
    within = _within(numbers, found.right, *INTEGER_RANGES[kind.kind])
    return Cast(within.array.cast(arrow_type(kind)), within.right)


def _within(numbers: pa.Array, right: pa.BooleanArray, low: int, high: int) -> Cast:
    bounds = pc.min_max(numbers)
    if bounds["min"].as_py() is None or low <= bounds["min"].as_py() <= bounds["max"].as_py() <= high:
        return Cast(numbers, right)
    held = pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high))
    return _where(pc.and_(right, pc.fill_null(held, True)), numbers)


def exact_decimal(kind: Type) -> str:
    """The pattern of numbers that have no more digits than a decimal, before the point and after it."""
    scale = kind.scale or 0
    whole = (kind.precision or 0) - scale
    pattern = rf"-?(?:0|[1-9][0-9]{{0,{whole - 1}}})" if whole else "-?0"
    return rf"{pattern}(?:\.[0-9]{{1,{scale}}})?" if scale else pattern


def _exact_decimals(texts: pa.Array, kind: Type) -> Cast:
    found = _bare(texts, exact_decimal(kind))
    return Cast(found.array.cast(arrow_type(kind)), found.right)


def _floats(texts: pa.Array, kind: Type) -> Cast:
    found = _bare(texts, NUMBER)
    numbers = found.array.cast(pa.float64()).cast(arrow_type(kind))
    # A number that is too large has become infinite.
    return _where(pc.and_(found.right, pc.fill_null(pc.is_finite(numbers), True)), numbers)


def _booleans(texts: pa.Array, kind: Type) -> Cast:
    return _where(matches(texts, "true|false"), pc.equal(texts, b"true"))


def _strings(texts: pa.Array, kind: Type) -> Cast:
    found = _unquoted(texts, _UNESCAPED)
    return _as_text(found, texts, kind)


def _documents(texts: pa.Array, kind: Type) -> Cast:
    return _as_text(Cast(texts, pa.repeat(pa.scalar(True), len(texts))), texts, kind)


def _as_text(found: Cast, texts: pa.Array, kind: Type) -> Cast:
    try:
        return Cast(found.array.cast(pa.string()), found.right)
    except pa.ArrowInvalid:  # Somewhere are bytes that are not UTF-8.
        return _nothing(texts, kind)


def _texts_like(pattern: str) -> Callable[[pa.Array, Type], Cast]:
    def found(texts: pa.Array, kind: Type) -> Cast:
        array, right = _unquoted(texts, pattern)
        return Cast(array.cast(pa.string()), right)

    return found


def _any_decimals(texts: pa.Array, kind: Type) -> Cast:
    # With a declared precision, the digits must be counted.
    return _bare(texts, _PLAIN_DECIMAL) if kind.precision is None else _nothing(texts, kind)


def _dates(texts: pa.Array, kind: Type) -> Cast:
    array, right = _unquoted(texts, _DAY)
    days = _within(array.cast(pa.string()).cast(pa.date32()).cast(pa.int32()), right, _FIRST_DAY, _LAST_DAY)
    return Cast(days.array.cast(pa.date32()), days.right)


def _moments(texts: pa.Array, kind: Type) -> Cast:
    array, right = _unquoted(texts, _MOMENT)
    moments = _in_utc(array.cast(pa.string())).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    held = _within(moments, right, _FIRST_DAY * _MICROS_PER_DAY, (_LAST_DAY + 1) * _MICROS_PER_DAY - 1)
    return Cast(held.array.cast(arrow_type(kind)), held.right)


def _in_utc(texts: pa.StringArray) -> pa.StringArray:
    """Timestamps with their offsets; one without an offset is in UTC."""
    if pc.all(pc.ends_with(texts, "Z")).as_py():
        return texts
    has_offset = pc.match_substring_regex(texts, f"{_OFFSET}$")
    return (
        texts
        if pc.all(has_offset).as_py()
        else pc.if_else(has_offset, texts, pc.binary_join_element_wise(texts, "Z", ""))
    )


_CASTS: dict[str, Callable[[pa.Array, Type], Cast]] = {
    "bool": _booleans,
    "float32": _floats,
    "float64": _floats,
    "decimal": _any_decimals,
    "string": _strings,
    "json": _documents,
    "uuid": _texts_like(_UUID),
    "time": _texts_like(_TIME),
    "date": _dates,
    "timestamp": _moments,
    "timestamptz": _moments,
}
