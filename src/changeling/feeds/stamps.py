"""The last stamps of sources at points: stored once, so that every feed of a source shows the same ones."""

from datetime import UTC, datetime

import pyarrow as pa

from changeling.feeds.point_changes import Reached, Stamp, begun_at
from changeling.iceberg.lake import Lake
from changeling.iceberg.table_definition import TableDefinition
from changeling.replicas.points import Point

VERSION = 2
STAMPS = TableDefinition(
    "stamps",
    pa.schema(
        [
            ("source", pa.string()),
            ("point", pa.int64()),
            ("step", pa.int64()),
            ("number", pa.int64()),
            ("serial", pa.int64()),
        ]
    ),
)


class Stamps:
    """The table `stamps` of a pipeline."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        lake.create([STAMPS], VERSION)
        rows = lake.rows(STAMPS).to_pylist()
        self._known = {
            # An earlier version did not count apart from the numbers.
            (row["source"], row["point"]): Reached(
                Stamp(row["step"], row["number"]), row["number"] if row["serial"] is None else row["serial"]
            )
            for row in rows
        }

    def at(self, source: str, point: int) -> Reached | None:
        """What a point has reached; None where that is not stored."""
        return self._known.get((source, point))

    def last_before(self, source: str, point: int) -> int | None:
        """The last point before one that has a stamp."""
        return max((number for name, number in self._known if name == source and number < point), default=None)

    def begin(self, source: str, point: Point) -> Reached:
        """Begins to count at a point, unless its stamp is stored already."""
        self.note(source, point, begun_at(point, source))
        return self._known[source, point.number]

    def note(self, source: str, point: Point, reached: Reached) -> None:
        """Stores what a point has reached, unless that is stored already."""
        if (source, point.number) in self._known:
            return
        row = {"source": source, "point": point.number, **reached.stamp._asdict(), "serial": reached.serial}
        self._lake.append_rows(STAMPS, [row], datetime.now(UTC))
        self._known[source, point.number] = reached
