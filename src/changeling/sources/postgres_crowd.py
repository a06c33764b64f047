"""Tables that others come to alter or truncate while their snapshot is read.

The first who comes is let through, and the snapshot of the table begins again, alone and after all other tables. This time it is
read over the connection that has the lock, so that whoever comes waits: else a table that is truncated every second would never be
read. Such a table is small.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from changeling.postgres.catalog import CatalogTable
from changeling.sources.postgres_capture import LockedTables
from changeling.sources.postgres_plan import BLOCK

_MOST_HELD_BYTES = 1024**3
"""Whoever comes to alter a larger table is always let through: he would wait for too long."""


class Crowd:
    """How often somebody came for which table."""

    def __init__(self) -> None:
        self._met: Counter[str] = Counter()

    def meet(self, names: Iterable[str]) -> None:
        """Somebody came for these tables, by their spelled names."""
        self._met.update(names)

    def forget(self, names: Iterable[str]) -> None:
        """The snapshot of these tables is complete: whoever comes during another one is let through again."""
        for name in names:
            self._met.pop(name, None)

    def chosen(self, wanted: Sequence[CatalogTable]) -> list[CatalogTable]:
        """The tables that are snapshotted next: all that nobody came for, else one of the others."""
        free = [one for one in wanted if not self._met[one.table.spelled()]]
        return free or sorted(wanted, key=lambda one: self._met[one.table.spelled()])[:1]

    def waits_for(self, locked: LockedTables) -> bool:
        """Whether whoever comes for these tables has to wait until they are read."""
        size = sum(leaf.blocks for leaves in locked.leaves.values() for leaf in leaves) * BLOCK
        return size <= _MOST_HELD_BYTES and any(self._met[table.spelled()] for table in locked.leaves)
