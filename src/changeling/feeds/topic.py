"""The topic of a feed: a table of the lake with the published records, and the state of the feed in each of its commits.

Every feed has one, whatever it is copied to afterwards. Offsets count from 0 in each partition, without gaps.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pyarrow as pa
from pyiceberg.expressions import And, BooleanExpression, GreaterThanOrEqual, LessThan

from changeling.feeds.feed import Feed
from changeling.formats.format import Counts
from changeling.iceberg.conditions import equals
from changeling.iceberg.reader import Tables
from changeling.iceberg.table import Table
from changeling.model import layout

VERSION = 1
STATE = "changeling.feed"
MOMENT = pa.timestamp("us", "UTC")
COLUMNS = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", layout.HEADERS),
        ("published_at", MOMENT),
        ("point", pa.int64()),
    ]
)
"""A null `value` is a tombstone. `point` is the one that brought the record."""


class ScanState(msgspec.Struct, frozen=True):
    """How far the initial scan is."""

    buckets: int
    """Into how many parts the keys are divided."""
    next: int = 0
    """The part that is published next."""

    @property
    def is_done(self) -> bool:
        """All parts are published."""
        return self.next >= self.buckets


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


def topic_table(name: str) -> Table:
    """The table of a feed's topic, in the namespace of `topics_of`."""
    return Table(name, COLUMNS, sort=("partition", "offset"))


def namespace_of(pipeline: str) -> str:
    """The namespace of the topics of a pipeline."""
    return f"{pipeline}_feeds"


class Topic:
    """The topic of one feed, to read without Spark. One that has no table yet is empty."""

    def __init__(self, tables: Tables, pipeline: str, feed: Feed) -> None:
        self._tables = tables.in_namespace(namespace_of(pipeline))
        self._table, self._feed = topic_table(feed.name), feed

    def state(self) -> FeedState | None:
        """The state of the feed; None as long as nothing was committed."""
        for summary in self._tables.summaries(self._table, STATE):
            if STATE in summary:
                state = msgspec.json.decode(summary[STATE], type=FeedState)
                return state if state.id == self._feed.id else None
        return None

    def earliest(self, now: datetime | None = None) -> list[int]:
        """The first offset of each partition that has not expired; the next one to be written where all have."""
        state = self.state()
        if state is None:
            return [0] * self._feed.partitions
        kept = self._tables.rows(self._table, self._unexpired(now), ("partition", "offset"))
        firsts = list(state.offsets)
        if kept.num_rows:
            found = kept.group_by("partition").aggregate([("offset", "min")])
            for partition, offset in zip(
                *(found.column(name).to_pylist() for name in ("partition", "offset_min")), strict=True
            ):
                firsts[partition] = offset
        return firsts

    def records(
        self, partition: int, first: int, until: int, *, expired: bool = False, now: datetime | None = None
    ) -> pa.Table:
        """The records of a partition from one offset to before another, in order; those that have expired only where asked for."""
        where: BooleanExpression = And(
            equals("partition", partition), _at_least("offset", first), _below("offset", until)
        )
        if not expired and (kept := self._unexpired(now)) is not None:
            where = And(where, kept)
        return self._tables.rows(self._table, where).select(COLUMNS.names).cast(COLUMNS).sort_by("offset")

    def parts(self, partition: int, first: int, until: int, most: int, *, expired: bool = False) -> Iterator[pa.Table]:
        """The same in parts of at most so many records."""
        for start in range(first, until, most):
            yield self.records(partition, start, min(start + most, until), expired=expired)

    def _unexpired(self, now: datetime | None) -> BooleanExpression | None:
        if self._feed.retention is None:
            return None
        return _at_least("published_at", (now or datetime.now(UTC)) - timedelta(seconds=self._feed.retention))


def _at_least(column: str, value: Any) -> BooleanExpression:
    if isinstance(value, datetime):
        value = value.isoformat()
    return GreaterThanOrEqual(column, value)  # type: ignore[call-arg, arg-type]


def _below(column: str, value: Any) -> BooleanExpression:
    return LessThan(column, value)  # type: ignore[call-arg, arg-type]
