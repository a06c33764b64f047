"""The images of a row: which columns the database did not send, how complete that makes an image, and MongoDB's documents."""

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from changeling.model import json_text
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Image

PLACEHOLDER = "__debezium_unavailable_value"

_NUMBERS = ("$numberLong", "$numberInt", "$numberDouble", "$numberDecimal")
_removed = json_text.named("updateDescription.removedFields", json_text.string)
_items = msgspec.json.Decoder(list[list[msgspec.Raw]]).decode


class Placeholder:
    """The placeholder of a column which the database did not send, in each form that it may take: text, bytes, array, map."""

    def __init__(self, text: str) -> None:
        plain, packed = quote(text), quote(base64.b64encode(text.encode()).decode())
        counted = quote(list(text.encode()))
        self.plain = plain
        self.traces = (plain[1:-1], packed, counted)
        """An image that contains none of these has no column with the placeholder."""
        self._forms = frozenset({plain, packed, counted, b"[%b]" % plain, b"{%b:%b}" % (plain, plain)})

    def found_in(self, columns: Mapping[str, bytes]) -> str | None:
        """The first of these columns that a reader would take for one which was not sent."""
        return next((name for name, value in columns.items() if value in self._forms), None)

    def taken_from(self, image: bytes | None) -> tuple[bytes | None, bytes | None]:
        """The image without columns that contain the placeholder, and a note of their places and forms."""
        kept: list[tuple[str, bytes]] = []
        gone: list[bytes] = []
        for place, (name, value) in enumerate(json_text.members(image or b"{}").items()):
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


def mongodb_key(message_key: bytes | None, document: bytes | None) -> bytes | None:
    """The key by a document's id, from the message key (`{"id": "<extended JSON>"}`) or else from the document.

    Keys and documents spell numbers in two ways (`1004` and `{"$numberLong": "1004"}`): both give the plain one.
    """
    raw = None if message_key is None else json_text.members(message_key).get("id")
    if raw is not None and raw[:1] == b'"':
        text = json_text.string(raw)
        try:
            raw = json_text.in_text(text)
        except msgspec.DecodeError:
            raise Rejected(f"the message key's id is {text[:60]!r}, which is not extended JSON") from None
    if raw is None and document is not None:
        raw = json_text.members(document).get("_id")
    return None if raw is None else json_text.canonical_key([("_id", _plain(raw))])


def _plain(raw: bytes) -> bytes:
    members = json_text.members(raw) if raw[:1] == b"{" else {}
    if len(members) != 1 or members.keys().isdisjoint(_NUMBERS):
        return raw
    (value,) = members.values()
    return json_text.string(value).encode() if value[:1] == b'"' else value


def mongodb_update(envelope: dict[str, bytes]) -> tuple[bytes | None, Image]:
    """The image of an update without a document, and how complete it is.

    It is made of `updateDescription`, or of the `patch` of older connectors. A path into a document is not a column: an update
    that has one cannot be applied by columns.
    """
    description, patch = (envelope.get(name, b"null") for name in ("updateDescription", "patch"))
    columns: dict[str, bytes] = {}
    if description[:1] == b"{":
        columns = _described(json_text.members(description))
    elif patch[:1] == b'"':
        columns = json_text.members(json_text.string(patch))
        if not any(name.startswith("$") for name in columns):
            return json_text.join(columns.items()), Image.FULL
        columns = _patched(columns)
    if not columns or any("." in name for name in columns):
        return None, Image.NONE
    return json_text.join(columns.items()), Image.PARTIAL


def _described(found: dict[str, bytes]) -> dict[str, bytes]:
    if found.get("truncatedArrays", b"null") not in (b"null", b"[]"):
        return {}
    updated, removed = found.get("updatedFields", b"null"), found.get("removedFields", b"null")
    columns = json_text.members(json_text.string(updated)) if updated[:1] == b'"' else {}
    names = map(_removed, json_text.items(removed)) if removed[:1] == b"[" else ()
    return {**columns, **dict.fromkeys(names, b"null")}


def _patched(found: dict[str, bytes]) -> dict[str, bytes]:
    if found.keys() - {"$v", "$set", "$unset"}:
        return {}
    columns, unset = (json_text.members(found.get(name, b"{}")) for name in ("$set", "$unset"))
    return {**columns, **dict.fromkeys(unset, b"null")}
