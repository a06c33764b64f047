"""The rows of snapshots in the log: between which positions they lie, and which attempts their marks delimit."""

from typing import NamedTuple

from changeling.formats import registry
from changeling.model.table import TableName
from changeling.replicas.logged_changes import Changes, between, of_table
from changeling.replicas.snapshot_attempts import Attempt, attempts_of


class Reads(NamedTuple):
    """The rows of snapshots of one table."""

    first: str = ""
    """Their first position, and their last."""
    last: str = ""
    attempts: tuple[Attempt, ...] = ()

    def cut_by(self, position: str) -> bool:
        """Whether some attempts lie before a position, and others, which may contain the same rows, after it."""
        return bool(self.attempts) and self.first <= position < self.last


def reads_of(changes: Changes, source: str, table: TableName, before: str | None, batch: int) -> Reads:
    """The rows of snapshots before a position, of batches up to one."""
    found = changes.where(of_table(source, table), between("", before, batch)).reads(_mark_paths())
    return Reads() if found is None else Reads(found.first, found.last, attempts_of(found.marks))


def _mark_paths() -> dict[str, str]:
    """Where the record of a change has the mark of its place in a snapshot, by dialect."""
    paths = {name: registry.get(name).snapshot_mark for name in registry.names()}
    return {name: path for name, path in paths.items() if path is not None}
