"""Tables that the stream described differently from their last snapshot, even if the catalog shows them as before.

A table may have been renamed, moved, or under another replica identity for a while, and a partition may have been attached and
detached: the changes stored in that time are not those of the table as it is now.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import msgspec

from changeling.postgres.fingerprint import SAME_TEXT, Fingerprint
from changeling.postgres.relation_messages import Description


class SnapshottedTable(NamedTuple):
    """A table as it was when its snapshot was taken."""

    schema: str
    name: str
    fingerprint: Fingerprint
    point: int
    """The LSN of the snapshot: it includes everything that was described before."""


class Drift(msgspec.Struct):
    """Differences by table oid; stored with the batches that showed them."""

    tables: dict[int, int] = {}
    """Tables that were described differently, and the last commit LSN at which they were."""
    partitions: dict[int, dict[int, int]] = {}
    """For partitioned tables, the partitions that were added since, and the last commit LSN that described each."""

    def note(self, described: Iterable[Description], known: Sequence[SnapshottedTable]) -> None:
        """Adds what the stream described; entries that a later snapshot resolved are removed.

        A table may be known twice while a new snapshot of it is running, which may fail.
        """
        by_oid: dict[int, list[SnapshottedTable]] = defaultdict(list)
        for table in known:
            by_oid[table.fingerprint.oid].append(table)
        for one in described:
            # Changes of a table that was a partition at that time are reported for its root.
            if any(one.root or not _is_alike(one, table) for table in by_oid.get(one.oid, ())):
                _raise(self.tables, one.oid, one.lsn)
            for root in by_oid.get(one.root, ()):
                if not one.like_root:
                    _raise(self.tables, one.root, one.lsn)
                if one.oid not in {oid for oid, _, _ in root.fingerprint.files}:
                    _raise(self.partitions.setdefault(one.root, {}), one.oid, one.lsn)
        self._forget({oid: min(table.point for table in tables) for oid, tables in by_oid.items()})

    def note_left_out(self, described: Iterable[Description], oids: Collection[int], lsn: int) -> None:
        """Records that changes of tables were skipped up to an LSN."""
        for one in described:
            for oid in {one.oid, one.root}.intersection(oids):
                _raise(self.tables, oid, lsn)

    def outdates(self, table: SnapshottedTable, now: Fingerprint) -> bool:
        """Whether changes since the snapshot of a table may not belong to the rows that it has now."""
        oid = table.fingerprint.oid
        known = {leaf for leaf, _, _ in (*table.fingerprint.files, *now.files)}
        gone = [lsn for leaf, lsn in self.partitions.get(oid, {}).items() if leaf not in known]
        return max([self.tables.get(oid, 0), *gone]) > table.point

    def _forget(self, points: dict[int, int]) -> None:
        def later(oid: int, lsn: int) -> bool:
            return oid in points and lsn > points[oid]

        self.tables = {oid: lsn for oid, lsn in self.tables.items() if later(oid, lsn)}
        left = {
            oid: {leaf: lsn for leaf, lsn in leaves.items() if later(oid, lsn)}
            for oid, leaves in self.partitions.items()
        }
        self.partitions = {oid: leaves for oid, leaves in left.items() if leaves}


def _raise(places: dict[int, int], oid: int, lsn: int) -> None:
    places[oid] = max(lsn, places.get(oid, 0))


def _is_alike(one: Description, table: SnapshottedTable) -> bool:
    """Whether this describes the table as in its snapshot; columns may have been added, dropped or renamed."""
    if (one.schema, one.name) != (table.schema, table.name):
        return False
    if one.identity in "di" and set(one.key) != set(table.fingerprint.key):
        return False
    kinds = {column.name: column.type for column in table.fingerprint.columns}
    for name, kind in one.columns:
        if name in kinds and kinds[name] != kind and not {kinds[name], kind} <= SAME_TEXT:
            return False
    return _same_order([name for name, _ in one.columns], [column.name for column in table.fingerprint.columns])


def _same_order(described: list[str], known: list[str]) -> bool:
    """Whether no column can have the name of another one: the stream identifies columns only by name."""
    if len(described) == len(known):
        return all(now == was or now not in known for now, was in zip(described, known, strict=True))
    kept = [name for name in described if name in known]
    return described[: len(kept)] == kept == [name for name in known if name in kept]
