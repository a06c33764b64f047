"""Maintenance of replicas: compacts small files and deletions into large files, and keeps the points that retention asks for.

A tag keeps the snapshot of a point. All of the last hour stay, one of each hour of the last day, and one of each day of the
retention: the states that as-of begins with.
"""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from changeling.iceberg.lake import Lake
from changeling.log import log_tables
from changeling.log.maintenance import KEEP_SNAPSHOTS, Done, compact, remove_orphans
from changeling.replicas.points import Point, points_of
from changeling.replicas.replica_reader import Replica
from changeling.replicas.staging_folder import remove_leftovers
from changeling.replicas.tables import ReplicaTables

TAG = "point-"
_ORPHANS_AFTER = timedelta(days=3)
_MERGED_FOR = timedelta(days=1)


def merged_until(lake: Lake, needed: Collection[int] = ()) -> datetime:
    """The time from which on changes may not be in every replica or feed yet: the log must keep them, whatever their age.

    `needed` are the points that feeds are at.
    """
    points = points_of(lake)
    waiting = [point.made_at for point in points.all() if point.number in needed]
    return min([points.last.made_at, *waiting]) - _MERGED_FOR


def maintain(
    lake: Lake, retention: timedelta, keep_snapshots: timedelta = KEEP_SNAPSHOTS, needed: Collection[int] = ()
) -> list[Done]:
    """Maintains every replica of a pipeline, and removes what their folds left alongside the points. Points that are `needed` stay."""
    if not lake.has(log_tables.CHANGES):
        return []
    now = datetime.now(UTC)
    points = points_of(lake)
    kept = chosen(points.all(), now, retention, keep_snapshots, needed)
    tables = ReplicaTables(lake)
    done = [_maintain(tables, replica, kept, now, keep_snapshots) for replica in tables.known.values()]
    _forget_points(lake, now - retention, needed)
    return [*done, *_clear(lake, points.last.number, now - _ORPHANS_AFTER)]


def _clear(lake: Lake, last: int, before: datetime) -> list[Done]:
    there, removed = remove_leftovers(lake.load(log_tables.POINTS).location(), last, before)
    return [Done(f"{log_tables.POINTS.name}, staged", there, there - removed, 0, 0, 0, removed)] if there else []


def expire(lake: Lake, retention: timedelta, needed: Collection[int] = ()) -> None:
    """Expires snapshots only: a run does so now and then, since each point adds some and every commit writes their list."""
    now = datetime.now(UTC)
    kept = chosen(points_of(lake).all(), now, retention, KEEP_SNAPSHOTS, needed)
    tables = ReplicaTables(lake)
    for replica in tables.known.values():
        _tag(tables, replica, kept)
        tables.lake.expire(replica.table, now - KEEP_SNAPSHOTS)


def _forget_points(lake: Lake, before: datetime, needed: Collection[int]) -> None:
    """Drops points that are past retention; the newest stays, those from the first that is needed on, and the rows that they need."""
    points = points_of(lake).all()
    first = min(needed, default=None)
    kept = (point for point in points if point.made_at >= before or (first is not None and point.number >= first))
    limit = next(kept, points[-1] if points else Point()).first_row
    if any(point.number < limit for point in points):
        lake.retried(f"DELETE FROM {lake.name(log_tables.POINTS)} WHERE point < {limit}")


def chosen(
    points: list[Point], now: datetime, retention: timedelta, keep_all: timedelta, needed: Collection[int] = ()
) -> list[Point]:
    """The points whose snapshots are kept: of each hour or day the last, the newest, and those that are needed."""
    found: dict[tuple[str, int], Point] = {}
    for point in points:
        if point.number in needed:
            found["each", point.number] = point
        age = now - point.made_at
        if age <= keep_all:
            found["each", point.number] = point
        elif age <= timedelta(days=1):
            found["hour", int(point.made_at.timestamp() // 3_600)] = point
        elif age <= retention:
            found["day", int(point.made_at.timestamp() // 86_400)] = point
    if points:
        found["each", points[-1].number] = points[-1]
    return sorted({point.number: point for point in found.values()}.values(), key=lambda point: point.number)


def _maintain(
    tables: ReplicaTables, replica: Replica, kept: list[Point], now: datetime, keep_snapshots: timedelta
) -> Done:
    lake, table = tables.lake, replica.table
    before = lake.size(table)
    rewritten = compact(lake, table)
    _tag(tables, replica, kept)
    expired = lake.expire(table, now - keep_snapshots)
    orphans = remove_orphans(lake, table, now - _ORPHANS_AFTER)
    return Done(replica.name, before.files, lake.size(table).files, rewritten, expired, 0, orphans)


def _tag(tables: ReplicaTables, replica: Replica, kept: list[Point]) -> None:
    """Tags the snapshots of these points, in one commit, and no others."""
    # Iceberg retries commits of rows, and none of tags.
    tables.lake.repeated(lambda: _set_tags(tables, replica, kept))


def _set_tags(tables: ReplicaTables, replica: Replica, kept: list[Point]) -> None:
    there = tables.snapshots(replica)
    wanted = {f"{TAG}{point.number}": replica.snapshot_in(point.tables) for point in kept}
    held = {name: snapshot for name, snapshot in wanted.items() if snapshot in there}
    iceberg_table = tables.lake.load(replica.table)
    known = {str(name) for name, ref in dict(iceberg_table.refs()).items() if ref.isTag() and str(name).startswith(TAG)}
    if known == set(held):
        return
    change = iceberg_table.manageSnapshots()
    for name in sorted(known - set(held)):
        change = change.removeTag(name)
    for name, snapshot in held.items():
        if name not in known:
            change = change.createTag(name, snapshot)
    change.commit()
