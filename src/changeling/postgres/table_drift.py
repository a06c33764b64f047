"""Tables that the stream described otherwise than their last snapshot has them, even where the catalog shows them as before.

A table that was renamed, moved, or identified otherwise for a while, and a partition that came and went: what was stored of
them meanwhile is not what the table has now.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import msgspec

from changeling.postgres.fingerprint import SAME_TEXT, Fingerprint
from changeling.postgres.relation_messages import Description


class Snapshotted(NamedTuple):
    """A table as it was when its snapshot was taken."""

    schema: str
    name: str
    print: Fingerprint
    point: int
    """Where in the log the snapshot shows it: what was described before that is in it."""


class Drift(msgspec.Struct):
    """By the numbers of tables; it is kept with the batches that showed it."""

    tables: dict[int, int] = {}
    """Tables that were described otherwise, and the last commit of those that they were."""
    partitions: dict[int, dict[int, int]] = {}
    """Of partitioned tables, the partitions that came since, and the last commit that described each."""

    def note(self, described: Iterable[Description], known: Sequence[Snapshotted]) -> None:
        """Takes what the stream described; what later snapshots settled is forgotten.

        A table may be known twice while a new snapshot of it goes on, which may come to nothing.
        """
        by_oid: dict[int, list[Snapshotted]] = defaultdict(list)
        for table in known:
            by_oid[table.print.oid].append(table)
        for one in described:
            # Changes of what is a partition at that moment are reported for its root.
            if any(one.root or not _is_alike(one, table) for table in by_oid.get(one.oid, ())):
                _raise(self.tables, one.oid, one.lsn)
            for root in by_oid.get(one.root, ()):
                if not one.like_root:
                    _raise(self.tables, one.root, one.lsn)
                if one.oid not in {oid for oid, _, _ in root.print.files}:
                    _raise(self.partitions.setdefault(one.root, {}), one.oid, one.lsn)
        self._forget({oid: min(table.point for table in tables) for oid, tables in by_oid.items()})

    def note_left_out(self, described: Iterable[Description], oids: Collection[int], lsn: int) -> None:
        """Takes that changes of tables were passed over, up to a place in the log."""
        for one in described:
            for oid in {one.oid, one.root}.intersection(oids):
                _raise(self.tables, oid, lsn)

    def outdates(self, table: Snapshotted, now: Fingerprint) -> bool:
        """Whether rows of a table were reported since its snapshot that may not be its rows now, or elsewhere."""
        oid = table.print.oid
        there = {leaf for leaf, _, _ in (*table.print.files, *now.files)}
        gone = [lsn for leaf, lsn in self.partitions.get(oid, {}).items() if leaf not in there]
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


def _is_alike(one: Description, table: Snapshotted) -> bool:
    """Whether changes so described are changes of the table as its snapshot has it; columns may have come, gone or new names."""
    if (one.schema, one.name) != (table.schema, table.name):
        return False
    if one.identity in "di" and set(one.key) != set(table.print.key):
        return False
    kinds = {column.name: column.type for column in table.print.columns}
    for name, kind in one.columns:
        if name in kinds and kinds[name] != kind and not {kinds[name], kind} <= SAME_TEXT:
            return False
    return _same_order([name for name, _ in one.columns], [column.name for column in table.print.columns])


def _same_order(described: list[str], known: list[str]) -> bool:
    """Whether no column can have the name of another one: names alone tell columns of the stream apart."""
    if len(described) == len(known):
        return all(now == was or now not in known for now, was in zip(described, known, strict=True))
    kept = [name for name in described if name in known]
    return described[: len(kept)] == kept == [name for name in known if name in kept]
