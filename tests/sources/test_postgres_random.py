"""Random writers, and a pipeline that fails, is killed and meets a server that restarts: the replicas are the source.

Files are read at the same time, and merged with what the server wrote.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from changeling.iceberg.failpoints import FAILPOINTS, FailpointReached
from changeling.log import log_tables
from changeling.model.errors import ChangelingError, UsageError
from changeling.pipelines.time_travel import AskedState
from demo.embedded_postgres import EmbeddedPostgres
from tests.log.lakes import Shop
from tests.postgres.older_versions import IN_SOAK
from tests.postgres.server import Database, started
from tests.replicas.shops import item
from tests.sources.captures import capture, replica, source
from tests.sources.workloads import NAMES, TABLES, write_at_once

_ELSEWHERE = ("replay", "rejects", "target", "feed", "kafka", "files", "scan", "retention")
REACHED = [point for point in FAILPOINTS if not point.startswith(_ELSEWHERE)]
FILES = {"name": "drop", "type": "files", "path": "in/*.json", "format": "transferia", "batch_files": 1}
filed_item = partial(item, table="filed", columns={"id": "int64", "n": "int64"})
ALTERATIONS = (
    "ALTER TABLE keyed ADD COLUMN extra int DEFAULT 7",
    "ALTER TABLE pairs ADD COLUMN more text",
    "ALTER TABLE bag ADD COLUMN c int DEFAULT 1",
    "ALTER TABLE whole DROP COLUMN v",
    "ALTER TABLE parts RENAME COLUMN v TO w",
    "ALTER TABLE keyed ALTER COLUMN n TYPE numeric(20,5)",
)


@pytest.fixture(scope="module")
def restarting() -> Iterator[EmbeddedPostgres]:
    with started() as made:
        yield made


@pytest.fixture(autouse=True)
def _no_failpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHANGELING_FAILPOINT", raising=False)


def contents(database: Database) -> dict[str, list[dict[str, Any]]]:
    return {name: source(database, name) for name in NAMES}


def file_rows(made: Shop, number: int) -> list[dict[str, Any]]:
    """A file with a row more and an update of every row before; returns the rows that the files have now."""
    updates = [filed_item(number, "update", {"id": before, "n": number}, {"id": before}) for before in range(number)]
    made.write(f"{number:04d}.json", filed_item(number, "insert", {"id": number, "n": number}), *updates)
    return [{"id": one, "n": number} for one in range(number + 1)]


def assert_verified(made: Shop) -> None:
    """What `changeling verify` says: nothing differs in any table."""
    assert {str(one.table.name): one.different for one in made.pipeline.verify()} == dict.fromkeys(NAMES, 0)


def run_and_fail(made: Shop, choose: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that fails at some place, or does not get there."""
    monkeypatch.setenv("CHANGELING_FAILPOINT", f"{choose.choice(REACHED)}@{choose.randint(1, 4)}")
    try:
        made.pipeline.run(once=True)
    except FailpointReached:
        pass
    finally:
        monkeypatch.delenv("CHANGELING_FAILPOINT")


def run_and_cut(made: Shop, choose: random.Random, database: Database) -> None:
    """A run whose connections the server interrupts at some time."""
    cut = threading.Timer(choose.uniform(0.2, 3), _cut_off, (database.url,))
    cut.start()
    with suppress(ChangelingError):
        made.pipeline.run(once=True)
    cut.join()


def _cut_off(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'changeling'"
        )


def run_and_kill(made: Shop, choose: random.Random) -> None:
    """A run of its own process that is killed at some time after its first batch."""
    with subprocess.Popen(
        [sys.executable, "-m", "changeling", "run", made.file.name],
        cwd=made.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as running:
        assert running.stderr is not None
        while b" batch " not in (line := running.stderr.readline()):
            assert line, "it ended by itself"
        time.sleep(choose.uniform(0, 4))
        os.killpg(running.pid, signal.SIGKILL)


def as_of(made: Shop, name: str, timestamp: str, *, on_spark: bool) -> list[dict[str, Any]] | None:
    """None before the snapshot that the table is known from."""

    def asked() -> pa.Table:
        table, pipeline = f"public.{name}", made.pipeline
        if on_spark:
            return pipeline.replica(table, as_of=timestamp).toArrow()
        return pipeline.read(table, AskedState(as_of=timestamp)).rows

    if timestamp < known_from(made, name):
        with pytest.raises(UsageError, match="lies before the snapshot"):
            asked()
        return None
    return sorted(asked().to_pylist(), key=repr)


def known_from(made: Shop, name: str) -> str:
    """When the first snapshot of a table was taken that came to its end."""
    attempts = sorted(made.table(log_tables.BATCHES).to_pylist(), key=lambda row: (row["batch"], row["attempt"]))
    plans = {row["batch"]: json.loads(row["plan"]) for row in attempts if row["source"] == "pg"}
    for plan in plans.values():
        if any(one.endswith(f".public.{name}") for one in plan.get("prints", ())):
            return datetime.fromtimestamp(plan["moment"] / 1e9, UTC).isoformat()
    raise AssertionError(f"no snapshot of {name}")


def random_life(
    seed: int, rounds: int, restarting: EmbeddedPostgres, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose = random.Random(seed)
    database = Database(restarting)
    database.execute(*TABLES)
    made = capture(folder, database, FILES, source={"batch_bytes": choose.choice((20_000, 1_000_000, 100_000_000))})
    recorded, filed = [], []
    for number in range(rounds):
        filed = file_rows(made, number)
        threads = write_at_once(database.url, seed * 1000 + number, writers=3, transactions=60)
        is_killed = number in (rounds - 1, rounds - 4)
        if is_killed:
            run_and_kill(made, choose)
        elif number % 2:
            run_and_cut(made, choose, database)
            database.connect_anew()
        else:
            run_and_fail(made, choose, monkeypatch)
        for thread in threads:
            thread.join()
        if choose.random() < 0.5:
            database.connection.close()
            restarting.restart(hard=choose.random() < 0.5)
            database.connect_anew()
        if is_killed:
            assert_verified(made)
        ((now,),) = database.rows("SELECT clock_timestamp()")
        recorded.append((now.astimezone(UTC).isoformat(), contents(database)))
        time.sleep(0.01)
    made.pipeline.run(once=True)
    assert replica(made, "filed") == filed
    for name in NAMES:
        assert replica(made, name) == source(database, name), name
    for timestamp, then in recorded:
        for name in NAMES:
            # At the last moment on Spark, where the same states are computed.
            found = as_of(made, name, timestamp, on_spark=then is recorded[-1][1])
            assert found in (None, then[name]), (timestamp, name)
    threads = write_at_once(database.url, seed * 1000 + 999, writers=2, transactions=30)
    for statement in choose.sample(ALTERATIONS, 4):
        database.execute(statement)
    for thread in threads:
        thread.join()
    for _ in range(2):
        made.pipeline.run(once=True)
    for name in NAMES:
        assert replica(made, name) == source(database, name), name
    made.pipeline.remove()
    database.drop()


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_the_replicas_are_the_source_whatever_happens(
    seed: int, spark: SparkSession, tmp_path: Path, restarting: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    random_life(seed, 3, restarting, tmp_path, monkeypatch)


@pytest.mark.soak
def test_the_replicas_are_the_source_for_long(
    spark: SparkSession,
    tmp_path: Path,
    restarting: EmbeddedPostgres,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    for number in range(8):
        seed = random.SystemRandom().randrange(10**6)
        record_property("seed", seed)
        random_life(seed, 8, restarting, tmp_path / str(number), monkeypatch)


@pytest.mark.parametrize("version", IN_SOAK)
def test_the_replicas_are_the_source_on_older_servers(
    version: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    with started(version=version) as server:
        random_life(seed, 6, server, tmp_path, monkeypatch)


def test_a_server_that_was_restored_from_a_copy_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with started("synchronous_commit = on") as server:
        database = Database(server)
        database.execute("CREATE TABLE one (id int PRIMARY KEY)", "INSERT INTO one VALUES (1)")
        made = capture(tmp_path / "made", database)
        made.pipeline.run(once=True)
        database.connection.close()
        server.stop()
        subprocess.run(["cp", "-a", server.folder, tmp_path / "copy"], check=True)
        server.start()
        database.connect_anew()
        database.execute("INSERT INTO one VALUES (2)")
        made.pipeline.run(once=True)
        database.connection.close()
        server.stop()
        shutil.rmtree(server.folder)
        subprocess.run(["cp", "-a", tmp_path / "copy", server.folder], check=True)
        server.start()
        database.connect_anew()
        database.execute("INSERT INTO one SELECT generate_series(100, 400)", "INSERT INTO one VALUES (3)")
        with pytest.raises(ChangelingError, match=r"does not know the last transaction that was stored"):
            made.pipeline.run(once=True)
        made.pipeline.run(once=True, resnapshot=True)
        assert replica(made, "one") == source(database, "one")
        made.pipeline.remove()
        database.drop()


def test_a_server_that_is_away_is_reported_and_found_again(
    spark: SparkSession, tmp_path: Path, restarting: EmbeddedPostgres
) -> None:
    database = Database(restarting)
    database.execute("CREATE TABLE one (id int PRIMARY KEY)", "INSERT INTO one VALUES (1)")
    made = capture(tmp_path, database)
    made.pipeline.run(once=True)
    database.connection.close()
    restarting.stop()
    with pytest.raises(ChangelingError, match=r"PostgreSQL at 127\.0\.0\.1:\d+/test_\d+: .*refused"):
        made.pipeline.run(once=True)
    restarting.start()
    database.connect_anew()
    database.execute("INSERT INTO one VALUES (2)")
    made.pipeline.run(once=True)
    assert replica(made, "one") == [{"id": 1}, {"id": 2}]
    made.pipeline.remove()
    database.drop()
