"""The topic of a feed: a table of the lake with the published records, and the state of the feed in each of its commits.

Every feed has one, whatever it is copied to afterwards. Offsets count from 0 in each partition, without gaps.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, Or
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import FileScanTask
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.snapshots import Operation
from pyiceberg.types import NestedField

from changeling.feeds.feed import Feed
from changeling.formats.format import Counts
from changeling.iceberg.conditions import at_least, below, equals
from changeling.iceberg.reader import Tables, summaries_of
from changeling.iceberg.table_definition import TableDefinition
from changeling.model import arrow_layouts

VERSION = 1
STATE = "changeling.feed"
_MINUTE_MILLIS = 60_000
MOMENT = pa.timestamp("us", "UTC")
COLUMNS = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", arrow_layouts.HEADERS),
        ("published_at", MOMENT),
        ("point", pa.int64()),
    ]
)
"""A null `value` is a tombstone. `point` is the one that brought the record."""
RECORDS = pa.schema([COLUMNS.field(name) for name in ("partition", "key", "value", "headers")])
"""Records before they have offsets."""


class ScanState(msgspec.Struct, frozen=True):
    """How far the initial scan is."""

    buckets: int = 0
    """Into how many parts the keys are divided; 0 before it began."""
    next: int = 0
    """The part that is published next."""

    @property
    def is_done(self) -> bool:
        """All parts are published."""
        return 0 < self.buckets <= self.next


class FeedState(msgspec.Struct, frozen=True, kw_only=True):
    """How far a feed is: the summary of each commit to its topic contains it."""

    id: str
    """The feed's."""
    point: int
    """All changes up to this point are published."""
    offsets: list[int]
    """The next offset of each partition."""
    changes: int = 0
    """Changes that were published, in all."""
    counts: Counts = Counts()
    """The same by kind."""
    late: int = 0
    """Corrections that were published for what came late."""
    rejected: int = 0
    """Changes that the dialect cannot carry."""
    barrier: tuple[int, int] | None = None
    """The last one."""
    barrier_at: int = 0
    """When it was written, in seconds since 1970."""
    schema: int | None = None
    """The version of the last schema record."""
    scan: ScanState | None = None
    """None without an initial scan."""


def topic_table(name: str) -> TableDefinition:
    """The table of a feed's topic, in the namespace of `namespace_of`."""
    return TableDefinition(name, COLUMNS, sort=("partition", "offset"), without_bounds=frozenset({"value"}))


def namespace_of(pipeline: str) -> str:
    """The namespace of the topics of a pipeline."""
    return f"{pipeline}_feeds"


def is_of_another(tables: Tables, pipeline: str, feed: Feed) -> bool:
    """Whether the topic has the records of an earlier feed of this name."""
    for summary in tables.in_namespace(namespace_of(pipeline)).summaries(topic_table(feed.name), STATE):
        if STATE in summary:
            return msgspec.json.decode(summary[STATE], type=FeedState).id != feed.id
    return False


def in_every_partition(value: bytes, partitions: int) -> pa.Table:
    """A record of layout `RECORDS` without a key, once in each partition."""
    return pa.table(
        [
            pa.array(range(partitions), pa.int32()),
            pa.nulls(partitions, pa.binary()),
            pa.array([value] * partitions, pa.binary()),
            pa.nulls(partitions, arrow_layouts.HEADERS),
        ],
        schema=RECORDS,
    )


def rows_of(records: pa.Table, offsets: Sequence[int], moment: datetime, point: int) -> tuple[pa.Table, list[int]]:
    """Records of layout `RECORDS` as rows of the topic, from the next offsets on, and the next offsets after them."""
    partitions = records.column("partition").to_numpy()
    order = np.argsort(partitions, kind="stable")
    counts = np.bincount(partitions, minlength=len(offsets))
    # The place of a row behind the first one of its partition, and the offset of that one.
    numbers = np.arange(len(order)) + np.repeat(np.asarray(offsets) - (np.cumsum(counts) - counts), counts)
    ordered = records.take(pa.array(order)) if len(offsets) > 1 else records
    columns = {
        **dict(zip(records.column_names, ordered.columns, strict=True)),
        "offset": pa.array(numbers, pa.int64()),
        "published_at": pa.repeat(pa.scalar(moment, MOMENT), len(order)),
        "point": pa.repeat(pa.scalar(point, pa.int64()), len(order)),
    }
    ends = [first + count for first, count in zip(offsets, counts.tolist(), strict=True)]
    return pa.table([columns[name] for name in COLUMNS.names], schema=COLUMNS), ends


class Topic:
    """The topic of one feed, to read without Spark. One that has no table yet is empty."""

    def __init__(self, tables: Tables, pipeline: str, feed: Feed) -> None:
        self._tables = tables.in_namespace(namespace_of(pipeline))
        self.feed = feed

    def view(self, after: "TopicView | None" = None) -> "TopicView":
        """The topic as it is now; with `after`, its files are those that came after an earlier view, where that is known."""
        return TopicView(self._tables.load(self.feed.name), self.feed, after)

    def state(self) -> FeedState | None:
        """The state of the feed; None as long as nothing was committed."""
        return self.view().state

    def earliest(self, now: datetime | None = None) -> list[int]:
        """The first offset of each partition that has not expired; the next one to be written where all have."""
        view = self.view()
        return view.firsts(unexpired_since(self.feed, now))

    def records(
        self, partition: int, first: int, until: int, *, expired: bool = False, now: datetime | None = None
    ) -> pa.Table:
        """The records of a partition from one offset to before another, in order; those that have expired only where asked for."""
        return self.view().records({partition: (first, until)}, None if expired else unexpired_since(self.feed, now))

    def parts(self, partition: int, first: int, until: int, most: int, *, expired: bool = False) -> Iterator[pa.Table]:
        """The same in parts of at most `most` records."""
        view = self.view()
        for start in range(first, until, most):
            since = None if expired else unexpired_since(self.feed)
            yield view.records({partition: (start, min(start + most, until))}, since)

    def spans(self, firsts: Sequence[int], untils: Sequence[int]) -> pa.Table:
        """The records of all partitions, each from an offset to before another, by partition and offset; expired ones as well."""
        return self.view().records(_ranges(firsts, untils))

    def kept(self, firsts: Sequence[int], untils: Sequence[int]) -> list[int]:
        """The first offset of each such span that is still there, or its end."""
        least = self.spans(firsts, untils).group_by("partition").aggregate([("offset", "min")])
        found = dict(zip(least["partition"].to_pylist(), least["offset_min"].to_pylist(), strict=True))
        return [found.get(partition, until) for partition, until in enumerate(untils)]


def _ranges(firsts: Sequence[int], untils: Sequence[int]) -> dict[int, tuple[int, int]]:
    pairs = enumerate(zip(firsts, untils, strict=True))
    return {partition: (first, until) for partition, (first, until) in pairs if first < until}


class TopicView:
    """A topic as it is in one snapshot: its files are listed once, and those without wanted records are not opened."""

    def __init__(self, table: IcebergTable | None, feed: Feed, after: "TopicView | None" = None) -> None:
        self._table, self._feed, self._after = table, feed, after
        current = None if table is None else table.current_snapshot()
        self.snapshot = None if current is None else current.snapshot_id
        """None where nothing was committed."""

    @functools.cached_property
    def state(self) -> FeedState | None:
        """The state of the feed; None as long as nothing was committed."""
        if self._table is None:
            return None
        for summary in summaries_of(self._table, STATE):
            if STATE in summary:
                state = msgspec.json.decode(summary[STATE], type=FeedState)
                return state if state.id == self._feed.id else None
        return None

    def rate(self) -> float | None:
        """Records a second in the last minute in which some were published; None where there were too few commits."""
        if self._table is None or self.state is None:
            return None
        newest: tuple[int, int] | None = None
        before: tuple[int, int] | None = None
        snapshot = self._table.current_snapshot()
        while snapshot is not None:
            summary = {} if snapshot.summary is None else snapshot.summary.additional_properties
            if STATE in summary:
                count = sum(msgspec.json.decode(summary[STATE], type=FeedState).offsets)
                newest = newest or (snapshot.timestamp_ms, count)
                if snapshot.timestamp_ms < newest[0] - _MINUTE_MILLIS:
                    break
                before = (snapshot.timestamp_ms, count)
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else self._table.snapshot_by_id(parent)
        if newest is None or before is None or newest[0] == before[0]:
            return None
        return (newest[1] - before[1]) * 1000 / (newest[0] - before[0])

    def firsts(self, since: datetime | None) -> list[int]:
        """The first offset of each partition that was published at a time or later; the next one to be written without any."""
        if self.state is None:
            return [0] * self._feed.partitions
        found: dict[int, int] = {}
        where = None if since is None else at_least("published_at", since.isoformat())
        for file in sorted(self._files, key=lambda file: file.first):
            if len(found) == len(self.state.offsets) and file.first >= max(found.values()):
                break
            rows = self._rows([file], where, ("partition", "offset"))
            least = rows.group_by("partition").aggregate([("offset", "min")])
            for partition, offset in zip(least["partition"].to_pylist(), least["offset_min"].to_pylist(), strict=True):
                found[partition] = min(offset, found.get(partition, offset))
        return [found.get(partition, end) for partition, end in enumerate(self.state.offsets)]

    def records(self, ranges: Mapping[int, tuple[int, int]], since: datetime | None = None) -> pa.Table:
        """The records of each partition from one offset to before another, by partition and offset.

        With `since`, without those that were published earlier.
        """
        if self.state is None or not ranges:
            return COLUMNS.empty_table()
        parts = [
            And(equals("partition", one), at_least("offset", a), below("offset", b)) for one, (a, b) in ranges.items()
        ]
        where: BooleanExpression = Or(*parts) if len(parts) > 1 else parts[0]
        if since is not None:
            where = And(where, at_least("published_at", since.isoformat()))
        files = [file for file in self._files if any(file.may_have(a, b) for a, b in ranges.values())]
        rows = self._rows(files, where, tuple(COLUMNS.names))
        return rows.select(COLUMNS.names).cast(COLUMNS).sort_by([("partition", "ascending"), ("offset", "ascending")])

    def count(self, ranges: Mapping[int, tuple[int, int]]) -> int:
        """How many records the files have that these ranges are in."""
        return sum(
            file.task.file.record_count for file in self._files if any(file.may_have(*one) for one in ranges.values())
        )

    @functools.cached_property
    def _files(self) -> list["_File"]:
        if self._table is None:
            return []
        offset = self._table.schema().find_field("offset")
        added = self._added() if self._after is not None else None
        return [_File(task, offset) for task in (self._table.scan().plan_files() if added is None else added)]

    def _added(self) -> list[FileScanTask] | None:
        """The files that snapshots since the earlier view have added; None where one of them is gone."""
        assert self._table is not None
        assert self._after is not None
        found: list[FileScanTask] = []
        snapshot = self._table.current_snapshot()
        while snapshot is not None and snapshot.snapshot_id != self._after.snapshot:
            if snapshot.summary is not None and snapshot.summary.operation is Operation.APPEND:
                for manifest in snapshot.manifests(self._table.io):
                    if manifest.added_snapshot_id == snapshot.snapshot_id:
                        entries = manifest.fetch_manifest_entry(self._table.io)
                        found += [
                            FileScanTask(one.data_file) for one in entries if one.status is ManifestEntryStatus.ADDED
                        ]
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else self._table.snapshot_by_id(parent)
        return found if snapshot is not None else None

    def _rows(self, files: list["_File"], where: BooleanExpression | None, columns: tuple[str, ...]) -> pa.Table:
        assert self._table is not None
        schema = self._table.schema().select(*columns)
        scan = ArrowScan(self._table.metadata, self._table.io, schema, where or AlwaysTrue())
        return scan.to_table([file.task for file in files])


class _File:
    """A file of a topic with the offsets that it has, over all of its partitions."""

    def __init__(self, task: FileScanTask, offset: NestedField) -> None:
        self.task = task
        lower, upper = task.file.lower_bounds or {}, task.file.upper_bounds or {}
        number = offset.field_id
        self.first = _integer(lower.get(number)) or 0
        self._last = _integer(upper.get(number))

    def may_have(self, first: int, until: int) -> bool:
        """Whether offsets from one to before another may be in it."""
        return self.first < until and (self._last is None or self._last >= first)


def _integer(bound: bytes | None) -> int | None:
    return None if bound is None else int.from_bytes(bound, "little", signed=True)


def offsets_text(first: int, until: int) -> str:
    """Offsets from one to before another, for people, with their verb."""
    return f"offset {first} is" if until == first + 1 else f"offsets {first} to {until - 1} are"


def unexpired_since(feed: Feed, now: datetime | None = None) -> datetime | None:
    """Records that were published before this time have expired; None where they stay forever."""
    if feed.retention is None:
        return None
    return (now or datetime.now(UTC)) - timedelta(seconds=feed.retention)
