"""A run that fails anywhere and is started again ends with the same tables as one that nothing disturbed."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeling.iceberg.failpoints import FAILPOINTS, FailpointReached
from changeling.log import log_tables
from changeling.log.maintenance import maintain
from changeling.pipelines.lakehouse import lake_of
from changeling.pipelines.loading import load
from tests.log.lakes import SMALL, Shop, event
from tests.log.lakes import log_only as shop
from tests.log.records import debezium

TABLES = (log_tables.CHANGES, log_tables.REJECTS, log_tables.SCHEMAS)
_LATER = (
    "replay",
    "quarantine",
    "replica",
    "point",
    "target",
    "feed",
    "scan",
    "retention",
    "kafka",
    "files",
    "relocate",
)
READING = [point for point in FAILPOINTS if not point.startswith(_LATER)]
REPLAYING = [point for point in FAILPOINTS if point.startswith(("plan", "read", "changes", "replay"))]
SOURCES: tuple[dict[str, Any], ...] = (
    {
        "name": "drop",
        "type": "files",
        "path": "in/*.json",
        "format": "xtdb",
        "columns": {"_id": "string", "n": "int64"},
        "batch_files": 1,
    },
    {"name": "bus", "type": "files", "path": "in/*.dbz", "format": "debezium-json", "batch_files": 1},
)


def filled(folder: Path) -> Shop:
    """Two sources of two batches each, with rejects, with schemas that records carry and one that changes."""
    made = shop(folder, *SOURCES, spark=SMALL)
    made.write("a.json", event(1), "broken", event(2))
    made.write("b.json", event(3), event(4), "{}")
    made.write("a.dbz", debezium(1), "broken", debezium(2))
    made.write("b.dbz", debezium(3, extra=True), "broken", debezium(4, extra=True))
    return made


def run(made: Shop) -> None:
    made.pipeline.run(once=True)


def tables(made: Shop) -> dict[str, list[dict[str, Any]]]:
    """The rows of the tables; sources register schemas at the same time, so that instead of its number a schema has its name."""
    names = {row["id"]: f"{row['source']} {row['table']} {row['version']}" for row in made.rows(log_tables.SCHEMAS)}
    numbers = ("id", "schema_id")
    return {
        table.name: sorted(
            (
                {**row, **{name: names.get(row[name], row[name]) for name in numbers if name in row}}
                for row in made.rows(table)
            ),
            key=repr,
        )
        for table in TABLES
    }


def with_upkeep(made: Shop) -> None:
    """Compacts, and expires every snapshot that nothing holds."""
    maintain(lake_of(load(made.file)), 30 * 86_400_000, keep_snapshots=timedelta(0))


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    made = filled(tmp_path_factory.mktemp("undisturbed"))
    run(made)
    found = tables(made)
    assert {name: len(rows) for name, rows in found.items()} == {"changes": 8, "rejects": 4, "schemas": 3}
    return found


@pytest.fixture(autouse=True)
def _no_failpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHANGELING_FAILPOINT", raising=False)


def failed(
    made: Shop, point: str, monkeypatch: pytest.MonkeyPatch, action: Callable[[Shop], object], *, upkeep: bool = True
) -> None:
    """What is done fails at that point; then come those who tidy up."""
    with monkeypatch.context() as environment:
        environment.setenv("CHANGELING_FAILPOINT", point)
        with pytest.raises(FailpointReached):
            action(made)
    if upkeep:
        with_upkeep(made)


def replay(made: Shop) -> None:
    made.pipeline.replay()


def test_failures_at_every_point_one_after_another_are_made_good(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    undisturbed: dict[str, list[dict[str, Any]]],
) -> None:
    """Each run makes good what the one before left, and fails a little later."""
    made = filled(tmp_path / "lake")
    later = [path.rename(path.with_suffix(path.suffix + ".later")) for path in sorted((made.folder / "in").glob("b.*"))]
    # There is a batch of each source before them, whose state must not be lost.
    run(made)
    for path in later:
        path.rename(path.with_suffix(""))
    for point in READING:
        # What nothing was committed before is as it was: there is nothing new to tidy up.
        failed(made, point, monkeypatch, run, upkeep=point.endswith(".after"))
    run(made)
    run(made)
    assert tables(made) == undisturbed


@pytest.mark.soak
@pytest.mark.parametrize("point", READING)
def test_a_failure_is_made_good(
    point: str,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    undisturbed: dict[str, list[dict[str, Any]]],
) -> None:
    made = filled(tmp_path / "lake")
    # The second time: there is a batch before it whose state must not be lost.
    failed(made, f"{point}@2", monkeypatch, run)
    run(made)
    run(made)
    assert tables(made) == undisturbed


def to_replay(folder: Path) -> Shop:
    """A log with two rejects, of which one can be read by now."""
    source = {"name": "drop", "type": "files", "path": "in/*.json", "format": "xtdb"}
    made = shop(folder, source)
    nameless = event(2).replace('"table": "users", ', "")
    made.write("a.json", event(1), nameless, "broken", event(3))
    run(made)
    assert len(made.rows(log_tables.REJECTS)) == 2
    return shop(folder, {**source, "table": "mydb.x.users"})


def replayed_once(made: Shop) -> None:
    """Whatever is done next ends the replay first."""
    run(made)
    made.pipeline.replay()
    assert [row["key"] for row in made.log()].count('{"_id":"id-2"}') == 1
    assert len(made.log()) == 3
    assert [row["raw"] for row in made.rows(log_tables.REJECTS)] == [b"broken"]
    (status,) = [row for row in made.pipeline.status() if row["kind"] == "source"]
    assert (status["read"], status["accepted"], status["rejected"]) == (4, 3, 1)


def test_a_replay_that_fails_at_every_point_is_made_good(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = to_replay(tmp_path)
    for number, point in enumerate(REPLAYING):
        planned = point not in ("plan.before", "plan.after")
        action = run if planned and number % 2 else replay
        failed(made, point, monkeypatch, action, upkeep=point.endswith(".after"))
    replayed_once(made)


@pytest.mark.soak
@pytest.mark.parametrize("point", REPLAYING)
def test_a_failed_replay_is_made_good(
    point: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = to_replay(tmp_path)
    failed(made, point, monkeypatch, replay)
    replayed_once(made)


def killed(made: Shop, point: str) -> None:
    """Runs the pipeline in a process of its own, which kills itself at that point."""
    command = [sys.executable, "-m", "changeling", "run", str(made.file), "--once"]
    environment = {**os.environ, "CHANGELING_FAILPOINT": f"{point}@2=kill"}
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    "point",
    ["rejects.after", *(pytest.param(point, marks=pytest.mark.soak) for point in READING if point != "rejects.after")],
)
def test_a_killed_run_is_made_good(
    point: str, spark: SparkSession, tmp_path: Path, undisturbed: dict[str, list[dict[str, Any]]]
) -> None:
    made = filled(tmp_path / "lake")
    killed(made, point)
    with_upkeep(made)
    run(made)
    assert tables(made) == undisturbed
