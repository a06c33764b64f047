"""A step that is interrupted anywhere leaves the database at a point, and the next one continues; readers see only points."""

import os
import signal
import subprocess
import sys
import threading
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from changeling.iceberg.failpoints import FAILPOINTS, FailpointReached
from changeling.model.errors import ChangelingError
from changeling.targets.apply import check_complete
from changeling.targets.staging_table import stage
from tests.log.lakes import SMALL, Shop
from tests.postgres.server import Database
from tests.replicas.shops import bus, item
from tests.targets.postgres_targets import differing, mirror, run, step

STEPS = [point for point in FAILPOINTS if point.startswith("target")]
BAG: dict[str, Any] = {"table": "bag", "columns": {"a": "int64"}, "key": ()}
WIDER = {"id": "int64", "name": "utf8", "n": "int64", "more": "utf8"}
_STEP = """
import sys
from changeling.pipelines.lakehouse import lake_of
from changeling.pipelines.loading import load
from changeling.targets.postgres_target import PostgresTarget
PostgresTarget(lake_of(load(sys.argv[1])), "mirror", sys.argv[2], ["*"], "shop").step()
"""


def records(start: int) -> list[str]:
    """A transaction that leaves as many rows in one table as in the other: with columns, updates and deletes of all kinds."""
    return [
        item(start, "insert", {"id": start, "name": "x", "n": 1, "more": "y"}, columns=WIDER),
        item(start, "insert", {"a": 7}, order=1, **BAG),
        item(start + 1, "update", {"id": start, "n": start}, {"id": start}, columns=WIDER),
        item(start + 2, "insert", {"id": start + 2, "name": "gone", "n": 1, "more": ""}, columns=WIDER),
        item(start + 2, "insert", {"a": 7}, order=1, **BAG),
        item(start + 2, "delete", None, {"id": start + 2}, order=2, columns=WIDER),
        item(start + 2, "delete", None, {"a": 7}, order=3, **BAG),
    ]


@pytest.fixture(scope="module")
def pipeline(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return bus(tmp_path_factory.mktemp("crashes"), spark=SMALL)


def newest(made: Shop) -> int:
    """The number of the newest point; there is one from here on."""
    return len(list(made.folder.glob("in/*.json"))) or more(made)


def more(made: Shop) -> int:
    """One more point, with one more row in each table than the one before; its number is that of its rows."""
    number = len(list(made.folder.glob("in/*.json"))) + 1
    run(made, f"{number:03d}", *records(number * 10))
    return number


@pytest.fixture(autouse=True)
def _no_failpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHANGELING_FAILPOINT", raising=False)


@pytest.mark.parametrize("point", STEPS)
def test_a_step_that_fails_is_made_good(
    point: str, pipeline: Shop, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = newest(pipeline)
    for expected in (number, number + 1):
        monkeypatch.setenv("CHANGELING_FAILPOINT", point)
        with pytest.raises(FailpointReached):
            mirror(pipeline, database).step()
        monkeypatch.delenv("CHANGELING_FAILPOINT")
        status = mirror(pipeline, database).status()
        before = None if expected == number else number
        assert (status and status.point) == (expected if point == "target.after" else before)
        assert (mirror(pipeline, database).step() is None) == (point == "target.after")
        assert differing(pipeline, database) == {}
        assert database.rows("SELECT relname FROM pg_class WHERE relname LIKE 'stage%'") == []
        if expected == number:
            more(pipeline)


@pytest.mark.parametrize(
    "point", [STEPS[1], *(pytest.param(one, marks=pytest.mark.soak) for one in STEPS if one != STEPS[1])]
)
def test_a_step_that_is_killed_is_made_good(point: str, pipeline: Shop, database: Database) -> None:
    newest(pipeline)
    step(mirror(pipeline, database))
    number = more(pipeline)
    environment = {**os.environ, "CHANGELING_FAILPOINT": f"{point}=kill"}
    command = [sys.executable, "-c", _STEP, str(pipeline.file), database.url]
    assert subprocess.run(command, env=environment, capture_output=True, check=False).returncode == -signal.SIGKILL
    assert database.rows("SELECT count(*) FROM pg_class WHERE relname LIKE 'stage%'") == [(2,)]
    mirror(pipeline, database).step()
    assert database.rows("SELECT point FROM changeling.points") == [(number,)]
    assert differing(pipeline, database) == {}
    assert database.rows("SELECT relname FROM pg_class WHERE relname LIKE 'stage%'") == []


def test_a_server_that_crashes_in_between_is_noticed(
    pipeline: Shop, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = newest(pipeline)
    step(mirror(pipeline, database))
    more(pipeline)
    # Staged rows do not survive a crash: their table exists, and is empty.

    def emptied(connection: Any, staged: Any) -> None:
        connection.execute(psycopg.sql.SQL("DELETE FROM {}").format(staged.table))
        check_complete(connection, staged)

    monkeypatch.setattr("changeling.targets.table_sync.check_complete", emptied)
    with pytest.raises(ChangelingError, match="target 'mirror': 0 of 1 staged rows exist"):
        mirror(pipeline, database).step()
    monkeypatch.undo()
    assert database.rows("SELECT point FROM changeling.points") == [(number,)]
    target = mirror(pipeline, database)
    database.connection.close()
    database.server.stop()
    with pytest.raises(ChangelingError, match=r"target 'mirror': PostgreSQL at .*refused"):
        target.step()
    more(pipeline)
    more(pipeline)
    database.server.start()
    database.connection = psycopg.connect(database.url, autocommit=True)
    assert step(target).point.number == number + 3
    assert differing(pipeline, database) == {}


def test_two_runs_at_once_do_not_apply_twice(
    pipeline: Shop, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest(pipeline)
    step(mirror(pipeline, database))
    more(pipeline)

    def overtaken(*given: Any) -> Any:
        monkeypatch.undo()
        assert mirror(pipeline, database).step() is not None
        return stage(*given)

    monkeypatch.setattr("changeling.targets.table_sync.stage", overtaken)
    with pytest.raises(ChangelingError, match="target 'mirror': "):
        mirror(pipeline, database).step()
    assert differing(pipeline, database) == {}


def test_readers_see_points_and_nothing_between(pipeline: Shop, database: Database) -> None:
    newest(pipeline)
    target = mirror(pipeline, database)
    step(target)
    seen: list[tuple[Any, ...]] = []
    problems: list[BaseException] = []
    stop = threading.Event()

    def read() -> None:
        try:
            with psycopg.connect(database.url) as connection:
                connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                while not stop.is_set():
                    with connection.transaction():
                        point = connection.execute("SELECT point FROM changeling.points").fetchone()
                        stop.wait(0.002)
                        users = connection.execute("SELECT count(*) FROM users").fetchone()
                        bag = connection.execute("SELECT count(*) FROM bag").fetchone()
                        assert point is not None and users is not None and bag is not None  # noqa: PT018
                        seen.append((*point, *users, *bag))
        except BaseException as error:
            problems.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(3):
            more(pipeline)
            step(target)
    finally:
        stop.set()
        reader.join()
    assert problems == []
    counts = {point: (users, bag) for point, users, bag in seen}
    assert len(counts) >= 3
    assert len(set(seen)) == len(counts)
    assert all(users == bag == point for point, (users, bag) in counts.items())
