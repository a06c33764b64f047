"""Row events: what the two kernels of a fold share."""

import functools
from collections.abc import Sequence
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.log import log_tables
from changeling.replicas.change_order import ARRIVAL, arrivals
from changeling.replicas.row_effect import Effect

PLUS, MINUS, UNIDENTIFIED, OLD_KEY_UNKNOWN = "plus", "minus", "unidentified", "old_key_unknown"
"""In addition to the effects on rows with a key: one row more, one less, a change that does not identify its row, and a new row with a
partial image whose old key has not been looked up yet."""

KINDS = (*(one.value for one in Effect), UNIDENTIFIED, OLD_KEY_UNKNOWN)
"""The effects of changes of rows with a key; in the shuffle each is identified by its index."""
CODES = {kind: place for place, kind in enumerate(KINDS)}

READ_COLUMNS = (
    "source",
    "table",
    "op",
    "key",
    "before",
    "after",
    "before_image",
    "after_image",
    "encoding",
    "position",
    "commit_time",
    "schema_id",
)
LOG_COLUMNS = (*READ_COLUMNS, "batch", "origin")
"""The columns of the log that a fold needs."""
ORDER = ("table", "group", "position", *ARRIVAL, "key", "effect", "values")
"""What row events are sorted by before they are folded, ascending; NULL comes first."""
ROW_EVENTS = pa.schema(
    [
        ("table", pa.int32()),
        ("group", pa.string()),
        ("position", pa.string()),
        ("key", pa.string()),
        ("moved_from", pa.string()),
        ("effect", pa.string()),
        ("op", pa.string()),
        ("values", pa.string()),
        ("encoding", pa.string()),
        ("schema", pa.int64()),
        ("commit_time", pa.int64()),
        ("refolded", pa.bool_()),
        ("images", pa.int64()),
        *((name, pa.int64()) for name in ARRIVAL),
        ("attempt", pa.int32()),
    ]
)
"""Row events. Those of one group are folded together; `moved_from` is the key that the row had before; `refolded` marks rows that
are folded from an earlier state on; `images` is a checksum of images that `values` does not contain; `attempt` numbers the attempt
at a snapshot."""

COMPARED = "compared"
"""An optional column of changes: whether their events must be distinguishable from others of the same row at the same position."""


def fold_input(rows: pa.Table) -> pa.Table:
    """`READ_COLUMNS` and `ARRIVAL`, given `LOG_COLUMNS`."""
    read = [rows.column(name).cast(log_tables.CHANGES.columns.field(name).type) for name in READ_COLUMNS]
    return pa.table([*read, *arrivals(rows)], names=[*READ_COLUMNS, *ARRIVAL])


def sorted_events(events: pa.Table) -> pa.Table:
    """Row events in `ORDER`, as Spark sorts them: bytewise, NULL first."""
    order = _order(events, ORDER[:3])
    placed = events.select(ORDER[:3]).take(order).combine_chunks()
    alike = [pc.equal(column.slice(1), column.slice(0, max(0, len(column) - 1))) for column in placed.columns]
    if pc.any(functools.reduce(pc.and_, alike)).as_py():
        order = _order(events, ORDER)
    return events.take(order)


def _order(events: pa.Table, names: Sequence[str]) -> pa.Array:
    columns: dict[str, pa.ChunkedArray] = {}
    for name in names:
        column = events.column(name)
        if column.null_count:
            # Arrow gives NULL the last place.
            columns[f"has {name}"] = column.is_valid()
        columns[name] = column
    return pc.sort_indices(pa.table(columns).combine_chunks(), [(name, "ascending") for name in columns])


def image_sums(batch: pa.RecordBatch, leaving: int) -> pa.Array:
    """Checksums of the images that events do not hold: of the row before, and for the last `leaving` of both.

    Where the changes have `COMPARED`, the others have none.
    """
    staying = batch.num_rows - leaving
    if COMPARED not in batch.schema.names:
        return pa.array(_sums_of_images(batch, staying), pa.int64())
    found = np.zeros(batch.num_rows, np.int64)
    places = np.flatnonzero(batch.column(COMPARED))
    if len(places):
        compared = batch.select(["before", "after"]).take(pa.array(places))
        found[places] = _sums_of_images(compared, int(np.searchsorted(places, staying)))
    return pa.array(found, pa.int64())


def _sums_of_images(batch: pa.RecordBatch, staying: int) -> np.ndarray:
    before = _sums(batch.column("before"))
    after = _sums(batch.column("after").slice(staying))
    before[staying:] = (before[staying:] << 31) ^ after
    return before


def _sums(images: pa.Array) -> np.ndarray:
    """A checksum for each image."""
    found: np.ndarray = np.zeros(len(images), np.int64)
    if images.null_count < len(images):
        found[:] = [0 if text is None else crc32(text) + 1 for text in images.cast(pa.binary()).to_pylist()]
    return found
