"""Dialects whose values are all text."""

from changeling.formats.nested_text import NESTED, NestedAsText, as_text, from_text
from changeling.model.types import INTEGER_RANGES


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
