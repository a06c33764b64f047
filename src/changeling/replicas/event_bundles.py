"""Row events on their way to the tasks that fold them: in bundles of many, so that the JVM moves bytes and takes no row apart.

A bundle has events of one table and one bucket of its groups, as Arrow has them. All bundles of a bucket reach the same task, which
puts their events in order.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import pyarrow as pa

from changeling.replicas.row_events import ROW_EVENTS, sorted_events
from changeling.spark.adapter import Kernel

MAX_BYTES = 16 * 1024 * 1024
"""The largest size of a bundle: the JVM has each of them in its heap."""
BUNDLES = pa.schema([("table", pa.int32()), ("bucket", pa.int32()), ("events", pa.binary())])
"""Bundles, each with the number of its table and that of its bucket. They are folded in the order of both."""
_MANY_BYTES = 2**30
"""So much text may not fit into one array."""
_LARGE = pa.schema(
    [(field.name, pa.large_string() if field.type == pa.string() else field.type) for field in ROW_EVENTS]
)
_BATCH_ROWS = 10_000


@dataclass(frozen=True)
class Bundling:
    """Packs the row events of a kernel, which has one table a batch, into `BUNDLES`."""

    to_events: Kernel
    buckets: int
    """How many buckets the groups of a table are divided into."""
    one_bucket: frozenset[int]
    """The numbers of tables that have one bucket."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batch by batch."""
        for events in self.to_events(batches):
            step = max(1, events.num_rows * MAX_BYTES // max(1, events.nbytes))
            for start in range(0, events.num_rows, step):
                yield self._bundles(events.slice(start, step))

    def _bundles(self, events: pa.RecordBatch) -> pa.RecordBatch:
        table = events.column("table")[0].as_py()
        buckets = 1 if table in self.one_bucket else self.buckets
        found = list(_cut(events, buckets)) if buckets > 1 else [(0, events)]
        return pa.record_batch(
            [
                pa.array([table] * len(found), pa.int32()),
                pa.array([bucket for bucket, _ in found], pa.int32()),
                pa.array([part.serialize().to_pybytes() for _, part in found], pa.binary()),
            ],
            schema=BUNDLES,
        )


@dataclass(frozen=True)
class Unbundling:
    """Runs a kernel over the row events in `BUNDLES`, all of some buckets: it gets them in order, one bucket at a time."""

    fold_events: Kernel

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """The batches of the kernel."""
        return self.fold_events(_in_order(batches))


def _cut(events: pa.RecordBatch, buckets: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The events of each bucket. Which one a group belongs to depends on its name alone: tasks must agree."""
    groups = events.column("group").dictionary_encode()
    sums = np.fromiter(map(crc32, groups.dictionary.cast(pa.binary()).to_pylist()), np.uint32, len(groups.dictionary))
    own = (sums % buckets)[np.asarray(groups.indices)]
    together = events.take(pa.array(np.argsort(own, kind="stable")))
    ends = np.cumsum(np.bincount(own, minlength=buckets)).tolist()
    for bucket, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        if start < end:
            yield bucket, together.slice(start, end - start)


def _in_order(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The events of one bucket after another, given their bundles in order."""
    current: tuple[int, int] | None = None
    parts: list[pa.RecordBatch] = []
    for batch in batches:
        places = zip(batch.column("table").to_pylist(), batch.column("bucket").to_pylist(), strict=True)
        for row, place in enumerate(places):
            if place != current:
                yield from _sorted(parts)
                current, parts = place, []
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
