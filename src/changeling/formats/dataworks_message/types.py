"""The six types of DataWorks' messages. All else is text; a DATE counts milliseconds, so it is an instant."""

from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite

from changeling.envelope.cells import Cell, Cells
from changeling.formats.nested_text import NESTED, NestedAsText, from_text, to_text
from changeling.model import json_text, times, types
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.types import INTEGER_RANGES, Type

_FIRST = int(datetime(1, 1, 1, tzinfo=UTC).timestamp()) * 1000
_LAST = int(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()) * 1000 + 999

_CANONICAL = {
    "BOOLEAN": "bool",
    "DATE": "timestamptz",
    "BYTES": "bytes",
    "STRING": "string",
    "LONG": "int64",
    "DOUBLE": "float64",
}
_NAMES = {
    "bool": "BOOLEAN",
    "bytes": "BYTES",
    "float32": "DOUBLE",
    "float64": "DOUBLE",
    **dict.fromkeys(("date", "timestamp", "timestamptz"), "DATE"),
    **{kind: "LONG" for kind in INTEGER_RANGES if kind != "uint64"},
}
MOMENTS = frozenset({"date", "timestamp", "timestamptz"})


def parse(name: str) -> Type | None:
    """The canonical type of a wire type."""
    canonical = _CANONICAL.get(name)
    return None if canonical is None else types.parse(canonical)


def name_of(kind: Type) -> str:
    """The wire type of a canonical type."""
    return _NAMES.get(kind.kind, "STRING")


def guess(cells: Cells, raw: Cell) -> Cell:
    """The wire type that an untyped value looks like."""
    number = cells.where(cells.matches(raw, "-*[0-9]+"), b"LONG", b"DOUBLE")
    other = cells.where(cells.matches(raw, "true|false"), b"BOOLEAN", b"STRING")
    return cells.where(cells.matches(raw, r"[-0-9][^\n]*"), number, other)


def to_millis(raw: bytes) -> bytes:
    """A timestamp in milliseconds; one that they cannot express stays as it is, for the writer to refuse."""
    if raw[:1] != b'"':
        return raw
    try:
        millis, rest = divmod(times.parse(json_text.string(raw))[0], times.NANOS_PER_MILLI)
    except Rejected:
        return raw
    return raw if rest else str(millis).encode()


def shortened(raw: bytes) -> bytes:
    """The same timestamp to the millisecond, or NULL if milliseconds cannot express it."""
    try:
        return str(times.parse(json_text.string(raw))[0] // times.NANOS_PER_MILLI).encode()
    except Rejected:
        return b"null"


def _from_millis(raw: bytes) -> bytes:
    if raw[:1] == b'"':
        return raw
    try:
        millis = int(raw)
    except ValueError:
        raise Rejected(f"{raw[:40].decode(errors='replace')} is not a DATE, a whole number of milliseconds") from None
    if not _FIRST <= millis <= _LAST:
        raise Rejected(f"the DATE {millis} lies outside the years 1 to 9999")
    return quote(times.to_text(millis * times.NANOS_PER_MILLI))


def _text(raw: bytes) -> bytes:
    return raw if raw[:1] == b'"' else quote(raw.decode())


def _untyped(raw: bytes) -> bytes:
    if raw[:1] in b"{[":
        return to_text(raw)
    return raw if _fits(raw) else _text(raw)


def _fits(raw: bytes) -> bool:
    """Whether a scalar is one of the six types: a number must be a LONG, or a DOUBLE that has all of its digits."""
    if raw[:1] not in b"-0123456789":
        return True
    if raw.lstrip(b"-").isdigit():
        return len(raw) <= 20 and -(2**63) <= int(raw) < 2**63
    number = float(raw)
    return isfinite(number) and Decimal(repr(number)) == Decimal(raw.decode())


def _loss(raw: bytes) -> str | None:
    if raw[:1] not in b"{[" and _fits(raw):
        return None
    return "no type of the message holds it, and without its type (--columns) it is text"


TYPES = NestedAsText(
    read={"json": from_text, **dict.fromkeys(MOMENTS, _from_millis)},
    write={**NESTED, "uint64": _text, **dict.fromkeys(MOMENTS, to_millis)},
    parse=parse,
    name=name_of,
    untyped=_untyped,
    untyped_loss=_loss,
)
