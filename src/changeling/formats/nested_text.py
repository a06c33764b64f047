"""For dialects without nested values, or without any but texts: documents, arrays and intervals are JSON in a text."""

import functools

import msgspec

from changeling.formats.type_table import TypeTable
from changeling.model import canonical, json_text
from changeling.model.canonical import Convert
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.types import Type


class NestedAsText(TypeTable):
    """A table whose arrays are texts: the items inside are canonical JSON, however the dialect spells single values."""

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - one table that lives as long as the program
    def reader(self, kind: Type, wire: str | None = None) -> Convert:
        """As in every table, except for arrays."""
        return super().reader(kind, wire) if kind.item is None else canonical.reader(kind)


def to_text(raw: bytes) -> bytes:
    """A JSON value as text."""
    return quote(json_text.compact(raw).decode())


def as_text(raw: bytes) -> bytes:
    """A value of unknown type as text: a string stays, a number keeps its digits, an object or array is JSON text."""
    if raw[:1] == b'"':
        return raw
    return quote((json_text.compact(raw) if raw[:1] in b"{[" else raw).decode())


def from_text(raw: bytes) -> bytes:
    """The JSON value in a text; a value that is not text stays as it is."""
    if raw[:1] != b'"':
        return raw
    text = json_text.string(raw).encode()
    json_text.check_depth(text)
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except msgspec.DecodeError as error:
        raise Rejected(f"not JSON text: {error}") from None
    return text


NESTED = dict.fromkeys(("json", "array", "interval"), to_text)
"""How the nested kinds are written."""
