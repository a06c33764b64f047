"""Random histories, applied point by point to PostgreSQL: its tables equal those of the database that the records came from."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeling.targets import snapshot_diff
from tests.log.lakes import shop
from tests.postgres.server import Database
from tests.replicas import histories
from tests.replicas.histories import State, Table, batches
from tests.replicas.shops import SOURCE
from tests.targets.postgres_targets import differing, mirror, run, step, there

HISTORIES = 60
NOTHING = -1
"""No difference is read in this process, but all on Spark."""


def state(rows: list[dict[str, Any]], columns: list[str]) -> State:
    return State(sorted(columns), sorted(({name: row[name] for name in sorted(row)} for row in rows), key=repr))


def check(folder: Path, database: Database, seed: int, transactions: int, count: int, disorder: str) -> None:
    """A target that steps at most points is equal to the replicas each time, and in the end to the tables of the database."""
    tables = [Table("keyed", True), Table("bag", False), Table("told", True, grows_only=True)]
    source = histories.Database(seed, tables, min(HISTORIES, transactions // 5))
    for _ in range(transactions):
        source.commit()
    made = shop(folder, SOURCE)
    target = mirror(made, database)
    for number, records in enumerate(batches(source, count, disorder)):
        run(made, str(number), *records)
        if source.random.random() < 0.8 or number == count - 1:
            assert step(target).warnings == []
            assert differing(made, database) == {}, number
    for name, expected in source.committed[-1].tables.items():
        rows = there(database, name)
        assert state(rows, list(rows[0]) if rows else expected.columns) == state(expected.rows, expected.columns), name


@pytest.mark.parametrize(
    ("seed", "count", "disorder", "max_bytes"),
    [(11, 4, "ordered", NOTHING), (12, 4, "late", snapshot_diff.MAX_BYTES)],
)
def test_tables_are_those_of_the_source(
    seed: int,
    count: int,
    disorder: str,
    max_bytes: int,
    spark: SparkSession,
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshot_diff, "MAX_BYTES", max_bytes)
    check(tmp_path, database, seed, 150, count, disorder)


@pytest.mark.soak
@pytest.mark.parametrize("disorder", ["ordered", "late", "shuffled"])
def test_tables_are_those_of_the_source_whatever_happens(
    disorder: str,
    spark: SparkSession,
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    record_property("seed", seed)
    # Some differences in this process, the others on Spark.
    monkeypatch.setattr(snapshot_diff, "MAX_BYTES", 3_000)
    check(tmp_path, database, seed, 800, random.Random(seed).randint(4, 10), disorder)
