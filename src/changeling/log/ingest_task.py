"""What a task does with its part of a batch: reads, decodes, and writes files of changes and rejects.

The text of records never crosses the JVM, and neither do the changes: the driver gets the names of files, and counts.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.formats import registry
from changeling.formats.decoding import Decoded, Decoder
from changeling.formats.options import ReadOptions
from changeling.iceberg.parquet_files import Writer, WriteSpec
from changeling.log.log_tables import MOMENT
from changeling.log.reject_ids import reject_id
from changeling.log.schema_ids import Known, SchemaIds
from changeling.log.schema_sampling import Sampling
from changeling.log.stats_counter import StatsCounter, placed_positions
from changeling.log.task_result import FirstReject, NewestChange, Outcome
from changeling.model import arrow_layouts, position
from changeling.sources.source import Reader

OUTCOME = pa.schema([("outcome", pa.binary())])
_SAMPLED_RECORDS = 1_000


@dataclass(frozen=True)
class Batch:
    """The settings of all tasks of a batch."""

    source: str
    number: int
    format: str | None
    """None where the reader returns changes instead of records."""
    options: ReadOptions
    moment: int
    """When it is read, in microseconds."""
    changes: WriteSpec
    rejects: WriteSpec | None
    """None where rejects stay where they are: they are read again."""
    known: Known = field(default_factory=dict)
    last_position: str | None = None
    """The furthest position of the batches before."""
    topics: dict[str, int] | None = None
    """Numbers of topics, where there are several: partition and offset alone do not distinguish their records."""
    sample_only: bool = False
    """Each task takes only its first records: what matters is which schemas they have."""


@dataclass(frozen=True)
class IngestKernel:
    """Turns parts of a batch into outcomes, one per task, in the layout `OUTCOME`."""

    reader: Reader
    batch: Batch

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row: the task's outcome."""
        task = _Task(self.batch)
        try:
            for records, rejects in self.reader(batches):
                if self.batch.sample_only:
                    task.take(records.slice(0, _SAMPLED_RECORDS), rejects)
                    # Spark ends a worker process that does not read all of its input, and has to start another one.
                    deque(batches, maxlen=0)
                    break
                task.take(records, rejects)
            outcome = task.finished()
            outcome = msgspec.structs.replace(outcome, notes=list(getattr(self.reader, "notes", ())))
        except BaseException:
            task.abandon()
            raise
        yield pa.record_batch([pa.array([msgspec.json.encode(outcome)], pa.binary())], schema=OUTCOME)


class _Task:
    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        form = None if batch.format is None else registry.get(batch.format)
        self._decode = _as_they_are if form is None else Decoder(form, batch.options, templates=True)
        self._extraction_time = None if form is None else form.extraction_time
        self._changes = Writer(batch.changes)
        self._rejects = None if batch.rejects is None else Writer(batch.rejects)
        self._schemas = SchemaIds(batch.known)
        self._sampling = Sampling()
        self._stats_counter = StatsCounter()
        self._read = self._rejected = self._changed = self._late = self._ahead = 0
        self._position: str | None = None
        self._newest: NewestChange | None = None
        self._refused: FirstReject | None = None

    def take(self, records: pa.RecordBatch, no_records: pa.RecordBatch) -> None:
        """Decodes a batch of records and writes the changes and rejects."""
        decoded = self._decode(records)
        changes = decoded.changes
        if self._batch.topics is not None:
            changes = _with_topics(changes, self._batch.topics)
        ids, incompatible = self._schemas(changes)
        changes = changes.set_column(
            changes.schema.get_field_index("schema_id"), arrow_layouts.CHANGES.field("schema_id"), ids
        )
        rejects = [no_records, decoded.rejects]
        if incompatible:
            changes, kept = _split_incompatible(changes, records, incompatible)
            rejects.append(kept)
        self._read += records.num_rows + no_records.num_rows
        self._count(changes)
        for part in rejects:
            self._reject(part)
        if not self._schemas.unknown:
            self._sampling(changes)
            self._stats_counter(changes)
            self._changes.write(self._stored(changes))

    def finished(self) -> Outcome:
        """Closes the files."""
        if self._schemas.unknown:
            self.abandon()
        return Outcome(
            read=self._read,
            rejected=self._rejected,
            changed=self._changed,
            late=self._late,
            ahead=self._ahead,
            position=self._position,
            newest=self._newest,
            schemas=self._schemas.seen(),
            unknown=self._schemas.unknown,
            samples=self._sampling.found(),
            refused=self._refused,
            stats=self._stats_counter.found(),
            changes=[] if self._schemas.unknown else self._changes.close(),
            rejects=[] if self._rejects is None or self._schemas.unknown else self._rejects.close(),
        )

    def abandon(self) -> None:
        """Leaves no file behind."""
        self._changes.abandon()
        if self._rejects is not None:
            self._rejects.abandon()

    def _count(self, changes: pa.RecordBatch) -> None:
        if not changes.num_rows:
            return
        self._changed += changes.num_rows
        positions, times = placed_positions(changes), changes.column("commit_time")
        self._position = max(filter(None, (self._position, pc.max(positions).as_py())), default=None)
        if self._batch.last_position is not None:
            # A snapshot shows rows that existed before, and is not late.
            late = pc.and_(pc.less(positions, self._batch.last_position), pc.not_equal(changes.column("op"), "read"))
            self._late += pc.sum(late).as_py() or 0
        self._ahead += pc.sum(pc.greater(times, self._batch.moment * 1000)).as_py() or 0
        newest = pc.max(times).as_py()
        if newest is not None and (self._newest is None or newest > self._newest.commit_time):
            place = pc.index(times, newest).as_py()
            extracted = self._extraction_time
            meta = changes.column("meta")[place].as_py()
            self._newest = NewestChange(newest, None if extracted is None or meta is None else extracted(meta))

    def _reject(self, rejects: pa.RecordBatch) -> None:
        if not rejects.num_rows:
            return
        self._rejected += rejects.num_rows
        origins = arrow_layouts.origins(rejects)
        if self._refused is None:
            self._refused = FirstReject(rejects.column("reason")[0].as_py(), str(origins[0]))
        if self._rejects is None or self._schemas.unknown:
            return
        known = {name: rejects.column(name) for name in rejects.schema.names}
        known["id"] = pa.array([reject_id(self._batch.source, origin) for origin in origins], pa.string())
        self._rejects.write(self._stamped(known, self._batch.rejects, rejects.num_rows))

    def _stored(self, changes: pa.RecordBatch) -> pa.RecordBatch:
        known = {name: changes.column(name) for name in changes.schema.names}
        return self._stamped(known, self._batch.changes, changes.num_rows)

    def _stamped(self, known: dict[str, pa.Array], spec: WriteSpec | None, count: int) -> pa.RecordBatch:
        assert spec is not None
        known["source"] = pa.repeat(pa.scalar(self._batch.source, pa.string()), count)
        known["batch"] = pa.repeat(pa.scalar(self._batch.number, pa.int64()), count)
        known["ingested_at"] = pa.repeat(pa.scalar(self._batch.moment, MOMENT), count)
        names = [column.name for column in spec.columns]
        return pa.record_batch([known[name] for name in names], names=names)


def _as_they_are(changes: pa.RecordBatch) -> Decoded:
    """Changes that need no decoding."""
    return Decoded(changes, _NO_REJECTS)


_NO_REJECTS = pa.RecordBatch.from_pylist([], schema=arrow_layouts.REJECTS)


def _with_topics(changes: pa.RecordBatch, topics: dict[str, int]) -> pa.RecordBatch:
    """Arrival positions with the topic's number as a suffix."""
    arrived = changes.column("arrived")
    if not pc.any(arrived).as_py():
        return changes
    numbers = [
        position.encode(topics[topic]) for topic in pc.struct_field(changes.column("origin"), "topic").to_pylist()
    ]
    positions = changes.column("position")
    placed = pc.binary_join_element_wise(positions, pa.array(numbers, pa.string()), ".")
    at = changes.schema.get_field_index("position")
    return changes.set_column(at, changes.schema.field(at), pc.if_else(arrived, placed, positions))


def _split_incompatible(
    changes: pa.RecordBatch, records: pa.RecordBatch, incompatible: dict[int, str]
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The other changes, and the complete records of those whose schema is incompatible."""
    places = {origin: place for place, origin in enumerate(arrow_layouts.origins(records))}
    origins = arrow_layouts.origins(changes)
    reasons = {places[origins[row]]: reason for row, reason in incompatible.items()}
    kept = np.array([places[origin] not in reasons for origin in origins], bool)
    return changes.filter(pa.array(kept)), arrow_layouts.rejects_batch(records, reasons)
