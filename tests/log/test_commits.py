"""Commits of several sources to one log: each says how far all of them are, whatever happens at the same time."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from changeling.iceberg.table_definition import TableDefinition
from changeling.log.batch_plans import READ, BatchPlan
from changeling.log.batch_stats import BatchStats
from changeling.log.change_log import Log
from changeling.log.schema_registry import Registry
from changeling.log.source_state import SourceState
from changeling.model.errors import ChangelingError
from changeling.model.table import Column, TableName, TableSchema

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


class Tables:
    """A lake that keeps rows and summaries in memory; a commit may fail after it was stored."""

    def __init__(self) -> None:
        self.kept: dict[str, list[dict[str, object]]] = {}
        self.said: dict[str, list[Mapping[str, str]]] = {}
        self.fails = False

    def rows(self, table: TableDefinition) -> pa.Table:
        return pa.Table.from_pylist(self.kept.get(table.name, []), table.columns)

    def summaries(self, table: TableDefinition, tag: str) -> Iterator[Mapping[str, str]]:
        return reversed(self.said.get(table.name, []))

    def append_rows(self, table: TableDefinition, rows: list[dict[str, object]], moment: datetime) -> None:
        self.kept.setdefault(table.name, []).extend(rows)
        self._answer()

    def append(
        self, table: TableDefinition, files: Sequence[Any], moment: datetime, summary: Mapping[str, str]
    ) -> None:
        self.said.setdefault(table.name, []).append(summary)
        self._answer()

    def _answer(self) -> None:
        if self.fails:
            raise ChangelingError("the connection broke")


def log_of(tables: Tables) -> Log:
    return Log(tables)  # type: ignore[arg-type]


def batch(log: Log, source: str, number: int) -> None:
    log.add_plan(source, BatchPlan(number, 1, READ, f"{source} {number}"))
    log.commit_rejects(source, number, [], MOMENT)
    log.commit_changes(source, SourceState(batch=number, read=10 * number), [], MOMENT, BatchStats())


def schema(name: str) -> TableSchema:
    return TableSchema((Column(name, "int64"),), (name,))


def test_sources_that_commit_at_once_do_not_overwrite_each_other() -> None:
    tables, count, sources = Tables(), 200, [f"s{number}" for number in range(4)]
    log = log_of(tables)

    def read(source: str) -> None:
        for number in range(1, count + 1):
            batch(log, source, number)
            table = TableName(None, None, f"t{number}")
            log.register(
                partial(Registry.register_declared, source=source, table=table, schema=schema("id"), policy="evolve")
            )

    threads = [threading.Thread(target=read, args=(source,)) for source in sources]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    again = log_of(tables)
    assert again.state == log.state
    assert again.state.sources == {source: SourceState(batch=count, read=10 * count) for source in sources}
    numbers = list(range(1, count + 1))
    assert [list(log.progress.stats[source]) for source in sources] == [numbers] * 4
    assert sorted(version.id for version in again.registry.versions) == list(range(1, 4 * count + 1))
    assert again.registry.versions == log.registry.versions
    assert [len(again.plans.of(source)) for source in sources] == [count] * 4


def test_a_commit_whose_outcome_is_unknown_is_not_undone_by_the_next_source() -> None:
    tables = Tables()
    log = log_of(tables)
    batch(log, "a", 1)
    tables.fails = True
    with pytest.raises(ChangelingError):
        log.commit_changes("a", SourceState(batch=2, read=20), [], MOMENT, BatchStats())
    with pytest.raises(ChangelingError):
        log.commit_rejects("b", 1, [], MOMENT)
    with pytest.raises(ChangelingError):
        log.register(
            lambda registry: registry.register_declared("a", TableName(None, None, "t"), schema("id"), "evolve")
        )
    assert log.registry.versions == []
    tables.fails = False
    log.register(lambda registry: registry.register_declared("b", TableName(None, None, "u"), schema("n"), "evolve"))
    batch(log, "b", 2)
    assert log_of(tables).state == log.state
    assert {name: state.batch for name, state in log.state.sources.items()} == {"a": 2, "b": 2}
    assert [(version.id, version.source) for version in log_of(tables).registry.versions] == [(1, "a"), (2, "b")]


def test_what_a_merge_is_given_does_not_change_under_it() -> None:
    log = log_of(Tables())
    batch(log, "a", 1)
    given = log.progress
    batch(log, "a", 2)
    batch(log, "b", 1)
    log.record_poll("a", MOMENT, all_read=True, no_more=True)
    assert (given.state.batch("a"), list(given.stats), list(given.stats["a"]), given.polled_at) == (1, ["a"], [1], {})
    log.forget_stats({"a": 1})
    assert {source: list(known) for source, known in log.progress.stats.items()} == {"a": [2], "b": [1]}
    assert (log.progress.polled_at, log.progress.complete) == ({"a": MOMENT}, {"a": MOMENT})
