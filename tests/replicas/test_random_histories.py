"""Replicas against dictionaries: random histories, in any order and any number of batches, give the tables of the database."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeling.model import times
from tests.log.lakes import Shop, shop
from tests.replicas.histories import Database, State, Table, batches

SOURCE = {"name": "bus", "type": "files", "path": "in/*.json", "format": "transferia"}
HISTORIES = 40


def database(seed: int, transactions: int) -> Database:
    made = Database(seed, [Table("keyed", True), Table("bag", False), Table("told", True)], HISTORIES)
    for number in range(transactions):
        made.commit(remember=number % 40 == 0 or number == transactions - 1)
    return made


def told(made: Shop, database: Database, count: int, disorder: str) -> None:
    """Runs the pipeline batch after batch."""
    for number, records in enumerate(batches(database, count, disorder)):
        made.write(f"{number}.json", *records)
        made.pipeline.run(once=True)


def state(rows: list[dict[str, Any]], columns: list[str]) -> State:
    return State(sorted(columns), sorted(({name: row[name] for name in sorted(row)} for row in rows), key=repr))


def model(state_: State) -> State:
    return state(state_.rows, state_.columns)


def current(made: Shop, table: str) -> State:
    found = made.pipeline.current(f"public.{table}")
    assert found is not None
    return state(found[0].to_pylist(), found[0].column_names)


def then(made: Shop, table: str, **when: Any) -> State:
    rows = made.pipeline.replica(f"public.{table}", **when).toArrow()
    return state(rows.to_pylist(), rows.column_names)


@pytest.mark.parametrize(
    ("seed", "count", "disorder"),
    [(1, 1, "shuffled"), (2, 4, "ordered"), (3, 3, "late"), (4, 8, "shuffled"), (5, 6, "late")],
)
def test_replicas_are_the_tables(seed: int, count: int, disorder: str, spark: SparkSession, tmp_path: Path) -> None:
    source = database(seed, 250)
    made = shop(tmp_path, SOURCE, tables=[{"name": "public.told", "mode": "history"}])
    told(made, source, count, disorder)
    last = source.committed[-1]
    for table, expected in last.tables.items():
        assert current(made, table) == model(expected), table
    moments = [one for one in source.committed if one.tables]
    chosen = source.random.choice(moments[1:-1])
    latest = max(one.time for one in source.committed if one.number <= chosen.number)
    prefix = [
        one for one in source.committed if all(earlier.time <= latest for earlier in source.committed[: one.number])
    ]
    for table in chosen.tables:
        assert then(made, table, as_of_transaction=chosen.number) == model(chosen.tables[table]), table
        if prefix[-1].tables:
            assert then(made, table, as_of=times.to_text(latest)) == model(prefix[-1].tables[table]), table
