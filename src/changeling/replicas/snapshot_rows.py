"""The rows of snapshots in the log: between which positions they lie, and which attempts their marks delimit."""

from typing import NamedTuple

from changeling.formats import registry
from changeling.model.table import TableName
from changeling.replicas.logged_changes import Changes, between, last_truncate, of_table
from changeling.replicas.snapshot_attempts import Attempt, attempts_of


class SnapshotRows(NamedTuple):
    """The rows of snapshots of one table."""

    first: str = ""
    """Their first position, and their last."""
    last: str = ""
    attempts: tuple[Attempt, ...] = ()

    @property
    def contain(self) -> str:
        """All changes before this position are in the rows of a complete snapshot; empty where none is complete."""
        return max((attempt.contains for attempt in self.attempts if attempt.contains is not None), default="")

    def completed_since(self, batch: int) -> bool:
        """Whether an attempt became complete after a batch."""
        return any(attempt.contains is not None and attempt.last[0] > batch for attempt in self.attempts)

    def cut_by(self, position: str) -> bool:
        """Whether some attempts lie before a position, and others, which may contain the same rows, after it."""
        return bool(self.attempts) and self.first <= position < self.last


def snapshot_rows_of(
    changes: Changes, source: str, table: TableName, before: str | None, batch: int, *, whole: bool
) -> SnapshotRows:
    """The rows of snapshots after the last truncate and before a position, of batches up to one.

    `whole`: the log still has every change that was ever ingested.
    """
    own = changes.where(of_table(source, table), between("", before, batch))
    emptied = last_truncate(own)
    if emptied is not None:
        own = own.where(emptied.at_or_after())
    found = own.snapshot_marks(_mark_paths())
    if found is None:
        return SnapshotRows()
    attempts = attempts_of(mark for mark in found.marks if emptied is None or mark.rank > emptied)
    if not whole:
        # Of an attempt without its first row, other rows may be past retention too.
        attempts = tuple(one if one.first < one.last else one._replace(contains=None) for one in attempts)
    return SnapshotRows(found.first, found.last, attempts)


def _mark_paths() -> dict[str, str]:
    """Where the record of a change has the mark of its place in a snapshot, by dialect."""
    paths = {name: registry.get(name).snapshot_mark for name in registry.names()}
    return {name: path for name, path in paths.items() if path is not None}
