"""Two sources and a merge at the same time: what one of them does, or leaves undone, disturbs no other."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeling.iceberg.failpoints import FAILPOINTS, FailpointReached
from changeling.log import log_tables
from changeling.log.ingest import BatchReport
from changeling.pipelines.listener import Listener
from changeling.replicas.merge import MergeReport
from tests.log.lakes import SMALL, Shop, shop
from tests.replicas.shops import item, points, quarantine_entries, replica, replicas

SOURCES = ("north", "south")
_OUTSIDE = ("replay", "target", "feed", "kafka", "files", "relocate", "scan", "retention")
WALK = [point for point in FAILPOINTS if not point.startswith(_OUTSIDE)]
BATCHES = 3


def failpoint(point: str, times: int) -> str:
    """The place is met so often by any thread; one point, with one commit to the quarantine, may have all that is new."""
    return f"{point}@{1 if point.startswith(('point', 'quarantine')) else times}"


def two(folder: Path, **more: Any) -> Shop:
    """Two sources with a table of one name each, whose files are a batch each."""
    given = [
        {"name": name, "type": "files", "path": f"in/{name}/*.json", "format": "transferia", "batch_files": 1}
        for name in SOURCES
    ]
    rules = [{"name": "users", "source": "south", "mode": "history"}]
    return shop(folder, *given, tables=rules, settle="1ms", **more)


def add(made: Shop, number: int) -> None:
    """A file for each source: a new row, an update of the one before, a new table, a value that does not fit, and garbage."""
    odd: dict[str, Any] = {"table": f"t{number}", "columns": {"id": "int64", "n": "int32"}}
    for source in SOURCES:
        records = [
            item(number, "insert", {"id": number, "name": source, "n": number}),
            item(number, "insert", {"id": 1, "n": 2**40}, order=1, **odd),
            "broken",
        ]
        if number > 1:
            records.append(item(number, "update", {"id": number - 1, "n": -number}, {"id": number - 1}, order=2))
        made.write(f"{source}/{number:04d}.json", *records)


def expected(last: int) -> dict[str, Any]:
    """The replicas after so many files of each source."""
    rows = {
        source: [
            {"id": number, "name": source, "n": -number - 1 if number < last else last} for number in range(1, last + 1)
        ]
        for source in SOURCES
    }
    found: dict[str, Any] = {f"{source}__public__users": sorted(rows[source], key=repr) for source in SOURCES}
    found |= {
        f"{source}__public__t{number}": [{"id": 1, "n": None}] for source in SOURCES for number in range(1, last + 1)
    }
    return found


def current(made: Shop) -> dict[str, Any]:
    return {name: replica(made, name) for name in replicas(made) if not name.endswith("__history")}


class Until(Listener):
    """Ends a run when the replicas have all batches up to a number of both sources."""

    def __init__(self, batch: int, stop: threading.Event) -> None:
        self._batch, self._stop = batch, stop
        self.threads: set[str] = set()

    def on_batch_done(self, report: BatchReport) -> None:
        self.threads.add(threading.current_thread().name)

    def on_merge_done(self, report: MergeReport) -> None:
        self.threads.add(threading.current_thread().name)
        if all(report.point.of(source).last_complete_batch >= self._batch for source in SOURCES):
            self._stop.set()


def go_on(made: Shop, batch: int) -> set[str]:
    """Runs until the replicas have these batches; returns the threads that brought something."""
    stop = threading.Event()
    until = Until(batch, stop)
    made.pipeline.run(stop=stop, listener=until)
    return until.threads


def check(made: Shop, last: int) -> None:
    """Nothing is missing, nothing twice; and the replicas are those that the log gives."""
    assert current(made) == expected(last)
    log = made.log()
    assert sorted((row["source"], row["position"]) for row in log) == sorted(
        {(row["source"], row["position"]) for row in log}
    )
    assert len(log) == 2 * (3 * last - 1)
    assert len(made.rows(log_tables.REJECTS)) == 2 * last
    versions = made.rows(log_tables.SCHEMAS)
    assert sorted(row["id"] for row in versions) == list(range(1, len(versions) + 1))
    known = {row["id"]: (row["source"], row["table"]) for row in versions}
    assert all(known[row["schema_id"]] == (row["source"], row["table"]) for row in log)
    assert len(quarantine_entries(made)) == 2 * last
    assert [point["point"] for point in points(made)] == list(range(1, len(points(made)) + 1))
    history = replica(made, "public__users__history")
    assert len(history) == 2 * last - 1
    for source in SOURCES:
        assert made.pipeline.rebuild("users", source=source) == last
    assert current(made) == expected(last)
    assert replica(made, "public__users__history") == history


def test_sources_and_merges_that_fail_at_every_point_side_by_side_are_made_good(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run continues from where the one before failed, whichever of its threads that was."""
    made = two(tmp_path)
    add(made, 1)
    assert go_on(made, 1) >= {"changeling-north", "changeling-south"}
    last = 1
    for point in WALK:
        last += 1
        add(made, last)
        monkeypatch.setenv("CHANGELING_FAILPOINT", failpoint(point, 2))
        with pytest.raises(FailpointReached):
            go_on(made, last)
        monkeypatch.delenv("CHANGELING_FAILPOINT")
    go_on(made, last)
    check(made, last)


@pytest.mark.parametrize(
    "point",
    ["replica.before", *(pytest.param(point, marks=pytest.mark.soak) for point in WALK if point != "replica.before")],
)
def test_a_run_that_is_killed_with_both_sources_and_a_merge_at_work_is_made_good(
    point: str, spark: SparkSession, tmp_path: Path
) -> None:
    made = two(tmp_path, spark=SMALL)
    for number in range(1, BATCHES + 1):
        add(made, number)
    line = [sys.executable, "-m", "changeling", "run", str(made.file)]
    environment = {**os.environ, "CHANGELING_FAILPOINT": f"{failpoint(point, 3)}=kill"}
    assert subprocess.run(line, env=environment, capture_output=True, check=False).returncode == -signal.SIGKILL
    go_on(made, BATCHES)
    check(made, BATCHES)
