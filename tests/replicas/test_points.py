"""Points are stored as what changed from one to the next, and every one of them is read back whole."""

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from changeling.iceberg.catalog import catalog
from changeling.iceberg.reader import Tables
from changeling.log.log_tables import POINTS
from changeling.replicas import points as replica_points
from changeling.replicas.points import BASE, Point, Points, SourcePoint, points_of

START = datetime(2026, 1, 1, tzinfo=UTC)


class StoredPoints:
    """The table of points as merges write it, several points a commit."""

    def __init__(self, folder: Path) -> None:
        self.tables = Tables(catalog(str(folder / "lake"), folder, {}), "shop")
        opened = self.tables.catalog()
        opened.create_namespace("shop")
        self._table = opened.create_table(("shop", "points"), POINTS.columns)
        self.rows: list[dict[str, Any]] = []

    def write(self, points: Points, made: list[Point]) -> None:
        last = 0
        for point in made:
            kept, row = points.following(point)
            points.add(kept)
            self.rows.append(row)
            last = kept.first_row
        rows = pa.Table.from_pylist(self.rows[-len(made) :], POINTS.columns)
        self._table.append(rows, snapshot_properties={BASE: str(last)})


def histories(tables: int, points: int, seed: int) -> list[dict[str, int]]:
    """The snapshots of replicas at each point: few of them change, now and then all; some go and come again."""
    chosen = random.Random(seed)
    now: dict[str, int] = {}
    found = []
    for number in range(points):
        count = tables if number in (0, points // 2) else chosen.randrange(4)
        for place in chosen.sample(range(tables), count):
            if count < tables and chosen.random() < 0.2:
                now.pop(f"t{place}", None)
            else:
                now[f"t{place}"] = 1_000 * number + place
        found.append(dict(now))
    return found


def point_of(number: int, tables: dict[str, int]) -> Point:
    return Point(number, START, True, {"pg": SourcePoint(number, number, f"{number:09}")}, tables)


def test_every_point_is_read_back_whole(tmp_path: Path) -> None:
    stored = StoredPoints(tmp_path)
    states = dict(enumerate(histories(60, 260, seed=5), start=1))
    points = points_of(stored.tables)
    assert points.last == Point()
    numbers = list(states)
    for first in range(0, len(numbers), 52):
        part = numbers[first : first + 52]
        stored.write(points, [point_of(number, states[number]) for number in part])
        # Whoever begins now knows the same as who continued, and reads the last ones only.
        points = points_of(stored.tables)
        assert points.last.tables == states[part[-1]]
        assert points._earlier is None
    assert {point.number: dict(point.tables) for point in points.all()} == states
    # A third of the entries of whole rows, and no point needs more than a hundred rows.
    assert sum(len(row["tables"]) for row in stored.rows) < sum(map(len, states.values())) / 3
    assert max(point.number - point.first_row for point in points.all()) < 100
    assert [point.number for point in points.after(255)] == [256, 257, 258, 259, 260]
    assert points.at(17) == msgspec.structs.replace(point_of(17, states[17]), last_whole_row=1)
    assert points.at(261) is None
    assert [point.number for point in points.valid_bases("pg", f"{4:09}")] == [3, 2, 1]


def test_points_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    stored = StoredPoints(tmp_path)
    stored.write(Points(), [point_of(number, {"a": number}) for number in range(1, 6)])
    points = points_of(stored.tables)
    assert [row["base"] for row in stored.rows] == [None, 1, None, 3, None]
    newest = points.valid_bases("pg")
    assert next(newest).tables == {"a": 5}
    assert points.after(4) == [points.last]
    assert points._earlier is None
    assert next(newest).tables == {"a": 4}
    assert points._earlier is not None


def test_a_run_keeps_the_last_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_points, "_MAX_KEPT", 150)
    stored = StoredPoints(tmp_path)
    states = dict(enumerate(histories(60, 400, seed=6), start=1))
    points = points_of(stored.tables)
    for first in range(1, 401, 50):
        stored.write(points, [point_of(number, states[number]) for number in range(first, first + 50)])
        assert points.last.tables == states[first + 49]
    assert points._last[0].number > 100
    assert {point.number: dict(point.tables) for point in points.all()} == states


def test_rows_without_a_base_are_whole(tmp_path: Path) -> None:
    """Tables of an earlier version have no such column, and their commits say nothing of it."""
    tables = Tables(catalog(str(tmp_path / "lake"), tmp_path, {}), "shop")
    opened = tables.catalog()
    opened.create_namespace("shop")
    schema = pa.schema([field for field in POINTS.columns if field.name != "base"])
    rows = [point_of(1, {"a": 1, "b": 2}).to_row(), point_of(2, {"a": 3}).to_row()]
    opened.create_table(("shop", "points"), schema).append(pa.Table.from_pylist(rows, schema))
    points = points_of(tables)
    assert points.all() == [point_of(1, {"a": 1, "b": 2}), point_of(2, {"a": 3})]
    kept, row = points.following(point_of(3, {"a": 4}))
    assert (kept.tables, kept.last_whole_row, row["tables"]) == ({"a": 4}, None, [{"name": "a", "snapshot": 4}])
