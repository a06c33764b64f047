"""Transferia's types and values, both ways: how Go's JSON prints the columns of each source, and what it calls their types.

A column says `{"type": "double", "original_type": "pg:numeric(10,2)"}`: one of a small set of its own, and the source's name behind it,
which says more and is used first; `type` decides where the other one is empty or unknown.

Dates and times are timestamps with an offset, also where the column has none: then only the local time counts. Numbers
of any precision are plain JSON numbers, bytes are Base64, durations are nanoseconds or PostgreSQL's text.
"""

import functools
import re

from changeling.formats import time_spans
from changeling.formats.type_table import TypeTable, is_zoned
from changeling.model import types
from changeling.model.canonical import Convert
from changeling.model.errors import UsageError
from changeling.model.table import Column
from changeling.model.types import INTEGER_RANGES, Type

_KINDS = (
    {name: name for name in (*INTEGER_RANGES, "date")}
    | {"boolean": "bool", "float": "float32", "double": "float64", "interval": "duration", "any": "json"}
    # Transferia's own reader reads `string` as text unless the original type is one of bytes.
    | dict.fromkeys(("string", "utf8"), "string")
    | dict.fromkeys(("datetime", "timestamp"), "timestamptz")
)
"""The canonical kind of each `type`; of several for one kind, the last is written."""
_POSTGRES = {
    name: (kind, wire)
    for kind, wire, *names in (
        ("bool", "boolean", "boolean"),
        ("int16", "int16", "smallint"),
        ("int32", "int32", "integer"),
        ("int64", "int64", "bigint"),
        ("uint32", "any", "oid"),
        ("float32", "double", "real"),
        ("float64", "double", "double precision"),
        ("decimal", "double", "numeric"),
        ("string", "utf8", "text", "character varying", "name", "money"),
        ("string", "string", "bit", "bit varying"),
        ("string", "any", "character", "user-defined:citext", "xml", "point", "inet", "cidr", "macaddr"),
        ("string", "any", "int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange"),
        ("bytes", "string", "bytea"),
        ("date", "date", "date"),
        ("time", "utf8", "time without time zone", "time with time zone"),
        ("timestamp", "timestamp", "timestamp without time zone"),
        ("timestamptz", "timestamp", "timestamp with time zone"),
        ("interval", "utf8", "interval"),
        ("uuid", "utf8", "uuid"),
        ("json", "any", "jsonb", "json", "user-defined:hstore"),
    )
    for name in names
}
"""PostgreSQL's types without their parameters: the canonical kind, and the `type` that goes with it. The first of a kind is written."""
_POSTGRES_NAMES = {kind: name for name, (kind, _) in reversed(_POSTGRES.items()) if name != "oid"}
_WIRE = {"array": "any", **dict(_POSTGRES.values()), **{kind: wire for wire, kind in _KINDS.items()}}
_TOLD_APART = ("decimal", "bytes", "time", "timestamp", "interval", "uuid", "json")
"""Kinds that `type` alone would confuse with another: PostgreSQL's name says which it is."""
_MYSQL_BYTES = (
    *("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "bit", "geometry", "geomcollection"),
    *("geometrycollection", "point", "multipoint", "linestring", "multilinestring", "polygon", "multipolygon"),
)
_OTHER_SOURCES = {
    "mysql": {"decimal": "decimal", "numeric": "decimal", "datetime": "timestamp", "timestamp": "timestamptz"}
    | dict.fromkeys(_MYSQL_BYTES, "bytes"),
    "ydb": {"decimal": "decimal", "dynumber": "decimal", "uuid": "uuid", "string": "bytes"},
    "ch": {"decimal": "decimal", "uuid": "uuid"},
}
"""What other sources' names of types say beyond `type`."""
_PARAMETERS = re.compile(r"\([^()]*\)")
_DIGITS = re.compile(r"\(\s*([0-9]+)\s*(?:,\s*([0-9]+)\s*)?\)")
_WRAPPER = re.compile(r"(?:Nullable|LowCardinality)\((.*)\)")
UNKNOWN = "pg:unknown"
"""The original type of a column of unknown type. Transferia accepts values of PostgreSQL as they are."""
_OWN = "changeling"
"""The provider whose type names are canonical ones, for arrays that PostgreSQL has no name for."""


@functools.lru_cache(maxsize=4096)
def parse(wire: str, original: str) -> Type:
    """The canonical type of a column; `json` (the value as it is) where neither name is known."""
    provider, _, name = original.partition(":")
    return _original(provider, name, wire) or _canonical(_KINDS.get(wire, wire)) or Type("json")


def _original(provider: str, name: str, wire: str) -> Type | None:
    if provider == "pg":
        return _postgres(name, wire)
    if provider == _OWN:
        return _canonical(name)
    if provider == "ydb" and name == "Decimal":
        return types.decimal(22, 9)
    while provider == "ch" and (match := _WRAPPER.fullmatch(name)):
        name = match[1]
    bare = re.split(r"[^a-z]", name.lower(), maxsplit=1)[0] if provider == "mysql" else _bare(name)
    kind = _OTHER_SOURCES.get(provider, {}).get(bare)
    return None if kind is None else _parameterised(kind, name)


def _postgres(name: str, wire: str) -> Type | None:
    if name.endswith("[]"):
        item = _postgres(name[:-2], "any")
        return None if item is None else types.array(item) if item.item is None else item
    bare = _bare(name)
    if bare in _POSTGRES:
        return _parameterised(_POSTGRES[bare][0], name)
    if bare.startswith("interval "):
        return Type("interval")
    return Type("string") if wire == "any" and bare.startswith("user-defined:") else None


def _parameterised(kind: str, name: str) -> Type:
    digits = _DIGITS.search(name) if kind == "decimal" else None
    return Type(kind) if digits is None else types.decimal(int(digits[1]), int(digits[2] or 0))


def _bare(name: str) -> str:
    return " ".join(_PARAMETERS.sub(" ", name).lower().split())


def _canonical(name: str) -> Type | None:
    try:
        return types.parse(name)
    except UsageError:
        return None


@functools.lru_cache(maxsize=4096)
def names(column: Column, native: bool) -> tuple[str, str]:
    """`type` and `original_type` of a column; `native`: its `original_type` is what Transferia itself said."""
    kind, original = column.canonical, column.original_type
    if original == UNKNOWN:
        return "any", UNKNOWN
    if not native or original is None:
        return _WIRE[kind.kind], _invented(kind, zoned=is_zoned(original))
    provider, colon, name = original.partition(":")
    if not colon:
        return original, ""
    known = _POSTGRES.get(_bare(name)) if provider == "pg" else None
    return known[1] if known else _WIRE[kind.kind], original


def _invented(kind: Type, *, zoned: bool) -> str:
    if kind.item is not None:
        item = _postgres_name(kind.item, zoned=zoned)
        return f"{_OWN}:{kind}" if item is None else f"pg:{item}[]"
    return f"pg:{_postgres_name(kind, zoned=zoned)}" if kind.kind in _TOLD_APART else ""


def _postgres_name(kind: Type, *, zoned: bool) -> str | None:
    if kind.kind == "time" and zoned:
        return "time with time zone"
    if kind.precision is not None:
        return f"numeric({kind.precision},{kind.scale})"
    return _POSTGRES_NAMES.get(kind.kind)


def _respelled(pattern: bytes, spelling: bytes) -> Convert:
    """Values of a pattern in another spelling; the others as they are."""
    return functools.partial(re.compile(pattern).sub, spelling)


_DAY = rb"\d{4}-\d{2}-\d{2}"
_ZONE = rb"(?:Z|[+-]\d{2}:?\d{2})?"
TYPES = TypeTable(
    read={
        "date": _respelled(rb'^"(%b)[T ]00:00:00(?:\.0{1,9})?%b"\Z' % (_DAY, _ZONE), rb'"\1"'),
        "timestamp": _respelled(rb'^"(%b[T ]\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?)%b"\Z' % (_DAY, _ZONE), rb'"\1"'),
        "duration": time_spans.from_count(time_spans.NANOSECOND),
        "interval": time_spans.from_words,
    },
    write={
        "decimal": _respelled(rb'^"(-?\d+(?:\.\d+)?)"\Z', rb"\1"),
        "date": _respelled(rb'^"(%b)"\Z' % _DAY, rb'"\1T00:00:00Z"'),
        "timestamp": _respelled(rb'^("%bT[^"+Z]*)"\Z' % _DAY, rb'\1Z"'),
        "duration": time_spans.to_count(time_spans.NANOSECOND, bits=64),
        "interval": time_spans.to_words(),
    },
)
