"""The two images of a row: which columns the database did not send, and how complete that makes an image."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from changeling.formats.debezium_json.envelope import Placeholder
from changeling.model import json_text
from changeling.model.json_text import quote
from changeling.model.operation import Image

Columns = dict[str, bytes]

_items = msgspec.json.Decoder(list[list[msgspec.Raw]]).decode


def without_unavailable(image: bytes, placeholder: Placeholder) -> tuple[bytes, bytes | None]:
    """The image without columns that contain the placeholder, and a note of their places and forms."""
    kept: list[tuple[str, bytes]] = []
    gone: list[bytes] = []
    for place, (name, value) in enumerate(json_text.members(image).items()):
        if not placeholder.is_form(value):
            kept.append((name, value))
        elif value == placeholder.plain:
            gone.append(b"[%d,%b]" % (place, quote(name)))
        else:
            gone.append(b"[%d,%b,%b]" % (place, quote(name), value))
    return (json_text.join(kept), json_text.join_array(gone)) if gone else (image, None)


def with_unavailable(image: bytes, note: bytes, placeholder: Placeholder) -> bytes:
    """The original image: the placeholder restored in the places of the note."""
    pairs = list(json_text.members(image).items())
    for place, name, *form in _items(note):
        value = bytes(form[0]) if form else placeholder.plain
        pairs.insert(int(bytes(place)), (json_text.string(name), value))
    return json_text.join(pairs)


def before_image(before: Mapping[str, Any], after: Mapping[str, Any] | None, key: Mapping[str, Any] | None) -> Image:
    """How complete the row before is, by its columns and those after: few of them are the key, or part of the row.

    Databases that do not log full rows send only the key; a delete has no row to compare with.
    """
    if after is not None and len(before) >= len(after):
        return Image.FULL
    if key is not None and before.keys() == key.keys():
        return Image.KEY
    return Image.PARTIAL if after is not None and before.keys() < after.keys() else Image.FULL


def with_key(columns: Columns, key: Columns) -> Columns:
    """The columns with those of the key in front, if some are missing."""
    missing = {name: value for name, value in key.items() if name not in columns}
    return {**missing, **columns} if missing else columns


def with_placeholders(columns: Columns, names: Sequence[str], placeholder: Placeholder) -> Columns:
    """All these columns in their order, the placeholder in those that are absent; any others after them."""
    filled = {name: columns.get(name, placeholder.plain) for name in names}
    return {**filled, **columns}
