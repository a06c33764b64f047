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
_NO_NUMBERS = {b'"NaN"': b'"nan"', b'"Infinity"': b'"inf"', b'"-Infinity"': b'"-inf"'}
_NAMES = {
    "bool": ("Bool", "pgbool"),
    "int8": ("Int8",),
    "int16": ("Int16", "pgint2"),
    "int32": ("Int32", "pgint4"),
    "int64": ("Int64", "pgint8"),
    "uint8": ("Uint8",),
    "uint16": ("Uint16",),
    "uint32": ("Uint32", "pgoid"),
    "uint64": ("Uint64",),
    "float32": ("Float", "pgfloat4"),
    "float64": ("Double", "pgfloat8"),
    "decimal": ("DyNumber", "pgnumeric"),
    # The last three name their zone after a comma: no canonical timestamp has that, so they stay text.
    "string": ("Utf8", "Text", "TzDate", "TzDatetime", "TzTimestamp"),
    "bytes": ("String", "Bytes", "pgbytea"),
    "date": ("Date", "Date32", "pgdate"),
    "time": ("pgtime", "pgtimetz"),
    "timestamp": ("pgtimestamp",),
    "timestamptz": ("Timestamp", "Datetime", "Datetime64", "Timestamp64", "pgtimestamptz"),
    "duration": ("Interval", "Interval64"),
    "interval": ("pginterval",),
    "uuid": ("Uuid", "pguuid"),
    "json": ("Json", "JsonDocument", "Yson", "pgjson", "pgjsonb"),
}
"""YDB's types by the canonical type that has all of their values; the first is written."""
_WRITTEN = {
    **{kind: names[0] for kind, names in _NAMES.items()},
    # PostgreSQL's types are only read.
    "time": "Utf8",
    "timestamp": "Timestamp",
    "interval": "Json",
    "array": "Json",
}
_KINDS = {name.lower(): kind for kind, names in _NAMES.items() for name in names}


def parse(name: str) -> types.Type | None:
    """The canonical type of a YDB type name, in any case; None where YDB has no such type."""
    plain = name.strip().lower()
    if plain == "decimal":
        return _DEFAULT_DECIMAL
    if match := _DECIMAL.fullmatch(plain):
        precision, scale = int(match[1]), int(match[2])
        return types.decimal(precision, scale) if precision > 0 and scale <= precision else None
    if kind := _KINDS.get(plain):
        return types.Type(kind)
    return types.Type("string") if plain.startswith(("pg", "_pg")) else None


def name(kind: types.Type) -> str:
    """The YDB type that fits every value of a canonical one."""
    if kind.kind == "decimal" and kind.precision is not None:
        if kind.precision <= _WIDEST_DECIMAL:
            return f"Decimal({kind.precision},{kind.scale})"
        if kind.precision > _WIDEST_DYNUMBER:
            return "Utf8"
    return _WRITTEN[kind.kind]


def _count(unit: int, unit_name: str | None = None) -> Convert:
    return timestamp_to(unit, "YDB has no timestamp", unit_name)


_micros = _count(MICRO, "YDB's microseconds")


def _timestamp(raw: bytes) -> bytes:
    seconds, micros = divmod(int(_micros(raw)), 1_000_000)
    return quote(f"{timestamp_text(seconds * SECOND)}.{micros:06d}Z")


def _timestamps(cells: pa.Array) -> pa.Array:
    """As `_timestamp`, of canonical days and timestamps; null where they are finer than microseconds."""
    given = cells.cast(pa.string())
    is_day = pc.equal(pc.binary_length(given), len('"2026-11-18"'))
    clock = pc.if_else(is_day, "T00:00:00", pc.utf8_slice_codeunits(given, 11, 20))
    fraction = pc.ascii_trim(pc.utf8_slice_codeunits(given, 20), characters='.Z"')
    micros = pc.if_else(pc.less_equal(pc.binary_length(fraction), 6), pc.ascii_rpad(fraction, 6, "0"), None)
    parts = (pc.utf8_slice_codeunits(given, 0, 11), clock, ".", micros, 'Z"')
    return pc.binary_join_element_wise(*parts, "").cast(pa.binary())


def _number(raw: bytes) -> bytes:
    return _NO_NUMBERS.get(raw, raw)


def _as_text(raw: bytes) -> bytes:
    return raw if raw[:1] == b'"' else quote(raw.decode())


def _pg_timestamp(raw: bytes) -> str:
    return timestamp_text(int(_micros(raw)) * MICRO).replace("T", " ")


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


def _from_interval(raw: bytes) -> bytes:
    return canonical.reader(types.Type("interval"))(from_words(raw))


def _from_json_text(raw: bytes) -> bytes:
    return json_text.in_text(json_text.string(raw)) if raw[:1] == b'"' else raw


def _to_json_text(raw: bytes) -> bytes:
    return quote(raw.decode())


_BOTH_WAYS: dict[str, tuple[Convert, Convert]] = {
    "date32": (timestamp_from(DAY, "date"), _count(DAY)),
    "datetime64": (timestamp_from(SECOND, "timestamptz"), _count(SECOND)),
    "timestamp64": (timestamp_from(MICRO, "timestamptz"), _micros),
    "pgbytea": (_from_hex, _to_hex),
    "pginterval": (_from_interval, to_words(MICROSECOND)),
    "pgjson": (_from_json_text, _to_json_text),
    "pgjsonb": (_from_json_text, _to_json_text),
}
"""Types whose values are spelled in another way than those of others with the same canonical type."""
_WRITTEN_ALONE: dict[str, Convert] = {
    **dict.fromkeys(("pgint2", "pgint4", "pgint8", "pgoid", "pgfloat4", "pgfloat8", "pgnumeric"), _as_text),
    "pgbool": lambda raw: b'"t"' if raw == b"true" else b'"f"',
    "pgdate": lambda raw: raw,
    "pgtimestamp": lambda raw: quote(_pg_timestamp(raw)),
    "pgtimestamptz": lambda raw: quote(_pg_timestamp(raw) + "+00"),
}
"""Types whose values are read as any text is."""
_TIMES = ("date", "timestamp", "timestamptz")
_NUMBERS = ("float32", "float64", "decimal")
TYPES = TypeTable(
    read={"date": timestamp_from(DAY, "date"), "duration": from_count(MICROSECOND)},
    write={
        **dict.fromkeys(_NUMBERS, _number),
        **dict.fromkeys(_TIMES, _timestamp),
        "duration": to_count(MICROSECOND),
    },
    write_columns={**dict.fromkeys(_NUMBERS), **dict.fromkeys(_TIMES, _timestamps)},
    read_wire={wire: read for wire, (read, _) in _BOTH_WAYS.items()},
    write_wire=_WRITTEN_ALONE | {wire: write for wire, (_, write) in _BOTH_WAYS.items()},
    parse=parse,
    name=name,
)
