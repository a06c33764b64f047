"""Retention: removes what has expired from the topics of feeds. Readers do not see it in any case.

Offsets continue to grow: the next ones are in the state of a feed, which stays reachable by its tag.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from changeling.feeds.consumers import CONSUMERS
from changeling.feeds.definitions import FEEDS
from changeling.feeds.feed import Feed
from changeling.feeds.topic import STATE, Topic, namespace_of, topic_table, unexpired_since
from changeling.iceberg.failpoints import reach
from changeling.iceberg.lake import Lake
from changeling.iceberg.reader import Tables
from changeling.iceberg.table_definition import TableDefinition
from changeling.log.maintenance import KEEP_SNAPSHOTS, Done, compact, remove_orphans

_ORPHANS_AFTER = timedelta(days=3)
_MANY_SNAPSHOTS = 500
"""Every commit writes their list."""
_WITHOUT_SPARK = (CONSUMERS, FEEDS)
"""Tables that are written without Spark, which leaves the files of former snapshots behind."""


def expire(lake: Lake, feed: Feed, now: datetime | None = None) -> int:
    """Drops the files of a topic of which everything has expired, and old snapshots where there are many; returns how many files.

    A run does so now and then: nothing is rewritten, and no job is started.
    """
    topics, table = lake.in_namespace(namespace_of(lake.namespace)), topic_table(feed.name)
    before = unexpired_since(feed, now)
    if not topics.has(table):
        return 0
    dropped = 0 if before is None else topics.repeated(lambda: _drop_files(topics, table, before))
    if topics.load(table).operations().current().snapshots().size() > _MANY_SNAPSHOTS:
        expire_snapshots(lake, feed, datetime.now(UTC) - KEEP_SNAPSHOTS)
    return dropped


def _delete_rows(topics: Lake, feed: Feed) -> None:
    """Deletes the expired records from files that have others as well, which compaction makes."""
    before = unexpired_since(feed)
    if before is not None:
        text = f"{before.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}+00:00"
        topics.retried(f"DELETE FROM {topics.name(topic_table(feed.name))} WHERE published_at < TIMESTAMP '{text}'")


def _drop_files(topics: Lake, table: TableDefinition, before: datetime) -> int:
    iceberg = topics.jvm.org.apache.iceberg
    iceberg_table = topics.load(table)
    limit = int(before.timestamp() * 1_000_000)
    column = iceberg_table.schema().findField("published_at")
    expired = iceberg.expressions.Expressions.lessThan("published_at", limit)
    commit, dropped = iceberg_table.newDelete(), 0
    tasks = iceberg_table.newScan().filter(expired).includeColumnStats().planFiles()
    try:
        rest = tasks.iterator()
        while rest.hasNext():
            file = rest.next().file()
            last = _upper_bound(iceberg, file, column)
            if last is not None and last < limit:
                commit, dropped = commit.deleteFile(file), dropped + 1
    finally:
        tasks.close()
    if dropped:
        reach("retention.before")
        commit.commit()
        reach("retention.after")
    return dropped


def _upper_bound(iceberg: Any, file: Any, column: Any) -> int | None:
    bounds = file.upperBounds()
    bound = None if bounds is None else bounds.get(column.fieldId())
    return None if bound is None else int(iceberg.types.Conversions.fromByteBuffer(column.type(), bound))


def needed_points(tables: Tables, pipeline: str, feeds: Sequence[Feed]) -> set[int]:
    """The points that feeds stand on: their replicas, and the log behind them, must be kept."""
    found: set[int] = set()
    for feed in feeds:
        if feed.status != "enabled" or feed.start is None:
            continue
        state = Topic(tables, pipeline, feed).state()
        found.add(feed.start if state is None else state.point)
        if feed.initial_scan and (state is None or state.scan is None or not state.scan.is_done):
            found.add(feed.start)
    return found


def maintain(lake: Lake, feeds: Sequence[Feed], keep_snapshots: timedelta = KEEP_SNAPSHOTS) -> list[Done]:
    """Maintains the topics of feeds, and the tables with the feeds and their consumers."""
    topics = lake.in_namespace(namespace_of(lake.namespace))
    now = datetime.now(UTC)
    there = set(topics.names())
    done = [_maintain(lake, topics, feed, now - keep_snapshots) for feed in feeds if feed.name in there]
    own = set(lake.names())
    return [*done, *(_cleared(lake, table, now - keep_snapshots) for table in _WITHOUT_SPARK if table.name in own)]


def expire_snapshots(lake: Lake, feed: Feed, before: datetime) -> int:
    """Expires the snapshots of a topic, but not the state of the feed; returns how many there were."""
    topics, table = lake.in_namespace(namespace_of(lake.namespace)), topic_table(feed.name)
    # We may commit nothing between these two: it would hide a state that was committed in between.
    topics.tag_newest(table, STATE, STATE)
    return topics.expire(table, before)


def _maintain(lake: Lake, topics: Lake, feed: Feed, keep_since: datetime) -> Done:
    table = topic_table(feed.name)
    before = topics.size(table)
    dropped = expire(lake, feed)
    _delete_rows(topics, feed)
    rewritten = compact(topics, table)
    expired = expire_snapshots(lake, feed, keep_since)
    orphans = remove_orphans(topics, table, datetime.now(UTC) - _ORPHANS_AFTER)
    after = topics.size(table).files
    return Done(f"{topics.namespace}.{table.name}", before.files, after, rewritten, expired, dropped, orphans)


def _cleared(lake: Lake, table: TableDefinition, keep_since: datetime) -> Done:
    files = lake.size(table).files
    expired = lake.expire(table, keep_since)
    orphans = remove_orphans(lake, table, datetime.now(UTC) - _ORPHANS_AFTER)
    return Done(table.name, files, files, 0, expired, 0, orphans)
