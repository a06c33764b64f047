"""YDB's types and how its JSON spells their values, both ways.

Dates and times of 16 and 32 bits are all timestamps with six fraction digits; those of 32 and 64 signed bits as
integers; PostgreSQL's types as the text that PostgreSQL prints.
"""

import base64
import re

import pyarrow as pa
import pyarrow.compute as pc

from changeling.formats.time_counts import DAY, MICRO, SECOND, shown, timestamp_from, timestamp_to
from changeling.formats.time_spans import MICROSECOND, from_count, from_words, to_count, to_words
from changeling.formats.type_table import TypeTable
from changeling.model import canonical, json_text, types
from changeling.model.canonical import Convert, timestamp_text
from changeling.model.errors import Rejected
from changeling.model.json_text import quote

_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")
_DEFAULT_DECIMAL = types.decimal(22, 9)
_WIDEST_DECIMAL, _WIDEST_DYNUMBER = 35, 38

_CANONICAL_KINDS = {
    "bool": "bool",
    **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float": "float32",
    "double": "float64",
    "dynumber": "decimal",
    "string": "bytes",
    "bytes": "bytes",
    "utf8": "string",
    "text": "string",
    "json": "json",
    "jsondocument": "json",
    "yson": "json",
    "uuid": "uuid",
    "date": "date",
    "datetime": "timestamptz",
    "timestamp": "timestamptz",
    "interval": "duration",
    "date32": "date",
    "datetime64": "timestamptz",
    "timestamp64": "timestamptz",
    "interval64": "duration",
    # These name their zone after a comma: no canonical timestamp has that, so they stay text.
    "tzdate": "string",
    "tzdatetime": "string",
    "tztimestamp": "string",
    "pgbool": "bool",
    "pgint2": "int16",
    "pgint4": "int32",
    "pgint8": "int64",
    "pgoid": "uint32",
    "pgfloat4": "float32",
    "pgfloat8": "float64",
    "pgnumeric": "decimal",
    "pgbytea": "bytes",
    "pgdate": "date",
    "pgtime": "time",
    "pgtimetz": "time",
    "pgtimestamp": "timestamp",
    "pgtimestamptz": "timestamptz",
    "pginterval": "interval",
    "pguuid": "uuid",
    "pgjson": "json",
    "pgjsonb": "json",
}
_NAMES = {
    "bool": "Bool",
    **{f"{sign}int{bits}": f"{sign}int{bits}".capitalize() for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float32": "Float",
    "float64": "Double",
    "string": "Utf8",
    "bytes": "String",
    "date": "Date",
    "time": "Utf8",
    "timestamp": "Timestamp",
    "timestamptz": "Timestamp",
    "duration": "Interval",
    "interval": "Json",
    "uuid": "Uuid",
    "json": "Json",
    "array": "Json",
}
_WIRE_NUMBERS = {b'"NaN"': b'"nan"', b'"Infinity"': b'"inf"', b'"-Infinity"': b'"-inf"'}


def parse(name: str) -> types.Type | None:
    """The canonical type of a YDB type name, in any case; None where YDB has no such type."""
    plain = name.strip().lower()
    if plain == "decimal":
        return _DEFAULT_DECIMAL
    if match := _DECIMAL.fullmatch(plain):
        precision, scale = int(match[1]), int(match[2])
        return types.decimal(precision, scale) if precision > 0 and scale <= precision else None
    if kind := _CANONICAL_KINDS.get(plain):
        return types.Type(kind)
    return types.Type("string") if plain.startswith(("pg", "_pg")) else None


def name(kind: types.Type) -> str:
    """The YDB type that fits every value of a canonical one."""
    if kind.kind != "decimal":
        return _NAMES[kind.kind]
    if kind.precision is None:
        return "DyNumber"
    if kind.precision <= _WIDEST_DECIMAL:
        return f"Decimal({kind.precision},{kind.scale})"
    return "DyNumber" if kind.precision <= _WIDEST_DYNUMBER else "Utf8"


def _count(unit: int, unit_name: str | None = None) -> Convert:
    return timestamp_to(unit, "YDB has no timestamp", unit_name)


_micros = _count(MICRO, "YDB's microseconds")


def _timestamp_text(raw: bytes) -> bytes:
    seconds, micros = divmod(int(_micros(raw)), 1_000_000)
    return quote(f"{timestamp_text(seconds * SECOND)}.{micros:06d}Z")


def _timestamp_texts(cells: pa.Array) -> pa.Array:
    """As `_timestamp_text`, of canonical days and timestamps; null where they are finer than microseconds."""
    given = cells.cast(pa.string())
    clock = pc.if_else(
        pc.equal(pc.binary_length(given), len('"2026-11-18"')), "T00:00:00", pc.utf8_slice_codeunits(given, 11, 20)
    )
    fraction = pc.ascii_trim(pc.utf8_slice_codeunits(given, 20), characters='.Z"')
    micros = pc.if_else(pc.less_equal(pc.binary_length(fraction), 6), pc.ascii_rpad(fraction, 6, "0"), None)
    return pc.binary_join_element_wise(pc.utf8_slice_codeunits(given, 0, 11), clock, ".", micros, 'Z"', "").cast(
        pa.binary()
    )


def _number(raw: bytes) -> bytes:
    return _WIRE_NUMBERS.get(raw, raw)


def _as_text(raw: bytes) -> bytes:
    return raw if raw[:1] == b'"' else quote(raw.decode())


def _same(raw: bytes) -> bytes:
    return raw


def _pg_bool(raw: bytes) -> bytes:
    return b'"t"' if raw == b"true" else b'"f"'


def _pg_timestamp(zone: str) -> Convert:
    def write(raw: bytes) -> bytes:
        text = timestamp_text(int(_micros(raw)) * MICRO)
        return quote(text.replace("T", " ") + zone)

    return write


def _from_hex(raw: bytes) -> bytes:
    text = canonical.text_of(raw)
    try:
        if text[:2] != "\\x":
            raise ValueError
        return quote(base64.b64encode(bytes.fromhex(text[2:])).decode())
    except ValueError:
        raise Rejected(f"{shown(raw)} is not a bytea such as \\x0102") from None


def _to_hex(raw: bytes) -> bytes:
    return quote(f"\\x{base64.b64decode(json_text.string(raw)).hex()}")


def _pg_interval(raw: bytes) -> bytes:
    return canonical.reader(types.Type("interval"))(from_words(raw))


def _from_json_text(raw: bytes) -> bytes:
    return json_text.compact(json_text.string(raw)) if raw[:1] == b'"' else raw


def _to_json_text(raw: bytes) -> bytes:
    return quote(raw.decode())


TYPES = TypeTable(
    read={"date": timestamp_from(DAY, "date"), "duration": from_count(MICROSECOND)},
    write={
        "float32": _number,
        "float64": _number,
        "decimal": _number,
        "date": _timestamp_text,
        "timestamp": _timestamp_text,
        "timestamptz": _timestamp_text,
        "duration": to_count(MICROSECOND),
    },
    write_columns={
        **dict.fromkeys(("float32", "float64", "decimal")),
        **dict.fromkeys(("date", "timestamp", "timestamptz"), _timestamp_texts),
    },
    read_wire={
        "date32": timestamp_from(DAY, "date"),
        "datetime64": timestamp_from(SECOND, "timestamptz"),
        "timestamp64": timestamp_from(MICRO, "timestamptz"),
        "pgbytea": _from_hex,
        "pginterval": _pg_interval,
        "pgjson": _from_json_text,
        "pgjsonb": _from_json_text,
    },
    write_wire={
        "date32": _count(DAY),
        "datetime64": _count(SECOND),
        "timestamp64": _micros,
        "pgbool": _pg_bool,
        **dict.fromkeys(("pgint2", "pgint4", "pgint8", "pgoid", "pgfloat4", "pgfloat8", "pgnumeric"), _as_text),
        "pgdate": _same,
        "pgtimestamp": _pg_timestamp(""),
        "pgtimestamptz": _pg_timestamp("+00"),
        "pgbytea": _to_hex,
        "pginterval": to_words(MICROSECOND),
        "pgjson": _to_json_text,
        "pgjsonb": _to_json_text,
    },
    parse=parse,
    name=name,
)
