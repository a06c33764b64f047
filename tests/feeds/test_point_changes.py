"""The stamps of changes: they rise, whatever was late before."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from changeling.feeds.point_changes import Stamp, read_point
from changeling.log.layout import CHANGES
from changeling.model import position
from changeling.replicas.points import Point, SourcePoint
from tests.feeds.topics import WrittenLake

MILLIS = 1_700_000_000_000


def change(number: int, batch: int, table: str = "users") -> dict[str, Any]:
    """A change of transaction `number` of an XTDB, all of them in the same millisecond."""
    return {
        "source": "xt",
        "batch": batch,
        "op": "upsert",
        "table": {"catalog": None, "schema": None, "name": table},
        "position": position.encode(number, 0),
        "commit_time": MILLIS * 1_000_000,
        "transaction": {"id": str(number)},
        "encoding": "xtdb",
        "arrived": False,
        "origin": {"file": "in", "ordinal": batch, "record": 0},
    }


def at(number: int, batch: int, last: int) -> Point:
    held = SourcePoint(batch, batch, position.encode(last, 0), str(last), MILLIS * 1_000_000)
    return Point(number, datetime.fromtimestamp(MILLIS / 1000, UTC), True, {"xt": held})


def test_a_transaction_that_has_the_number_of_a_correction_comes_behind_it(tmp_path: Path) -> None:
    lake = WrittenLake(tmp_path)
    rows = [change(10, 1), change(8, 2), change(11, 3)]
    lake.write(CHANGES.name, pa.Table.from_pylist(rows, CHANGES.columns))
    points = [at(1, 1, 10), at(2, 2, 10), at(3, 3, 11)]
    late = read_point(lake.tables, "xt", points[0], points[1], Stamp(MILLIS, 10))
    assert (late.stamped, late.correction, late.last) == ([None], Stamp(MILLIS, 11), Stamp(MILLIS, 11))
    # A barrier may have the stamp of the correction: all that follows is above it.
    new = read_point(lake.tables, "xt", points[1], points[2], late.last)
    assert [one and one.stamp for one in new.stamped] == [Stamp(MILLIS + 1, 11)]
    # Without one, XTDB's own number and time are kept.
    plain = read_point(lake.tables, "xt", points[1], points[2], Stamp(MILLIS, 10))
    assert [one and one.stamp for one in plain.stamped] == [Stamp(MILLIS, 11)]
