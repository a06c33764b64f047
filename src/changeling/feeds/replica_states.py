"""The states of a feed's table that its replica keeps: its columns and rows at points. Needs no Spark."""

from collections.abc import Mapping

import msgspec
import pyarrow as pa
from pyiceberg.expressions import And
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.snapshots import Snapshot

from changeling.feeds.feed import Feed
from changeling.iceberg.conditions import equals
from changeling.iceberg.reader import Tables
from changeling.log.log_tables import CHANGES
from changeling.replicas.points import Point, points_of
from changeling.replicas.replica_reader import FORMER, STATE, ReplicaState, replicas, state_at
from changeling.replicas.shape import Shape
from changeling.replicas.table_lookup import WantedTable


class ReplicaStates:
    """The replica of the table of a feed; without one it has no shapes and no rows."""

    def __init__(self, tables: Tables, pipeline: str, feed: Feed) -> None:
        self._tables, self._feed = tables, feed
        self._points = points_of(tables)
        known = {
            (one.identity.source, one.identity.table): one
            for one in replicas(tables, pipeline)
            if one.identity.kind == "rows" and not one.behind
        }
        place = WantedTable(feed.table, feed.source).among(known)
        self._replica: IcebergTable | None = None
        self._names: tuple[str, ...] = ()
        self._known: dict[int, Shape] = {}
        if place is not None:
            found = known[place]
            self._replica = tables.in_namespace(f"{pipeline}_replica").load(found.name)
            self._known = {} if self._replica is None else _shapes(self._replica)
            self._known[max(self._known, default=found.state.point)] = found.shape
            former = {} if self._replica is None else self._replica.properties
            self._names = (found.name, *msgspec.json.decode(former.get(FORMER, "[]"), type=tuple[str, ...]))

    @property
    def shapes(self) -> list[Shape]:
        """The shapes that the table had, as far as they are kept, the newest last."""
        ordered = [shape for _, shape in sorted(self._known.items())]
        return list(dict.fromkeys(reversed(ordered)))[::-1]

    def shape_at(self, point: int | None) -> Shape:
        """The shape at a point; by default the newest."""
        earlier = [number for number in self._known if point is None or number <= point]
        return self._known[max(earlier) if earlier else min(self._known)]

    def rows_at(self, number: int) -> tuple[pa.Table, Shape] | None:
        """The rows at a point; None where that state is not kept."""
        point = self._points.at(number)
        snapshot = None if point is None else self._snapshot(point)
        if self._replica is None or snapshot is None:
            return None
        shape = state_at(self._replica, snapshot).shape
        return (self._replica.scan(snapshot_id=snapshot.snapshot_id).to_arrow(), shape) if shape.key else None

    def not_empty_at_start(self) -> str | None:
        """Why it is not known that the table was empty when the feed began; None where it was."""
        start = self._feed.start
        point = self._points.at(start or 0)
        if start and point is None:
            return "the feed has no initial scan, and its first point is not kept"
        if point is not None and any(name in point.tables for name in self._names):
            held = self.rows_at(point.number)
            if held is None or held[0].num_rows:
                return "the feed has no initial scan, and its table was not empty when it began"
        if self._has_reads():
            return "the feed has no initial scan, and its table has rows of a snapshot"
        return None

    def _has_reads(self) -> bool:
        changes = self._tables.load(CHANGES.name)
        if changes is None:
            return False
        where = And(equals("table.name", self._feed.table.name), equals("op", "read"))
        return bool(changes.scan(row_filter=where, selected_fields=("op",), limit=1).to_arrow().num_rows)

    def _snapshot(self, point: Point) -> Snapshot | None:
        number = next((point.tables[name] for name in self._names if name in point.tables), None)
        return None if number is None or self._replica is None else self._replica.snapshot_by_id(number)


def _shapes(replica: IcebergTable) -> dict[int, Shape]:
    """By the first point that had each. Rows may have been stored otherwise after a point: that is the shape of the next one."""
    found: dict[int, Shape] = {}
    for snapshot in replica.snapshots():
        summary: Mapping[str, str] = {} if snapshot.summary is None else snapshot.summary.additional_properties
        if STATE in summary:
            state = msgspec.json.decode(summary[STATE], type=ReplicaState)
            found.setdefault(state.point, state.shape)
    return found
