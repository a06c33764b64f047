"""Arcion's values: every one is text."""

import functools

import msgspec

from changeling.formats.type_table import TypeTable
from changeling.model import canonical, json_text
from changeling.model.canonical import Convert
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.types import INTEGER_RANGES, Type


class _Texts(TypeTable):
    @functools.lru_cache(maxsize=4096)  # noqa: B019 - one table that lives as long as the program
    def reader(self, kind: Type, wire: str | None = None) -> Convert:
        """As in every table, save that the items inside an array's text are canonical JSON, not texts again."""
        return super().reader(kind, wire) if kind.item is None else canonical.reader(kind)


def as_text(raw: bytes) -> bytes:
    """A value of unknown type as text: a string stays, a number keeps its digits, an object or array is JSON text."""
    first = raw[:1]
    if first == b'"':
        return raw
    return quote((json_text.compact(raw) if first in b"{[" else raw).decode())


def _json_text(raw: bytes) -> bytes:
    return quote(json_text.compact(raw).decode())


def _json_value(raw: bytes) -> bytes:
    if raw[:1] != b'"':
        return raw
    text = json_text.string(raw).encode()
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except msgspec.DecodeError as error:
        raise Rejected(f"not JSON text: {error}") from None
    return text


def _moment(raw: bytes) -> bytes:
    return raw[:11] + b" " + raw[12:] if raw[11:12] == b"T" else raw


TYPES = _Texts(
    read={"json": _json_value},
    write={
        **dict.fromkeys(("bool", "float32", "float64", *INTEGER_RANGES), as_text),
        **dict.fromkeys(("json", "array", "interval"), _json_text),
        **dict.fromkeys(("timestamp", "timestamptz"), _moment),
    },
    untyped=as_text,
)
