"""Row events on their way to the tasks that fold them: in bundles of many, so that the JVM moves bytes and takes no row apart.

A bundle has events of one table and one share of its groups, as Arrow has them. All bundles of a share reach the same task, which
puts their events in order.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import pyarrow as pa

from changeling.replicas.row_events import ROW_EVENTS, sorted_events
from changeling.spark.adapter import Kernel

MOST_BYTES = 16 * 1024 * 1024
"""What is put into bundles at a time: the JVM has each of them in its heap."""
BUNDLES = pa.schema([("table", pa.int32()), ("share", pa.int32()), ("events", pa.binary())])
"""Bundles, each with the number of its table and that of its share. They are folded in the order of both."""
_MANY_BYTES = 2**30
"""So much text may not fit into one array."""
_LARGE = pa.schema(
    [(field.name, pa.large_string() if field.type == pa.string() else field.type) for field in ROW_EVENTS]
)
_BATCH_ROWS = 10_000


@dataclass(frozen=True)
class Bundling:
    """What a kernel makes of changes, row events of one table a batch, as `BUNDLES`."""

    spread: Kernel
    shares: int
    """How many shares the groups of a table are divided into."""
    small: frozenset[int]
    """Tables that have one share."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batch by batch."""
        for events in self.spread(batches):
            step = max(1, events.num_rows * MOST_BYTES // max(1, events.nbytes))
            for start in range(0, events.num_rows, step):
                yield self._bundles(events.slice(start, step))

    def _bundles(self, events: pa.RecordBatch) -> pa.RecordBatch:
        table = events.column("table")[0].as_py()
        shares = 1 if table in self.small else self.shares
        found = list(_cut(events, shares)) if shares > 1 else [(0, events)]
        return pa.record_batch(
            [
                pa.array([table] * len(found), pa.int32()),
                pa.array([share for share, _ in found], pa.int32()),
                pa.array([part.serialize().to_pybytes() for _, part in found], pa.binary()),
            ],
            schema=BUNDLES,
        )


@dataclass(frozen=True)
class Unbundling:
    """What a kernel makes of the row events in `BUNDLES`, all of some shares: it gets them in order, one share at a time."""

    fold: Kernel

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """The batches of the kernel."""
        return self.fold(_in_order(batches))


def _cut(events: pa.RecordBatch, shares: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The events of each share. Which one a group belongs to depends on its name alone: tasks must agree."""
    groups = events.column("group").dictionary_encode()
    sums = np.fromiter(map(crc32, groups.dictionary.cast(pa.binary()).to_pylist()), np.uint32, len(groups.dictionary))
    own = (sums % shares)[np.asarray(groups.indices)]
    together = events.take(pa.array(np.argsort(own, kind="stable")))
    ends = np.cumsum(np.bincount(own, minlength=shares)).tolist()
    for share, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        if start < end:
            yield share, together.slice(start, end - start)


def _in_order(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The events of one share after another, given their bundles in order."""
    held: tuple[int, int] | None = None
    parts: list[pa.RecordBatch] = []
    for batch in batches:
        places = zip(batch.column("table").to_pylist(), batch.column("share").to_pylist(), strict=True)
        for row, place in enumerate(places):
            if place != held:
                yield from _sorted(parts)
                held, parts = place, []
            parts.append(pa.ipc.read_record_batch(batch.column("events")[row].as_buffer(), ROW_EVENTS))
    yield from _sorted(parts)


def _sorted(parts: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if not parts:
        return
    events = pa.Table.from_batches(parts)
    if events.nbytes > _MANY_BYTES:
        yield from sorted_events(events.cast(_LARGE)).to_batches(_BATCH_ROWS)
    else:
        yield from sorted_events(events).to_batches()
