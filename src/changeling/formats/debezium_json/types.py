"""Debezium's types: Connect's own, and the logical ones on top of them, both ways.

A column's `original_type` is the wire's name of its type: the logical name where it has one, with the scale of a Decimal
after it in brackets, else Connect's; `array<...>` around that of its items. Without one, values are read as Debezium writes
them with `time.precision.mode=isostring`, `decimal.handling.mode=string` and `interval.handling.mode=string`: the forms that
nobody can misread. A bare count of days or microseconds is refused, since its unit is unknown.
"""

import base64
import functools
from typing import Literal, NamedTuple

from changeling.formats.debezium_json import decimals, temporal
from changeling.formats.debezium_json.temporal import DAY, MICRO, MILLI, NANO
from changeling.formats.time_spans import from_count, to_count
from changeling.formats.type_table import TypeTable
from changeling.model import canonical, json_text, types
from changeling.model.canonical import Convert
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.types import INTEGER_RANGES, Type

Times = Literal["isostring", "adaptive", "connect"]
Decimals = Literal["string", "precise"]

DECIMAL = "org.apache.kafka.connect.data.Decimal"
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


def _from_json_text(raw: bytes) -> bytes:
    if raw[:1] != b'"':
        return raw
    text = json_text.string(raw)
    try:
        return json_text.compact(text)
    except ValueError:
        raise Rejected(f"{text[:60]!r} is not JSON text, which a column of type json contains") from None


def _to_json_text(raw: bytes) -> bytes:
    return quote(raw.decode())


def _to_text(raw: bytes) -> bytes:
    return raw if raw[:1] == b'"' else quote(raw.decode())


def _reversed(raw: bytes) -> bytes:
    """Bits, the lowest of them in the first byte, as bytes with the highest first; and vice versa."""
    packed = json_text.string(raw)
    try:
        return quote(base64.b64encode(base64.b64decode(packed, validate=True)[::-1]).decode())
    except ValueError:
        raise Rejected(f"{packed[:60]!r} is not Base64, which Bits are written in") from None


def _timestamps(unit: int, connect: str = "int64", kind: str = "timestamp") -> Logical:
    return Logical(connect, kind, temporal.from_count(unit, kind), temporal.to_count(unit))


def _midnight(unit: int, connect: str) -> Logical:
    return Logical(connect, "time", temporal.from_midnight(unit), temporal.to_midnight(unit))


def _duration(unit: int) -> Logical:
    return Logical("int64", "duration", from_count(unit), to_count(unit))


LOGICAL = {
    "io.debezium.time.Date": _timestamps(DAY, "int32", "date"),
    "io.debezium.time.Time": _midnight(MILLI, "int32"),
    "io.debezium.time.MicroTime": _midnight(MICRO, "int64"),
    "io.debezium.time.NanoTime": _midnight(NANO, "int64"),
    "io.debezium.time.Timestamp": _timestamps(MILLI),
    "io.debezium.time.MicroTimestamp": _timestamps(MICRO),
    "io.debezium.time.NanoTimestamp": _timestamps(NANO),
    "io.debezium.time.ZonedTimestamp": Logical("string", "timestamptz", temporal.zoned),
    "io.debezium.time.ZonedTime": Logical("string", "time"),
    "io.debezium.time.IsoDate": Logical("string", "date", temporal.iso_date, temporal.with_zone),
    "io.debezium.time.IsoTime": Logical("string", "time", temporal.iso_time, temporal.time_with_zone),
    "io.debezium.time.IsoTimestamp": Logical("string", "timestamp", None, temporal.with_zone),
    "io.debezium.time.Year": Logical("int32", "int32"),
    "io.debezium.time.Interval": Logical("string", "interval", temporal.from_interval, temporal.to_interval),
    "io.debezium.time.MicroDuration": _duration(MICRO),
    "io.debezium.time.NanoDuration": _duration(NANO),
    "io.debezium.data.Uuid": Logical("string", "uuid"),
    "io.debezium.data.Json": Logical("string", "json", _from_json_text, _to_json_text),
    "io.debezium.data.Xml": Logical("string", "string"),
    "io.debezium.data.Enum": Logical("string", "string"),
    "io.debezium.data.EnumSet": Logical("string", "string"),
    "io.debezium.data.Ltree": Logical("string", "string"),
    "io.debezium.data.TsVector": Logical("string", "string"),
    "io.debezium.data.Bits": Logical("bytes", "bytes", _reversed, _reversed),
    "io.debezium.data.VariableScaleDecimal": Logical(
        "struct", "decimal", decimals.from_variable_scale, decimals.to_variable_scale
    ),
    "io.debezium.data.geometry.Point": Logical("struct", "json"),
    "io.debezium.data.geometry.Geometry": Logical("struct", "json"),
    "io.debezium.data.geometry.Geography": Logical("struct", "json"),
    DECIMAL: Logical("bytes", "decimal"),
    "org.apache.kafka.connect.data.Date": _timestamps(DAY, "int32", "date"),
    "org.apache.kafka.connect.data.Time": _midnight(MILLI, "int32"),
    "org.apache.kafka.connect.data.Timestamp": _timestamps(MILLI),
}
_BY_LOWER_NAME = {name.lower(): logical for name, logical in LOGICAL.items()}
_COUNTED = frozenset({"date", "time", "timestamp", "timestamptz", "duration"})
_TIMES: dict[Times, dict[str, str]] = {
    "isostring": {
        "date": "io.debezium.time.IsoDate",
        "time": "io.debezium.time.IsoTime",
        "timestamp": "io.debezium.time.IsoTimestamp",
    },
    "adaptive": {
        "date": "io.debezium.time.Date",
        "time": "io.debezium.time.MicroTime",
        "timestamp": "io.debezium.time.MicroTimestamp",
    },
    "connect": {
        "date": "org.apache.kafka.connect.data.Date",
        "time": "org.apache.kafka.connect.data.Time",
        "timestamp": "org.apache.kafka.connect.data.Timestamp",
    },
}
_WIRE_NAMES = {
    "bool": "boolean",
    **{f"int{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    "uint8": "int16",
    "uint16": "int32",
    "uint32": "int64",
    "float32": "float",
    "float64": "double",
    "string": "string",
    "bytes": "bytes",
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
    if kind.kind == "uint64":
        return f"{DECIMAL}(0)" if decimal_mode == "precise" else "string"
    if kind.kind == "decimal":
        if decimal_mode == "string":
            return "string"
        return "io.debezium.data.VariableScaleDecimal" if kind.scale is None else f"{DECIMAL}({kind.scale})"
    return _TIMES[times].get(kind.kind) or _WIRE_NAMES[kind.kind]


def parse(name: str) -> Type | None:
    """The canonical type of a wire type's name, in any case; None where it is unknown."""
    plain = name.strip()
    if plain.lower().startswith("array<") and plain.endswith(">"):
        item = parse(plain[6:-1])
        return None if item is None else types.array(item)
    bare = plain.partition("(")[0].strip().lower()
    logical = _BY_LOWER_NAME.get(bare)
    kind = CONNECT.get(bare) if logical is None else logical.kind
    return None if kind is None else Type(kind)


def scale_of(wire: str) -> int | None:
    """The scale in the brackets after a Decimal's name; None for any other type."""
    bare, _, rest = wire.partition("(")
    if bare.strip().lower() != DECIMAL.lower():
        return None
    text = rest.rstrip(") ")
    if not text.removeprefix("-").isdecimal():
        raise Rejected(f"{wire!r} lacks its scale: write {DECIMAL}(2)")
    return int(text)


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
        own = None if wire is None else self._logical(wire, kind)
        if own is None:
            return super().reader(kind)
        checked = canonical.reader(kind)
        return lambda raw: checked(own(raw))

    def _logical(self, wire: str, kind: Type) -> Convert | None:
        if wire.lower().startswith("array<") and kind.item is not None:
            return canonical.array_of(self.reader(kind.item, wire[6:-1]))
        if (scale := scale_of(wire)) is not None:
            return decimals.from_bytes(scale)
        logical = _BY_LOWER_NAME.get(wire.lower())
        if logical is None or (logical.kind in _COUNTED and kind.kind in INTEGER_RANGES):
            return None
        return logical.read

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - as above
    def writer(self, kind: Type, wire: str | None = None) -> Convert | None:
        if wire is None:
            return super().writer(kind)
        if wire.lower().startswith("array<") and kind.item is not None:
            item = self.writer(kind.item, wire[6:-1])
            return None if item is None else canonical.array_of(item)
        if (scale := scale_of(wire)) is not None:
            return decimals.to_bytes(scale)
        if wire == "string" and kind.kind != "string":
            return _to_text
        logical = _BY_LOWER_NAME.get(wire.lower())
        return None if logical is None else logical.write


TYPES = _DebeziumTypes(
    read={
        "json": _from_json_text,
        "interval": temporal.from_interval,
        "date": _advised("date", "io.debezium.time.Date"),
        "time": _advised("time", "io.debezium.time.MicroTime"),
        "timestamp": _advised("timestamp", "io.debezium.time.MicroTimestamp"),
        "timestamptz": _advised("timestamptz", "org.apache.kafka.connect.data.Timestamp"),
        "duration": _advised("duration", "io.debezium.time.MicroDuration"),
        "decimal": _advised("decimal", f"{DECIMAL}(2)"),
    },
    write={"json": _to_json_text, "interval": temporal.to_interval},
    parse=parse,
    name=wire_name,
)
