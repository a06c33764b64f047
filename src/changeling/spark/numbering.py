"""Running numbers on Spark: those that the frame supplies, or else a partition's own."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from changeling.formats.encoding import Encoded, Encoder, Numbering
from changeling.formats.format import Counts, Format
from changeling.formats.options import WriteOptions
from changeling.formats.transaction_progress import TransactionProgress
from changeling.model import arrow_layouts

NUMBER = pa.field("number", pa.int64())
"""The running number of a change in the whole output, from 1."""
COUNTS = pa.field("counts", pa.struct([(name, pa.int64()) for name in Counts.__struct_fields__]))
"""Running totals by kind of the whole output, this change included."""
STANDING = pa.field("standing", pa.struct([(name, pa.int64()) for name in TransactionProgress.__struct_fields__]))
"""What the whole output contains of the change's transaction before it (see `formats.transaction_progress`)."""


class NumberedEncoder:
    """Encodes the batches of one partition, in order."""

    def __init__(self, form: Format, options: WriteOptions) -> None:
        self._encoder = Encoder(form, options)
        self._own = Numbering()

    def __call__(self, batch: pa.RecordBatch) -> Iterator[Encoded]:
        """Encodes a batch of layout `CHANGES`, with or without the columns `NUMBER`, `COUNTS` and `STANDING`."""
        changes = arrow_layouts.conform(batch, arrow_layouts.CHANGES)
        for start, stop in _runs(batch):
            run = changes.slice(start, stop - start)
            before = self._before(batch.slice(start, stop - start), changes.slice(start, 1))
            encoded = self._encoder(run, before)
            self._own = self._own.after(run, encoded)
            yield encoded

    def _before(self, batch: pa.RecordBatch, first: pa.RecordBatch) -> Numbering:
        """The state of the output before these changes, the first of which is given separately."""
        number, counts = self._own.number, self._own.counts
        if NUMBER.name in batch.schema.names:
            number = batch.column(NUMBER.name)[0].as_py() - 1
        if COUNTS.name in batch.schema.names:
            itself = Numbering().counts_after(first)
            running = batch.column(COUNTS.name)[0].as_py()
            counts = Counts(**{name: running[name] - getattr(itself, name) for name in running})
        progress = None
        if STANDING.name in batch.schema.names:
            progress = [TransactionProgress(**row) for row in batch.column(STANDING.name).to_pylist()]
        return Numbering(number, counts, self._own.transactions, progress)


def _runs(batch: pa.RecordBatch) -> list[tuple[int, int]]:
    """The ranges of a batch in which its numbers go up by one: the kernel counts on from the first."""
    breaks = np.zeros(max(0, batch.num_rows - 1), bool)
    if NUMBER.name in batch.schema.names:
        breaks |= np.diff(batch.column(NUMBER.name).to_numpy(zero_copy_only=False)) != 1
    if COUNTS.name in batch.schema.names:
        parts = [part.to_numpy(zero_copy_only=False) for part in batch.column(COUNTS.name).flatten()]
        steps = np.array([np.diff(part) for part in parts])
        breaks |= (steps < 0).any(axis=0) | (steps.sum(axis=0) > 1)
    starts = [0, *(np.flatnonzero(breaks) + 1).tolist()]
    return list(zip(starts, [*starts[1:], batch.num_rows], strict=True)) if batch.num_rows else []
