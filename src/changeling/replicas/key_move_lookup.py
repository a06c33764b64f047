"""Looks up in the changes of a fold where new rows with a partial image came from."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from changeling.formats.key_changes import old_key_of
from changeling.iceberg.conditions import Condition, above, all_of, equals, is_set, one_of
from changeling.model.change import Transaction
from changeling.replicas.fold_table import FoldTable
from changeling.replicas.key_moves import Half, Moved, moved
from changeling.replicas.logged_changes import Changes, between, is_part, of_table

if TYPE_CHECKING:
    from changeling.replicas.pending_changes import PointPlan
    from changeling.replicas.replica_merges import ReplicaMerge

_COLUMNS = ("position", "key", "transaction", "meta")


def look_up_moves(changes: Changes, table: FoldTable, after: str = "") -> Moved:
    """The moves of one table that appear as a delete and a create, whose create is after a position."""
    own = changes.where(of_table(table.source, table.table), is_set("key"))
    creates = list(halves(own.where(is_part(), above("position", after)).rows(*_COLUMNS)))
    deletes = own.where(equals("op", "delete"))
    wanted = _positions(creates), _counted(creates, -1)
    found = [half for alike in wanted if alike.num_rows for half in halves(deletes.rows(*_COLUMNS, alike=alike))]
    return moved(creates, found)


def reassigned(changes: Changes, late: Condition, table: FoldTable) -> Condition | None:
    """The halves of moves that belong together otherwise than when they were merged, now that late changes are known; None without any.

    A late half may belong to any other at its position, and to the one that its transaction counts next to it.
    """
    own = of_table(table.source, table.table)
    creates, deletes = (
        _LookedUp(changes.where(own, is_set("key"), kind), table) for kind in (is_part(), equals("op", "delete"))
    )
    if creates.changes.any_value("position") is None:
        return None
    more = creates.add(creates.changes.where(late)), deletes.add(deletes.changes.where(late))
    while any(more):
        here = _positions((*more[0], *more[1]))
        more = creates.add_alike(here, _counted(more[1], 1)), deletes.add_alike(here, _counted(more[0], -1))
    places = moved(creates.merged(), deletes.merged()).differing(moved(creates.halves, deletes.halves))
    if not places:
        return None
    return all_of([own, one_of("position", (at for at, _ in places)), one_of("key", (key for _, key in places))])


class _LookedUp:
    """The creates of a table, or its deletes, as far as they were looked up."""

    def __init__(self, changes: Changes, table: FoldTable) -> None:
        self.changes, self._table = changes, table
        self.halves: dict[Half, bool] = {}
        """Each with whether it was merged before."""

    def merged(self) -> list[Half]:
        """The halves that were merged before."""
        return [half for half, merged in self.halves.items() if merged]

    def add(self, changes: Changes, alike: pa.Table | None = None) -> list[Half]:
        """Adds some; returns those that were not known."""
        rows = changes.rows(*_COLUMNS, "batch", alike=alike)
        known = set(self.halves)
        for half, batch in zip(halves(rows), rows.column("batch").to_pylist(), strict=True):
            self.halves[half] = self.halves.get(half, False) or not self._table.is_new(batch, half.position)
        return [half for half in self.halves if half not in known]

    def add_alike(self, *alike: pa.Table) -> list[Half]:
        """Adds those that have the values of some rows."""
        return [half for wanted in alike if wanted.num_rows for half in self.add(self.changes, wanted)]


def _positions(halves: Iterable[Half]) -> pa.Table:
    return pa.table({"position": pa.array({half.position for half in halves}, pa.string())})


def _counted(halves: Iterable[Half], step: int) -> pa.Table:
    """The changes that transactions count `step` places after some halves."""
    counted = {
        (half.transaction.id, half.transaction.total + step)
        for half in halves
        if half.transaction is not None and half.transaction.total is not None
    }
    return pa.table(
        {
            "transaction.id": pa.array([number for number, _ in counted], pa.string()),
            "transaction.total": pa.array([total for _, total in counted], pa.int64()),
        }
    )


def halves(rows: pa.Table) -> Iterator[Half]:
    """The deletes or creates that changes with a key are; of `position`, `key`, `transaction` and `meta`."""
    for position, key, transaction, meta in zip(*(rows.column(name).to_pylist() for name in _COLUMNS), strict=True):
        if key is None:
            continue
        is_known = transaction is not None and transaction["id"] is not None
        yield Half(position, key, Transaction(**transaction) if is_known else None, old_key_of(meta))


def with_halves_merged_before(
    changes: Changes, plan: "PointPlan", merges: "Iterable[ReplicaMerge]"
) -> "PointPlan | None":
    """The plan in which moves count as late if their delete was merged before their create arrived; None without such moves.

    `merges` are folded. Late changes are folded from a state that still has the row under its old key.
    """
    found = {
        (merge.pending.source, merge.pending.table): first
        for merge in merges
        if (first := _first_merged_before(changes, plan, merge)) is not None
    }
    replace = msgspec.structs.replace
    tables = [
        replace(table, first_late=_earlier(table.first_late, found.get((table.source, table.table))))
        for table in plan.tables
    ]
    if tables == plan.tables:
        return None
    sources = dict(plan.point.sources)
    for (source, _), first in found.items():
        sources[source] = replace(sources[source], late=_earlier(sources[source].late, first))
    return replace(plan, point=replace(plan.point, sources=sources), tables=tables)


def _first_merged_before(changes: Changes, plan: "PointPlan", merge: "ReplicaMerge") -> str | None:
    """The first delete that was merged before the fold began, and whose create the fold has."""
    folded = merge.folded
    if merge.from_scratch or folded.is_change_list or len(folded.moved.deletes) == len(folded.moved.old_keys):
        return None
    limit, batch = plan.limits.get(merge.pending.source), plan.point.of(merge.pending.source).batch
    whole = look_up_moves(changes.where(between("", limit, batch)), folded, folded.start_after.position)
    return min((position for position, _ in whole.deletes if position <= folded.start_after.position), default=None)


def _earlier(one: str | None, other: str | None) -> str | None:
    return min((text for text in (one, other) if text is not None), default=None)
