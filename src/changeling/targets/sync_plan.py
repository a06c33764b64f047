"""Plans a step of a target: which tables to move, from which rows, and whether it may."""

from dataclasses import dataclass

from changeling.model.errors import ChangelingError
from changeling.replicas.points import Point
from changeling.replicas.replica_reader import Identity, Replica
from changeling.replicas.shape import Shape
from changeling.replicas.tables import ReplicaTables
from changeling.targets.apply import ApplyMode
from changeling.targets.schema_changes import (
    Connection,
    ExistingTable,
    check_fits,
    check_unchanged,
    existing_tables,
    is_kept,
)
from changeling.targets.table_mapping import TargetTable, Wanted, check_columns, target_tables_of
from changeling.targets.target_state import Entry, Ledger


@dataclass(frozen=True)
class TableTask:
    """One table to move."""

    place: TargetTable
    replica: Replica
    snapshot: int
    shape: Shape
    mode: ApplyMode
    entry: Entry | None
    """The state of the table in the target; None where it is new."""
    existing: ExistingTable | None
    """The table in the catalog; None where it does not exist."""


class Planner:
    """Plans the tasks of a step; `warnings` are for the user, and so are `lasting` ones, which the next steps find again."""

    def __init__(self, connection: Connection, ledger: Ledger, replicas: ReplicaTables, wanted: Wanted) -> None:
        self._connection, self._ledger, self._replicas, self._wanted = connection, ledger, replicas, wanted
        self.warnings: list[str] = []
        self.lasting: list[str] = []

    def tasks(self, point: Point) -> list[TableTask]:
        """The tables that are not at the point, in a fixed order; raises `ChangelingError` where one may not be written.

        Every table of the target is checked before the first one is changed.
        """
        replicas = [one for one in self._replicas.known.values() if one.identity.kind == "rows"]
        found = ((one.identity, one.snapshot_in(point.tables)) for one in replicas)
        held = {identity: snapshot for identity, snapshot in found if snapshot is not None}
        chosen = {
            one.identity: one for one in replicas if one.identity in held and self._wanted.has(one.identity.table)
        }
        places = target_tables_of(chosen)
        entries = self._ledger.tables()
        self._warn(places, entries, replicas)
        self._check_owners(list(places), entries, places)
        existing = existing_tables(self._connection, sorted(places))
        tasks = []
        for place in sorted(places):
            replica = chosen[places[place]]
            task = self._task(place, replica, held[replica.identity], entries.get(place), existing.get(place))
            if task is not None:
                tasks.append(task)
        return tasks

    def _task(
        self, place: TargetTable, replica: Replica, snapshot: int, entry: Entry | None, existing: ExistingTable | None
    ) -> TableTask | None:
        if entry is not None and existing is not None:
            check_unchanged(place, existing, entry.shape)
            if entry.snapshot == snapshot and entry.oid == existing.oid:
                return None
        shape = self._replicas.state_at(replica, snapshot).shape
        if not shape.columns:
            # Maintenance wrote the snapshot, and those before it are expired.
            shape = replica.shape
        if not shape.columns:
            return None
        check_columns(place, shape)
        mode = ApplyMode.ALL
        if existing is None:
            if entry is not None:
                self.warnings.append(f"table {place} was dropped by somebody else: it is created again")
        elif entry is None:
            check_fits(self._connection, place, existing, shape)
            self.warnings.append(f"table {place} existed, empty and with the right columns: it is used")
        elif entry.oid != existing.oid:
            self.warnings.append(f"table {place} was recreated by somebody else: all of its rows are written")
        elif is_kept(entry.shape, shape):
            mode = ApplyMode.CHANGES if entry.snapshot in self._replicas.snapshots(replica) else ApplyMode.COMPARED
            if mode is ApplyMode.COMPARED and not shape.key:
                mode = ApplyMode.ALL
        return TableTask(place, replica, snapshot, shape, mode, entry, existing)

    def _check_owners(
        self, wanted: list[TargetTable], entries: dict[TargetTable, Entry], places: dict[TargetTable, Identity]
    ) -> None:
        for place, (pipeline, target) in self._ledger.owners(wanted).items():
            raise ChangelingError(
                f"table {place} is written by the target {target!r} of pipeline {pipeline!r}: a table has one writer"
            )
        for place in wanted:
            entry = entries.get(place)
            if entry is not None and entry.identity != places[place]:
                was, now = entry.identity, places[place]
                raise ChangelingError(
                    f"table {place} has the rows of {was.table} of source {was.source}, not of {now.table} of source "
                    f"{now.source}: drop it, and its row of changeling.tables, to replace it"
                )

    def _warn(
        self, places: dict[TargetTable, Identity], entries: dict[TargetTable, Entry], replicas: list[Replica]
    ) -> None:
        for pattern in self._wanted.without(one.identity.table for one in replicas):
            self.lasting.append(f"there is no replica of {pattern} yet")
        for place, entry in entries.items():
            if place not in places:
                why = "no longer has a replica" if self._wanted.has(entry.identity.table) else "is no longer listed"
                self.lasting.append(f"table {place} {why}: it stays as it is")
