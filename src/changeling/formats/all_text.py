"""Dialects whose values are all text."""

from changeling.formats.nested_text import NESTED, NestedAsText, from_text
from changeling.model import json_text
from changeling.model.json_text import quote
from changeling.model.types import INTEGER_RANGES


def as_text(raw: bytes) -> bytes:
    """A value of unknown type as text: a string stays, a number keeps its digits, an object or array is JSON text."""
    first = raw[:1]
    if first == b'"':
        return raw
    return quote((json_text.compact(raw) if first in b"{[" else raw).decode())


def _timestamp(raw: bytes) -> bytes:
    return raw[:11] + b" " + raw[12:] if raw[11:12] == b"T" else raw


ALL_TEXT = NestedAsText(
    read={"json": from_text},
    write={
        **dict.fromkeys(("bool", "float32", "float64", *INTEGER_RANGES), as_text),
        **NESTED,
        **dict.fromkeys(("timestamp", "timestamptz"), _timestamp),
    },
    untyped=as_text,
    all_text=True,
)
