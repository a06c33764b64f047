"""The stamps of changes: they rise, whatever was late before."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from changeling.feeds.point_changes import Reached, Stamp, Stamped, read_point
from changeling.log.log_tables import CHANGES
from changeling.model import position
from changeling.replicas.points import Point, SourcePoint
from tests.feeds.topics import WrittenLake

MILLIS = 1_700_000_000_000


def of_ydb(step: int, number: int) -> dict[str, Any]:
    """A change of a transaction that YDB has planned for this step."""
    return {**change(number, 1), "source": "ydb", "position": position.encode(step, number), "encoding": "ydb-json"}


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
    late = read_point(lake.tables, "xt", points[0], points[1], Reached(Stamp(MILLIS, 10), 10))
    assert (late.stamped, late.correction, late.last) == ([None], *[Reached(Stamp(MILLIS, 11), 11)] * 2)
    # A barrier may have the stamp of the correction: all that follows is above it.
    new = read_point(lake.tables, "xt", points[1], points[2], late.last)
    assert [one and one.stamp for one in new.stamped] == [Stamp(MILLIS + 1, 11)]
    # A point that brings nothing of the source changes nothing: there is no barrier to give.
    assert read_point(lake.tables, "other", points[0], points[2], late.last).last == late.last
    # Without one, XTDB's own number and time are kept.
    plain = read_point(lake.tables, "xt", points[1], points[2], Reached(Stamp(MILLIS, 10), 10))
    assert [one and one.stamp for one in plain.stamped] == [Stamp(MILLIS, 11)]


def test_transactions_are_counted_where_the_numbers_of_pairs_do_not_rise(tmp_path: Path) -> None:
    lake = WrittenLake(tmp_path)
    rows = [of_ydb(MILLIS, 50), of_ydb(MILLIS + 1, 9), of_ydb(MILLIS + 1, 9), of_ydb(MILLIS + 2, 8)]
    lake.write(CHANGES.name, pa.Table.from_pylist(rows, CHANGES.columns))
    held = SourcePoint(1, 1, position.encode(MILLIS + 2, 8), "8", MILLIS * 1_000_000)
    after = Point(1, datetime.fromtimestamp(MILLIS / 1000, UTC), True, {"ydb": held})
    found = read_point(lake.tables, "ydb", Point(), after, Reached(Stamp(MILLIS, 40), 6))
    assert found.stamped == [
        Stamped(Stamp(MILLIS, 50), 7, 0),
        Stamped(Stamp(MILLIS + 1, 9), 8, 0),
        Stamped(Stamp(MILLIS + 1, 9), 8, 1),
        Stamped(Stamp(MILLIS + 2, 8), 9, 0),
    ]
    assert found.last == Reached(Stamp(MILLIS + 2, 8), 9)
