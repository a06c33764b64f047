"""What a step of a target has to do: which tables, from which rows on, and whether it may."""

from dataclasses import dataclass

from changeling.model.errors import ChangelingError
from changeling.replicas.points import Point
from changeling.replicas.replica_reader import Identity
from changeling.replicas.shape import Shape
from changeling.replicas.tables import Replica, ReplicaTables
from changeling.targets.apply import How
from changeling.targets.schema_changes import Connection, Present, check_fits, check_unchanged, is_kept, present
from changeling.targets.table_mapping import Place, Wanted, check_columns, places_of
from changeling.targets.target_state import Entry, Ledger


@dataclass(frozen=True)
class Work:
    """One table to be moved."""

    place: Place
    replica: Replica
    snapshot: int
    shape: Shape
    how: How
    entry: Entry | None
    """What the target knows of the table; None where it does not have it yet."""
    there: Present | None
    """The table as it is; None where it is not there."""


class Planner:
    """Plans the works of a step; `warnings` are for the user, and so are `lasting` ones, which the next steps find again."""

    def __init__(self, connection: Connection, ledger: Ledger, replicas: ReplicaTables, wanted: Wanted) -> None:
        self._connection, self._ledger, self._replicas, self._wanted = connection, ledger, replicas, wanted
        self.warnings: list[str] = []
        self.lasting: list[str] = []

    def works(self, point: Point) -> list[Work]:
        """The tables that are not as the point has them, in an order of their own; raises `ChangelingError` where one may not be.

        Every table that the target is to have is looked at before the first one is touched.
        """
        replicas = [one for one in self._replicas.known.values() if one.identity.kind == "rows"]
        found = ((one.identity, one.snapshot_in(point.tables)) for one in replicas)
        held = {identity: snapshot for identity, snapshot in found if snapshot is not None}
        chosen = {
            one.identity: one for one in replicas if one.identity in held and self._wanted.has(one.identity.table)
        }
        places = places_of(chosen)
        entries = self._ledger.tables()
        self._warn(places, entries, replicas)
        self._check_owners(list(places), entries, places)
        there = present(self._connection, sorted(places))
        works = []
        for place in sorted(places):
            replica = chosen[places[place]]
            made = self._work(place, replica, held[replica.identity], entries.get(place), there.get(place))
            if made is not None:
                works.append(made)
        return works

    def _work(
        self, place: Place, replica: Replica, snapshot: int, entry: Entry | None, there: Present | None
    ) -> Work | None:
        if entry is not None and there is not None:
            check_unchanged(place, there, entry.shape)
            if entry.snapshot == snapshot and entry.oid == there.oid:
                return None
        shape = self._replicas.state_at(replica, snapshot).shape
        if not shape.columns:
            # Upkeep wrote the snapshot, and those before it are gone.
            shape = replica.shape
        if not shape.columns:
            return None
        check_columns(place, shape)
        how = How.ALL
        if there is None:
            if entry is not None:
                self.warnings.append(f"table {place} was dropped by somebody else: it is made again")
        elif entry is None:
            check_fits(self._connection, place, there, shape)
            self.warnings.append(f"table {place} was there, empty and with the right columns: it is used")
        elif entry.oid != there.oid:
            self.warnings.append(f"table {place} was made anew by somebody else: all of its rows are written")
        elif is_kept(entry.shape, shape):
            how = How.CHANGES if entry.snapshot in self._replicas.snapshots(replica) else How.COMPARED
            if how is How.COMPARED and not shape.key:
                how = How.ALL
        return Work(place, replica, snapshot, shape, how, entry, there)

    def _check_owners(self, wanted: list[Place], entries: dict[Place, Entry], places: dict[Place, Identity]) -> None:
        for place, (pipeline, target) in self._ledger.owners(wanted).items():
            raise ChangelingError(
                f"table {place} is kept by the target {target!r} of pipeline {pipeline!r}: one writer a table"
            )
        for place in wanted:
            entry = entries.get(place)
            if entry is not None and entry.identity != places[place]:
                was, now = entry.identity, places[place]
                raise ChangelingError(
                    f"table {place} has the rows of {was.table} of source {was.source}, not of {now.table} of source "
                    f"{now.source}: drop it, and its row of changeling.tables, to have the other there"
                )

    def _warn(self, places: dict[Place, Identity], entries: dict[Place, Entry], replicas: list[Replica]) -> None:
        for pattern in self._wanted.without(one.identity.table for one in replicas):
            self.lasting.append(f"there is no replica of {pattern} yet")
        for place, entry in entries.items():
            if place not in places:
                why = (
                    "has no replica any more" if self._wanted.has(entry.identity.table) else "is not asked for any more"
                )
                self.lasting.append(f"table {place} {why}: it stays as it is")
