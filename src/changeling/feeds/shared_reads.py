"""What the feeds of a run share: changes and rows are read once for all feeds of a table."""

from collections.abc import Callable, Collection, Sequence
from itertools import pairwise

from changeling.feeds.point_changes import PointChanges, Reached, joined, read_point
from changeling.feeds.published_rows import PublishedRows
from changeling.feeds.row_values import Row
from changeling.feeds.stamps import Stamps
from changeling.feeds.topic import namespace_of
from changeling.iceberg.reader import Tables
from changeling.log.change_log import Log
from changeling.replicas.points import Point, Points
from changeling.replicas.replica_reader import Replica
from changeling.replicas.schema_inference import Policies, SchemaInference
from changeling.replicas.shape import Shape
from changeling.replicas.tables import ReplicaTables


class SharedReads:
    """What the feeds of a run share."""

    def __init__(
        self,
        log: Log,
        tables: Tables,
        policy: Policies,
        replicas: ReplicaTables,
        points: Points,
        standing: Callable[[], Collection[int]],
    ) -> None:
        """`standing` says at which points feeds are."""
        self.lake, self.tables, self.replicas = log.lake, tables, replicas
        self._points, self._standing = points, standing
        self.topics = log.lake.in_namespace(namespace_of(log.lake.namespace))
        self.stamps = Stamps(log.lake)
        self.registry = log.registry
        self.inference = SchemaInference(log.registry, policy, log.register)
        self._read: tuple[tuple[str, int, int], PointChanges] | None = None
        self._rows: tuple[tuple[object, ...], dict[str, Row]] | None = None

    def version(self, schema: int | None) -> int | None:
        """Which of its table's schemas one is, counted from 1."""
        return next((known.version for known in self.registry.versions if known.id == schema), None)

    def reached(self, source: str, point: Point) -> Reached:
        """The last stamp of a point. Counting begins there, unless another feed comes from an earlier one and counts on."""
        found = self.stamps.at(source, point.number)
        if found is not None:
            return found
        behind = min((number for number in self._standing() if number < point.number), default=None)
        firsts = () if behind is None else (self.stamps.last_before(source, point.number), behind)
        for path in (self._path(first, point) for first in firsts if first is not None):
            if path:
                self._read_along(source, path)
                break
        return self.stamps.begin(source, point)

    def changes(self, source: str, path: Sequence[Point]) -> PointChanges:
        """The changes of a source from the first to the last of successive points, with the stamps that each of these gives them.

        Those that were read last are kept for the next feed.
        """
        place = (source, path[0].number, path[-1].number)
        if self._read is None or self._read[0] != place:
            self.reached(source, path[0])
            self._read = (place, joined(self._read_along(source, path)))
        return self._read[1]

    def _path(self, first: int, last: Point) -> list[Point]:
        """The points from one to another; none where the first is no longer kept."""
        kept = [Point(), *self._points.after(0)] if first == 0 else self._points.after(first - 1)
        return [one for one in kept if one.number <= last.number] if kept and kept[0].number == first else []

    def _read_along(self, source: str, path: Sequence[Point]) -> list[PointChanges]:
        found = []
        for before, after in pairwise(path):
            found.append(read_point(self.tables, source, before, after, self.stamps.begin(source, before)))
            self.stamps.note(source, after, found[-1].last)
        return found

    def rows(self, replica: Replica, snapshot: int | None, shape: Shape, keys: Sequence[str] | None) -> dict[str, Row]:
        """Rows of a snapshot: those with some keys, or all; those that were read last are kept for the next feed of the table."""
        if snapshot is None:
            return {}
        place = (snapshot, shape, None if keys is None else tuple(keys))
        if self._rows is None or self._rows[0] != place:
            found = PublishedRows(self.replicas, replica, snapshot, shape)
            self._rows = (place, found.all() if keys is None else found.of(keys))
        return self._rows[1]
