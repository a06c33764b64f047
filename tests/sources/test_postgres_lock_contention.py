"""Tables that others alter, truncate or lock while they are snapshotted: each snapshot ends, and holds up no other."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from changeling.model.errors import ChangelingError
from changeling.pipelines.listener import Listener
from changeling.postgres import connection
from changeling.postgres.connection import connect
from changeling.sources import postgres_snapshot_reading
from changeling.sources.postgres import PostgresSource
from changeling.sources.postgres_plan import Snapshot, Stream, format_plan, parse_plan
from changeling.sources.postgres_settings import CaptureSettings, Requests
from changeling.sources.source import PlanSize
from tests.postgres.server import Database
from tests.sources.captures import assert_equal, capture

TABLES = (
    "CREATE TABLE users (id int PRIMARY KEY, name text)",
    "CREATE TABLE orders (id int PRIMARY KEY)",
    "INSERT INTO users SELECT g, 'n' FROM generate_series(1, 1000) g",
    "INSERT INTO orders VALUES (1)",
)
_WAITING = "SELECT FROM pg_locks WHERE NOT granted AND relation = 'users'::regclass"


class Truncates(Listener):
    """Somebody comes to truncate a table whenever a batch begins: he waits for its lock before it is read."""

    def __init__(self, database: Database) -> None:
        self._database, self._came = database, list[threading.Thread]()
        self.warnings: list[str] = []

    def on_batch_start(self, source: str, batch: int, size: PlanSize) -> None:
        if size.snapshot is not None:
            self._came.append(threading.Thread(target=self._truncate, args=(len(self._came),)))
            self._came[-1].start()
            end = time.monotonic() + 10
            while not self._database.rows(_WAITING) and self._came[-1].is_alive() and time.monotonic() < end:
                time.sleep(0.02)

    def on_warning(self, source: str, text: str) -> None:
        self.warnings.append(text)

    def _truncate(self, number: int) -> None:
        with connect(self._database.url) as other:
            other.execute("TRUNCATE users")
            other.execute(f"INSERT INTO users VALUES ({number}, 'after')")

    def went(self) -> bool:
        for one in self._came:
            one.join(60)
        return not any(one.is_alive() for one in self._came)


@pytest.fixture
def source(tmp_path: Path, database: Database) -> CaptureSettings:
    database.execute(*TABLES)
    return CaptureSettings("pg", database.url, ("public.*",), f"slot_{database.name}", f"slot_{database.name}")


@contextmanager
def waiting_truncate(database: Database) -> Iterator[None]:
    other = Truncates(database)
    other.on_batch_start("pg", 1, PlanSize(snapshot=object()))  # type: ignore[arg-type]
    yield
    assert other.went()


def test_a_table_that_is_truncated_all_the_time_is_read_all_the_same(
    spark: SparkSession, tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_snapshot_reading, "_LOCK_SECONDS", 0.1)
    database.execute(*TABLES)
    made, others = capture(tmp_path, database), Truncates(database)
    made.pipeline.run(once=True, listener=others)
    assert others.went()
    assert [text for text in others.warnings if "waits to alter or truncate" in text]
    assert_equal(made, database, "orders")
    made.pipeline.run(once=True)
    assert_equal(made, database, "orders", "users")


def test_a_table_that_somebody_keeps_locked_is_reported(
    tmp_path: Path, database: Database, source: CaptureSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connection._READING, "lock_timeout", "200ms")
    made = PostgresSource(source, Requests(tmp_path / "requests"))
    made.remember(made.plan_next() or "")
    with connect(database.url) as other:
        other.execute("BEGIN")
        other.execute("LOCK TABLE users IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(ChangelingError, match=r"lock timeout.*; a transaction that .* locks a table is open"):
            made.plan_next()
        other.execute("COMMIT")
    assert made.plan_next() is None
    made.close()


def test_only_the_table_that_others_wait_for_begins_again(
    tmp_path: Path, database: Database, source: CaptureSettings
) -> None:
    requests = Requests(tmp_path / "requests")
    users, orders = (f"{database.name}.public.{name}" for name in ("users", "orders"))
    requests.ask([users, orders])
    made = PostgresSource(source, requests)
    plan = made.plan_next() or ""
    with waiting_truncate(database):
        assert f"waits to alter or truncate {users}" in (made.broken(plan) or "")
    plan = made.plan_next() or ""
    assert read_tables(plan) == ["orders"]
    made.remember(plan)
    assert set(requests.pending()) == {users}
    # The changes before the snapshot come first: they would be late after it.
    stream = parse_plan(made.plan_next() or "")
    assert isinstance(stream, Stream)
    plan = next_snapshot(made)
    snapshot = parse_plan(plan)
    assert isinstance(snapshot, Snapshot)
    assert stream.end >= snapshot.point
    assert read_tables(plan) == ["users"]
    with waiting_truncate(database):
        assert made.broken(plan) is None
        made.remember(plan)
    assert requests.pending() == {}
    # Of another snapshot, whoever comes first is let through again.
    requests.ask([users, orders])
    plan = next_snapshot(made)
    assert read_tables(plan) == ["orders", "users"]
    with waiting_truncate(database):
        assert made.broken(plan) is not None
    made.close()


def test_a_held_snapshot_whose_connection_is_lost_begins_again(
    tmp_path: Path, database: Database, source: CaptureSettings
) -> None:
    made = PostgresSource(source, Requests(tmp_path / "requests"))
    plan = made.plan_next() or ""
    with waiting_truncate(database):
        assert made.broken(plan) is not None
    made.remember(made.plan_next() or "")
    plan = next_snapshot(made)
    database.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE relation = 'users'::regclass AND mode = 'AccessShareLock'"
    )
    assert "is gone" in (made.broken(plan) or "")
    assert read_tables(next_snapshot(made)) == ["users"]
    made.close()


@pytest.mark.parametrize("once", [False, True])
def test_the_changes_before_a_further_snapshot_of_a_table_come_first(
    tmp_path: Path, database: Database, source: CaptureSettings, once: bool
) -> None:
    """They would be late after it: feeds would show one correction instead of each of them."""
    requests = Requests(tmp_path / "requests")
    made = PostgresSource(source, requests)
    made.remember(made.plan_next() or "")
    # The log had its turn.
    database.execute("DELETE FROM users WHERE id = 1")
    made.remember(next_plan(made))
    if once:
        made.stop_at_present()
    database.execute("DELETE FROM users WHERE id = 2")
    requests.ask([f"{database.name}.public.users"])
    stream = parse_plan(next_plan(made))
    assert isinstance(stream, Stream)
    made.remember(format_plan(stream))
    snapshot = parse_plan(next_snapshot(made))
    assert isinstance(snapshot, Snapshot)
    assert stream.end >= snapshot.point
    made.close()


def test_a_snapshot_after_a_lost_slot_that_begins_again_still_replaces_all(
    tmp_path: Path, database: Database, source: CaptureSettings
) -> None:
    made = PostgresSource(source, Requests(tmp_path / "requests"))
    first = made.plan_next() or ""
    made.remember(first)
    made.close()
    database.execute(f"SELECT pg_drop_replication_slot('{source.slot}')")
    again = PostgresSource(source, Requests(tmp_path / "requests"), resnapshot=True)
    again.remember(first)
    plan = again.plan_next() or ""
    with waiting_truncate(database):
        assert again.broken(plan) is not None
    plan = again.plan_next() or ""
    snapshot = parse_plan(plan)
    assert isinstance(snapshot, Snapshot)
    assert snapshot.slot_recreated, (
        "a run that only knows the plans would take the tables of the first snapshot for complete"
    )
    again.remember(plan)
    assert read_tables(next_snapshot(again)) == ["users"]
    again.close()


def next_plan(made: PostgresSource) -> str:
    """The next plan, as soon as the server has its log on disk."""
    end = time.monotonic() + 10
    while (plan := made.plan_next()) is None and time.monotonic() < end:
        time.sleep(0.02)
    return plan or ""


def next_snapshot(made: PostgresSource) -> str:
    """The next plan that is one of a snapshot; the stream is read in between."""
    plan = made.plan_next() or ""
    while not isinstance(parse_plan(plan), Snapshot):
        made.remember(plan)
        plan = made.plan_next() or ""
    return plan


def read_tables(plan: str) -> list[str]:
    known = parse_plan(plan)
    assert isinstance(known, Snapshot)
    return sorted({part.table.name for part in known.parts})
