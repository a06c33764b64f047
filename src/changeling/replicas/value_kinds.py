"""Columns whose type was only inferred from values: a value fits only where it is of the very kind of JSON."""

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from changeling.model import canonical, json_text
from changeling.model.canonical import Convert
from changeling.model.json_numbers import EXACT_DIGITS, LONG, is_double, needs, without_zeros
from changeling.model.types import STORED_DIGITS, Type
from changeling.replicas.casts import NUMBER, exact_decimal, matches
from changeling.replicas.stored_types import is_exact_decimal
from changeling.replicas.values import UNREADABLE, Values, raw, stored

_LOOKS = {
    "bool": "true|false",
    "int64": "-?(?:0|[1-9][0-9]*)",
    "float64": NUMBER,
    "decimal": NUMBER,
    "string": '"(?s:.*)"',
    "json": "(?s:.*)",
}
_ZERO = r"-0(?:\.0*)?(?:[eE].*)?$"
_NOT_SHORT = rf"{_ZERO}|-?[0-9.]+[eE]|-?[0-9]+\.[0-9]*0$"
_RESPELLED = {"float64": _ZERO, "decimal": _NOT_SHORT, "json": rf'(?s:{_NOT_SHORT}|".*\\)'}
"""What is not spelled as a column of its own kind has it, or as one of a narrower kind had it."""
_SURE_DOUBLE = r"-?(?:[0-9]{1,15}|[0-9]\.[0-9]{1,14}|[0-9]{2,8}\.[0-9]{1,7})(?:[eE][+-]?[0-9]{1,2})?"
"""Fifteen digits at most: no need to look at the number."""
_NULL = pa.scalar(None, pa.binary())
_number = canonical.reader(Type("decimal"))
_FIRST = {b'"': "text", b"t": "bool", b"f": "bool", b"{": "json", b"[": "json"}


def undeclared(
    values: Values, kind: Type, read: Convert | None = None, *, doubles: bool = False
) -> tuple[pa.Array, set[str]]:
    """The values as an array of `arrow_type(kind)`, and the kinds of those that do not fit.

    Where there are any, the array means nothing, unless the only one is `long`: `doubles` says that all exact numbers so far
    are doubles as well, and that is the kind of others. The type is bool, int64, decimal, float64, string, or json, which
    takes all. `read` gives the plain value of one; a value that it refuses stands for itself. A text or a number that even its
    own column cannot hold is of kind json: only there it can stay as it is.
    """
    given = raw(values)
    texts = given if read is None else raw([_plain(value, read) for value in given.to_pylist()])
    texts = _one_spelling(texts, kind)
    alike = matches(texts, exact_decimal(kind) if is_exact_decimal(kind) else _LOOKS[kind.kind])
    if kind.kind == "float64":
        alike = pc.and_(alike, _are_doubles(texts, alike))
    kinds = {need for value in texts.filter(pc.invert(alike)).to_pylist() for need in _kinds(value)}
    # The readers of declared types accept more, such as a number that is sent as text.
    array, unfit = stored(texts if pc.all(alike).as_py() else pc.if_else(alike, texts, _NULL), kind)
    kinds = kinds.union(*(_wider(texts[place].as_py(), kind) for place in unfit))
    if doubles and not _is_short(array, kind) and not pc.all(_are_doubles(texts, alike)).as_py():
        kinds.add(LONG)
    return array, kinds


def _is_short(array: pa.Array, kind: Type) -> bool:
    """Whether exact numbers have so few digits that they must be doubles."""
    if kind.kind != "int64":
        return (kind.precision or STORED_DIGITS) <= EXACT_DIGITS
    bounds = pc.min_max(array)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    return low is None or -(10**EXACT_DIGITS) < low <= high < 10**EXACT_DIGITS


def _are_doubles(texts: pa.BinaryArray, numbers: pa.BooleanArray) -> pa.BooleanArray:
    """Which values doubles hold, of those that are numbers."""
    sure = pc.or_(matches(texts, _SURE_DOUBLE), pc.invert(numbers))
    if pc.all(sure).as_py():
        return sure
    looked = [is_double(text.decode()) for text in texts.filter(pc.invert(sure)).to_pylist()]
    return pc.replace_with_mask(sure, pc.invert(sure), pa.array(looked, pa.bool_()))


def _one_spelling(texts: pa.BinaryArray, kind: Type) -> pa.BinaryArray:
    """Numbers and texts as columns of their own kind hold them: a column that was of that kind before has them so."""
    respelled = None if is_exact_decimal(kind) else _RESPELLED.get(kind.kind)
    if respelled is None:
        return texts
    odd = pc.fill_null(pc.match_substring_regex(texts, f"^(?:{respelled})"), False)
    if not pc.any(odd).as_py():
        return texts
    return pc.replace_with_mask(texts, odd, pa.array(map(_respelled, texts.filter(odd).to_pylist()), pa.binary()))


def _respelled(value: bytes) -> bytes:
    try:
        if value[:1] == b'"':
            return json_text.quote(canonical.text_of(value))
        return without_zeros(canonical.text_of(_number(value))).encode()
    except UNREADABLE:
        # Only a column of JSON can hold it, just as it is.
        return value


def kinds_of_values(values: Iterable[bytes | None], read: Convert | None = None) -> set[str]:
    """The kinds of plain values, named as samples name them: bool, text, json, and what numbers need. NULL has none."""
    plain = values if read is None else (_plain(value, read) for value in values)
    return {need for value in plain if value is not None and value != b"null" for need in _kinds(value)}


def _plain(value: bytes | None, read: Convert) -> bytes | None:
    try:
        return None if value is None or value == b"null" else read(value)
    except UNREADABLE:
        return value


def _kinds(value: bytes) -> frozenset[str]:
    if found := _FIRST.get(value[:1]):
        return frozenset([found])
    try:
        return needs(value.decode())
    except ValueError:
        # A dialect's own word for a number that JSON does not have, such as NaN.
        return frozenset(["json"])


def _wider(value: bytes, kind: Type) -> frozenset[str]:
    return _kinds(value) if kind.kind == "int64" else frozenset(["json"])
