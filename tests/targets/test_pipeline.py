"""Targets in a pipeline file: run, shown by `status`, removed with the pipeline."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeling.model.errors import ChangelingError
from changeling.replicas.points import Point
from changeling.targets.target_state import TargetStatus, lag
from tests.log.commands import printed, printed_objects
from tests.log.lakes import shop
from tests.postgres.server import Database
from tests.replicas.shops import SOURCE, item, replica
from tests.targets.postgres_targets import Rows, differing, run, there


def test_targets_of_a_pipeline(
    spark: SparkSession, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRROR", database.url)
    monkeypatch.setenv("AWAY", "postgresql://anne:hunter2@127.0.0.1:1/shop")
    mirror: dict[str, Any] = {"name": "mirror", "type": "postgres", "url": "${MIRROR}", "tables": ["public.*"]}
    made = shop(tmp_path, SOURCE, targets=[mirror])
    run(made, "a", item(1, "insert", {"id": 1, "name": "Ann", "n": 1}))
    assert there(database, "users") == [{"id": 1, "name": "Ann", "n": 1}]
    (row,) = [row for row in made.pipeline.status() if row["kind"] == "target"]
    assert (row["name"], row["point"], row["aside"], row["last_error"]) == ("mirror", 1, 0, None)

    # One that cannot be reached holds up neither the replicas nor the others.
    made = shop(tmp_path, SOURCE, targets=[{**mirror, "name": "away", "url": "${AWAY}"}, mirror])
    with pytest.raises(ChangelingError, match=r"target 'away': PostgreSQL at .*: .*refused") as raised:
        run(
            made,
            "b",
            item(2, "insert", {"id": 2, "name": "Bob", "n": 2}),
            item(3, "insert", {"id": 3, "name": "C\0", "n": 3}),
        )
    assert "hunter2" not in str(raised.value)
    assert len(replica(made)) == 3
    missing: dict[str, tuple[Rows, Rows]] = {"public__users": ([(3, "C\0", 3)], [])}
    assert differing(made, database) == missing
    call = ("status", "--pipeline", str(made.file))
    rows = {row["name"]: row for row in printed_objects(made, *call) if row["kind"] == "target"}
    reported = {name: (row["reachable"], row["point"], row["aside"]) for name, row in rows.items()}
    assert reported == {"mirror": (True, 2, 1), "away": (False, None, None)}
    assert "refused" in rows["away"]["last_error"]
    assert "hunter2" not in str(rows)
    assert [line for line in printed(made, *call).splitlines() if line.startswith("target")] == [
        "target away: unknown, it cannot be reached",
        "target mirror: at point 2, 1 row quarantined (changeling.asides lists them)",
    ]

    made = shop(tmp_path, SOURCE, targets=[mirror])
    assert "public.users of target mirror" in made.pipeline.remove()
    assert database.rows("SELECT to_regclass('users'), to_regnamespace('changeling')") == [(None, None)]
    # A new log starts from scratch in the target.
    run(made, "c", item(4, "insert", {"id": 4, "name": "Dan", "n": 4}))
    assert differing(made, database) == missing


def test_how_far_behind_a_target_is() -> None:
    now = datetime(2026, 1, 1, 12, tzinfo=UTC)
    points = [Point(number, now - timedelta(minutes=10 - number)) for number in (1, 2, 3)]
    assert lag(None, [], now) is None
    assert lag(None, points, now) == timedelta(minutes=9)
    status = TargetStatus(2, points[1].made_at, now, {}, {})
    assert lag(status, points, now) == timedelta(minutes=7)
    assert lag(TargetStatus(3, points[2].made_at, now, {}, {}), points, now) == timedelta(0)
    assert lag(status, [], now) == timedelta(0)
