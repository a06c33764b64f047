"""The canonical convention of values: one JSON form for each canonical type.

Integers, floats and booleans are native; decimals, dates, times, UUIDs are text; binary is Base64; durations are ISO-8601
text; intervals are objects of months, days and nanos. `reader` accepts what dialects really send (a number as text, a time with
an offset) and returns the canonical form or raises `Rejected`; digits are never lost.
"""

import base64
import binascii
import functools
import re
import uuid
from collections.abc import Callable
from decimal import Decimal, InvalidOperation

import msgspec

from changeling.model import json_text, times
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.types import INTEGER_RANGES, Type

Convert = Callable[[bytes], bytes]
"""A JSON value as bytes into another one. Never called with NULL, which is NULL in every dialect."""

_DURATION = re.compile(
    r"[+-]?P(?=.)(?:[+-]?\d+(?:\.\d+)?Y)?(?:[+-]?\d+(?:\.\d+)?M)?(?:[+-]?\d+(?:\.\d+)?W)?(?:[+-]?\d+(?:\.\d+)?D)?"
    r"(?:T(?=.)(?:[+-]?\d+(?:\.\d+)?H)?(?:[+-]?\d+(?:\.\d+)?M)?(?:[+-]?\d+(?:\.\d+)?S)?)?"
)
_TIME = re.compile(r"([01]\d|2[0-4]):([0-5]\d)(?::([0-5]\d|60)(?:\.(\d{1,9}))?)?(Z|[+-]\d{2}(?::?\d{2})?)?")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BOOLEANS = {"true": b"true", "t": b"true", "1": b"true", "false": b"false", "f": b"false", "0": b"false"}
_SPECIAL_FLOATS = {
    "nan": "NaN",
    "inf": "Infinity",
    "+inf": "Infinity",
    "infinity": "Infinity",
    "-inf": "-Infinity",
    "-infinity": "-Infinity",
}
_INFINITE = {"infinity", "-infinity"}


def text_of(raw: bytes) -> str:
    """The text of a scalar: the content of a string, or a number's or a boolean's own digits and letters."""
    return json_text.string(raw) if raw[:1] == b'"' else raw.decode()


def _wrong(raw: bytes, kind: object) -> Rejected:
    shown = raw if len(raw) <= 60 else raw[:57] + b"..."
    return Rejected(f"{shown.decode(errors='replace')} is not a value of type {kind}")


def _integer(kind: str) -> Convert:
    low, high = INTEGER_RANGES[kind]

    def read(raw: bytes) -> bytes:
        try:
            number = Decimal(text_of(raw))
            value = int(number) if number.adjusted() < 20 else high + 1
        except (InvalidOperation, ValueError, OverflowError):
            raise _wrong(raw, kind) from None
        if value != number or not low <= value <= high:
            raise _wrong(raw, kind)
        return str(value).encode()

    return read


def _float(kind: str, largest: float) -> Convert:
    def read(raw: bytes) -> bytes:
        text = text_of(raw)
        if special := _SPECIAL_FLOATS.get(text.lower()):
            return quote(special)
        try:
            number = float(text)
        except ValueError:
            raise _wrong(raw, kind) from None
        if not abs(number) <= largest:
            raise _wrong(raw, kind)
        return text.encode() if _NUMBER.fullmatch(text) else repr(number).encode()

    return read


def _decimal(kind: Type) -> Convert:
    def read(raw: bytes) -> bytes:
        text = text_of(raw)
        if text.lower() in _SPECIAL_FLOATS:
            return quote(_SPECIAL_FLOATS[text.lower()])
        try:
            number = Decimal(text)
            _, digits, exponent = number.as_tuple()
        except InvalidOperation:
            raise _wrong(raw, kind) from None
        if not isinstance(exponent, int) or abs(exponent) > 20_000:
            raise _wrong(raw, kind)
        if kind.precision is not None and kind.scale is not None:
            used = "".join(map(str, digits)).rstrip("0") if exponent < 0 else ""
            behind = max(0, -exponent - (len(digits) - len(used))) if exponent < 0 else 0
            if number and (behind > kind.scale or number.adjusted() >= kind.precision - kind.scale):
                raise _wrong(raw, kind)
        return quote(f"{number:f}")

    return read


def _boolean(raw: bytes) -> bytes:
    found = _BOOLEANS.get(text_of(raw).lower())
    if found is None:
        raise _wrong(raw, "bool")
    return found


def _string(raw: bytes) -> bytes:
    return raw if raw[:1] == b'"' else quote(raw.decode())


def _bytes(raw: bytes) -> bytes:
    try:
        base64.b64decode(json_text.string(raw), validate=True)
    except (binascii.Error, ValueError):
        raise _wrong(raw, "bytes (Base64 text)") from None
    return raw


def _uuid(raw: bytes) -> bytes:
    try:
        return quote(str(uuid.UUID(json_text.string(raw))))
    except ValueError:
        raise _wrong(raw, "uuid") from None


def _nanos(raw: bytes, kind: str) -> int | None:
    if raw[:1] != b'"':
        raise _wrong(raw, kind)
    text = json_text.string(raw)
    if text.lower() in _INFINITE or text.endswith(" BC"):
        return None
    return times.parse(text)[0]


def _date(raw: bytes) -> bytes:
    nanos = _nanos(raw, "date")
    if nanos is None:
        return raw
    if nanos % (86_400 * times.NANOS_PER_SECOND):
        raise _wrong(raw, "date")
    return quote(timestamp_text(nanos)[:10])


def _timestamp(raw: bytes) -> bytes:
    nanos = _nanos(raw, "timestamp")
    return raw if nanos is None else quote(timestamp_text(nanos))


def _timestamptz(raw: bytes) -> bytes:
    nanos = _nanos(raw, "timestamptz")
    return raw if nanos is None else quote(timestamp_text(nanos) + "Z")


def timestamp_text(nanos: int) -> str:
    """Nanoseconds since 1970 as ISO-8601 without a zone; a zero fraction is left out."""
    try:
        return times.to_text(nanos)[:-1]
    except OverflowError:
        raise Rejected("the time lies outside the years 1 to 9999") from None


def _time(raw: bytes) -> bytes:
    text = text_of(raw)
    match = _TIME.fullmatch(text)
    if match is None:
        raise _wrong(raw, "time")
    hour, minute, second, part, zone = match.groups()
    if hour == "24" and any(map(int, (minute, second or "0", part or "0"))):
        # Only the end of the day has that hour.
        raise _wrong(raw, "time")
    shown = times.fraction(int((part or "0").ljust(9, "0")))
    return quote(f"{hour}:{minute}:{second or '00'}{shown}{zone or ''}")


def _duration(raw: bytes) -> bytes:
    if raw[:1] != b'"' or not _DURATION.fullmatch(json_text.string(raw)):
        raise _wrong(raw, "duration (ISO-8601 text such as PT2H30M)")
    return raw


class _Interval(msgspec.Struct, forbid_unknown_fields=True):
    months: int = 0
    days: int = 0
    nanos: int = 0


def _interval(raw: bytes) -> bytes:
    if raw[:1] == b'"':
        inner = json_text.string(raw)
        if not inner.startswith("{"):
            raise _wrong(raw, "interval (an object of months, days and nanos)")
        raw = inner.encode()
    try:
        return msgspec.json.encode(msgspec.json.decode(raw, type=_Interval))
    except msgspec.DecodeError:
        raise _wrong(raw, "interval (an object of months, days and nanos)") from None


def array_of(item: Convert) -> Convert:
    """The conversion of an array whose items are converted by `item`; NULL items stay."""

    def read(raw: bytes) -> bytes:
        if raw[:1] == b'"':
            raw = json_text.string(raw).encode()
        if raw[:1] != b"[":
            raise _wrong(raw, "array")
        return json_text.join_array(value if value == b"null" else item(value) for value in json_text.items(raw))

    return read


def _same(raw: bytes) -> bytes:
    return raw


_SIMPLE: dict[str, Convert] = {
    "bool": _boolean,
    "string": _string,
    "bytes": _bytes,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "timestamptz": _timestamptz,
    "duration": _duration,
    "interval": _interval,
    "uuid": _uuid,
    "json": _same,
    "float32": _float("float32", 3.4028235677973366e38),
    "float64": _float("float64", 1.7976931348623157e308),
    **{kind: _integer(kind) for kind in INTEGER_RANGES},
}


@functools.lru_cache(maxsize=4096)
def reader(kind: Type) -> Convert:
    """From what dialects send for this type to the canonical form; raises `Rejected` on a value that does not fit."""
    if kind.kind == "decimal":
        return _decimal(kind)
    if kind.item is not None:
        return array_of(reader(kind.item))
    return _SIMPLE[kind.kind]
