"""Converts JSON values of a column into a stored one. A value that does not fit is NULL there and reported; no digit is lost silently."""

import base64
import re
import struct
from collections.abc import Callable, Sequence
from decimal import Context, Decimal, Inexact, InvalidOperation
from itertools import accumulate
from typing import NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from changeling.model import canonical, json_text, times
from changeling.model.canonical import Convert
from changeling.model.errors import Rejected
from changeling.model.types import INTEGER_RANGES, STORED_DIGITS, Type
from changeling.replicas.casts import cast
from changeling.replicas.stored_types import arrow_type, is_exact_decimal

UNREADABLE = (ValueError, ArithmeticError, RecursionError)
"""What a conversion raises on a value that does not fit."""
Values: TypeAlias = Sequence[bytes | None] | pa.BinaryArray
"""JSON values of a column."""
Reasons = dict[int, str]
"""Why values do not fit, by their places."""

_EXACT = Context(prec=STORED_DIGITS, traps=[Inexact, InvalidOperation])
_HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")
_DAY = 86_400 * times.NANOS_PER_SECOND


class Misfit(NamedTuple):
    """A value that its column cannot hold."""

    place: int
    value: bytes
    """The JSON as it was given."""
    reason: str


def column(values: Values, kind: Type, read: Convert | None = None) -> tuple[pa.Array, list[Misfit]]:
    """The values as an array of `arrow_type(kind)`, and those that do not fit, which are NULL in it.

    Values are JSON; NULL, None and `null` are NULL. `read` turns one into the canonical form of the type, or raises; None is
    for values that the canonical reader takes.
    """
    reasons: Reasons = {}
    given = raw(values)
    plain = given
    if read is not None and read is not canonical.reader(kind):
        plain = raw(_read(given.to_pylist(), kind, read, reasons))
    array, unfit = stored(plain, kind)
    reasons |= unfit
    return array, [Misfit(place, given[place].as_py(), reasons[place]) for place in sorted(reasons)]


def raw(values: Values) -> pa.BinaryArray:
    """JSON values as an array, in which `null` is NULL."""
    given = values if isinstance(values, pa.Array) else pa.array(values, pa.binary())
    nulls = pc.equal(given, b"null")
    return pc.if_else(nulls, pa.scalar(None, pa.binary()), given) if pc.any(nulls).as_py() else given


def stored(texts: pa.BinaryArray, kind: Type) -> tuple[pa.Array, Reasons]:
    """The same for an array that `raw` made of values that the canonical reader takes."""
    if kind.item is not None:
        return _lists(texts, kind, kind.item)
    array, right = cast(texts, kind)
    if pc.all(right).as_py():
        return array, {}
    left = pc.invert(right)
    places: list[int] = pc.indices_nonzero(left).to_pylist()
    exact, reasons = _one_by_one(texts.filter(left).to_pylist(), places, kind)
    return pc.replace_with_mask(array, left, exact), reasons


def _read(values: Sequence[bytes | None], kind: Type, read: Convert, reasons: Reasons) -> list[bytes | None]:
    """The canonical forms of values; reasons are added for those without one."""
    found: list[bytes | None] = []
    for place, value in enumerate(values):
        try:
            found.append(None if value is None else read(value))
        except UNREADABLE as error:
            found.append(None)
            reasons[place] = _reason(error, value or b"", kind)
    return found


def _one_by_one(texts: list[bytes], places: list[int], kind: Type) -> tuple[pa.Array, Reasons]:
    read, convert = canonical.reader(kind), storable(kind)
    found: list[object] = []
    reasons: Reasons = {}
    for place, text in zip(places, texts, strict=True):
        try:
            found.append(convert(read(text)))
        except UNREADABLE as error:
            found.append(None)
            reasons[place] = _reason(error, text, kind)
    return pa.array(found, arrow_type(kind)), reasons


def _lists(texts: pa.BinaryArray, kind: Type, item: Type) -> tuple[pa.ListArray, Reasons]:
    """Arrays: the items of all of them are one column. An item that does not fit spoils its array."""
    items: list[bytes] = []
    owners: list[int] = []
    lengths: list[int] = []
    reasons: Reasons = {}
    for place, text in enumerate(texts.to_pylist()):
        try:
            inside = [] if text is None else _items(text)
        except UNREADABLE as error:
            inside = []
            reasons[place] = _reason(error, text, kind)
        items += inside
        owners += [place] * len(inside)
        lengths.append(len(inside))
    values, unfit = stored(raw(items), item)
    for place, reason in unfit.items():
        reasons.setdefault(owners[place], reason)
    empty = pc.or_(texts.is_null(), pa.array([place in reasons for place in range(len(texts))], pa.bool_()))
    offsets = pa.array([0, *accumulate(lengths)], pa.int32())
    return pa.ListArray.from_arrays(offsets, values, type=arrow_type(kind), mask=empty), reasons


def _items(text: bytes) -> list[bytes]:
    # Dialects that have no arrays send them as text.
    return json_text.items(text if text[:1] == b"[" else _plain_array(text))


_plain_array = canonical.array_of(lambda item: item)


def _reason(error: Exception, value: bytes, kind: Type) -> str:
    if isinstance(error, Rejected):
        return str(error)
    shown = (value if len(value) <= 60 else value[:57] + b"...").decode(errors="replace")
    if _HALF_PAIR.search(value):
        return f"{shown} has half of a surrogate pair, which is not a character: text cannot hold it"
    return f"{shown} is not a value of type {kind}: {error}"


def storable(kind: Type) -> Callable[[bytes], object]:
    """From the canonical form of a value to what Arrow takes for it; raises `Rejected` where it cannot be stored."""
    if is_exact_decimal(kind):
        return lambda text: _exact_decimal(text, kind)
    if kind.kind in INTEGER_RANGES:
        return (lambda text: Decimal(text.decode())) if kind.kind == "uint64" else int
    return _VALUES.get(kind.kind, canonical.text_of)


def _exact_decimal(text: bytes, kind: Type) -> Decimal:
    number = Decimal(canonical.text_of(text))
    if not number.is_finite():
        raise Rejected(f"{number} cannot be stored in a column of type {kind}")
    # There is one zero.
    return (number or abs(number)).quantize(Decimal(1).scaleb(-(kind.scale or 0)), context=_EXACT)


def fitted(kind: Type) -> Convert:
    """From what the canonical reader takes to the canonical form of the value that a column of this type holds.

    Raises where it holds none. What is stored is not always what was sent: decimals have all digits of their scale, and a
    float32 is not the number that it was read from.
    """
    read = canonical.reader(kind)
    if kind.item is not None:
        return canonical.array_of(fitted(kind.item))
    if is_exact_decimal(kind):
        return lambda raw: json_text.quote(f"{_exact_decimal(read(raw), kind):f}")
    if kind.kind == "float32":
        return lambda raw: _shortest_float32(read(raw))
    return read


def _shortest_float32(text: bytes) -> bytes:
    if text[:1] == b'"':
        return text
    (number,) = struct.unpack("<f", struct.pack("<f", float32(text)))
    return repr(number).encode()


def float32(text: bytes) -> float:
    """The number of a canonical text; raises `Rejected` where a float32 cannot hold it."""
    number = float(canonical.text_of(text))
    try:
        struct.pack("<f", number)
    except OverflowError:
        raise Rejected(f"{text.decode()} is not a value of type float32") from None
    return number


def _days(text: bytes) -> int:
    return _nanos(text, "date") // _DAY


def _micros(kind: str) -> Callable[[bytes], int]:
    def read(text: bytes) -> int:
        micros, rest = divmod(_nanos(text, kind), 1000)
        if rest:
            raise Rejected(f"{text.decode()} is finer than a microsecond, the finest that a stored {kind} keeps")
        return micros

    return read


def _nanos(text: bytes, kind: str) -> int:
    shown = json_text.string(text)
    if shown.lower().endswith(("infinity", " bc")):
        raise Rejected(f"{shown} cannot be stored in a column of type {kind}: it holds the years 1 to 9999")
    return times.parse(shown)[0]


_VALUES: dict[str, Callable[[bytes], object]] = {
    "bool": lambda text: text == b"true",
    "float32": float32,
    "float64": lambda text: float(canonical.text_of(text)),
    "bytes": lambda text: base64.b64decode(json_text.string(text)),
    "interval": bytes.decode,
    "json": bytes.decode,
    "date": _days,
    "timestamp": _micros("timestamp"),
    "timestamptz": _micros("timestamptz"),
}
