"""Transferia's names of types, both ways: its own small set (`type`) and the source's names behind it (`original_type`).

A column says `{"type": "double", "original_type": "pg:numeric(10,2)"}`. The original type says more, so it is used first;
`type` decides where the original one is empty or unknown.
"""

import functools
import re

from changeling.formats.type_table import is_zoned
from changeling.model import types
from changeling.model.errors import UsageError
from changeling.model.table import Column
from changeling.model.types import INTEGER_RANGES, Type

_BY_TYPE = {
    "boolean": "bool",
    **{name: name for name in INTEGER_RANGES},
    "float": "float32",
    "double": "float64",
    # Transferia's own reader reads `string` as text unless the original type is one of bytes.
    "string": "string",
    "utf8": "string",
    "any": "json",
    "date": "date",
    "datetime": "timestamptz",
    "timestamp": "timestamptz",
    "interval": "duration",
}
_POSTGRES = {
    "boolean": ("bool", "boolean"),
    "smallint": ("int16", "int16"),
    "integer": ("int32", "int32"),
    "bigint": ("int64", "int64"),
    "real": ("float32", "double"),
    "double precision": ("float64", "double"),
    "numeric": ("decimal", "double"),
    "text": ("string", "utf8"),
    "character varying": ("string", "utf8"),
    "name": ("string", "utf8"),
    "money": ("string", "utf8"),
    "character": ("string", "any"),
    "bit": ("string", "string"),
    "bit varying": ("string", "string"),
    "bytea": ("bytes", "string"),
    "date": ("date", "date"),
    "time without time zone": ("time", "utf8"),
    "time with time zone": ("time", "utf8"),
    "timestamp without time zone": ("timestamp", "timestamp"),
    "timestamp with time zone": ("timestamptz", "timestamp"),
    "interval": ("interval", "utf8"),
    "uuid": ("uuid", "utf8"),
    "json": ("json", "any"),
    "jsonb": ("json", "any"),
    "user-defined:hstore": ("json", "any"),
    "user-defined:citext": ("string", "any"),
    "oid": ("uint32", "any"),
    **dict.fromkeys(
        (
            *("xml", "point", "inet", "cidr", "macaddr", "int4range", "int8range"),
            *("numrange", "tsrange", "tstzrange", "daterange"),
        ),
        ("string", "any"),
    ),
}
"""PostgreSQL's types without their parameters: the canonical kind, and the `type` that goes with it."""
_MYSQL = {
    "decimal": "decimal",
    "numeric": "decimal",
    "datetime": "timestamp",
    "timestamp": "timestamptz",
    **dict.fromkeys(
        (
            *("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "bit", "geometry", "geomcollection"),
            *("geometrycollection", "point", "multipoint", "linestring", "multilinestring", "polygon", "multipolygon"),
        ),
        "bytes",
    ),
}
_YDB = {"decimal": "decimal", "dynumber": "decimal", "uuid": "uuid", "string": "bytes"}
_CLICKHOUSE = {"decimal": "decimal", "uuid": "uuid"}
_WIRE = {
    "bool": "boolean",
    **{name: name for name in INTEGER_RANGES},
    "float32": "float",
    "float64": "double",
    "decimal": "double",
    "string": "utf8",
    "bytes": "string",
    "date": "date",
    "time": "utf8",
    "timestamp": "timestamp",
    "timestamptz": "timestamp",
    "duration": "interval",
    "interval": "utf8",
    "uuid": "utf8",
    "json": "any",
    "array": "any",
}
_IN_ARRAYS = {
    "bool": "boolean",
    "int16": "smallint",
    "int32": "integer",
    "int64": "bigint",
    "float32": "real",
    "float64": "double precision",
    "string": "text",
    "date": "date",
    "timestamptz": "timestamp with time zone",
}
_TOLD_APART = {
    "bytes": "bytea",
    "time": "time without time zone",
    "timestamp": "timestamp without time zone",
    "interval": "interval",
    "uuid": "uuid",
    "json": "jsonb",
}
"""Types that `type` alone would confuse with another: PostgreSQL's name says which it is."""
_PARAMETERS = re.compile(r"\(([^()]*)\)")
_WRAPPER = re.compile(r"(?:Nullable|LowCardinality)\((.*)\)")
UNKNOWN = "pg:unknown"
"""The original type of a column of unknown type. Transferia accepts values of PostgreSQL as they are."""
_OWN = "changeling"
"""The provider whose type names are canonical ones, for arrays that PostgreSQL has no name for."""


@functools.lru_cache(maxsize=4096)
def parse(wire: str, original: str) -> Type:
    """The canonical type of a column; `json` (the value as it is) where neither name is known."""
    provider, colon, name = original.partition(":")
    found = _original(provider, name, wire) if colon else None
    return found or _by_type(wire)


def _original(provider: str, name: str, wire: str) -> Type | None:
    if provider == "pg":
        return _postgres(name, wire)
    if provider == _OWN:
        return _canonical(name)
    if provider == "mysql":
        return _known(_MYSQL, re.split(r"[^a-z]", name.lower(), maxsplit=1)[0], name)
    if provider == "ydb":
        return types.decimal(22, 9) if name == "Decimal" else _known(_YDB, _bare(name), name)
    if provider == "ch":
        while match := _WRAPPER.fullmatch(name):
            name = match[1]
        return _known(_CLICKHOUSE, _bare(name), name)
    return None


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


def _known(kinds: dict[str, str], bare: str, name: str) -> Type | None:
    kind = kinds.get(bare)
    return None if kind is None else _parameterised(kind, name)


def _parameterised(kind: str, name: str) -> Type:
    match = _PARAMETERS.search(name)
    if kind != "decimal" or match is None:
        return Type(kind)
    digits = [part.strip() for part in match[1].split(",")]
    if not all(part.isascii() and part.isdigit() for part in digits) or len(digits) > 2:
        return Type(kind)
    precision, scale = int(digits[0]), int(digits[1]) if len(digits) == 2 else 0
    return types.decimal(precision, scale) if precision > 0 and scale <= precision else Type(kind)


def _bare(name: str) -> str:
    return " ".join(_PARAMETERS.sub(" ", name).lower().split())


def _by_type(wire: str) -> Type:
    kind = _BY_TYPE.get(wire)
    return Type(kind) if kind is not None else _canonical(wire) or Type("json")


def _canonical(name: str) -> Type | None:
    try:
        return types.parse(name)
    except UsageError:
        return None


@functools.lru_cache(maxsize=4096)
def names(column: Column, native: bool) -> tuple[str, str]:
    """`type` and `original_type` of a column; `native`: its `original_type` is what Transferia itself said."""
    kind = column.canonical
    if column.original_type == UNKNOWN:
        return "any", UNKNOWN
    if native and column.original_type is not None:
        provider, colon, name = column.original_type.partition(":")
        if not colon:
            return column.original_type, ""
        known = _POSTGRES.get(_bare(name)) if provider == "pg" else None
        return known[1] if known else _WIRE[kind.kind], column.original_type
    return _WIRE[kind.kind], _invented(kind, zoned=is_zoned(column.original_type))


def _invented(kind: Type, *, zoned: bool) -> str:
    if kind.item is not None:
        item = _postgres_name(kind.item, zoned=zoned)
        return f"{_OWN}:{kind}" if item is None else f"pg:{item}[]"
    told_apart = kind.kind == "decimal" or kind.kind in _TOLD_APART
    return f"pg:{_postgres_name(kind, zoned=zoned)}" if told_apart else ""


def _postgres_name(kind: Type, *, zoned: bool) -> str | None:
    if kind.kind == "time" and zoned:
        return "time with time zone"
    if kind.kind == "decimal":
        return "numeric" if kind.precision is None else f"numeric({kind.precision},{kind.scale})"
    return _TOLD_APART.get(kind.kind) or _IN_ARRAYS.get(kind.kind)
