"""The two images of a row: which columns the database did not send, and how complete that makes an image."""

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from changeling.model import json_text
from changeling.model.json_text import quote
from changeling.model.operation import Image

PLACEHOLDER = "__debezium_unavailable_value"
Columns = dict[str, bytes]

_items = msgspec.json.Decoder(list[list[msgspec.Raw]]).decode


class Placeholder:
    """The placeholder of a column which the database did not send, in each form that it may take: text, bytes, array, map."""

    def __init__(self, text: str) -> None:
        plain, packed = quote(text), quote(base64.b64encode(text.encode()).decode())
        counted = quote(list(text.encode()))
        self.plain = plain
        self.traces = (text.encode(), packed, counted)
        """An image that contains none of these has no column with the placeholder."""
        self._forms = frozenset({plain, packed, counted, b"[%b]" % plain, b"{%b:%b}" % (plain, plain)})

    def taken_from(self, image: bytes) -> tuple[bytes, bytes | None]:
        """The image without columns that contain the placeholder, and a note of their places and forms."""
        kept: list[tuple[str, bytes]] = []
        gone: list[bytes] = []
        for place, (name, value) in enumerate(json_text.members(image).items()):
            if value not in self._forms:
                kept.append((name, value))
            else:
                form = [] if value == self.plain else [value]
                gone.append(json_text.join_array([b"%d" % place, quote(name), *form]))
        return (json_text.join(kept), json_text.join_array(gone)) if gone else (image, None)

    def restored_in(self, image: bytes, note: bytes) -> bytes:
        """The original image: the placeholder in the places of the note."""
        pairs = list(json_text.members(image).items())
        for place, name, *form in _items(note):
            pairs.insert(int(bytes(place)), (json_text.string(name), bytes(form[0]) if form else self.plain))
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
    """The columns with those of the key in front that are missing."""
    return {**{name: value for name, value in key.items() if name not in columns}, **columns}
