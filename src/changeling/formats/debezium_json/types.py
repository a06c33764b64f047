"""Debezium's types: Connect's own, and the logical ones on top of them, both ways.

A column's `original_type` is the wire's name of its type: the logical name where it has one, with the scale of a Decimal
after it in brackets, else Connect's; `array<...>` around that of its items. Without one, values are read as Debezium writes
them with `time.precision.mode=isostring`, `decimal.handling.mode=string` and `interval.handling.mode=string`: the forms that
nobody can misread. A bare count of days or microseconds is refused, since its unit is unknown.
"""

import base64
import functools
from decimal import Decimal
from fractions import Fraction
from typing import Literal, NamedTuple

import msgspec

from changeling.formats import time_counts
from changeling.formats.time_counts import DAY, MICRO, MILLI, NANO, shown
from changeling.formats.time_spans import Interval, from_count, months_and_nanos, to_count
from changeling.formats.type_table import TypeTable
from changeling.model import canonical, json_text, times, types
from changeling.model.canonical import Convert, timestamp_text
from changeling.model.errors import CannotCarry, Rejected, inside
from changeling.model.json_text import quote
from changeling.model.types import INTEGER_RANGES, Type

Times = Literal["isostring", "adaptive", "connect"]
Decimals = Literal["string", "precise"]

DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE_SCALE = "io.debezium.data.VariableScaleDecimal"
CONNECT = {
    "boolean": "bool",
    **{f"int{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    "float": "float32",
    "float32": "float32",
    "double": "float64",
    "float64": "float64",
    "string": "string",
    "bytes": "bytes",
    "map": "json",
    "struct": "json",
}
"""The canonical kind of each of Connect's types; `array` has one by its items."""


class Logical(NamedTuple):
    """A logical type: Connect's type below it, the canonical kind that it means, and its values both ways."""

    connect: str
    kind: str
    read: Convert | None = None
    write: Convert | None = None


_AS_TEXT = "; write times=isostring"
# What PostgreSQL's driver, and so Debezium, writes for the infinities, in whatever unit the column counts.
_ENDS = {b"9223372036825200000": b'"infinity"', b"-9223372036832400000": b'"-infinity"'}
_COUNTS = {text: count for count, text in _ENDS.items()}
_END_YEARS = {"+292278994-": b'"infinity"', "-292275055-": b'"-infinity"'}
_decimal, _time = canonical.reader(Type("decimal")), canonical.reader(Type("time"))


def _since_1970(unit: int, connect: str = "int64", kind: str = "timestamp") -> Logical:
    """A count of `unit` nanoseconds; text is read as the type's usual one."""
    read = time_counts.timestamp_from(unit, kind)
    write = time_counts.timestamp_to(unit, "no count of time can express", advice=_AS_TEXT)
    return Logical(connect, kind, lambda raw: _ENDS.get(raw) or read(raw), lambda raw: _COUNTS.get(raw) or write(raw))


def _since_midnight(unit: int, connect: str) -> Logical:
    """A count of `unit` nanoseconds; text is read as the type's usual one."""

    def read(raw: bytes) -> bytes:
        if raw[:1] == b'"':
            return _time(raw)
        nanos = time_counts.whole_number(raw) * unit
        if not 0 <= nanos <= DAY:
            raise Rejected(f"{shown(raw)} is not a time of day; a column of such durations is of type string or int64")
        return quote(timestamp_text(nanos)[11:] if nanos < DAY else "24:00:00")

    def write(raw: bytes) -> bytes:
        text = json_text.string(raw)
        if not text[-1:].isdigit() or "+" in text or "-" in text:
            raise CannotCarry("types", f"{text!r} has a zone, a count since midnight has none{_AS_TEXT}")
        hour, minute, second = text.split(":")
        nanos = (int(hour) * 3600 + int(minute) * 60 + Fraction(second)) * times.NANOS_PER_SECOND
        return time_counts.whole_units(raw, int(nanos), unit, advice=_AS_TEXT)

    return Logical(connect, "time", read, write)


def _zoned(raw: bytes) -> bytes:
    """A ZonedTimestamp; the years that stand for the infinities become these."""
    return _END_YEARS.get(canonical.text_of(raw)[:11]) or canonical.reader(Type("timestamptz"))(raw)


def _iso(kind: str) -> Convert:
    """An IsoDate or IsoTime, such as `10:15:30Z`: its Z is not a zone, the column has none."""
    read = canonical.reader(Type(kind))
    return lambda raw: read(raw[:-2] + b'"' if raw[:1] == b'"' and raw[-2:-1] == b"Z" else raw)


def _with_zone(raw: bytes) -> bytes:
    """The Z that Debezium's ISO texts of dates and timestamps end in."""
    return raw if not raw[-2:-1].isdigit() else raw[:-1] + b'Z"'


def _time_with_zone(raw: bytes) -> bytes:
    """The Z that Debezium's ISO text of a time ends in; raises `CannotCarry` on one with a zone, which is a ZonedTime."""
    if b"+" in raw or b"-" in raw:
        raise CannotCarry("types", f"{shown(raw)} has a zone, and its column none: give the original_type timetz")
    return _with_zone(raw)


def _from_interval(raw: bytes) -> bytes:
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


def _to_interval(raw: bytes) -> bytes:
    """Months, days and nanoseconds as Debezium's text of an interval, every part named."""
    found = msgspec.json.decode(raw, type=Interval)
    month_sign, sign = (-1 if part < 0 else 1 for part in (found.months, found.nanos))
    years, months = divmod(abs(found.months), 12)
    seconds, part = divmod(abs(found.nanos), times.NANOS_PER_SECOND)
    minutes, seconds = divmod(seconds, 60)
    last = f"{seconds}{f'.{part:09d}'.rstrip('0') if part else ''}"
    minus = "-" if sign < 0 and last != "0" else ""
    clock = f"{sign * (minutes // 60)}H{sign * (minutes % 60)}M{minus}{last}S"
    return quote(f"P{month_sign * years}Y{month_sign * months}M{found.days}DT{clock}")


def _decimal_of(scale: int) -> Logical:
    """Connect's Decimal: the unscaled integer in big-endian two's complement as Base64, the scale apart from it.

    A number (the converter's `decimal.format=NUMERIC`) is accepted as it is; one with more digits after the point is not written.
    """

    def read(raw: bytes) -> bytes:
        return _decimal(raw) if raw[:1] != b'"' else _unpacked(json_text.string(raw), scale)

    return Logical("bytes", "decimal", read, lambda raw: quote(_packed(_finite(raw), scale)))


def _unpacked(text: str, scale: int) -> bytes:
    try:
        unscaled = int.from_bytes(base64.b64decode(text, validate=True), "big", signed=True)
    except ValueError:
        raise Rejected(f"{text[:60]!r} is not the Base64 of a decimal") from None
    return quote(f"{Decimal(f'{unscaled}e{-scale}'):f}")


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


class _VariableScale(msgspec.Struct):
    scale: int
    value: str


def _from_variable_scale(raw: bytes) -> bytes:
    """An object of scale and value; numbers and text pass."""
    if raw[:1] != b"{":
        return _decimal(raw)
    with inside("not a VariableScaleDecimal"):
        found = msgspec.json.decode(raw, type=_VariableScale)
    return _unpacked(found.value, found.scale)


def _to_variable_scale(raw: bytes) -> bytes:
    """With the digits that the value has."""
    number = _finite(raw)
    scale = max(0, -int(number.as_tuple().exponent))
    return quote({"scale": scale, "value": _packed(number, scale)})


def _from_json_text(raw: bytes) -> bytes:
    """The JSON value in a text; a value that is not text stays as it is."""
    if raw[:1] != b'"':
        return raw
    text = json_text.string(raw)
    try:
        return json_text.in_text(text)
    except msgspec.DecodeError:
        raise Rejected(f"{text[:60]!r} is not JSON text, which a column of type json contains") from None


def _to_json_text(raw: bytes) -> bytes:
    """A JSON value (strings included) as text."""
    return quote(raw.decode())


def _reversed_bits(raw: bytes) -> bytes:
    """Bits, the lowest of them in the first byte, as bytes with the highest first; and vice versa."""
    packed = json_text.string(raw)
    try:
        return quote(base64.b64decode(packed, validate=True)[::-1])
    except ValueError:
        raise Rejected(f"{packed[:60]!r} is not Base64, which Bits are written in") from None


LOGICAL = {
    "io.debezium.time.Date": _since_1970(DAY, "int32", "date"),
    "io.debezium.time.Time": _since_midnight(MILLI, "int32"),
    "io.debezium.time.MicroTime": _since_midnight(MICRO, "int64"),
    "io.debezium.time.NanoTime": _since_midnight(NANO, "int64"),
    "io.debezium.time.Timestamp": _since_1970(MILLI),
    "io.debezium.time.MicroTimestamp": _since_1970(MICRO),
    "io.debezium.time.NanoTimestamp": _since_1970(NANO),
    "io.debezium.time.ZonedTimestamp": Logical("string", "timestamptz", _zoned),
    "io.debezium.time.ZonedTime": Logical("string", "time"),
    "io.debezium.time.IsoDate": Logical("string", "date", _iso("date"), _with_zone),
    "io.debezium.time.IsoTime": Logical("string", "time", _iso("time"), _time_with_zone),
    "io.debezium.time.IsoTimestamp": Logical("string", "timestamp", None, _with_zone),
    "io.debezium.time.Year": Logical("int32", "int32"),
    "io.debezium.time.Interval": Logical("string", "interval", _from_interval, _to_interval),
    "io.debezium.time.MicroDuration": Logical("int64", "duration", from_count(MICRO), to_count(MICRO)),
    "io.debezium.time.NanoDuration": Logical("int64", "duration", from_count(NANO), to_count(NANO)),
    "io.debezium.data.Uuid": Logical("string", "uuid"),
    "io.debezium.data.Json": Logical("string", "json", _from_json_text, _to_json_text),
    **{
        f"io.debezium.data.{text}": Logical("string", "string")
        for text in ("Xml", "Enum", "EnumSet", "Ltree", "TsVector")
    },
    "io.debezium.data.Bits": Logical("bytes", "bytes", _reversed_bits, _reversed_bits),
    VARIABLE_SCALE: Logical("struct", "decimal", _from_variable_scale, _to_variable_scale),
    **{f"io.debezium.data.geometry.{shape}": Logical("struct", "json") for shape in ("Point", "Geometry", "Geography")},
    DECIMAL: Logical("bytes", "decimal"),
    "org.apache.kafka.connect.data.Date": _since_1970(DAY, "int32", "date"),
    "org.apache.kafka.connect.data.Time": _since_midnight(MILLI, "int32"),
    "org.apache.kafka.connect.data.Timestamp": _since_1970(MILLI),
}
_BY_LOWER_NAME = {
    **{name: Logical(name, kind) for name, kind in CONNECT.items()},
    **{name.lower(): logical for name, logical in LOGICAL.items()},
}
_COUNTED = frozenset({"date", "time", "timestamp", "timestamptz", "duration"})
_TIMES = {
    mode: dict(zip(("date", "time", "timestamp"), names, strict=True))
    for mode, names in (
        ("isostring", ("io.debezium.time.IsoDate", "io.debezium.time.IsoTime", "io.debezium.time.IsoTimestamp")),
        ("adaptive", ("io.debezium.time.Date", "io.debezium.time.MicroTime", "io.debezium.time.MicroTimestamp")),
        ("connect", [f"org.apache.kafka.connect.data.{name}" for name in ("Date", "Time", "Timestamp")]),
    )
}
_WIRE_NAMES = {
    **{kind: name for name, kind in CONNECT.items()},
    "float32": "float",
    "float64": "double",
    "uint8": "int16",
    "uint16": "int32",
    "uint32": "int64",
    "timestamptz": "io.debezium.time.ZonedTimestamp",
    "duration": "io.debezium.time.MicroDuration",
    "interval": "io.debezium.time.Interval",
    "uuid": "io.debezium.data.Uuid",
    "json": "io.debezium.data.Json",
}


def wire_name(kind: Type, times: Times = "isostring", decimal_mode: Decimals = "string", *, zoned: bool = False) -> str:
    """The wire's name of the type that holds every value of a canonical one, in these modes; `zoned`: times have a zone."""
    if kind.item is not None:
        return f"array<{wire_name(kind.item, times, decimal_mode, zoned=zoned)}>"
    if kind.kind == "time" and zoned:
        return "io.debezium.time.ZonedTime"
    if kind.kind in ("uint64", "decimal"):
        scale = 0 if kind.kind == "uint64" else kind.scale
        precise = VARIABLE_SCALE if scale is None else f"{DECIMAL}({scale})"
        return precise if decimal_mode == "precise" else "string"
    return _TIMES[times].get(kind.kind) or _WIRE_NAMES[kind.kind]


def item_of(wire: str) -> str | None:
    """The wire's name of the items of an array."""
    return wire[6:-1] if wire.lower().startswith("array<") and wire.endswith(">") else None


def parse(name: str) -> Type | None:
    """The canonical type of a wire type's name, in any case; None where it is unknown."""
    if (item_name := item_of(name.strip())) is not None:
        item = parse(item_name)
        return None if item is None else types.array(item)
    found = _BY_LOWER_NAME.get(name.partition("(")[0].strip().lower())
    return None if found is None else Type(found.kind)


def scale_of(wire: str) -> int | None:
    """The scale in the brackets after a Decimal's name; None for any other type."""
    bare, _, rest = wire.partition("(")
    if bare.strip().lower() != DECIMAL.lower():
        return None
    text = rest.rstrip(") ")
    if not text.removeprefix("-").isdecimal():
        raise Rejected(f"{wire!r} lacks its scale: write {DECIMAL}(2)")
    return int(text)


def _logical(wire: str) -> Logical | None:
    scale = scale_of(wire)
    return _BY_LOWER_NAME.get(wire.lower()) if scale is None else _decimal_of(scale)


def _advised(kind: str, example: str) -> Convert:
    """A reader of the unambiguous forms that says what to do about the others."""
    plain = canonical.reader(Type(kind))

    def read(raw: bytes) -> bytes:
        try:
            return plain(raw)
        except Rejected as error:
            raise Rejected(
                f"{error}; if the connector sends it in another form, give the column's original_type"
                f" in a schema file, such as {example}"
            ) from None

    return read


class _DebeziumTypes(TypeTable):
    """The wire's names carry parameters and item types, which the shared table ignores."""

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - a format has one table, and it lives as long as the program
    def reader(self, kind: Type, wire: str | None = None) -> Convert:
        if wire is None:
            return super().reader(kind)
        if kind.item is not None and (item := item_of(wire)) is not None:
            return canonical.array_of(self.reader(kind.item, item))
        logical, checked = _logical(wire), canonical.reader(kind)
        if logical is None or logical.read is None or (logical.kind in _COUNTED and kind.kind in INTEGER_RANGES):
            return super().reader(kind)
        own = logical.read
        return lambda raw: checked(own(raw))

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - as above
    def writer(self, kind: Type, wire: str | None = None) -> Convert | None:
        if wire is None:
            return super().writer(kind)
        if kind.item is not None and (item := item_of(wire)) is not None:
            own = self.writer(kind.item, item)
            return None if own is None else canonical.array_of(own)
        if wire == "string" and kind.kind != "string":
            return canonical.reader(Type("string"))
        logical = _logical(wire)
        return None if logical is None else logical.write


TYPES = _DebeziumTypes(
    read={
        "json": _from_json_text,
        "interval": _from_interval,
        "date": _advised("date", "io.debezium.time.Date"),
        "time": _advised("time", "io.debezium.time.MicroTime"),
        "timestamp": _advised("timestamp", "io.debezium.time.MicroTimestamp"),
        "timestamptz": _advised("timestamptz", "org.apache.kafka.connect.data.Timestamp"),
        "duration": _advised("duration", "io.debezium.time.MicroDuration"),
        "decimal": _advised("decimal", f"{DECIMAL}(2)"),
    },
    write={"json": _to_json_text, "interval": _to_interval},
    parse=parse,
    name=wire_name,
)
