"""The canonical types of columns, and their names: `int64`, `decimal(10,2)`, `array<string>`."""

import functools
import re

import msgspec

from changeling.model.errors import UsageError, nearest

SIMPLE = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "decimal",
    "string",
    "bytes",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "duration",
    "interval",
    "uuid",
    "json",
)
"""Types without parameters; `decimal` alone is a number of any precision."""

ALIASES = {
    "boolean": "bool",
    "tinyint": "int8",
    "smallint": "int16",
    "int": "int32",
    "integer": "int32",
    "bigint": "int64",
    "long": "int64",
    "double": "float64",
    "doubleprecision": "float64",
    "numeric": "decimal",
    "text": "string",
    "varchar": "string",
    "binary": "bytes",
    "varbinary": "bytes",
    "bytea": "bytes",
    "blob": "bytes",
    "datetime": "timestamp",
    "jsonb": "json",
}
"""What databases call these types, where all that have the name agree: `float` and `real` are of 32 bits in one and 64 in another."""
_WORD = re.compile(r"[a-z][a-z0-9]*")

INTEGER_RANGES = {
    name: (0, 2**bits - 1) if name[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for bits in (8, 16, 32, 64)
    for name in (f"int{bits}", f"uint{bits}")
}
STORED_DIGITS = 38
"""Decimals of more digits than this, or of any number of them, are stored as text: no digit is lost."""
_MAX_DIGITS = 999
_DECIMAL = re.compile(r"decimal\((\d{1,3})(?:,(\d{1,3}))?\)")


class Type(msgspec.Struct, frozen=True):
    """One canonical type. `kind` is its name without parameters, or `array`."""

    kind: str
    precision: int | None = None
    scale: int | None = None
    item: "Type | None" = None

    def __str__(self) -> str:
        if self.item is not None:
            return f"array<{self.item}>"
        return self.kind if self.precision is None else f"{self.kind}({self.precision},{self.scale})"


def decimal(precision: int, scale: int) -> Type:
    """A decimal of `precision` digits, `scale` of them after the point; of any precision where the wire claims nonsense."""
    if not 0 < precision <= _MAX_DIGITS or not 0 <= scale <= precision:
        return Type("decimal")
    return Type("decimal", precision, scale)


def array(item: Type) -> Type:
    """An array of `item`."""
    return Type("array", item=item)


@functools.lru_cache(maxsize=4096)
def parse(name: str) -> Type:
    """The type of a canonical name; raises `UsageError` with the closest known name."""
    text = name.strip().lower().replace(" ", "")
    if text in SIMPLE:
        return Type(text)
    if text.startswith("array<") and text.endswith(">"):
        return array(parse(text[6:-1]))
    if match := _DECIMAL.fullmatch(text):
        precision, scale = int(match[1]), int(match[2] or 0)
        if not precision > 0 or scale > precision:
            raise UsageError(f"{name!r}: a decimal needs a precision of at least 1, and a scale that is not larger")
        return decimal(precision, scale)
    raise UsageError(f"there is no type {name!r}; {nearest(text, [*SIMPLE, 'decimal(p,s)', 'array<T>'])}")


def declared(name: str) -> Type:
    """The type that a user writes: a canonical name, or one of `ALIASES` in its place; raises `UsageError` like `parse`."""
    text = name.strip().lower().replace(" ", "")
    known = _WORD.sub(lambda word: ALIASES.get(word[0], word[0]), text)
    return parse(name if known == text else known)
