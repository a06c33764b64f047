"""Replicas against dictionaries: random histories, in any order and any number of batches, give the tables of the database."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from changeling.iceberg import planned_scan
from changeling.iceberg.lake import Lake
from changeling.model import times
from changeling.pipelines.lakehouse import tables_of
from changeling.pipelines.loading import load
from changeling.pipelines.time_travel import AskedState
from changeling.replicas import merge_plan, replacement, superseded_events
from changeling.replicas.pending_changes import PendingChanges, PointPlan
from changeling.replicas.points import Point
from changeling.spark.adapter import Kernel, run
from tests.log.lakes import Shop, shop
from tests.replicas.histories import Database, State, Table, batches

SOURCE = {"name": "bus", "type": "files", "path": "in/*.json", "format": "transferia"}
HISTORIES = 40
MOMENTS = 3
"""At which the tables are compared, besides the end; at the first one on Spark as well."""


@pytest.fixture(autouse=True)
def _events_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of tables with many changes: those that later ones supersede, a few at a time where the driver folds."""
    monkeypatch.setattr(merge_plan, "_FEW_CHANGES", 0)
    monkeypatch.setattr(superseded_events, "MAX_EVENTS", 20)


@pytest.fixture(autouse=True)
def _batches_tell_what_the_log_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is new by the statistics of batches is looked up in the log as well."""
    following = PendingChanges.next_plan

    def both(
        self: PendingChanges,
        last: Point,
        batches: dict[str, int],
        stats: Any = None,
        polled_at: Any = None,
        *,
        drain: bool,
    ) -> PointPlan | None:
        found = following(self, last, batches, stats, polled_at, drain=drain)
        assert comparable(found) == comparable(following(self, last, batches, None, polled_at, drain=drain))
        return found

    monkeypatch.setattr(PendingChanges, "next_plan", both)


def comparable(plan: PointPlan | None) -> Any:
    """Without the time at which it was created; which key it reports does not matter."""
    if plan is None:
        return None
    tables = [msgspec.structs.replace(table, key=table.key and "some") for table in plan.tables]
    point = msgspec.structs.replace(plan.point, made_at=datetime.fromtimestamp(0, UTC))
    return msgspec.structs.replace(plan, point=point, tables=sorted(tables, key=lambda one: one.table.spelled()))


def database(seed: int, transactions: int) -> Database:
    tables = [Table("keyed", True), Table("bag", False), Table("told", True, grows_only=True)]
    # Few enough that rows are touched again and again.
    made = Database(seed, tables, min(HISTORIES, transactions // 6))
    for _ in range(transactions):
        made.commit()
    return made


def feed(made: Shop, database: Database, count: int, disorder: str) -> None:
    """Runs the pipeline batch after batch."""
    for number, records in enumerate(batches(database, count, disorder)):
        made.write(f"{number}.json", *records)
        made.pipeline.run(once=True)


def state(rows: list[dict[str, Any]], columns: list[str]) -> State:
    return State(sorted(columns), sorted(({name: row[name] for name in sorted(row)} for row in rows), key=repr))


def model(state_: State) -> State:
    return state(state_.rows, state_.columns)


def differences(found: State, expected: State) -> dict[str, Any]:
    """What is there and should not be, and the reverse; nothing where they are equal."""
    extra = [row for row in found.rows if row not in expected.rows]
    missing = [row for row in expected.rows if row not in found.rows]
    same = found == expected
    return {} if same else {"columns": (found.columns, expected.columns), "extra": extra, "missing": missing}


def current(made: Shop, table: str) -> State:
    found = made.pipeline.current(f"public.{table}")
    assert found is not None
    return state(found[0].to_pylist(), found[0].column_names)


def then(made: Shop, table: str, **when: Any) -> State:
    """A table as it was, folded in this process."""
    rows = made.pipeline.read(f"public.{table}", AskedState(**when), on_spark=pytest.fail).rows
    return state(rows.to_pylist(), rows.column_names)


def then_on_spark(made: Shop, table: str, **when: Any) -> State:
    rows = made.pipeline.replica(f"public.{table}", **when).toArrow()
    return state(rows.to_pylist(), rows.column_names)


def lives(made: Shop, table: str) -> list[Any]:
    """Every state of every row, as the history has it."""
    history = tables_of(load(made.file)).in_namespace("shop_replica").load(f"public__{table}__history")
    assert history is not None
    found = []
    for row in history.scan().to_arrow().to_pylist():
        begun, ended = (_place(row.pop(name)) for name in ("valid_from_position", "valid_to_position"))
        times_ = row.pop("valid_from"), row.pop("valid_to")
        assert row.pop("is_current") == (ended is None)
        found.append((begun, ended, *times_, row.pop("op"), row))
    return sorted(found, key=repr)


def expected_lives(source: Database, table: str) -> list[Any]:
    columns = next(one for one in source.tables if one.name == table).columns
    found = []
    for versions in source.versions[table].values():
        for version in versions:
            row = {name: version.row.get(name) for name in columns}
            moments = [
                None if place is None else datetime.fromtimestamp(source.committed[place // 1000 - 1].time / 1e9, UTC)
                for place in (version.begun, version.ended)
            ]
            found.append((version.begun, version.ended, *moments, version.op, row))
    return sorted(found, key=repr)


def _place(position: str | None) -> int | None:
    if position is None:
        return None
    number, order = (int(part[2:]) for part in position.split("."))
    return number * 1000 + order


def check(folder: Path, seed: int, transactions: int, count: int, disorder: str) -> None:
    """Replicas now, their histories, and states of some moment are those of the database."""
    source = database(seed, transactions)
    made = shop(folder, SOURCE, tables=[{"name": "public.told", "mode": "history"}])
    feed(made, source, count, disorder)
    last = source.committed[-1]
    for table, expected in last.tables.items():
        assert differences(current(made, table), model(expected)) == {}, table
    assert lives(made, "told") == expected_lives(source, "told")
    for place, chosen in enumerate(source.random.sample(source.committed[1:-1], MOMENTS)):
        latest = max(one.time for one in source.committed if one.number <= chosen.number)
        prefix = [
            one for one in source.committed if all(earlier.time <= latest for earlier in source.committed[: one.number])
        ]
        for table in chosen.tables:
            for ask in (then, then_on_spark) if place == 0 else (then,):
                found = ask(made, table, as_of_transaction=chosen.number)
                assert differences(found, model(chosen.tables[table])) == {}, (table, chosen.number, ask)
                found = ask(made, table, as_of=times.to_text(latest))
                assert differences(found, model(prefix[-1].tables[table])) == {}, (table, latest, ask)


@pytest.mark.parametrize(
    ("seed", "count", "disorder", "folds"),
    [
        (1, 1, "shuffled", "here"),
        # Histories in order go through replicas on their way into targets as well.
        pytest.param(2, 4, "ordered", "here", marks=pytest.mark.soak),
        (3, 3, "late", "here"),
        (4, 3, "shuffled", "on_spark"),
    ],
)
def test_replicas_are_the_tables(
    seed: int,
    count: int,
    disorder: str,
    folds: str,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with by_tasks(monkeypatch, 4) if folds == "on_spark" else nullcontext():
        check(tmp_path, seed, 120, count, disorder)


@contextmanager
def by_tasks(monkeypatch: pytest.MonkeyPatch, least: int) -> Iterator[None]:
    """As of large tables: tasks read the log, fold it, and replace stored rows, in so many merges at least."""
    jobs = []

    def noted(frame: DataFrame, kernel: Kernel, layout: pa.Schema) -> DataFrame:
        jobs.append(kernel)
        return run(frame, kernel, layout)

    monkeypatch.setattr(planned_scan, "MAX_BYTES", 0)
    monkeypatch.setattr(replacement, "FEW_ROWS", 1)
    monkeypatch.setattr(replacement, "run", noted)
    opened = Lake.__init__

    def open_lake(self: Lake, *given: Any, **more: Any) -> None:
        opened(self, *given, **more)
        self.spark.conf.set("spark.sql.shuffle.partitions", "3")

    monkeypatch.setattr(Lake, "__init__", open_lake)
    yield
    assert len(jobs) >= least


@pytest.mark.soak
@pytest.mark.parametrize("disorder", ["ordered", "late", "shuffled"])
@pytest.mark.parametrize("attempt", range(5))
def test_replicas_are_the_tables_whatever_happens(
    attempt: int,
    disorder: str,
    spark: SparkSession,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    record_property("seed", seed)
    with by_tasks(monkeypatch, 1) if attempt % 2 else nullcontext():
        # The first batch replaces nothing.
        check(tmp_path, seed, 600, random.Random(seed).randint(1 + attempt % 2, 8), disorder)
