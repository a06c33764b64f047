"""Keys of messages: DataWorks lets a task choose any columns, so the message key is kept if it is not the key itself."""

import base64
from collections.abc import Mapping

import msgspec

from changeling.envelope.cells import Cell, Cells
from changeling.model import json_text
from changeling.model.json_text import quote

TEXT, BASE64 = "message_key", "message_key_base64"


def kept(cells: Cells, message_key: Cell, key: Cell) -> list[tuple[str, Cell]]:
    """The member of `meta` that restores a message key; none where the change's key does."""
    if message_key is None or not cells.any(differs := cells.present(message_key) & ~cells.equal(message_key, key)):
        return []
    try:
        return [(TEXT, cells.where(differs, cells.quoted(message_key), None))]
    except UnicodeDecodeError:
        return [(BASE64, quote(base64.b64encode(message_key).decode()))]


def restored(meta: Mapping[str, bytes], key: str | bytes | None) -> bytes | None:
    """The message key that a record had, or the change's key as canonical JSON."""
    if TEXT in meta:
        return json_text.string(meta[TEXT]).encode()
    if BASE64 in meta:
        return base64.b64decode(json_text.string(meta[BASE64]))
    return key.encode() if isinstance(key, str) else key


def as_key(message_key: bytes | None) -> bytes | None:
    """The canonical key in a message key: only a JSON object names its columns."""
    if message_key is None or message_key[:1] != b"{":
        return None
    try:
        return json_text.canonical_key(json_text.members(message_key).items())
    except msgspec.DecodeError:
        return None
