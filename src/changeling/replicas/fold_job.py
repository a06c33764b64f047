"""Runs a fold, on Spark or in this process: changes become row events, which are ordered by row and folded into files of rows."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from changeling.iceberg.parquet_files import WriteSpec, discard
from changeling.replicas.fold_table import FoldTable
from changeling.replicas.fold_task import FoldKernel, TableOutcome, merged
from changeling.replicas.key_move_lookup import look_up_moves
from changeling.replicas.logged_changes import Changes
from changeling.replicas.row_changes import RowChangesKernel
from changeling.replicas.superseded_events import SupersededEvents, overlap

Widen = Callable[[FoldTable, dict[str, list[str]]], FoldTable]
"""The table with columns that hold values of more kinds."""
Prepare = Callable[[FoldTable], tuple[FoldTable, WriteSpec]]
"""The table prepared for folding, and where its rows are written."""


def fold(
    changes: Changes,
    tables: Sequence[FoldTable],
    prepared: Prepare,
    quarantine: WriteSpec,
    point: int,
    widen: Widen,
) -> list[tuple[FoldTable, TableOutcome]]:
    """Folds the changes of some tables; returns each as it was folded in the end.

    What only the rows themselves show costs another run: a column without a schema that needs a wider type, rows that moved
    between keys and have partial images, or appear as new rows, and changes that are in several places at one position.
    """
    folded = list(tables)
    while True:
        ready = [prepared(table) for table in folded]
        folded = [table for table, _ in ready]
        found = _run(changes, folded, [spec for _, spec in ready], quarantine, point)
        mixed = {place for place, outcome in found.items() if overlap(outcome.spans)}
        odd = [
            outcome
            for place, outcome in found.items()
            if outcome.wider or outcome.moves or outcome.unknown_old_keys or place in mixed
        ]
        if not odd:
            return [(table, found.get(place, TableOutcome(table=place))) for place, table in enumerate(folded)]
        discard([file for outcome in found.values() for file in (*outcome.files, *outcome.quarantine_files)])
        for outcome in odd:
            table = folded[outcome.table]
            if outcome.wider:
                table = widen(table, outcome.wider)
            if outcome.unknown_old_keys:
                table = replace(table, moved=look_up_moves(changes, table))
            if outcome.moves:
                table = _joined(table, outcome.moves)
            if outcome.table in mixed:
                table = replace(table, drops_superseded=False)
            folded[outcome.table] = table


def _run(
    changes: Changes, tables: Sequence[FoldTable], specs: Sequence[WriteSpec], quarantine: WriteSpec, point: int
) -> dict[int, TableOutcome]:
    kernel = FoldKernel(tuple(tables), tuple(specs), quarantine, point)
    one_bucket = [number for number, table in enumerate(tables) if table.one_bucket]
    rows = changes.folded(SupersededEvents(RowChangesKernel(tuple(tables))), kernel, one_bucket)
    return merged(msgspec.json.decode(row, type=TableOutcome) for row in rows.column("outcome").to_pylist())


def _joined(table: FoldTable, moves: Sequence[tuple[str, str]]) -> FoldTable:
    """The table with those keys in one group between which rows moved."""
    parents: dict[str, str] = dict(table.groups)

    def root(key: str) -> str:
        while parents.setdefault(key, key) != key:
            key = parents[key]
        return key

    for old, new in moves:
        one, other = sorted((root(old), root(new)))
        parents[other] = one
    groups = {key: root(key) for key in list(parents)}
    # With a key that is folded again, the keys that its rows moved to and from are folded again too.
    refolded = {groups[key] for key in table.refold_keys if key in groups}
    more = {key for key, name in groups.items() if name in refolded}
    return replace(table, groups=groups, refold_keys=table.refold_keys | more)
