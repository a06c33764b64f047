"""Looks up in the changes of a fold where new rows with a partial image came from."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from changeling.iceberg.conditions import above, equals, is_set
from changeling.model.change import Transaction
from changeling.replicas.key_moves import Half, Moved, moved, old_key_of
from changeling.replicas.logged_changes import Changes, between, is_part, of_table
from changeling.replicas.row_events import FoldTable

if TYPE_CHECKING:
    from changeling.replicas.merge_tasks import MergeTask
    from changeling.replicas.pending_changes import Delta

_COLUMNS = ("position", "key", "transaction", "meta")


def settled(changes: Changes, table: FoldTable, after: str = "") -> Moved:
    """The moves of one table that appear as a delete and a create, whose create is after a position."""
    own = changes.where(of_table(table.source, table.table), is_set("key"))
    creates = list(_halves(own.where(is_part(), above("position", after)).rows(*_COLUMNS)))
    deletes = own.where(equals("op", "delete"))
    here = pa.table({"position": pa.array({create.position for create in creates}, pa.string())})
    counted = {
        (create.transaction.id, create.transaction.total - 1)
        for create in creates
        if create.transaction is not None and create.transaction.total is not None
    }
    before = pa.table(
        {
            "transaction.id": pa.array([number for number, _ in counted], pa.string()),
            "transaction.total": pa.array([total for _, total in counted], pa.int64()),
        }
    )
    found = [
        half for wanted in (here, before) if wanted.num_rows for half in _halves(deletes.rows(*_COLUMNS, alike=wanted))
    ]
    return moved(creates, found)


def _halves(rows: pa.Table) -> Iterator[Half]:
    for position, key, transaction, meta in zip(*(rows.column(name).to_pylist() for name in _COLUMNS), strict=True):
        is_known = transaction is not None and transaction["id"] is not None
        yield Half(position, key, Transaction(**transaction) if is_known else None, old_key_of(meta))


def with_halves_merged_before(changes: Changes, delta: "Delta", tasks: "Iterable[MergeTask]") -> "Delta | None":
    """The delta in which moves count as late if their delete was merged before their create arrived; None without such moves.

    `tasks` are folded. What is late is folded from a state on that has the row under its old key.
    """
    found = {
        (task.delta.source, task.delta.table): first
        for task in tasks
        if (first := _first_merged_before(changes, delta, task)) is not None
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


def _first_merged_before(changes: Changes, delta: "Delta", task: "MergeTask") -> str | None:
    """The first delete that was merged before the fold began, and whose create the fold has."""
    folded = task.folded
    if task.from_scratch or folded.listed or len(folded.moved.deletes) == len(folded.moved.origins):
        return None
    limit, batch = delta.limits.get(task.delta.source), delta.point.of(task.delta.source).batch
    whole = settled(changes.where(between("", limit, batch)), folded, folded.floor)
    return min((position for position, _ in whole.deletes if position <= folded.floor), default=None)


def _earlier(one: str | None, other: str | None) -> str | None:
    return min((text for text in (one, other) if text is not None), default=None)
