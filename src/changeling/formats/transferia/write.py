"""Changes into Transferia's records, in the shape that the user chose, or that they were read in."""

from typing import Literal

from changeling.envelope import message_keys
from changeling.envelope.cells import Cell, Cells
from changeling.envelope.writing import RecordCells, Writer, kept
from changeling.formats.options import WriteOptions
from changeling.formats.transferia import items, seed_records
from changeling.formats.transferia.decode import Shape, refuse_proto
from changeling.formats.transferia.envelope import KINDS
from changeling.model import json_text
from changeling.model.operation import Operation

ROWS = [operation.value for operation in KINDS]


class TransferiaWrite(WriteOptions, frozen=True, kw_only=True):
    """Options of a Transferia writer."""

    shape: Shape | None = None
    """Change items, or records of the data model; by default records of Transferia keep theirs, others become items."""
    schema_id: bool = False
    """Write the registry's number of a schema instead of its columns, where it has one."""
    serialization: Literal["json", "proto"] = "json"
    """How values are serialized; proto is refused."""


def writer(options: TransferiaWrite) -> Writer:
    """A function from a change to its record."""
    refuse_proto(options.serialization)

    def write(cells: Cells, out: Cell) -> list[RecordCells]:
        change = out.change
        meta = kept(cells, out)
        if not cells.only(cells.one_of(change.op, ROWS)) and change.op is Operation.MESSAGE and change.meta is not None:
            meta = json_text.members(change.meta)
            if "tombstone" in meta:
                return [RecordCells(None, message_keys.restored(cells, meta, change.key))]
        was: Shape | None = None if not out.native else "seed" if "shape" in meta else "item"
        shape = options.shape or was or "item"
        module = items if shape == "item" else seed_records
        value = (module.own if shape == was else module.foreign)(cells, out, meta, options.schema_id)
        return [RecordCells(value, message_keys.restored(cells, meta, change.key))]

    return write
