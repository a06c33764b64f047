"""Publishes feeds, step 1: the changes of each new point become records of the feed's topic, in one commit a point.

What a feed has published is the replica at the feed's point: it completes the changes that follow. The state of the feed is in the
summary of each commit, so an interrupted run continues exactly where it was.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from time import time

import msgspec
import pyarrow as pa

from changeling.feeds.completion import Completed, Event, Incomplete, carried_keys, complete
from changeling.feeds.encode import FeedEncoder, ToPublish
from changeling.feeds.feed import Feed
from changeling.feeds.initial_scan import ScannedRows
from changeling.feeds.point_changes import NOWHERE, PointChanges, Stamp, Stamped, read_behind, read_point
from changeling.feeds.published_rows import check_key, is_rebuilt
from changeling.feeds.row_values import Row
from changeling.feeds.shared_reads import SharedReads
from changeling.feeds.table_changes import TableChanges
from changeling.feeds.topic import (
    RECORDS,
    STATE,
    VERSION,
    FeedState,
    ScanState,
    in_every_partition,
    rows_of,
    topic_table,
)
from changeling.formats.decoding import gc_paused
from changeling.iceberg.conditions import all_of, equals
from changeling.iceberg.failpoints import reach
from changeling.iceberg.parquet_files import Writer
from changeling.log import log_tables
from changeling.model.errors import ChangelingError
from changeling.model.operation import Operation
from changeling.replicas.points import Point, Points
from changeling.replicas.replica_reader import Identity, Replica
from changeling.replicas.shape import Columns, Shape

_IDLE_POINTS = 100
"""After this many points without a record, the feed's state is committed all the same."""


@dataclass(frozen=True)
class FeedReport:
    """The result of one commit."""

    feed: str
    point: int
    records: int
    changes: int = 0
    late: int = 0
    """Corrections among them."""
    rejected: int = 0
    scanned: bool = False
    """They are rows of the initial scan."""


class FeedPublisher:
    """Publishes one feed, whose table is known."""

    def __init__(self, shared: SharedReads, feed: Feed) -> None:
        if feed.source is None or feed.start is None:
            raise ChangelingError(f"feed {feed.name!r} is pending: its table is not known yet")
        self._shared, self.feed = shared, feed
        self._source, self._start = feed.source, feed.start
        self._topic = topic_table(feed.name)
        shared.topics.create([self._topic], VERSION)
        self.state = self._stored()
        self._committed = self.state.point
        self._scan: ScannedRows | None = None
        self._points: Mapping[int, Point] = {}

    def alter(self, feed: Feed) -> None:
        """Publishes with the options that the feed has now."""
        self.feed = feed

    def _stored(self) -> FeedState:
        for summary in self._shared.topics.summaries(self._topic, STATE):
            if STATE in summary:
                state = msgspec.json.decode(summary[STATE], type=FeedState)
                if state.id == self.feed.id:
                    return state
        scan = ScanState() if self.feed.initial_scan else None
        return FeedState(id=self.feed.id, point=self._start, offsets=[0] * self.feed.partitions, scan=scan)

    def step(self, points: Points, *, drain: bool = False) -> Iterator[FeedReport]:
        """Publishes every point that is new, and a part of the initial scan before each. `drain`: all of the scan, then a barrier."""
        if not (drain or self.is_scanning) and self.state.point == points.last.number:
            return
        first = min(self._start, self.state.point) if self.is_scanning else self.state.point
        self._points = {0: Point(), **{point.number: point for point in points.after(first - 1)}}
        if self.state.point not in self._points:
            raise ChangelingError(
                f"feed {self.feed.name!r} is at point {self.state.point}, which is no longer kept: drop it and create it again"
            )
        while True:
            scanned = self._scan_bucket()
            if scanned is not None:
                yield scanned
            before = self._points[self.state.point]
            after = self._next(points, before)
            if after is not None and (report := self._publish(before, after)) is not None:
                yield report
            if after is None and (scanned is None or not drain):
                break
        if drain and (report := self._last_barrier()) is not None:
            yield report

    @property
    def is_scanning(self) -> bool:
        """Whether rows of the initial scan are still to be published."""
        return self.state.scan is not None and not self.state.scan.is_done

    def _replica(self) -> Replica | None:
        return self._shared.replicas.known.get(Identity(self._source, self.feed.table))

    def _next(self, points: Points, before: Point) -> Point | None:
        """The next point; those whose replica is no longer kept are published together with the one after them."""
        if before.number >= points.last.number:
            return None
        replica = self._replica()
        there = set() if replica is None else self._shared.replicas.snapshots(replica)
        for point in points.after(before.number):
            snapshot = None if replica is None else replica.snapshot_in(point.tables)
            if snapshot is None or snapshot in there:
                return point
        return None

    def _publish(self, before: Point, after: Point) -> FeedReport | None:
        """Publishes one point; None where it has nothing for this feed."""
        replica = self._replica()
        numbers = [number for number in sorted(self._points) if before.number <= number <= after.number]
        changes = self._shared.changes(self._source, [self._points[number] for number in numbers])
        own = TableChanges(changes, self.feed)
        old, new = (None if replica is None else replica.snapshot_in(point.tables) for point in (before, after))
        state = msgspec.structs.replace(self.state, point=after.number)
        if replica is None or new is None or (not len(own) and old == new):
            barrier = self._due_barrier(changes.last.stamp)
            if replica is None or (barrier is None and after.number - self._committed < _IDLE_POINTS):
                self.state = state
                return None
            return self._commit(state, RECORDS.empty_table(), barrier, FeedReport(self.feed.name, after.number, 0))
        return self._publish_table(replica, own, changes, old, new, state)

    @gc_paused()
    def _publish_table(
        self, replica: Replica, own: TableChanges, changes: PointChanges, old: int | None, new: int, state: FeedState
    ) -> FeedReport:
        stored = self._shared.replicas.state_at(replica, new)
        columns = self._shared.inference.columns(self._source, self.feed.table, None)
        rebuilt, before = False, self._points[self.state.point]
        if old is not None:
            published = self._shared.replicas.state_at(replica, old)
            check_key(self.feed, published.shape, stored.shape)
            rebuilt = is_rebuilt(columns, published, stored, before.of(self._source).position or "")
        events = own.events(columns, stored.shape)
        rows = [event for event in events if isinstance(event, Event)]
        done = complete(
            rows,
            own.is_late,
            lambda keys: self._shared.rows(replica, old, stored.shape, keys),
            lambda keys: self._shared.rows(replica, new, stored.shape, keys),
            reads_are_published=self.feed.initial_scan,
            carried=None if rebuilt else self._carried(before, own, rows, columns, stored.shape),
        )
        if self.feed.mode != "KEYS_ONLY":
            done = done.without_touches()
        shown = [one for one in done.changes if one.op is Operation.READ or not self.feed.is_snapshot]
        outgoing = [*self._source_values(done.touched, done.published), *own.outgoing(shown)]
        if done.touched is None and state.scan is not None and not self.feed.is_snapshot:
            # All rows were met: those that the scan had not reached yet have just been published.
            state = msgspec.structs.replace(state, scan=ScanState(1, 1))
        encoder = FeedEncoder(self.feed, columns, stored.shape, stored.version)
        encoded = encoder.encode(outgoing, self._source, state.counts, state.changes)
        lacking = [event for event in events if isinstance(event, Incomplete)] + done.incomplete
        rejected = self._reject(pa.concat_tables([encoded.rejects, own.rejects(lacking)]), state.point)
        records = encoded.records
        if self.feed.schema_changes and state.schema not in (None, stored.version):
            first = outgoing[0].stamped.stamp if outgoing else changes.last.stamp
            value = encoder.schema_record(first, self._source, self._shared.version(stored.version))
            records = pa.concat_tables([in_every_partition(value, self.feed.partitions), records])
        state = msgspec.structs.replace(
            state,
            counts=encoded.counts,
            changes=encoded.changes,
            late=state.late + done.corrections,
            rejected=state.rejected + rejected,
            schema=stored.version,
        )
        report = FeedReport(self.feed.name, state.point, 0, len(shown), done.corrections, rejected)
        return self._commit(state, records, self._due_barrier(changes.last.stamp), report)

    def _carried(
        self, before: Point, own: TableChanges, events: Sequence[Event], columns: Columns, shape: Shape
    ) -> set[str]:
        """Keys moved by earlier changes, up to a point, to rows that late changes touch."""
        first = own.first_late()
        if first is None:
            return set()
        behind = read_behind(self._shared.tables, self._source, before, first)
        known = TableChanges(behind, self.feed).events(columns, shape)
        late = [event for event in events if own.is_late(event)]
        return carried_keys(late, [event for event in known if isinstance(event, Event)])

    # Barriers.

    def _due_barrier(self, stamp: Stamp, *, drain: bool = False) -> Stamp | None:
        """The barrier that follows a transaction, if one is due."""
        state, interval = self.state, self.feed.barriers_interval
        if interval is None or self.is_scanning:
            return None
        if state.barrier is None:
            return stamp
        is_due = drain or time() - state.barrier_at >= interval
        return stamp if is_due and tuple(stamp) > state.barrier else None

    def _last_barrier(self) -> FeedReport | None:
        point = self._points[self.state.point]
        stamp = self._due_barrier(self._shared.reached(self._source, point).stamp, drain=True)
        if stamp is None or self._replica() is None:
            return None
        return self._commit(self.state, RECORDS.empty_table(), stamp, FeedReport(self.feed.name, point.number, 0))

    # The initial scan.

    @gc_paused()
    def _scan_bucket(self) -> FeedReport | None:
        """Publishes the next part of the initial scan: the rows of the start point that did not change since."""
        if self.state.scan is None or self.state.scan.is_done:
            return None
        scan, replica, start = self._scanning(), self._replica(), self._points[self._start]
        snapshot = None if replica is None else replica.snapshot_in(start.tables)
        buckets = self.state.scan.buckets or scan.buckets()
        rows = scan.bucket(self.state.scan.next, buckets)
        state = msgspec.structs.replace(self.state, scan=ScanState(buckets, self.state.scan.next + 1))
        report = FeedReport(self.feed.name, state.point, 0, len(rows), scanned=True)
        records = RECORDS.empty_table()
        if replica is not None and snapshot is not None:
            reached, moment = self._shared.reached(self._source, start), start.of(self._source).commit_time
            outgoing = [
                ToPublish(Completed(key, Operation.READ, None, row, None), Stamped(*reached, order), moment)
                for order, (key, row) in enumerate(rows.items())
            ]
            columns = self._shared.inference.columns(self._source, self.feed.table, None)
            stored = self._shared.replicas.state_at(replica, snapshot)
            encoder = FeedEncoder(self.feed, columns, stored.shape, stored.version)
            encoded = encoder.encode(outgoing, self._source, state.counts, state.changes)
            rejected = self._reject(encoded.rejects, state.point, f"scan {self.state.scan.next}")
            report, records = replace(report, rejected=rejected), encoded.records
            state = msgspec.structs.replace(
                state, counts=encoded.counts, changes=encoded.changes, rejected=state.rejected + rejected
            )
        reach("scan.before")
        made = self._commit(state, records, None, report)
        reach("scan.after")
        if not self.is_scanning:
            self._scan = None
        return made

    def _scanning(self) -> ScannedRows:
        """The rows to scan, and the keys that changed since the start, as far as the feed is."""
        if self._scan is None:
            replica, start = self._replica(), self._points[self._start]
            snapshot = None if replica is None else replica.snapshot_in(start.tables)
            rows: dict[str, Row] = {}
            touched: set[str] = set()
            if replica is not None and snapshot is not None:
                shape = self._shared.replicas.state_at(replica, snapshot).shape
                rows = self._shared.rows(replica, snapshot, shape, None)
            if replica is not None and not self.feed.is_snapshot:
                touched = self._touched(replica.shape)
            self._scan = ScannedRows(rows, touched, self.feed.partitions)
        return self._scan

    def _touched(self, shape: Shape) -> set[str]:
        """The keys of the rows that the points since the start have touched, as each of them was published."""
        columns = self._shared.inference.columns(self._source, self.feed.table, None)
        numbers = [number for number in sorted(self._points) if self._start <= number <= self.state.point]
        touched: set[str] = set()
        for before, after in pairwise(self._points[number] for number in numbers):
            changes = read_point(self._shared.tables, self._source, before, after, NOWHERE)
            own = TableChanges(changes, self.feed)
            events = [event for event in own.events(columns, shape) if isinstance(event, Event)]
            touched.update(key for event in events for key in event.keys)
            touched |= self._carried(before, own, events, columns, shape)
        return touched

    def _source_values(self, keys: frozenset[str] | None, published: Mapping[str, Row]) -> Iterator[ToPublish]:
        """The rows of the initial scan that are met before it reached them (all with None): each is published before its changes."""
        if self.state.scan is None or self.state.scan.is_done or self.feed.is_snapshot:
            return
        scan, start = self._scanning(), self._points[self._start]
        reached, moment = self._shared.reached(self._source, start), start.of(self._source).commit_time
        for key in sorted(published if keys is None else keys):
            if scan.touch(key, self.state.scan) and key in published:
                yield ToPublish(
                    Completed(key, Operation.INSERT, None, published[key], None), Stamped(*reached, 0), moment
                )

    # What a commit stores.

    def _reject(self, rejects: pa.Table, point: int, part: str = "") -> int:
        """Keeps changes that cannot be published; those that an interrupted step kept already are not kept twice."""
        if not rejects.num_rows:
            return 0
        moment, name = datetime.now(UTC), f"feed {self.feed.name}"
        place = f"{name} of {self.feed.id}, point {point}{part and ', '}{part}"
        given = rejects.select(["reason", "origin", "raw", "key", "headers", "topic"]).to_pylist()
        rows: list[dict[str, object]] = [
            {**row, "id": f"{place}, {number}", "source": name, "batch": point, "ingested_at": moment}
            for number, row in enumerate(given)
        ]
        own = all_of([equals("source", name), equals("batch", point)])
        known = set(self._shared.tables.rows(log_tables.REJECTS, own, ("id",)).column("id").to_pylist())
        fresh = [row for row in rows if row["id"] not in known]
        if fresh:
            self._shared.lake.append_rows(log_tables.REJECTS, fresh, moment)
        return len(rows)

    def _commit(self, state: FeedState, records: pa.Table, barrier: Stamp | None, report: FeedReport) -> FeedReport:
        """Appends records, and where one is due a barrier to every partition, with the state of the feed after them."""
        replica = self._replica()
        if barrier is not None and replica is not None:
            columns = self._shared.inference.columns(self._source, self.feed.table, None)
            encoder = FeedEncoder(self.feed, columns, replica.state.shape, replica.state.version)
            value = encoder.barrier(barrier, self._source)
            records = pa.concat_tables([records, in_every_partition(value, self.feed.partitions)])
            state = msgspec.structs.replace(state, barrier=(barrier.step, barrier.number), barrier_at=int(time()))
        moment = datetime.now(UTC)
        rows, ends = rows_of(records, state.offsets, moment, state.point)
        state = msgspec.structs.replace(state, offsets=ends)
        writer = Writer(self._shared.topics.write_spec(self._topic, moment))
        for batch in rows.to_batches():
            writer.write(batch)
        files = writer.close()
        reach("feed.before")
        self._shared.topics.append(self._topic, files, moment, {STATE: msgspec.json.encode(state).decode()})
        reach("feed.after")
        self.state, self._committed = state, state.point
        return replace(report, records=rows.num_rows)
