"""Which changes of the log the replicas do not have yet, and how far they may go: to the end of a complete transaction."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from changeling.iceberg.conditions import Condition, above, all_of, any_of, at_most, equals, is_set, one_of
from changeling.iceberg.lake import Lake
from changeling.log.batch_stats import BatchStats, TableStats, together
from changeling.model.table import TableName
from changeling.replicas.pending_summary import NewChanges, TableSummary, new_changes
from changeling.replicas.points import Point, SourcePoint


class PendingTable(msgspec.Struct, frozen=True):
    """The new changes of one table."""

    source: str
    table: TableName
    changes: int
    late: int
    """How many of them belong before what the replica has."""
    first_late: str | None
    truncated: str | None
    """The position of the first truncate."""
    key: str | None
    """A key of one of its rows, for its columns."""
    version: int | None = None
    """The schema version of its last change that has one, and its position."""
    version_at: str = ""
    versions: list[int] = []
    """The versions that they have."""
    first: str = ""
    """The first position."""
    has_snapshot_rows: bool = msgspec.field(default=False, name="reads")


class PointPlan(msgspec.Struct, frozen=True):
    """The new changes of all tables."""

    point: Point
    """The point that the replicas reach with it; its tables are still those of the last one."""
    limits: dict[str, str | None]
    """Where each source ends: positions before this; None where all of it is taken."""
    tables: list[PendingTable] = []


class PendingChanges:
    """Finds the changes of the log after the last point."""

    def __init__(self, lake: Lake, settle: timedelta) -> None:
        self._lake, self._settle = lake, settle
        self._partitions: dict[str, dict[tuple[str, int], str]] = {}
        self._miscounted: set[str] = set()
        """Sources of which marks counted changes that did not come: of tables that are not read, perhaps."""

    def next_plan(
        self,
        last: Point,
        batches: Mapping[str, int],
        stats: Mapping[str, Mapping[int, BatchStats]] | None = None,
        polled_at: Mapping[str, datetime] | None = None,
        *,
        drain: bool,
    ) -> PointPlan | None:
        """What is new up to these batches; None where there is nothing, or nothing complete.

        With `drain`, the end of the log is the end of every transaction in it. Where the stats of all these batches are known and
        nothing in them is late or open, the log is not looked at. `polled_at` says up to which time all that a source had is in
        the log: a wait is measured up to that time only.
        """
        fresh = {name: batch for name, batch in batches.items() if batch > last.of(name).last_complete_batch}
        if not fresh:
            return None
        known = {name: stats_since(last.of(name), batch, (stats or {}).get(name, {})) for name, batch in fresh.items()}
        if all(one is not None and (drain or not one.open) for one in known.values()):
            for name in fresh:
                # What their partitions have is looked up where it matters again.
                self._partitions.pop(name, None)
            return plan_of_stats(last, fresh, {name: one for name, one in known.items() if one is not None})
        new = new_changes(self._lake, self._new(last, fresh))
        limits: dict[str, str | None] = dict.fromkeys(fresh)
        complete = True
        if not drain:
            limits, complete = self._limits(new, last, fresh, polled_at or {})
        return self._plan(new, last, fresh, limits, complete)

    def _new(self, last: Point, batches: Mapping[str, int]) -> Condition:
        """The changes that are not in the last point."""
        wanted = []
        for name, batch in batches.items():
            known = last.of(name)
            parts = [equals("source", name), above("batch", known.last_complete_batch), at_most("batch", batch)]
            if known.position is not None and known.batch > known.last_complete_batch:
                # The marks of a transaction that was left say where it ends, wherever they arrived.
                marks = all_of([one_of("op", ("begin", "commit")), equals("arrived", True)])
                parts.append(any_of([above("batch", known.batch), above("position", known.position), marks]))
            wanted.append(all_of(parts))
        return any_of(wanted)

    def _limits(
        self, new: NewChanges, last: Point, batches: Mapping[str, int], polled_at: Mapping[str, datetime]
    ) -> tuple[dict[str, str | None], bool]:
        """Where the first transaction begins that is not complete, for each source, and whether all ends are known.

        It is complete where its end is marked and all is there that the mark counts, or where every partition has gone past it, or
        after a wait. Late transactions are not waited for: they lie before the last point, so anything left out would count as applied.
        """
        self._note_partitions(new, batches)
        limits: dict[str, str | None] = dict.fromkeys(batches)
        complete = True
        passed = {name: min(places.values()) for name, places in self._partitions.items() if places}
        for one in new.open_transactions():
            # Where a mark counts more, a later position proves nothing: the rest may be on a partition that is not known yet.
            is_passed = not one.is_marked and one.last < passed.get(one.source, "")
            if is_passed or (one.is_marked and one.source in self._miscounted):
                continue
            merged_to = last.of(one.source).position
            if merged_to is not None and one.first <= merged_to:
                complete = False
                continue
            # A run may be slow, or its source unreachable: records that were not read yet may be the rest of the transaction.
            if one.source in polled_at and one.seen + self._settle <= polled_at[one.source]:
                complete = False
                if one.is_marked:
                    self._miscounted.add(one.source)
                continue
            known = limits[one.source]
            limits[one.source] = one.first if known is None else min(known, one.first)
        return limits, complete

    def _note_partitions(self, new: NewChanges, batches: Mapping[str, int]) -> None:
        """How far each partition of each source is."""
        unknown = [name for name in batches if name not in self._partitions]
        found = list(new.partitions())
        if unknown:
            # No later than the batches that are merged: what others add meanwhile says nothing of these.
            own = [all_of([equals("source", name), at_most("batch", batches[name])]) for name in unknown]
            earlier = all_of([any_of(own), is_set("origin.topic")])
            found += new_changes(self._lake, earlier).partitions()
        for one in found:
            places = self._partitions.setdefault(one.source, {})
            place = (one.topic, one.partition)
            places[place] = max(places.get(place, ""), one.last)

    def _plan(
        self,
        new: NewChanges,
        last: Point,
        batches: Mapping[str, int],
        limits: Mapping[str, str | None],
        complete: bool,
    ) -> PointPlan | None:
        rows = new.tables(limits, {name: last.of(name).position for name in batches})
        sources = {
            name: _advanced(last.of(name), batch, [row for row in rows if row.source == name])
            for name, batch in batches.items()
        }
        if not any(row.seen for row in rows) and all(one.last_complete_batch < one.batch for one in sources.values()):
            return None
        tables = [_pending_table(row) for row in rows if row.changes or row.altered]
        point = Point(last.number + 1, datetime.now(UTC), complete, {**last.sources, **sources})
        return PointPlan(point, dict(limits), tables)


def stats_since(before: SourcePoint, batch: int, known: Mapping[int, BatchStats]) -> BatchStats | None:
    """The statistics of all batches after a point; None where they are not all known, or where a change is late."""
    numbers = range(before.last_complete_batch + 1, batch + 1)
    if before.batch != before.last_complete_batch or any(number not in known for number in numbers):
        return None
    found = together(known[number] for number in numbers)
    merged_to = before.position
    return None if merged_to is not None and any(table.first <= merged_to for table in found.tables) else found


def plan_of_stats(last: Point, batches: Mapping[str, int], stats: Mapping[str, BatchStats]) -> PointPlan:
    """The new changes by their statistics, where all of them are taken."""
    sources, tables = {}, []
    for name, batch in batches.items():
        before, found = last.of(name), stats[name]
        position, transaction = _furthest(before, [] if found.last is None else [found.last])
        commit_time = max(filter(None, (before.commit_time, found.commit_time)), default=None)
        sources[name] = SourcePoint(batch, batch, position, transaction, commit_time)
        tables += [_pending_of_stats(name, table) for table in found.tables]
    point = Point(last.number + 1, datetime.now(UTC), True, {**last.sources, **sources})
    return PointPlan(point, dict.fromkeys(batches), tables)


def _pending_of_stats(source: str, stats: TableStats) -> PendingTable:
    position, version = stats.version or ("", None)
    return PendingTable(
        source,
        stats.table,
        stats.changes,
        0,
        None,
        stats.truncated,
        stats.key,
        version,
        position,
        stats.versions,
        stats.first,
        stats.has_snapshot_rows,
    )


def _advanced(before: SourcePoint, batch: int, rows: list[TableSummary]) -> SourcePoint:
    lasts = [(row.last, row.transaction) for row in rows if row.last is not None]
    position, transaction = _furthest(before, lasts)
    left = min((row.left for row in rows if row.left is not None), default=None)
    return SourcePoint(
        batch=batch,
        last_complete_batch=batch if left is None else left - 1,
        position=position,
        transaction=transaction,
        commit_time=max(filter(None, (before.commit_time, *(row.commit_time for row in rows))), default=None),
        late=min((row.first_late for row in rows if row.first_late is not None), default=None),
    )


def _furthest(before: SourcePoint, lasts: list[tuple[str, str | None]]) -> tuple[str | None, str | None]:
    """The furthest position, and its transaction."""
    known = [] if before.position is None else [(before.position, before.transaction)]
    return max([*lasts, *known], key=lambda one: one[0], default=(None, None))


def _pending_table(row: TableSummary) -> PendingTable:
    return PendingTable(
        row.source,
        row.table,
        row.changes,
        row.late,
        row.first_late,
        row.truncated,
        row.key,
        row.version,
        row.version_at or "",
        row.versions,
        row.first or "",
        row.has_snapshot_rows,
    )
