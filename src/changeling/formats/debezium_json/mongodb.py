"""MongoDB's documents: keys as text of extended JSON, and updates that contain only what they changed."""

from changeling.model import json_text
from changeling.model.errors import Rejected
from changeling.model.operation import Image

_NUMBERS = ("$numberLong", "$numberInt", "$numberDouble", "$numberDecimal")

_removed = json_text.named("updateDescription.removedFields", json_text.string)

UpdateImage = tuple[bytes | None, Image]
"""The image that an update has, and how complete it is."""


def key_of(message_key: bytes | None, document: bytes | None) -> bytes | None:
    """The key by the document's id, from the message key (`{"id": "<extended JSON>"}`) or else from the document.

    Keys and documents spell numbers in two ways (`1004` and `{"$numberLong": "1004"}`): both give the plain one.
    """
    raw = None if message_key is None else json_text.members(message_key).get("id")
    if raw is not None and raw[:1] == b'"':
        text = json_text.string(raw)
        try:
            raw = json_text.compact(text)
        except ValueError:
            raise Rejected(f"the message key's id is {text[:60]!r}, which is no extended JSON") from None
    if raw is None and document is not None:
        raw = json_text.members(document).get("_id")
    return None if raw is None else json_text.canonical_key([("_id", _plain(raw))])


def _plain(raw: bytes) -> bytes:
    if raw[:1] == b"{":
        members = json_text.members(raw)
        if len(members) == 1 and (value := next((members[n] for n in _NUMBERS if n in members), None)) is not None:
            return json_text.string(value).encode() if value[:1] == b'"' else value
    return raw


def update_image(envelope: dict[str, bytes]) -> UpdateImage:
    """The image of an update without a document: from `updateDescription`, or from the `patch` of older connectors.

    A path into a document is no column: an update that has one cannot be applied by columns.
    """
    description = envelope.get("updateDescription", b"null")
    if description[:1] == b"{":
        return _description(json_text.members(description))
    patch = envelope.get("patch", b"null")
    return _patch(json_text.members(json_text.string(patch))) if patch[:1] == b'"' else (None, Image.NONE)


def _description(found: dict[str, bytes]) -> UpdateImage:
    if found.get("truncatedArrays", b"null") not in (b"null", b"[]"):
        return None, Image.NONE
    updated, removed = found.get("updatedFields", b"null"), found.get("removedFields", b"null")
    columns = json_text.members(json_text.string(updated)) if updated[:1] == b'"' else {}
    names = map(_removed, json_text.items(removed)) if removed[:1] == b"[" else ()
    return _partial({**columns, **dict.fromkeys(names, b"null")})


def _patch(found: dict[str, bytes]) -> UpdateImage:
    if not any(name.startswith("$") for name in found):
        return json_text.join(found.items()), Image.FULL
    if found.keys() - {"$v", "$set", "$unset"}:
        return None, Image.NONE
    unset = dict.fromkeys(json_text.members(found.get("$unset", b"{}")), b"null")
    return _partial({**json_text.members(found.get("$set", b"{}")), **unset})


def _partial(columns: dict[str, bytes]) -> UpdateImage:
    if not columns or any("." in name for name in columns):
        return None, Image.NONE
    return json_text.join(columns.items()), Image.PARTIAL
