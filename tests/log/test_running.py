"""What a pipeline's user meets: one writer, files read once, clean stops, maintenance during a run, removal."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

import pytest
from pyspark.sql import SparkSession

from changeling.iceberg.catalog import NAME
from changeling.iceberg.lake import LAYOUT
from changeling.iceberg.lock import Holder, held
from changeling.log import log_tables
from changeling.model.errors import ChangelingError
from changeling.pipelines.lakehouse import lake_of, lock_file
from changeling.pipelines.listener import Listener
from changeling.pipelines.loading import load
from tests.log.lakes import SMALL, Shop, event
from tests.log.lakes import log_only as shop


class Heard(Listener):
    """Remembers the warnings of a run."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def on_warning(self, source: str, text: str) -> None:
        self.warnings.append(f"{source}: {text}")


def run(made: Shop) -> list[str]:
    heard = Heard()
    made.pipeline.run(once=True, listener=heard)
    return heard.warnings


def numbers(made: Shop) -> list[int]:
    return sorted(int(str(row["transaction"]["id"])) for row in made.log())


def test_a_second_run_is_refused_and_names_who_holds_the_pipeline(tmp_path: Path) -> None:
    made = shop(tmp_path)
    with held(lock_file(load(made.file)), "shop", "changeling run"), pytest.raises(ChangelingError) as refused:
        made.pipeline.run(once=True)
    assert str(refused.value).startswith(f"pipeline shop is held by `changeling run`, process {os.getpid()} of ")
    assert str(refused.value).endswith(": one writer at a time; stop it first")


def test_a_run_on_another_machine_is_seen_in_the_catalog(spark: SparkSession, tmp_path: Path) -> None:
    made = shop(tmp_path)
    made.write("a.json", event(1))
    run(made)
    lake = lake_of(load(made.file))
    there = Holder(7, "elsewhere", "ann", "2026-01-02T03:04:05Z", "changeling run")
    lake.claim(there, log_tables.BATCHES)
    with pytest.raises(ChangelingError) as refused:
        run(made)
    assert str(refused.value) == (
        "pipeline shop is held by `changeling run`, process 7 of ann on elsewhere, since 2026-01-02T03:04:05Z: one writer at a "
        "time; stop it first, or continue with --take-over where it is gone for certain"
    )
    made.pipeline.run(once=True, take_over=True)
    run(made)
    assert numbers(made) == [1]


def test_each_file_is_read_once_whatever_its_age(spark: SparkSession, tmp_path: Path) -> None:
    made = shop(tmp_path)
    made.write("b.json", event(1))
    assert run(made) == []
    old = made.write("a.json", event(2))
    os.utime(old, (1, 1))
    assert run(made) == []
    assert run(made) == []
    assert numbers(made) == [1, 2]


def test_a_file_that_changed_later_is_reported_and_not_read_again(spark: SparkSession, tmp_path: Path) -> None:
    made = shop(tmp_path)
    made.write("a.json", event(1))
    run(made)
    made.write("a.json", event(1), event(2))
    before, now = len(event(1)) + 1, len(event(1)) + len(event(2)) + 2
    expected = (
        f"drop: in/a.json changed after it was read (it had {before:,} bytes and has {now:,}); only its first version is in "
        "the log: give the new version another name to have it read"
    )
    assert run(made) == [expected]
    assert numbers(made) == [1]


def test_files_are_remembered_relative_to_the_pipeline_file(spark: SparkSession, tmp_path: Path) -> None:
    made = shop(tmp_path / "here")
    made.write("a.json", event(1))
    run(made)
    assert [json.loads(row["plan"])["files"][0][0] for row in made.rows(log_tables.BATCHES)] == ["in/a.json"]


def test_no_file_yet_is_reported_and_is_no_error(spark: SparkSession, tmp_path: Path) -> None:
    made = shop(tmp_path)
    assert run(made) == [f"drop: {tmp_path}/in/*.json: no file matches"]
    assert made.log() == []


def test_batches_are_bounded(spark: SparkSession, tmp_path: Path) -> None:
    source = {"name": "drop", "type": "files", "path": "in", "format": "xtdb", "batch_files": 2}
    made = shop(tmp_path, source)
    for number in range(5):
        made.write(f"{number}.json", event(number))
    (totals,) = made.pipeline.run(once=True)
    assert (totals.batches, totals.read, totals.accepted, totals.rejected) == (3, 5, 5, 0)
    assert [row["batch"] for row in made.log()].count(1) == 2
    assert sorted(row["origin"]["ordinal"] for row in made.log()) == [0, 1, 2, 3, 4]


def test_late_changes_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    made = shop(tmp_path)
    made.write("a.json", event(5), event(6))
    run(made)
    made.write("b.json", event(2), event(7))
    (totals,) = made.pipeline.run(once=True)
    assert totals.late == 1


def test_an_older_layout_is_upgraded_and_a_newer_one_refused(spark: SparkSession, tmp_path: Path) -> None:
    made = shop(tmp_path)
    made.write("a.json", event(1))
    run(made)
    lake = lake_of(load(made.file))
    changes = lake.name(log_tables.CHANGES)
    lake.sql(f"ALTER TABLE {changes} DROP COLUMN arrived")
    lake.sql(f"ALTER TABLE {changes} SET TBLPROPERTIES ('{LAYOUT}' = '0')")
    made.write("b.json", event(2))
    run(made)
    assert [(row["transaction"]["id"], row["arrived"]) for row in made.log()] == [("1", None), ("2", False)]
    lake.sql(f"ALTER TABLE {changes} SET TBLPROPERTIES ('{LAYOUT}' = '99')")
    with pytest.raises(ChangelingError) as refused:
        run(made)
    assert str(refused.value) == (
        f"{NAME}.`shop`.`changes` has layout 99, this version of Changeling knows {log_tables.VERSION}: install a newer one"
    )


def test_a_log_without_its_plans_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    made = shop(tmp_path)
    made.write("a.json", event(1))
    run(made)
    lake = lake_of(load(made.file))
    lake.sql(f"DELETE FROM {lake.name(log_tables.BATCHES)}")
    with pytest.raises(ChangelingError, match="its log has 1 batches, but only 0 plans of them exist"):
        run(made)


def test_ingest_and_upkeep_at_once_lose_nothing(spark: SparkSession, tmp_path: Path) -> None:
    source = {"name": "drop", "type": "files", "path": "in/*.json", "format": "xtdb", "batch_files": 1}
    made = shop(tmp_path, source)
    for number in range(6):
        made.write(f"{number:02d}.json", event(number), "broken")
    failures: list[BaseException] = []
    over = threading.Event()

    def upkeep() -> None:
        try:
            while not over.is_set():
                made.pipeline.maintain()
        except BaseException as error:
            failures.append(error)

    beside = threading.Thread(target=upkeep)
    beside.start()
    try:
        made.pipeline.run(once=True)
    finally:
        over.set()
        beside.join()
    assert failures == []
    assert numbers(made) == list(range(6))
    assert len(made.rows(log_tables.REJECTS)) == 6
    made.pipeline.maintain()
    assert numbers(made) == list(range(6))
    assert made.pipeline.run(once=True)[0].read == 0


def test_days_past_retention_are_dropped_but_not_before_a_reader_has_them(spark: SparkSession, tmp_path: Path) -> None:
    made = shop(tmp_path, retention="0ms")
    made.write("a.json", event(1))
    run(made)
    lake = lake_of(load(made.file))
    changes = lake.name(log_tables.CHANGES)
    lake.sql(f"CREATE TEMPORARY VIEW old AS SELECT * FROM {changes}")
    columns = ", ".join(f"`{name}`" for name in log_tables.CHANGES.columns.names if name != "ingested_at")
    lake.sql(f"INSERT INTO {changes} SELECT {columns}, TIMESTAMP '2001-01-01 00:00:00' FROM old")
    snapshot = lake.sql(f"SELECT snapshot_id FROM {changes}.snapshots ORDER BY committed_at").collect()[0][0]
    assert len(made.log()) == 2
    lake.sql(f"ALTER TABLE {changes} CREATE TAG `reader-slow` AS OF VERSION {snapshot}")
    done = {table.table: table for table in made.pipeline.maintain()}
    # Files that a reader's day still holds stay; the old day lies before the reader's snapshot, and has been read.
    assert done["changes"].files_dropped == 1
    assert numbers(made) == [1]
    assert made.pipeline.run(once=True)[0].read == 0


def test_a_removed_pipeline_leaves_nothing_and_can_begin_again(spark: SparkSession, tmp_path: Path) -> None:
    made = shop(tmp_path)
    made.write("a.json", event(1))
    run(made)
    assert sorted(made.pipeline.remove()) == ["asides", "batches", "changes", "points", "rejects", "schemas"]
    assert [path for path in (tmp_path / "lake").rglob("*") if path.is_file() and path.suffix == ".parquet"] == []
    assert made.pipeline.remove() == []
    run(made)
    assert numbers(made) == [1]


def test_status_needs_no_spark_and_shows_the_last_error(spark: SparkSession, tmp_path: Path) -> None:
    made = shop(tmp_path)
    (before,) = made.pipeline.status()
    assert (before["read"], before["ingested_at"], before["last_error"]) == (0, None, None)
    made.write("a.json", event(1), "broken")
    run(made)
    program = "import sys; from changeling.cli import main; code = main(); assert 'pyspark' not in sys.modules; sys.exit(code)"
    call = [sys.executable, "-c", program, "status", "--json", "--pipeline", str(made.file)]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    source, table = (json.loads(line) for line in done.stdout.splitlines())
    counts = {
        name: source[name] for name in ("kind", "name", "read", "accepted", "rejected", "applied", "late", "stale")
    }
    assert counts == {
        "kind": "source",
        "name": "drop",
        "read": 2,
        "accepted": 1,
        "rejected": 1,
        "applied": None,
        "late": 0,
        "stale": None,
    }
    assert source["commit_time"] == "2023-11-14T22:13:20.001Z"
    assert source["lag_seconds"] > 0
    assert (table["kind"], table["name"], table["version"]) == ("table", "mydb.users", 1)


def said(stream: IO[str]) -> str:
    """The next event in the log, which names its time, level and pipeline."""
    line = stream.readline()
    found = re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (?:INFO|WARNING) +shop: (.*)\n", line)
    assert found is not None, line
    return found[1]


@pytest.mark.services
# SIGTERM stops the run that test_operating watches.
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.soak)])
def test_a_run_for_ever_stops_cleanly_and_goes_on_later(number: signal.Signals, tmp_path: Path) -> None:
    made = shop(tmp_path, spark=SMALL)
    made.write("a.json", event(1))
    line = [sys.executable, "-m", "changeling", "run", str(made.file)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        assert [said(running.stderr) for _ in range(2)] == ["starting Spark", "opening the log"]
        assert said(running.stderr).startswith("drop batch 1: 1 record, 1 change in")
        assert said(running.stderr).startswith("schema 1: ")
        made.write("b.json", event(2))
        assert said(running.stderr).startswith("drop batch 2: 1 record, 1 change in")
        time.sleep(0.5)
        running.send_signal(number)
        out, err = running.communicate(timeout=60)
    assert running.returncode == 0, err
    assert err.endswith(" WARNING shop: stopping when this batch is in the log; once more stops at once\n")
    assert out.splitlines()[1].split()[:7] == ["drop", "2", "2", "2", "0", "2", "0"]
    assert numbers(made) == [1, 2]
