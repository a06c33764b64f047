"""Changes of every kind reach the tables of PostgreSQL as they reach the replicas."""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.postgres.server import Database
from tests.replicas.shops import bus, item
from tests.targets.postgres_targets import differing, mirror, run, step, there

BAG: dict[str, Any] = {"table": "bag", "columns": {"a": "int64", "b": "utf8"}, "key": ()}


def test_rows_follow_their_replica_change_by_change(spark: SparkSession, database: Database, tmp_path: Path) -> None:
    made = bus(tmp_path)
    target = mirror(made, database)
    assert target.step() is None
    assert target.status() is None
    run(
        made,
        "a",
        item(1, "insert", {"id": 1, "name": "Ann", "n": 1}),
        item(1, "insert", {"id": 2, "name": "Bob", "n": 2}, order=1),
        item(2, "insert", {"id": 3, "name": "Cid", "n": 3}),
        *(item(3, "insert", {"a": 7, "b": "x"}, order=order, **BAG) for order in range(3)),
        item(3, "insert", {"a": None, "b": None}, order=3, **BAG),
    )
    report = step(target)
    assert report.point.number == 1
    assert [(str(moved.place), moved.written, moved.deleted, moved.whole) for moved in report.tables] == [
        ("public.bag", 4, 0, True),
        ("public.users", 3, 0, True),
    ]
    assert there(database, "users") == [
        {"id": 1, "name": "Ann", "n": 1},
        {"id": 2, "name": "Bob", "n": 2},
        {"id": 3, "name": "Cid", "n": 3},
    ]
    assert differing(made, database) == {}
    assert target.step() is None

    # An insert, a whole update, an update in part, a delete, a key that changes; of equal rows one goes, another changes.
    run(
        made,
        "b",
        item(4, "insert", {"id": 4, "name": "Dan", "n": 4}),
        item(5, "update", {"id": 1, "name": "Anne", "n": 10}, {"id": 1}),
        item(6, "update", {"id": 2, "n": 20}, {"id": 2}),
        item(7, "delete", None, {"id": 3}),
        item(8, "update", {"id": 9}, {"id": 4}),
        item(9, "delete", None, {"a": 7, "b": "x"}, **BAG),
        item(10, "update", {"a": 7, "b": "y"}, {"a": 7, "b": "x"}, **BAG),
        item(11, "insert", {"a": None, "b": None}, **BAG),
    )
    report = step(target)
    assert [(str(moved.place), moved.written, moved.deleted, moved.whole) for moved in report.tables] == [
        ("public.bag", 2, 2, False),
        ("public.users", 3, 1, False),
    ]
    assert report.warnings == []
    assert differing(made, database) == {}
    assert [row["id"] for row in there(database, "users")] == [1, 2, 9]

    # One table alone changes: late, in part.
    run(made, "c", item(2, "update", {"id": 1, "name": "Late"}, {"id": 1}, order=7))
    report = step(target)
    assert report.tables == []
    run(made, "d", item(2, "update", {"id": 2, "name": "Late"}, {"id": 2}, order=8))
    assert [str(moved.place) for moved in step(target).tables] == ["public.users"]
    assert there(database, "users")[1] == {"id": 2, "name": "Late", "n": 20}

    run(made, "e", item(12, "truncate"), item(13, "insert", {"id": 1, "name": "New", "n": 0}))
    step(target)
    assert there(database, "users") == [{"id": 1, "name": "New", "n": 0}]
    assert differing(made, database) == {}
    run(made, "f", item(14, "truncate", table="bag"))
    step(target)
    assert there(database, "bag") == []

    status = target.status()
    assert status is not None
    assert (status.point, status.quarantined) == (6, 0)
    assert status.sources["bus"].transaction == "14"
    assert sorted(status.tables) == ["public__bag", "public__users"]
    leftovers = "SELECT relname FROM pg_class WHERE relname LIKE 'stage%'"
    assert database.rows(leftovers) == []


def test_a_target_that_starts_late_or_was_away_is_at_the_newest_point(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    made = bus(tmp_path)
    for number in (1, 2, 3):
        run(made, str(number), item(number, "insert", {"id": number, "name": "x", "n": number}))
    target = mirror(made, database)
    assert step(target).point.number == 3
    assert differing(made, database) == {}
    for number in (4, 5, 6):
        run(
            made,
            str(number),
            item(number, "insert", {"id": number, "name": "x", "n": number}),
            item(number, "delete", None, {"id": number - 3}, order=1),
        )
    report = step(mirror(made, database))
    assert report.point.number == 6
    assert [(moved.written, moved.deleted, moved.whole) for moved in report.tables] == [(3, 3, False)]
    assert differing(made, database) == {}
