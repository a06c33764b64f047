"""Keys of messages: any text or bytes, so a message key is kept in `meta` where it is not the key of the row itself."""

import base64
from collections.abc import Mapping

import msgspec

from changeling.envelope.cells import Cell, Cells
from changeling.envelope.scalar_cells import SCALARS
from changeling.model import json_text
from changeling.model.change import Change, Record
from changeling.model.json_text import quote
from changeling.model.operation import Operation
from changeling.model.table import TableName

TEXT, BASE64 = "message_key", "message_key_base64"


def kept(cells: Cells, message_key: Cell, key: Cell) -> dict[str, Cell]:
    """The member of `meta` that restores a message key; none where the change's key does."""
    if message_key is None or not cells.any(differs := cells.present(message_key) & ~cells.equal(message_key, key)):
        return {}
    try:
        return {TEXT: cells.where(differs, cells.quoted(message_key), None)}
    except UnicodeDecodeError:
        return {BASE64: quote(base64.b64encode(message_key).decode())}


def restored(cells: Cells, meta: Mapping[str, Cell], key: Cell) -> Cell:
    """The message key that a record had, or the change's key as canonical JSON."""
    if BASE64 in meta:
        cells.one_by_one()
        return base64.b64decode(json_text.string(meta[BASE64]))
    return cells.text(meta[TEXT]) if TEXT in meta else key


def as_key(message_key: bytes | None) -> bytes | None:
    """The canonical key in a message key: only a JSON object names its columns."""
    if message_key is None or message_key[:1] != b"{":
        return None
    try:
        return json_text.canonical_key(json_text.members(message_key).items())
    except msgspec.DecodeError:
        return None


def tombstone(record: Record, table: TableName | None) -> Change:
    """A message without a value: its key may name a row, of a table that is known from elsewhere."""
    key = as_key(record.key)
    meta = json_text.join([("tombstone", b"true"), *kept(SCALARS, record.key, key).items()])
    return Change(op=Operation.MESSAGE, table=table, key=key, meta=meta)
