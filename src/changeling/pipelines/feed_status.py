"""The status of feeds: what each has published, its lag, and its last error. Needs no Spark."""

from collections.abc import Mapping
from typing import Any

from changeling.feeds.feed import Feed
from changeling.feeds.topic import FeedState, Topic
from changeling.iceberg.reader import Tables
from changeling.pipelines.lag import behind
from changeling.replicas.points import Points
from changeling.replicas.replica_reader import Identity, Replica


def feed_status(
    tables: Tables,
    pipeline: str,
    feeds: list[Feed],
    points: Points,
    held: Mapping[Identity, Replica],
    errors: Mapping[str, str],
) -> list[dict[str, Any]]:
    """One object for each feed; `held` are the replicas of tables."""
    found = []
    for feed in feeds:
        replica = None if feed.source is None else held.get(Identity(feed.source, feed.table))
        found.append(_status(Topic(tables, pipeline, feed), points, replica, errors.get(feed.name)))
    return found


def _status(topic: Topic, points: Points, replica: Replica | None, error: str | None) -> dict[str, Any]:
    feed, view = topic.feed, topic.view()
    state = view.state
    point = feed.start if state is None else state.point
    if point is not None:
        point = _nothing_until(points, point, replica)
    missing, seconds = (None, None) if point is None else behind(points, point)
    return {
        "kind": "feed",
        "name": feed.name,
        "source": feed.source,
        "table": str(feed.table),
        "format": feed.format,
        "mode": feed.mode,
        "topic": feed.topic,
        "status": feed.status,
        "point": point,
        "published": None if state is None else sum(state.offsets),
        "applied": None if state is None else state.changes,
        "rejected": None if state is None else state.rejected,
        "late": None if state is None else state.late,
        "lag_points": missing,
        "lag_seconds": seconds,
        "rate": view.rate(),
        "barrier": None if state is None or state.barrier is None else list(state.barrier),
        "scanned": _scanned(feed, state),
        **dict.fromkeys(("read", "accepted", "stale")),
        "last_error": error,
    }


def _nothing_until(points: Points, reached: int, replica: Replica | None) -> int:
    """The last point up to which the table is as a feed has published it: a feed seldom stores that it passed such points."""
    start = points.at(reached)
    if replica is None or start is None:
        return reached
    published = replica.snapshot_in(start.tables)
    for point in points.after(reached):
        if replica.snapshot_in(point.tables) != published:
            break
        reached = point.number
    return reached


def _scanned(feed: Feed, state: FeedState | None) -> float | None:
    """How much of the initial scan is done, from 0 to 1; None without one."""
    if not feed.initial_scan:
        return None
    if state is None or state.scan is None:
        return 0.0
    return 1.0 if state.scan.is_done else state.scan.next / max(1, state.scan.buckets)
