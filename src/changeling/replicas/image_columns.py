"""Images taken apart by column: no dictionary is made for a row, and no bytes for a value."""

import functools
from collections.abc import Collection
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.shapes import UNUSABLE
from changeling.envelope.text_columns import column, lengths_of, lines

MAX_NAMES = 500
"""Images with more names are taken apart row by row."""
_ABSENT = msgspec.Raw(b"")


def image_columns(images: pa.Array, names: Collection[str], texts: Collection[str]) -> dict[str, pa.Array] | None:
    """The values of these names in JSON objects, as JSON, NULL where an object lacks one; those of `texts` are the texts themselves.

    None where an object has another name, or one of `texts` has a value that is neither a text nor `null`.
    """
    if len(names) > MAX_NAMES or any(map(UNUSABLE.search, names)):
        return None
    decoder, fields = _decoder(tuple(sorted(names)), frozenset(texts))
    try:
        rows = decoder.decode_lines(lines(images))
        if len(rows) != len(images):
            return None
        return {
            name: pa.array(map(value, rows), pa.string(), size=len(rows))
            if name in texts
            else _raw(list(map(value, rows)))
            for name, value in fields.items()
        }
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None


def _raw(values: list[msgspec.Raw]) -> pa.Array:
    there = lengths_of(values) > 0
    found = column(values)
    return found if there.all() else pc.if_else(pa.array(there), found, pa.scalar(None, pa.binary()))


@functools.lru_cache(maxsize=1024)
def _decoder(
    names: tuple[str, ...], texts: frozenset[str]
) -> "tuple[msgspec.json.Decoder[Any], dict[str, attrgetter[Any]]]":
    fields: list[Any] = []
    for place, name in enumerate(names):
        kind, absent = (str | None, None) if name in texts else (msgspec.Raw, _ABSENT)
        fields.append((f"value_{place}", kind, msgspec.field(default=absent)))
    rename = {f"value_{place}": name for place, name in enumerate(names)}
    struct = msgspec.defstruct("Image", fields, rename=rename, gc=False, forbid_unknown_fields=True)
    return msgspec.json.Decoder(struct), {name: attrgetter(f"value_{place}") for place, name in enumerate(names)}
