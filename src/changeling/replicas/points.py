"""Points: states of all replicas together, each up to a position of every source, and with the snapshots that hold it.

A point is a base for later work: what changed since is applied on top of it. It stays valid until a late change
precedes its end; such a change is noted at the point that brought it in.

The row of a point has the replicas whose snapshot changed since the point before. Now and then one has all of them, so that the
last points are known from the last rows.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from changeling.iceberg.conditions import EVERYTHING, Condition, at_least, below
from changeling.iceberg.table_definition import StoredTables
from changeling.log.log_tables import POINTS
from changeling.replicas.point_tables import TableSnapshots

BASE = "changeling.base-point"
"""In the summary of the commit of a point: the first point whose row is needed to know it."""
_MAX_ROWS = 100
"""Rows that are read to know one point: each may be in a file of its own."""
_MAX_KEPT = 1_000
"""Points that a run keeps in memory."""


class SourcePoint(msgspec.Struct, frozen=True):
    """How far one source is in the replicas."""

    batch: int = 0
    """The last batch of the log that was considered."""
    last_complete_batch: int = msgspec.field(default=0, name="whole_batch")
    """The last batch up to which everything is applied."""
    position: str | None = None
    """The furthest position that is applied."""
    transaction: str | None = None
    commit_time: int | None = None
    """The latest commit time up to that position."""
    late: str | None = None
    """The first of the changes that came with this point and belong before an earlier one."""


class Point(msgspec.Struct, frozen=True):
    """One state of all replicas."""

    number: int = 0
    made_at: datetime = datetime.fromtimestamp(0, UTC)
    complete: bool = True
    sources: dict[str, SourcePoint] = {}
    tables: Mapping[str, int] = {}
    """The snapshot of each replica."""
    last_whole_row: int | None = msgspec.field(default=None, name="base")
    """The last point whose row has all replicas; None where the row of this one does."""

    def of(self, source: str) -> SourcePoint:
        """How far a source is; its start where the point does not have it."""
        return self.sources.get(source, SourcePoint())

    @property
    def first_row(self) -> int:
        """The first point whose row is needed to know this one."""
        return self.number if self.last_whole_row is None else self.last_whole_row

    def to_row(self, changed: Mapping[str, int | None] | None = None) -> dict[str, Any]:
        """For the table `points`: with all replicas, or with what changed since the point before; None for one that is gone."""
        tables = self.tables if changed is None else changed
        return {
            "point": self.number,
            "made_at": self.made_at,
            "complete": self.complete,
            "sources": [{"source": name, **msgspec.to_builtins(one)} for name, one in self.sources.items()],
            "tables": [{"name": name, "snapshot": snapshot} for name, snapshot in tables.items()],
            "base": self.last_whole_row,
        }


class Points:
    """The points of a pipeline, from the first to the last. Those before the last ones are read when they are asked for."""

    def __init__(self, last: Iterable[Point] = (), earlier: Callable[[int], list[Point]] | None = None) -> None:
        """`earlier` reads those before a number; without it there are none."""
        self._last = sorted(last, key=lambda point: point.number)
        self._read_earlier = earlier
        self._earlier: list[Point] | None = None

    @property
    def last(self) -> Point:
        """The newest point; an empty one where there is none."""
        return self._last[-1] if self._last else Point()

    def following(self, point: Point) -> tuple[Point, dict[str, Any]]:
        """A point that follows the last one, as it is to be added once it is recorded, and its row for the table `points`."""
        before = self.last
        changed = _changed(before.tables, point.tables)
        if isinstance(before.tables, TableSnapshots) and self._is_next(before, len(changed), len(point.tables)):
            tables = before.tables.with_changes(point.number, changed)
            kept = msgspec.structs.replace(point, tables=tables, last_whole_row=before.first_row)
            return kept, kept.to_row(changed)
        tables = TableSnapshots().with_changes(point.number, point.tables)
        kept = msgspec.structs.replace(point, tables=tables, last_whole_row=None)
        return kept, kept.to_row()

    def _is_next(self, before: Point, changed: int, all_tables: int) -> bool:
        """Whether a row with what changed is the better one: the rows to read stay few, and are no more than two whole ones."""
        rows = [point for point in self._last if point.number >= before.first_row]
        assert isinstance(before.tables, TableSnapshots)
        return len(rows) < _MAX_ROWS and before.tables.entries + changed <= 2 * all_tables

    def add(self, point: Point) -> None:
        """Adds a recorded point."""
        self._last.append(point)
        if self._read_earlier is not None and len(self._last) > _MAX_KEPT:
            # A run may last for months: what is far behind is read again where it is asked for.
            whole = [place for place, one in enumerate(self._last[:-_MAX_ROWS]) if one.last_whole_row is None]
            self._last, self._earlier = self._last[whole[-1] :], None

    def all(self) -> list[Point]:
        """All of them."""
        return [*self._before(), *self._last]

    def _before(self) -> list[Point]:
        if self._earlier is None:
            self._earlier = self._read_earlier(self._last[0].number) if self._read_earlier and self._last else []
        return self._earlier

    def at(self, number: int) -> Point | None:
        """The point of a number; None where there is none, or no longer."""
        return next((point for point in self._since(number) if point.number == number), None)

    def after(self, number: int) -> list[Point]:
        """The points after one."""
        return [point for point in self._since(number + 1) if point.number > number]

    def _since(self, number: int) -> list[Point]:
        return self._last if self._last and self._last[0].number <= number else self.all()

    def valid_bases(self, source: str, late: str | None = None) -> Iterator[Point]:
        """The points, newest first, to which no late changes of a source belong; `late` is the first late position now."""
        earliest = late
        for point in self._newest_first():
            merged_to = point.of(source).position
            if merged_to is not None and (earliest is None or merged_to < earliest):
                yield point
            came = point.of(source).late
            if came is not None and (earliest is None or came < earliest):
                earliest = came

    def _newest_first(self) -> Iterator[Point]:
        yield from reversed(self._last)
        yield from reversed(self._before())


def points_of(tables: StoredTables) -> Points:
    """The points of a pipeline; none where its log is older than they are."""
    if POINTS.name not in tables.names():
        return Points()
    base = next((int(summary[BASE]) for summary in tables.summaries(POINTS) if BASE in summary), None)
    last = _read(tables, EVERYTHING if base is None else at_least("point", base))
    return Points(last, lambda first: _read(tables, below("point", first)))


def _read(tables: StoredTables, where: Condition) -> list[Point]:
    """Points from their rows; the first of them has all replicas."""
    found: list[Point] = []
    snapshots = TableSnapshots()
    for row in sorted(tables.rows(POINTS, where).to_pylist(), key=lambda row: int(row["point"])):
        changed = {one["name"]: one["snapshot"] for one in row["tables"] or ()}
        # Tables that were written before rows with changes only have no such column.
        base = row.get("base")
        if base is None:
            changed = _changed(snapshots, changed)
        snapshots = snapshots.with_changes(row["point"], changed)
        found.append(Point(row["point"], row["made_at"], row["complete"], _sources(row["sources"]), snapshots, base))
    return found


def _sources(rows: Iterable[Mapping[str, Any]] | None) -> dict[str, SourcePoint]:
    return {
        one["source"]: SourcePoint(
            last_complete_batch=one["whole_batch"],
            **{name: value for name, value in one.items() if name not in ("source", "whole_batch")},
        )
        for one in rows or ()
    }


def _changed(before: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int | None]:
    """The replicas whose snapshot differs; None for one that is gone."""
    gone: dict[str, int | None] = {name: None for name in before if name not in now}
    return gone | {name: snapshot for name, snapshot in now.items() if before.get(name) != snapshot}
