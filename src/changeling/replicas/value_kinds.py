"""Columns whose type was only inferred from values: a value fits only where it is of the very kind of JSON."""

import re
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from changeling.model import canonical, json_text
from changeling.model.canonical import Convert
from changeling.model.types import INTEGER_RANGES, Type
from changeling.replicas.casts import NUMBER, matches
from changeling.replicas.values import UNREADABLE, raw, stored

_LOOKS = {
    "bool": "true|false",
    "int64": "-?(?:0|[1-9][0-9]*)",
    "decimal": NUMBER,
    "string": '"(?s:.*)"',
    "json": "(?s:.*)",
}
_RESPELLED = {"decimal": "-0$", "json": r'(?s:-0$|-?[0-9.]+[eE]|".*\\)'}
"""What is not spelled as a column of its own kind has it."""
_NULL = pa.scalar(None, pa.binary())
_number = canonical.reader(Type("decimal"))
_INTEGER = re.compile(rb"-?(?:0|[1-9][0-9]{0,18})")
_FIRST = {b'"': "text", b"t": "bool", b"f": "bool", b"{": "json", b"[": "json"}


def undeclared(values: Sequence[bytes | None], kind: Type, read: Convert | None = None) -> tuple[pa.Array, set[str]]:
    """The values as an array of `arrow_type(kind)`, and the kinds of those that do not fit.

    Where there are any, the array means nothing. The type is bool, int64, decimal (of any precision), string, or json,
    which takes all. `read` gives the plain value of one; a value that it refuses stands for itself. A text or a number
    that even its own column cannot hold is of kind json: only there it can stay as it is.
    """
    texts = _one_spelling(raw(values if read is None else [_plain(value, read) for value in values]), kind)
    alike = matches(texts, _LOOKS[kind.kind])
    kinds = {_kind(value) for value in texts.filter(pc.invert(alike)).to_pylist()}
    # The readers of declared types accept more, such as a number that is sent as text.
    array, unfit = stored(pc.if_else(alike, texts, _NULL) if kinds else texts, kind)
    return array, kinds | {_wider(texts[place].as_py(), kind) for place in unfit}


def _one_spelling(texts: pa.BinaryArray, kind: Type) -> pa.BinaryArray:
    """Numbers and texts as columns of their own kind hold them: a column that was of that kind before has them so."""
    respelled = _RESPELLED.get(kind.kind)
    if respelled is None:
        return texts
    odd = pc.fill_null(pc.match_substring_regex(texts, f"^(?:{respelled})"), False)
    if not pc.any(odd).as_py():
        return texts
    return pc.replace_with_mask(texts, odd, pa.array(map(_respelled, texts.filter(odd).to_pylist()), pa.binary()))


def _respelled(value: bytes) -> bytes:
    if value == b"-0":
        return b"0"
    try:
        plain = canonical.text_of(value) if value[:1] == b'"' else canonical.text_of(_number(value))
    except UNREADABLE:
        # Only a column of JSON can hold it, just as it is.
        return value
    return json_text.quote(plain) if value[:1] == b'"' else plain.encode()


def kinds_of_values(values: Iterable[bytes | None], read: Convert | None = None) -> set[str]:
    """The kinds of plain values, named as samples name them: bool, int, number, text, json. NULL has none."""
    plain = values if read is None else (_plain(value, read) for value in values)
    return {_kind(value) for value in plain if value is not None and value != b"null"}


def _plain(value: bytes | None, read: Convert) -> bytes | None:
    try:
        return None if value is None or value == b"null" else read(value)
    except UNREADABLE:
        return value


def _kind(value: bytes) -> str:
    if found := _FIRST.get(value[:1]):
        return found
    low, high = INTEGER_RANGES["int64"]
    return "int" if _INTEGER.fullmatch(value) and low <= int(value) <= high else "number"


def _wider(value: bytes, kind: Type) -> str:
    return _kind(value) if kind.kind == "int64" else "json"
