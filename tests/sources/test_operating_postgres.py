"""A capture that is operated: its file changes while it runs, its lag is reported then and afterwards, and a new snapshot is no truncate."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from changeling.cli import main
from changeling.pipelines.listener import Listener
from changeling.pipelines.run_metrics import RunMetrics
from changeling.sources.source import PlanSize
from tests.log.lakes import Shop
from tests.postgres.server import Database
from tests.sources.captures import assert_equal, capture, replica


class Heard(Listener):
    """Remembers what was snapshotted, and what was applied."""

    def __init__(self) -> None:
        self.snapshots: list[str] = []
        self.taken: list[list[str]] = []
        self.left: list[str] = []

    def on_batch_start(self, source: str, batch: int, size: PlanSize) -> None:
        self.snapshots += [str(size.snapshot)] * (size.snapshot is not None)

    def on_reload(self, taken: Sequence[str], left: Sequence[str]) -> None:
        self.taken.append(list(taken))
        self.left += left


@contextmanager
def running(made: Shop, heard: Heard, metrics: RunMetrics) -> Iterator[None]:
    stop = threading.Event()
    run = threading.Thread(target=made.pipeline.run, kwargs={"stop": stop, "listener": heard, "metrics": metrics})
    run.start()
    try:
        yield
    finally:
        stop.set()
        run.join()


def wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def source_of(made: Shop) -> dict[str, Any]:
    return next(row for row in made.pipeline.status() if row["kind"] == "source")


def test_a_capture_that_is_operated(
    spark: SparkSession, tmp_path: Path, database: Database, capsys: Any, monkeypatch: Any
) -> None:
    for name in ("users", "orders", "items"):
        database.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, v text)", f"INSERT INTO {name} VALUES (1, 'a')")
    source: dict[str, Any] = {"tables": ["public.users"]}
    made, heard, metrics = capture(tmp_path, database, source=source), Heard(), RunMetrics("shop")
    with running(made, heard, metrics):
        # It is known when a look has left nothing.
        lag = b'changeling_source_lag_seconds{pipeline="shop",source="pg"} '
        wait_for(lambda: lag in metrics.text() and source_of(made)["behind_seconds"] is not None)
        row = source_of(made)
        assert (row["running"], row["behind_error"]) == (True, None)
        assert row["behind_seconds"] < 120
        assert row["behind_bytes"] > 0
        assert b'changeling_source_retained_bytes{pipeline="shop",source="pg"} ' in metrics.text()
        capture(tmp_path, database, source={"tables": ["public.users", "public.orders", "public.items"]})
        wait_for(lambda: heard.taken == [["source pg (changed)"]])
        wait_for(lambda: any(row["name"].endswith("items") and row["applied"] for row in made.pipeline.status()))
        database.execute("UPDATE users SET v = 'b'")
        wait_for(lambda: replica(made, "users")[0]["v"] == "b")
    assert heard.left == []
    assert heard.snapshots == ["snapshot of table 1 of 1", "snapshot of tables 1 to 2 of 2"]
    assert_equal(made, database, "users", "orders", "items")

    assert source_of(made)["behind_seconds"] == 0
    database.execute("ALTER TABLE users ADD COLUMN rank int DEFAULT 7", "INSERT INTO orders VALUES (2, 'c')")
    # The server writes a commit to its disk a little later.
    wait_for(lambda: source_of(made)["behind_seconds"] > 0)
    behind = source_of(made)
    assert (behind["running"], behind["behind_error"]) == (False, None)
    assert 0 < behind["behind_seconds"] < 120

    made.pipeline.run(once=True)
    assert_equal(made, database, "users", "orders")
    found = made.pipeline.history("users", '{"id": 1}')
    assert [(one.is_resnapshot, one.changed) for one in found] == [
        *[(False, ["id", "v"]), (False, ["v"]), (True, ["rank"])],
    ]
    monkeypatch.chdir(tmp_path)
    assert main(["history", "users", "--key", '{"id": 1}']) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].startswith(f'resnapshot {database.name}.public.users {{"id":1}}  20')
    assert lines[-1] == "    rank: 7"
