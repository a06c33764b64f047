"""Tables that others come to alter or truncate while their snapshot is read: who waits for whom.

The first DDL statement is let through, and the snapshot of the table begins again, alone and after all other tables. This time it is
read over the connection that has the lock, so that DDL waits: else a table that is truncated every second would never be read. Such a
table is small.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from changeling.postgres.catalog import CatalogTable
from changeling.sources.postgres_capture import LockedTables
from changeling.sources.postgres_plan import BLOCK

_MOST_HELD_BYTES = 1024**3
"""DDL on larger tables is never blocked: the wait would be too long."""


class LockContention:
    """Lock conflicts per table."""

    def __init__(self) -> None:
        self._conflicts: Counter[str] = Counter()

    def count(self, names: Iterable[str]) -> None:
        """Others waited for the locks of these tables, by their spelled names."""
        self._conflicts.update(names)

    def forget(self, names: Iterable[str]) -> None:
        """The snapshot of these tables is complete: DDL during another one is let through again."""
        for name in names:
            self._conflicts.pop(name, None)

    def next_tables(self, wanted: Sequence[CatalogTable]) -> list[CatalogTable]:
        """The tables that are snapshotted next: all without a conflict, else one of the others."""
        free = [one for one in wanted if not self._conflicts[one.table.spelled()]]
        return free or sorted(wanted, key=lambda one: self._conflicts[one.table.spelled()])[:1]

    def blocks_ddl(self, locked: LockedTables) -> bool:
        """Whether DDL on these tables has to wait until they are read."""
        size = sum(leaf.blocks for leaves in locked.leaves.values() for leaf in leaves) * BLOCK
        return size <= _MOST_HELD_BYTES and any(self._conflicts[table.spelled()] for table in locked.leaves)
