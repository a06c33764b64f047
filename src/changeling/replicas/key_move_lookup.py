"""Looks up in the changes of a fold where new rows with a partial image came from."""

from collections.abc import Iterable
from typing import Any

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from changeling.iceberg.lake import Lake
from changeling.log import layout
from changeling.model.change import Transaction
from changeling.replicas.key_moves import Half, Moved, moved, old_key_of
from changeling.replicas.merge_tasks import MergeTask, between, is_part, of_table
from changeling.replicas.pending_changes import Delta
from changeling.replicas.row_events import FoldTable

_COLUMNS = ("position", "key", "transaction", "meta")


def settled(changes: DataFrame, table: FoldTable, after: str = "") -> Moved:
    """The moves of one table that appear as a delete and a create, whose create is after a position."""
    own = changes.where(of_table(table.source, table.table) & f.col("key").isNotNull())
    creates = own.where(is_part() & (f.col("position") > after))
    deletes = own.where(f.col("op") == "delete")
    at = creates.select("position").distinct()
    before = creates.select(
        f.col("transaction.id").alias("id"), (f.col("transaction.total") - 1).alias("total")
    ).distinct()
    counted = (f.col("transaction.id") == before.id) & (f.col("transaction.total") == before.total)
    deleted = deletes.join(at, "position", "left_semi").select(*_COLUMNS)
    deleted = deleted.unionByName(deletes.join(before, counted, "left_semi").select(*_COLUMNS))
    return moved(map(_half, creates.select(*_COLUMNS).collect()), map(_half, deleted.collect()))


def _half(row: Any) -> Half:
    transaction = row.transaction
    return Half(
        row.position,
        row.key,
        None if transaction is None or transaction.id is None else Transaction(*transaction),
        old_key_of(row.meta),
    )


def with_halves_merged_before(lake: Lake, delta: Delta, tasks: Iterable[MergeTask]) -> Delta | None:
    """The delta in which moves count as late if their delete was merged before their create arrived; None without such moves.

    `tasks` are folded. What is late is folded from a state on that has the row under its old key.
    """
    found = {
        (task.delta.source, task.delta.table): first
        for task in tasks
        if (first := _first_merged_before(lake, delta, task)) is not None
    }
    replace = msgspec.structs.replace
    tables = [
        replace(table, first_late=_earlier(table.first_late, found.get((table.source, table.table))))
        for table in delta.tables
    ]
    if tables == delta.tables:
        return None
    sources = dict(delta.point.sources)
    for (source, _), first in found.items():
        sources[source] = replace(sources[source], late=_earlier(sources[source].late, first))
    return replace(delta, point=replace(delta.point, sources=sources), tables=tables)


def _first_merged_before(lake: Lake, delta: Delta, task: MergeTask) -> str | None:
    """The first delete that was merged before the fold began, and whose create the fold has."""
    folded = task.folded
    if task.from_scratch or folded.listed or len(folded.moved.deletes) == len(folded.moved.origins):
        return None
    limit, batch = delta.limits.get(task.delta.source), delta.point.of(task.delta.source).batch
    whole = settled(lake.frame(layout.CHANGES).where(between("", limit, batch)), folded, folded.floor)
    return min((position for position, _ in whole.deletes if position <= folded.floor), default=None)


def _earlier(one: str | None, other: str | None) -> str | None:
    return min((text for text in (one, other) if text is not None), default=None)
