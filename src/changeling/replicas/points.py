"""Points: states of all replicas together, each up to a position of every source, and with the snapshots that hold it.

A point is a base for later work: what changed since is applied on top of it. It is one only as long as nothing came in that
belongs before its end; such a change is noted at the point that brought it in.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from changeling.iceberg.table import StoredTables
from changeling.log.layout import POINTS


class SourcePoint(msgspec.Struct, frozen=True):
    """How far one source is in the replicas."""

    batch: int = 0
    """The last batch of the log that was looked at."""
    whole_batch: int = 0
    """The last batch up to which everything is applied."""
    position: str | None = None
    """The furthest position that is applied."""
    transaction: str | None = None
    commit_time: int | None = None
    """The latest up to that position."""
    late: str | None = None
    """The first of the changes that came with this point and belong before an earlier one."""


class Point(msgspec.Struct, frozen=True):
    """One state of all replicas."""

    number: int = 0
    made_at: datetime = datetime.fromtimestamp(0, UTC)
    complete: bool = True
    sources: dict[str, SourcePoint] = {}
    tables: dict[str, int] = {}
    """The snapshot of each replica."""

    def of(self, source: str) -> SourcePoint:
        """How far a source is; its start where the point does not have it."""
        return self.sources.get(source, SourcePoint())

    def to_row(self) -> dict[str, Any]:
        """For the table `points`."""
        return {
            "point": self.number,
            "made_at": self.made_at,
            "complete": self.complete,
            "sources": [{"source": name, **msgspec.structs.asdict(one)} for name, one in self.sources.items()],
            "tables": [{"name": name, "snapshot": snapshot} for name, snapshot in self.tables.items()],
        }


def from_row(row: Mapping[str, Any]) -> Point:
    """A row of the table `points`."""
    return Point(
        row["point"],
        row["made_at"],
        row["complete"],
        {
            one["source"]: SourcePoint(**{name: value for name, value in one.items() if name != "source"})
            for one in row["sources"] or ()
        },
        {one["name"]: one["snapshot"] for one in row["tables"] or ()},
    )


class Points:
    """The points of a pipeline, from the first to the last."""

    def __init__(self, points: Iterable[Point]) -> None:
        self._points = sorted(points, key=lambda point: point.number)

    @property
    def last(self) -> Point:
        """The newest point; an empty one where there is none."""
        return self._points[-1] if self._points else Point()

    def add(self, point: Point) -> None:
        """Adds a recorded point."""
        self._points.append(point)

    def all(self) -> list[Point]:
        """All of them."""
        return list(self._points)

    def undisturbed(self, source: str, late: str | None = None) -> list[Point]:
        """The points, newest first, to which no late changes of a source belong; `late` is the first late position now."""
        found = []
        earliest = late
        for point in reversed(self._points):
            held = point.of(source).position
            if held is not None and (earliest is None or held < earliest):
                found.append(point)
            came = point.of(source).late
            if came is not None and (earliest is None or came < earliest):
                earliest = came
        return found


def points_of(tables: StoredTables) -> Points:
    """The points of a pipeline; none where its log is older than they are."""
    if POINTS.name not in tables.names():
        return Points([])
    return Points(from_row(row) for row in tables.rows(POINTS).to_pylist())
