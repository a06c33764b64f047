"""Checks a feed by its records: what they promise, and whether the table that they make is the replica.

The records are those of the feed's topic, or others that a consumer got of it, from Kafka for example.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from changeling.feeds.feed import Feed
from changeling.feeds.rebuilt_table import RebuiltTable, Rows, stored_rows
from changeling.feeds.record_checks import CHECKS, IMAGES, OFFSETS, READABLE, SAME_BARRIERS, Fault, RecordChecks
from changeling.feeds.replica_states import ReplicaStates
from changeling.feeds.topic import COLUMNS, FeedState, Topic, offsets_text
from changeling.formats import registry
from changeling.formats.decoding import Decoder
from changeling.formats.format import read_options
from changeling.iceberg.reader import Tables
from changeling.model import arrow_layouts, json_text
from changeling.model.table import Column, TableSchema
from changeling.replicas.shape import Shape

Headers: TypeAlias = Iterable[tuple[str, bytes | None]]
Received: TypeAlias = tuple[int, int, bytes | None, bytes | None, Headers]
"""Partition, offset, key, value and headers of a record."""
EQUAL = "the table made of the records is the replica"
_REBUILDS = ("UPDATES", "NEW_IMAGE", "NEW_AND_OLD_IMAGES")
_BATCH = 5_000
_SHOWN = 5


@dataclass
class VerifiedFeed:
    """The result for a feed."""

    feed: str
    records: int = 0
    barriers: int = 0
    """Of one partition."""
    faults: list[Fault] = field(default_factory=list)
    compared: list[int] = field(default_factory=list)
    """The points at which the table was compared with the replica."""
    not_checked: dict[str, str] = field(default_factory=dict)
    """Checks that were not possible, and why."""

    @property
    def checks(self) -> dict[str, list[Fault]]:
        """Each check that was made, with what it found."""
        made = [check for check in (*CHECKS, EQUAL) if check not in self.not_checked]
        return {check: [fault for fault in self.faults if fault.check == check] for check in made}


def verify_topic(tables: Tables, pipeline: str, feed: Feed) -> VerifiedFeed:
    """Checks the records of a feed's topic that have not expired."""
    view = Topic(tables, pipeline, feed).view()
    if view.state is None:
        return VerifiedFeed(feed.name, not_checked=dict.fromkeys((*CHECKS, EQUAL), "nothing is published yet"))
    ends = view.state.offsets
    firsts = Topic(tables, pipeline, feed).earliest()
    records = view.records({one: (first, end) for one, (first, end) in enumerate(zip(firsts, ends, strict=True))})
    verified = _Verification(ReplicaStates(tables, pipeline, feed), feed, view.state)
    found = verified.run(records, {point: point for point in records["point"].unique().to_pylist()}, contiguous=True)
    last = dict.fromkeys(range(len(ends)), -1) | _last_offsets(records)
    for partition, end in enumerate(ends):
        if firsts[partition] <= last[partition] + 1 < end:
            why = f"{offsets_text(last[partition] + 1, end)} missing after it"
            found.faults.append(Fault(OFFSETS, partition, last[partition], why))
    return found


def verify_records(tables: Tables, pipeline: str, feed: Feed, received: Iterable[Received]) -> VerifiedFeed:
    """Checks all records that a consumer got, from the first one that the feed published, those of each partition in order.

    Their offsets may have gaps, also before the first: Kafka has them where transactions end or were taken back.
    """
    topic = Topic(tables, pipeline, feed)
    state = topic.state()
    if state is None:
        raise ValueError(f"feed {feed.name} has published nothing")
    points = _points_of_barriers(topic, state)
    rows, rounds = [], {}
    met: dict[int, int] = {}
    for partition, offset, key, value, headers in received:
        number = met.setdefault(partition, 0)
        pairs = [{"name": name, "value": content} for name, content in headers]
        rows.append((partition, offset, key, value, pairs, None, number))
        if key is None and value in points:
            rounds[number] = points[value]
            met[partition] += 1
    rounds[max(met.values(), default=0)] = state.point
    records = pa.Table.from_pylist([dict(zip(COLUMNS.names, row, strict=True)) for row in rows], COLUMNS)
    return _Verification(ReplicaStates(tables, pipeline, feed), feed, state).run(records, rounds, contiguous=False)


class _Verification:
    def __init__(self, replica: ReplicaStates, feed: Feed, state: FeedState) -> None:
        self._replica, self._feed, self._state = replica, feed, state
        self._decoders: dict[Shape, Decoder] = {}

    def run(self, records: pa.Table, points: Mapping[int, int], *, contiguous: bool) -> VerifiedFeed:
        """`point` of the records counts rounds here; `points` gives the point whose records end with a round."""
        found = VerifiedFeed(self._feed.name, records.num_rows)
        if not self._replica.shapes:
            why = "the table has no replica, which knows its columns"
            found.not_checked = dict.fromkeys((*CHECKS, EQUAL), why)
            return found
        table = RebuiltTable(self._feed.format, self._replica.shapes)
        reason = self._cannot_rebuild(records, contiguous)
        checks = RecordChecks(self._feed, table, reason is None, contiguous)
        for number, part in _rounds(records):
            before = sum(map(len, checks.barriers.values()))
            self._check(part, points.get(number), checks)
            ended = sum(map(len, checks.barriers.values())) > before
            point = points.get(number)
            if reason is None and ended and point is not None and point != self._state.point:
                self._compare(table, point, found)
        checks.finish()
        found.faults[:0] = checks.faults
        found.barriers = max(map(len, checks.barriers.values()), default=0)
        if reason is None and not self._compare(table, self._state.point, found):
            reason = f"the state of point {self._state.point} is not kept"
        if not found.compared and reason is not None:
            found.not_checked[EQUAL] = reason
        if not found.barriers:
            found.not_checked[SAME_BARRIERS] = "there are no barriers"
        if self._feed.mode not in ("OLD_IMAGE", "NEW_AND_OLD_IMAGES"):
            found.not_checked[IMAGES] = f"mode {self._feed.mode} shows none"
        return found

    def _check(self, records: pa.Table, point: int | None, checks: RecordChecks) -> None:
        shape = self._replica.shape_at(point)
        decode = self._decoder(shape)
        for start in range(0, records.num_rows, _BATCH):
            part = records.slice(start, _BATCH).combine_chunks()
            decoded = decode(_wire_records(part))
            changes: dict[tuple[int, int], list[int]] = {}
            origins = arrow_layouts.origins(decoded.changes)
            for place, origin in enumerate(origins):
                changes.setdefault((origin.partition or 0, origin.offset or 0), []).append(place)
            reasons = decoded.rejects.column("reason").to_pylist()
            rejected = {
                (origin.partition or 0, origin.offset or 0): reason
                for origin, reason in zip(arrow_layouts.origins(decoded.rejects), reasons, strict=True)
            }
            made = arrow_layouts.changes(decoded.changes)
            columns = (part.column(name).to_pylist() for name in ("partition", "offset", "value"))
            for partition, offset, value in zip(*columns, strict=True):
                checks.meet_record(partition, offset)
                if (partition, offset) in rejected:
                    checks.faults.append(Fault(READABLE, partition, offset, rejected[partition, offset]))
                for place in changes.pop((partition, offset), ()):
                    checks.meet(made[place], partition, offset, value, shape)

    def _decoder(self, shape: Shape) -> Decoder:
        if shape not in self._decoders:
            form = registry.get(self._feed.format)
            columns = tuple(Column(column.source_name, column.type) for column in shape.columns)
            key = tuple(column.source_name for column in shape.key_columns)
            schema = TableSchema(columns, key, self._feed.table)
            known = {one.name for one in msgspec.structs.fields(form.read_options)}
            own = {name: value for name, value in self._feed.options.items() if name in known}
            if form.name.startswith("ydb-") and "mode" in known:
                own["mode"] = self._feed.mode
            options = read_options(form, {**own, "table": self._feed.table, "key": key, "schemas": (schema,)})
            self._decoders[shape] = Decoder(form, options)
        return self._decoders[shape]

    def _cannot_rebuild(self, records: pa.Table, contiguous: bool) -> str | None:
        """Why the records do not make the table; None where they do."""
        feed, state = self._feed, self._state
        if feed.mode not in _REBUILDS or (feed.mode == "UPDATES" and not feed.shows_parts):
            return f"mode {feed.mode} does not show the rows"
        if feed.is_snapshot:
            return "only the rows of the initial scan are published"
        if contiguous:
            firsts = records.group_by("partition").aggregate([("offset", "min")])
            begun = dict(zip(firsts["partition"].to_pylist(), firsts["offset_min"].to_pylist(), strict=True))
            if any(end and begun.get(partition) != 0 for partition, end in enumerate(state.offsets)):
                return "the first records have expired"
        if state.rejected:
            return f"{state.rejected:,} changes were rejected, which the dialect cannot carry"
        if feed.initial_scan:
            return None if state.scan is not None and state.scan.is_done else "the initial scan is not complete"
        return self._replica.not_empty_at_start()

    def _compare(self, table: RebuiltTable, point: int, found: VerifiedFeed) -> bool:
        """Compares the table with the replica at a point; returns whether that is kept."""
        held = self._replica.rows_at(point)
        if held is None:
            return False
        rows, shape = held
        found.compared.append(point)
        names = [column.name for column in shape.columns]
        for why in _differences(table.rows(shape), stored_rows(rows, shape), names):
            found.faults.append(Fault(EQUAL, None, None, f"at point {point}: {why}"))
        return True


def _differences(made: Rows, stored: Rows, names: list[str]) -> Iterator[str]:
    wrong = [key for key in {**stored, **made} if made.get(key) != stored.get(key)]
    for key in sorted(wrong)[:_SHOWN]:
        shown = json_text.join_array(key).decode()
        here, there = made.get(key), stored.get(key)
        if here is None or there is None:
            yield f"the row {shown} is only in the {'replica' if here is None else 'records'}"
            continue
        differences = [
            f"{name} is {a.decode()} in the records and {b.decode()} in the replica"
            for name, a, b in zip(names, here, there, strict=True)
            if a != b
        ]
        yield f"the row {shown}: {', '.join(differences)}"
    if len(wrong) > _SHOWN:
        yield f"{len(wrong) - _SHOWN:,} more rows differ"


def _rounds(records: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """The records of each round, by partition and offset; in a partition, no record is in an earlier round than one before it."""
    if not records.num_rows:
        return
    ordered = records.sort_by([("partition", "ascending"), ("offset", "ascending")])
    partitions, rounds = (ordered.column(name).to_numpy() for name in ("partition", "point"))
    rounds = rounds.copy()
    for partition in np.unique(partitions):
        own = partitions == partition
        rounds[own] = np.maximum.accumulate(rounds[own])
    for number in np.unique(rounds).tolist():
        yield number, ordered.filter(pa.array(rounds == number))


def _wire_records(part: pa.Table) -> pa.RecordBatch:
    batch = part.to_batches()[0]
    nothing = pa.nulls(batch.num_rows, pa.string())
    parts = {"partition": batch.column("partition"), "offset": batch.column("offset"), "topic": nothing}
    origin = pa.StructArray.from_arrays(
        [parts.get(one.name, pa.nulls(batch.num_rows, one.type)) for one in arrow_layouts.ORIGIN],
        fields=list(arrow_layouts.ORIGIN),
    )
    columns = [batch.column("value"), batch.column("key"), batch.column("headers"), nothing, origin]
    return pa.record_batch(columns, schema=arrow_layouts.RECORDS)


def _last_offsets(records: pa.Table) -> dict[int, int]:
    ends = records.group_by("partition").aggregate([("offset", "max")])
    return dict(zip(ends["partition"].to_pylist(), ends["offset_max"].to_pylist(), strict=True))


def _points_of_barriers(topic: Topic, state: FeedState) -> dict[bytes, int]:
    """The point of each barrier that the topic still has, by the bytes of its record."""
    rows = topic.view().records({0: (0, state.offsets[0])})
    return {
        value: point
        for key, value, point in zip(*(rows[name].to_pylist() for name in ("key", "value", "point")), strict=True)
        if key is None and value is not None
    }
