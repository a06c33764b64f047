"""Transferia's records into changes: change items, arrays of them, and the record of its data model."""

from collections.abc import Sequence
from typing import Literal

from changeling.envelope import message_keys
from changeling.envelope.cells import Cells
from changeling.envelope.one import ONE
from changeling.envelope.reading import ChangeCells, Reader
from changeling.formats.options import ReadOptions
from changeling.formats.transferia.item_decode import ItemReader, NotAnItem
from changeling.formats.transferia.seed_decode import SeedReader
from changeling.formats.transferia.usual_items import UsualItems
from changeling.model import json_text
from changeling.model.change import Change, Record
from changeling.model.errors import Rejected, UsageError

Shape = Literal["item", "seed"]
_SEED_START = b'{"ID":'
"""How the records of the data model usually begin; the others show it by their `Kind`."""


class TransferiaRead(ReadOptions, frozen=True, kw_only=True):
    """Options of a Transferia reader."""

    shape: Shape | None = None
    """Change items, or records of the data model; by default each record shows which it is."""
    serialization: Literal["json", "proto"] = "json"
    """How values are serialized; proto is refused."""


def refuse_proto(serialization: str) -> None:
    """Raises `UsageError` unless values are serialized as JSON."""
    if serialization == "proto":
        raise UsageError("transferia: serialization=proto is not supported; values are read and written as json")


def reader(options: TransferiaRead) -> Reader:
    """A function from a record to its changes: one, or those of an array."""
    refuse_proto(options.serialization)
    item, seed, shape = ItemReader(options), SeedReader(options), options.shape
    usual = UsualItems(options)

    def one(value: bytes) -> Change:
        if shape == "seed" or (shape is None and value.startswith(_SEED_START)):
            return seed.decode(value)
        try:
            return item.decode(value)
        except NotAnItem:
            if shape == "item" or "Kind" not in json_text.members(value):
                raise
            return seed.decode(value)

    def read(cells: Cells, record: Record) -> ChangeCells | Sequence[Change]:
        value = record.value
        if value is not None and shape != "seed" and cells.branch(cells.starts(value, b"{")):
            found = usual.read(cells, record)
            if found is not None:
                return found
        cells.alone()
        if value is None:
            return [message_keys.tombstone(record, options.table)]
        if value[:1] == b"{" or value.lstrip()[:1] != b"[":
            return [_with_message_key(one(value), record.key)]
        items = json_text.items(value)
        if not items:
            raise Rejected("an empty array: there is no change item in it")
        changes = []
        for place, part in enumerate(items, 1):
            try:
                changes.append(_with_message_key(one(part), record.key))
            except ValueError as error:
                raise Rejected(f"item {place} of {len(items)}: {error}") from None
        return changes

    return read


def _with_message_key(change: Change, message_key: bytes | None) -> Change:
    for name, text in message_keys.kept(ONE, message_key, change.key).items():
        own = bytes(change.meta) if isinstance(change.meta, bytes) else b"{}"
        change.meta = b"%b%b%b%b}" % (own[:-1], b"," if len(own) > 2 else b"", json_text.head(name), text)
    return change
