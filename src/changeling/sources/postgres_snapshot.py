"""A snapshot of tables while it is being read, and the tables that others come to alter or truncate meanwhile.

The first DDL statement is let through, and the snapshot of the table begins again, alone and after all other tables. This time it is
read over the connection that has the lock, so that DDL waits: else a table that is truncated every second would never be read. Such a
table is small.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from changeling.model.position import encode
from changeling.postgres.catalog import CatalogTable
from changeling.postgres.published_table import PublishedTable
from changeling.postgres.slot import ExportedSnapshot
from changeling.sources.postgres_capture import LockedTables
from changeling.sources.postgres_plan import BLOCK, Snapshot, TablePart, batch
from changeling.sources.postgres_reading import Tables
from changeling.sources.source import KnownSchema, SnapshotShare


class KnownNames(Protocol):
    """Names of tables, or none."""

    def __bool__(self) -> bool: ...

    def __contains__(self, name: str) -> bool: ...


@dataclass
class RunningSnapshot:
    """The parts that are left, and why it was started."""

    point: ExportedSnapshot
    locked: LockedTables
    left: list[TablePart]
    asked: dict[str, str]
    """The requests that were open when it began."""
    replaces_rows: bool
    """Of the earlier rows of its tables none stays."""
    slot_lost: bool
    held: bool = False
    """It is read over the connection that has the locks: DDL on its tables waits."""
    begun: bool = False

    def comes_first(self, known: KnownNames, position: int, streamed: bool) -> bool:
        """Whether its next parts come before what follows in the log, of which all up to a position was read.

        The first tables do; those that were added later take turns with the log (`streamed`: it had its turn). Tables that are
        snapshotted again, and those that others wait for, come once the log has come to the snapshot: else the changes before it
        would come late. `known` are the tables that have a snapshot.
        """
        if not self.replaces_rows or self.slot_lost or not known:
            return True
        has_changes = self.held or any(name in known for name in self.locked.prints)
        if has_changes and position < self.point.lsn:
            return False
        return self.held or streamed

    def plan(self, system: str, position: int, most: int) -> Snapshot:
        """The next parts, at most `most`; `position` is where the stream continues."""
        parts = batch(self.left, most)
        return Snapshot(
            system,
            self.point.lsn,
            parts,
            position,
            self.locked.time,
            {name: self.locked.prints[name] for name in (part.table.spelled() for part in parts if part.last)},
            replaces_rows=self.replaces_rows,
            slot_recreated=self.slot_lost and not self.begun,
        )

    def known_schemas(self, plan: Snapshot, tables: Tables) -> list[KnownSchema]:
        """The schemas of the tables in a plan."""
        found = {part.table.spelled(): part.table for part in plan.parts}
        published = {
            name: PublishedTable(self.locked.relations[name], tables.rules_of(table.schema or "", table.name))
            for name, table in found.items()
        }
        return [KnownSchema(table, published[name].schema_text, encode(plan.point, 0)) for name, table in found.items()]

    def share(self, plan: Snapshot) -> SnapshotShare:
        """Which of its tables a plan reads."""
        places = {table: number for number, table in enumerate(self.locked.leaves, 1)}
        found = [places[part.table] for part in plan.parts]
        return SnapshotShare(min(found), max(found), len(places))

    def took(self, plan: Snapshot) -> bool:
        """Records that a plan is in the log; returns whether it was the last one."""
        if plan.point == self.point.lsn:
            self.begun = True
            self.left = [part for part in self.left if part not in plan.parts]
        return not self.left


_MAX_HELD_BYTES = 1024**3
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
        return size <= _MAX_HELD_BYTES and any(self._conflicts[table.spelled()] for table in locked.leaves)
