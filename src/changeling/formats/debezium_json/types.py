"""Debezium's types: Connect's own, and the logical ones on top of them, both ways.

A column's `original_type` is the wire's name of its type: the logical name where it has one, with the scale of a Decimal
after it in brackets, else Connect's; `array<...>` around that of its items. Without one, values are read as Debezium writes
them with `time.precision.mode=isostring`, `decimal.handling.mode=string` and `interval.handling.mode=string`: the forms that
nobody can misread. A bare count of days or microseconds is refused, since its unit is unknown.
"""

import functools
from typing import Literal, NamedTuple

from changeling.formats.debezium_json import values
from changeling.formats.time_counts import DAY, MICRO, MILLI, NANO
from changeling.formats.time_spans import from_count, to_count
from changeling.formats.type_table import TypeTable
from changeling.model import canonical, types
from changeling.model.canonical import Convert
from changeling.model.errors import Rejected
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


def _timestamps(unit: int, connect: str = "int64", kind: str = "timestamp") -> Logical:
    return Logical(connect, kind, values.from_count(unit, kind), values.to_count(unit))


def _midnight(unit: int, connect: str) -> Logical:
    return Logical(connect, "time", values.from_midnight(unit), values.to_midnight(unit))


LOGICAL = {
    "io.debezium.time.Date": _timestamps(DAY, "int32", "date"),
    "io.debezium.time.Time": _midnight(MILLI, "int32"),
    "io.debezium.time.MicroTime": _midnight(MICRO, "int64"),
    "io.debezium.time.NanoTime": _midnight(NANO, "int64"),
    "io.debezium.time.Timestamp": _timestamps(MILLI),
    "io.debezium.time.MicroTimestamp": _timestamps(MICRO),
    "io.debezium.time.NanoTimestamp": _timestamps(NANO),
    "io.debezium.time.ZonedTimestamp": Logical("string", "timestamptz", values.zoned),
    "io.debezium.time.ZonedTime": Logical("string", "time"),
    "io.debezium.time.IsoDate": Logical("string", "date", values.iso("date"), values.with_zone),
    "io.debezium.time.IsoTime": Logical("string", "time", values.iso("time"), values.time_with_zone),
    "io.debezium.time.IsoTimestamp": Logical("string", "timestamp", None, values.with_zone),
    "io.debezium.time.Year": Logical("int32", "int32"),
    "io.debezium.time.Interval": Logical("string", "interval", values.from_interval, values.to_interval),
    "io.debezium.time.MicroDuration": Logical("int64", "duration", from_count(MICRO), to_count(MICRO)),
    "io.debezium.time.NanoDuration": Logical("int64", "duration", from_count(NANO), to_count(NANO)),
    "io.debezium.data.Uuid": Logical("string", "uuid"),
    "io.debezium.data.Json": Logical("string", "json", values.from_json_text, values.to_json_text),
    **{
        f"io.debezium.data.{text}": Logical("string", "string")
        for text in ("Xml", "Enum", "EnumSet", "Ltree", "TsVector")
    },
    "io.debezium.data.Bits": Logical("bytes", "bytes", values.reversed_bits, values.reversed_bits),
    VARIABLE_SCALE: Logical("struct", "decimal", values.from_variable_scale, values.to_variable_scale),
    **{f"io.debezium.data.geometry.{shape}": Logical("struct", "json") for shape in ("Point", "Geometry", "Geography")},
    DECIMAL: Logical("bytes", "decimal"),
    "org.apache.kafka.connect.data.Date": _timestamps(DAY, "int32", "date"),
    "org.apache.kafka.connect.data.Time": _midnight(MILLI, "int32"),
    "org.apache.kafka.connect.data.Timestamp": _timestamps(MILLI),
}
_BY_LOWER_NAME = {name.lower(): logical for name, logical in LOGICAL.items()}
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
    bare = name.partition("(")[0].strip().lower()
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


def _logical(wire: str) -> Logical | None:
    scale = scale_of(wire)
    if scale is None:
        return _BY_LOWER_NAME.get(wire.lower())
    return Logical("bytes", "decimal", values.from_decimal(scale), values.to_decimal(scale))


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
            return values.to_text
        logical = _logical(wire)
        return None if logical is None else logical.write


TYPES = _DebeziumTypes(
    read={
        "json": values.from_json_text,
        "interval": values.from_interval,
        "date": _advised("date", "io.debezium.time.Date"),
        "time": _advised("time", "io.debezium.time.MicroTime"),
        "timestamp": _advised("timestamp", "io.debezium.time.MicroTimestamp"),
        "timestamptz": _advised("timestamptz", "org.apache.kafka.connect.data.Timestamp"),
        "duration": _advised("duration", "io.debezium.time.MicroDuration"),
        "decimal": _advised("decimal", f"{DECIMAL}(2)"),
    },
    write={"json": values.to_json_text, "interval": values.to_interval},
    parse=parse,
    name=wire_name,
)
