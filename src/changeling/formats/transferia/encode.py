"""Changes into Transferia's records, in the shape that the user chose, or that they were read in."""

import base64
from collections.abc import Mapping, Sequence
from typing import Literal

from changeling.formats.format import Encode, Outgoing
from changeling.formats.options import WriteOptions
from changeling.formats.transferia import item_encode, seed_encode
from changeling.formats.transferia.decode import Shape, refuse_proto
from changeling.model import json_text
from changeling.model.change import Change, Record
from changeling.model.operation import Operation


class TransferiaWrite(WriteOptions, frozen=True, kw_only=True):
    """Options of a Transferia writer."""

    shape: Shape | None = None
    """Change items, or records of the data model; by default records of Transferia keep theirs, others become items."""
    schema_id: bool = False
    """Write the registry's number of a schema instead of its columns, where it has one."""
    serialization: Literal["json", "proto"] = "json"
    """How values are serialized; proto is refused."""


def encoder(options: TransferiaWrite) -> Encode:
    """A function from one change to its record."""
    refuse_proto(options.serialization)

    def encode(out: Outgoing) -> Sequence[Record]:
        change = out.change
        meta = json_text.members(change.meta) if change.meta and (out.native or change.op is Operation.MESSAGE) else {}
        if "tombstone" in meta and change.op is Operation.MESSAGE:
            return [Record(None, _message_key(change, meta))]
        was: Shape | None = None if not out.native else "seed" if "shape" in meta else "item"
        shape = options.shape or was or "item"
        module = item_encode if shape == "item" else seed_encode
        value = module.own(change, meta, options.schema_id) if shape == was else module.foreign(out, options.schema_id)
        return [Record(value, _message_key(change, meta))]

    return encode


def _message_key(change: Change, meta: Mapping[str, bytes]) -> bytes | None:
    """The key that a record had, else the row's: changes of one row then stay in one partition, in order."""
    if "message_key" in meta:
        return json_text.string(meta["message_key"]).encode()
    if "message_key_base64" in meta:
        return base64.b64decode(json_text.string(meta["message_key_base64"]))
    return change.key.encode() if isinstance(change.key, str) else change.key
