"""The values of Debezium's logical types as canonical ones and back: times, intervals, decimals, bits, JSON as text."""

import base64
import binascii
from decimal import Decimal, InvalidOperation
from fractions import Fraction

import msgspec

from changeling.formats import time_counts
from changeling.formats.time_counts import DAY, UNIT_NAMES, shown, whole_number, whole_units
from changeling.formats.time_spans import Interval, months_and_nanos
from changeling.model import canonical, json_text, times
from changeling.model.canonical import Convert, timestamp_text
from changeling.model.errors import CannotCarry, Rejected
from changeling.model.json_text import quote
from changeling.model.types import Type

_AS_TEXT = "; write times=isostring"
# What PostgreSQL's driver, and so Debezium, writes for the infinities, in whatever unit the column counts.
_ENDS = {b"9223372036825200000": b'"infinity"', b"-9223372036832400000": b'"-infinity"'}
_END_COUNTS = {text: count for count, text in _ENDS.items()}
_END_YEARS = {"+292278994-": b'"infinity"', "-292275055-": b'"-infinity"'}
_any_decimal = canonical.reader(Type("decimal"))


def from_count(unit: int, kind: str) -> Convert:
    """From a count of `unit` nanoseconds since 1970 to the canonical timestamp; text is read as the type's usual one."""
    read = time_counts.timestamp_from(unit, kind)
    return lambda raw: _ENDS.get(raw) or read(raw)


def to_count(unit: int) -> Convert:
    """From the canonical timestamp to a count of `unit` nanoseconds since 1970; raises `CannotCarry` on a part of one."""
    write = time_counts.timestamp_to(unit, "no count of time can express", advice=_AS_TEXT)
    return lambda raw: _END_COUNTS.get(raw) or write(raw)


def from_midnight(unit: int) -> Convert:
    """From a count of `unit` nanoseconds since midnight to the canonical time of day."""

    def read(raw: bytes) -> bytes:
        if raw[:1] == b'"':
            return canonical.reader(Type("time"))(raw)
        nanos = whole_number(raw) * unit
        if not 0 <= nanos <= DAY:
            raise Rejected(f"{shown(raw)} is no time of day; a column of such durations is of type string or int64")
        return quote(timestamp_text(nanos)[11:] if nanos < DAY else "24:00:00")

    return read


def to_midnight(unit: int) -> Convert:
    """From the canonical time of day to a count of `unit` nanoseconds since midnight."""

    def write(raw: bytes) -> bytes:
        text = json_text.string(raw)
        if not text[-1:].isdigit() or "+" in text or "-" in text:
            raise CannotCarry("types", f"{text!r} has a zone, a count since midnight has none{_AS_TEXT}")
        hour, minute, second = text.split(":")
        seconds = int(hour) * 3600 + int(minute) * 60 + Fraction(second)
        nanos = int(seconds * times.NANOS_PER_SECOND)
        return whole_units(nanos, unit, f"{shown(raw)} is finer than {UNIT_NAMES[unit]}{_AS_TEXT}")

    return write


def zoned(raw: bytes) -> bytes:
    """A ZonedTimestamp; the years that stand for the infinities become these."""
    return _END_YEARS.get(canonical.text_of(raw)[:11]) or canonical.reader(Type("timestamptz"))(raw)


def iso(kind: str) -> Convert:
    """An IsoDate or IsoTime, such as `10:15:30Z`: its Z is no zone, the column has none."""
    read = canonical.reader(Type(kind))
    return lambda raw: read(raw[:-2] + b'"' if raw[:1] == b'"' and raw[-2:-1] == b"Z" else raw)


def with_zone(raw: bytes) -> bytes:
    """The Z that Debezium's ISO texts of dates and timestamps end in."""
    return raw if not raw[-2:-1].isdigit() else raw[:-1] + b'Z"'


def time_with_zone(raw: bytes) -> bytes:
    """The Z that Debezium's ISO text of a time ends in; raises `CannotCarry` on one with a zone, which is a ZonedTime."""
    if b"+" in raw or b"-" in raw:
        raise CannotCarry("types", f"{shown(raw)} has a zone, and its column none: give the original_type timetz")
    return with_zone(raw)


def from_interval(raw: bytes) -> bytes:
    """An Interval such as `P1Y2M3DT4H5M6.78S` as months, days and nanoseconds; objects pass."""
    if raw[:2] not in (b'"P', b'"-', b'"+'):
        return canonical.reader(Type("interval"))(raw)
    text = json_text.string(raw)
    dates, _, clock = text.partition("T")
    months, days = months_and_nanos(dates if dates.strip("+-") != "P" else "P0D")
    nanos = months_and_nanos(f"{dates[: dates.index('P')]}PT{clock}")[1] if clock else Fraction(0)
    days /= DAY
    if any(part.denominator != 1 for part in (months, days, nanos)):
        raise Rejected(f"{text[:60]!r} has a part of a month, a day or a nanosecond")
    return msgspec.json.encode(Interval(int(months), int(days), int(nanos)))


def to_interval(raw: bytes) -> bytes:
    """Months, days and nanoseconds as Debezium's text of an interval, every part named."""
    found = msgspec.json.decode(raw, type=Interval)
    sign = -1 if found.months < 0 else 1
    years, months = divmod(abs(found.months), 12)
    minus = "-" if found.nanos < 0 else ""
    seconds, part = divmod(abs(found.nanos), times.NANOS_PER_SECOND)
    minutes, seconds = divmod(seconds, 60)
    last = f"{seconds}{f'.{part:09d}'.rstrip('0') if part else ''}"
    hours = f"{minus}{minutes // 60}H{minus}{minutes % 60}M{minus}{last}S".replace("-0H", "0H").replace("-0M", "0M")
    return quote(f"P{sign * years}Y{sign * months}M{found.days}DT{hours.replace('-0S', '0S')}")


class _VariableScale(msgspec.Struct):
    scale: int
    value: str


def from_decimal(scale: int) -> Convert:
    """From Connect's Decimal: the unscaled integer in big-endian two's complement as Base64, the scale apart from it.

    A number (the converter's `decimal.format=NUMERIC`) is accepted as it is.
    """
    return lambda raw: _any_decimal(raw) if raw[:1] != b'"' else _unpacked(json_text.string(raw), scale)


def _unpacked(text: str, scale: int) -> bytes:
    try:
        unscaled = int.from_bytes(base64.b64decode(text, validate=True), "big", signed=True)
    except (binascii.Error, ValueError):
        raise Rejected(f"{text[:60]!r} is not the Base64 of a decimal") from None
    return quote(f"{Decimal(f'{unscaled}e{-scale}'):f}")


def to_decimal(scale: int) -> Convert:
    """To Connect's Decimal; raises `CannotCarry` where the value has more digits after the point."""
    return lambda raw: quote(_packed(_finite(raw), scale))


def _finite(raw: bytes) -> Decimal:
    number = Decimal(canonical.text_of(raw))
    if not number.is_finite():
        raise CannotCarry("types", f"a precise decimal cannot be {number}; write decimals=string")
    return number


def _packed(number: Decimal, scale: int) -> bytes:
    unscaled = Fraction(number) * Fraction(10) ** scale
    if unscaled.denominator != 1:
        raise CannotCarry("types", f"{number} has more than {scale} digits after the point")
    whole = unscaled.numerator
    return whole.to_bytes((whole if whole >= 0 else ~whole).bit_length() // 8 + 1, "big", signed=True)


def from_variable_scale(raw: bytes) -> bytes:
    """From a VariableScaleDecimal, an object of scale and value; numbers and text pass."""
    if raw[:1] != b"{":
        return _any_decimal(raw)
    try:
        found = msgspec.json.decode(raw, type=_VariableScale)
    except msgspec.ValidationError as error:
        raise Rejected(f"not a VariableScaleDecimal: {error}") from None
    return _unpacked(found.value, found.scale)


def to_variable_scale(raw: bytes) -> bytes:
    """To a VariableScaleDecimal with the digits that the value has."""
    try:
        number = _finite(raw)
    except InvalidOperation:
        raise Rejected(f"{raw[:60].decode(errors='replace')} is not a decimal") from None
    _, _, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    return quote({"scale": scale, "value": _packed(number, scale)})


def from_json_text(raw: bytes) -> bytes:
    """The JSON value in a text; a value that is no text is itself."""
    if raw[:1] != b'"':
        return raw
    text = json_text.string(raw)
    try:
        return json_text.compact(text)
    except ValueError:
        raise Rejected(f"{text[:60]!r} is not JSON text, which a column of type json contains") from None


def to_text(raw: bytes) -> bytes:
    """A value as text, if it is none yet."""
    return raw if raw[:1] == b'"' else to_json_text(raw)


def to_json_text(raw: bytes) -> bytes:
    """A JSON value, be it a string, as text."""
    return quote(raw.decode())


def reversed_bits(raw: bytes) -> bytes:
    """Bits, the lowest of them in the first byte, as bytes with the highest first; and vice versa."""
    packed = json_text.string(raw)
    try:
        return quote(base64.b64decode(packed, validate=True)[::-1])
    except ValueError:
        raise Rejected(f"{packed[:60]!r} is not Base64, which Bits are written in") from None
