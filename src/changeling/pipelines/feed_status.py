"""The status of feeds: what each has published, its lag, and its last error. Needs no Spark."""

from collections.abc import Mapping
from typing import Any

from changeling.feeds.feed import Feed
from changeling.feeds.topic import FeedState, Topic
from changeling.iceberg.reader import Tables
from changeling.pipelines.lag import behind
from changeling.replicas.points import Points


def feed_status(
    tables: Tables, pipeline: str, feeds: list[Feed], points: Points, errors: Mapping[str, str]
) -> list[dict[str, Any]]:
    """One object for each feed."""
    return [_status(Topic(tables, pipeline, feed), points, errors.get(feed.name)) for feed in feeds]


def _status(topic: Topic, points: Points, error: str | None) -> dict[str, Any]:
    feed, view = topic.feed, topic.view()
    state = view.state
    point = feed.start if state is None else state.point
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


def _scanned(feed: Feed, state: FeedState | None) -> float | None:
    """How much of the initial scan is done, from 0 to 1; None without one."""
    if not feed.initial_scan:
        return None
    if state is None or state.scan is None:
        return 0.0
    return 1.0 if state.scan.is_done else state.scan.next / max(1, state.scan.buckets)
