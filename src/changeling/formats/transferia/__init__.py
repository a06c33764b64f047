"""`transferia`: Transferia's change items, and the record of its data model (seed 003)."""

from changeling.formats.capabilities import carrying
from changeling.formats.format import Format
from changeling.formats.framing import JsonValues
from changeling.formats.transferia.read import TransferiaRead, reader
from changeling.formats.transferia.types import TYPES
from changeling.formats.transferia.write import TransferiaWrite, writer

FORMAT = Format(
    name="transferia",
    summary="Transferia's change items (shape item), or the records of its data model (shape seed)",
    read_options=TransferiaRead,
    write_options=TransferiaWrite,
    reader=reader,
    writer=writer,
    carries=carrying(all_but=("begin", "barrier", "keys-only")),
    types=TYPES,
    framing=lambda options: JsonValues(arrays=True),
    position="nextlsn, txPosition (shape seed: ID)",
    numbers_schemas=True,
    feed_modes=("UPDATES", "NEW_IMAGE", "NEW_AND_OLD_IMAGES"),
    signs=(("kind", "nextlsn"), ("kind", "columnnames"), ("kind", "table_schema"), ("Kind", "ID")),
)
