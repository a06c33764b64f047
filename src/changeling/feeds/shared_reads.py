"""What the feeds of a run share: changes and rows are read once for all feeds of a table."""

from collections.abc import Sequence

from changeling.feeds.point_changes import PointChanges, read_point
from changeling.feeds.published_rows import PublishedRows
from changeling.feeds.row_values import Row
from changeling.feeds.stamps import Stamps
from changeling.feeds.topic import namespace_of
from changeling.iceberg.reader import Tables
from changeling.log.change_log import Log
from changeling.replicas.points import Point
from changeling.replicas.replica_reader import Replica
from changeling.replicas.schema_inference import Policies, SchemaInference
from changeling.replicas.shape import Shape
from changeling.replicas.tables import ReplicaTables


class SharedReads:
    """What the feeds of a run share."""

    def __init__(self, log: Log, tables: Tables, policy: Policies, replicas: ReplicaTables) -> None:
        self.lake, self.tables, self.replicas = log.lake, tables, replicas
        self.topics = log.lake.in_namespace(namespace_of(log.lake.namespace))
        self.stamps = Stamps(log.lake)
        self.registry = log.registry
        self.inference = SchemaInference(log.registry, policy, log.register)
        self._read: tuple[tuple[str, int, int], PointChanges] | None = None
        self._rows: tuple[tuple[object, ...], dict[str, Row]] | None = None

    def version(self, schema: int | None) -> int | None:
        """Which of its table's schemas one is, counted from 1."""
        return next((known.version for known in self.registry.versions if known.id == schema), None)

    def changes(self, source: str, before: Point, after: Point) -> PointChanges:
        """The changes of a source between two points; those that were read last are kept for the next feed."""
        place = (source, before.number, after.number)
        if self._read is None or self._read[0] != place:
            found = read_point(self.tables, source, before, after, self.stamps.at(source, before))
            self._read = (place, found)
        self.stamps.note(source, after, self._read[1].last)
        return self._read[1]

    def rows(self, replica: Replica, snapshot: int | None, shape: Shape, keys: Sequence[str] | None) -> dict[str, Row]:
        """Rows of a snapshot: those with some keys, or all; those that were read last are kept for the next feed of the table."""
        if snapshot is None:
            return {}
        place = (snapshot, shape, None if keys is None else tuple(keys))
        if self._rows is None or self._rows[0] != place:
            found = PublishedRows(self.replicas, replica, snapshot, shape)
            self._rows = (place, found.all() if keys is None else found.of(keys))
        return self._rows[1]
