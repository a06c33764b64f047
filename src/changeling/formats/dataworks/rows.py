"""Which rows a change is written as: one full row for each side that it shows, with the key columns in it."""

from collections.abc import Mapping
from typing import NamedTuple

from changeling.formats.format import Outgoing
from changeling.model import json_text
from changeling.model.operation import Image, Operation
from changeling.model.table import TableSchema


class Side(NamedTuple):
    """One side of a row on its way out."""

    name: str
    """`before` or `after`."""
    image: bytes
    key: bytes | None
    """The key that the row has on this side."""
    size: Image


def sides(out: Outgoing) -> list[Side]:
    """The rows to write, the one before first; raises `CannotCarry` if a delete has neither row nor key."""
    change = out.change
    key = _bytes(change.key)
    if out.native:
        found = [("before", change.before, change.before_image), ("after", change.after, change.after_image)]
        return [
            Side(name, image, key if name == "after" else _key_on(image, key), size)
            for name, text, size in found
            if (image := _bytes(text)) is not None
        ]
    if change.op is Operation.DELETE:
        return [_deleted(out, key)]
    made = []
    if change.op not in (Operation.READ, Operation.INSERT) and (before := _before(out, key)) is not None:
        made.append(before)
    made.append(_side("after", change.after, change.after_image, key, out.schema))
    return made


def _deleted(out: Outgoing, key: bytes | None) -> Side:
    change = out.change
    if change.before is None and key is None:
        out.lose("delete", "it has neither the row nor its key")
    if change.before is None:
        return Side("before", key or b"{}", key, Image.KEY)
    return _side("before", change.before, change.before_image, key, out.schema)


def _before(out: Outgoing, key: bytes | None) -> Side | None:
    """The first half of an update; a partial row is worth one only if the update changes the key of its row."""
    change = out.change
    if change.before is None:
        return None
    old_key = _key_on(_bytes(change.before) or b"{}", key)
    if change.before_image is not Image.FULL and old_key == key:
        return None
    return _side("before", change.before, change.before_image, old_key, out.schema)


def _side(name: str, text: str | bytes | None, size: Image, key: bytes | None, schema: TableSchema | None) -> Side:
    row = json_text.members(text or b"{}")
    for column, value in json_text.members(key or b"{}").items():
        row.setdefault(column, value)
    if size is Image.FULL and schema is not None:
        known = {column.name: row.pop(column.name, b"null") for column in schema.columns}
        row = {**known, **row}
    return Side(name, json_text.join(row.items()), key, size)


def _key_on(image: bytes, key: bytes | None) -> bytes | None:
    if key is None:
        return None
    row: Mapping[str, bytes] = json_text.members(image)
    return json_text.canonical_key((name, row.get(name, value)) for name, value in json_text.members(key).items())


def _bytes(text: str | bytes | None) -> bytes | None:
    return text.encode() if isinstance(text, str) else text
