"""States of replicas: now, at a point, after a transaction, or as of any time within retention.

A state is a prefix of a source's positions. It begins with the nearest point that is such a prefix too, and takes the changes
from there on: what it costs follows those, not the length of the log.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from changeling.iceberg.conditions import at_least, equals
from changeling.iceberg.parquet_files import WriteSpec, WrittenFile
from changeling.log import log_tables
from changeling.log.schema_registry import Registry
from changeling.model import times
from changeling.model.errors import UsageError
from changeling.model.table import TableName
from changeling.replicas.bases import Base, Bases
from changeling.replicas.change_order import START
from changeling.replicas.fold_job import fold
from changeling.replicas.fold_table import FoldTable
from changeling.replicas.gaps import UnknownOf, check_was_known, nothing_unknown
from changeling.replicas.logged_changes import (
    Changes,
    Span,
    after,
    all_tables,
    between,
    first_later,
    is_placed,
    last_truncate,
    last_version,
    of_table,
    some_key,
    tables_named,
)
from changeling.replicas.points import Point, Points
from changeling.replicas.replica_reader import Identity, Replica, ReplicaState
from changeling.replicas.schema_inference import Policies, SchemaInference
from changeling.replicas.schema_reversion import PositionRange
from changeling.replicas.shape import Shape
from changeling.replicas.snapshot_rows import SnapshotRows, snapshot_rows_of
from changeling.replicas.staged_rows import staged_layout
from changeling.replicas.table_lookup import WantedTable

Rows = TypeVar("Rows")
"""A frame of Spark, or a table of Arrow."""


@dataclass(frozen=True)
class Prefix:
    """A prefix of a source: the state to begin with, and where it ends (None where it ends with the last point)."""

    base: Base
    limit: str | None
    batch: int | None = None
    """The last batch that counts; None for that of the last point."""


@dataclass(frozen=True)
class State(Generic[Rows]):
    """Rows under the names of their columns, and these."""

    rows: Rows
    shape: Shape


class StateStore(Protocol[Rows]):
    """The stored tables of a pipeline, as states are computed from them: on Spark, or in this process."""

    changes: Changes
    points: Points
    registry: Registry
    replicas: Mapping[Identity, Replica]

    def log_properties(self) -> Mapping[str, str]:
        """The properties of the log's table."""

    def snapshots(self, replica: Replica) -> set[int]:
        """The ids of the snapshots that a replica still has."""

    def state_at(self, replica: Replica, snapshot: int) -> ReplicaState:
        """The state in a snapshot, or in the last one before it that has one."""

    def rows_at(self, replica: Replica, snapshot: int, shape: Shape) -> Rows:
        """The rows of a snapshot in the places and types of a shape."""

    def full_load(self, place: str, shape: Shape) -> Rows:
        """The rows of a full load in the places and types of a shape."""

    def staging(self) -> AbstractContextManager[str]:
        """A place for the files of a fold, which are removed at the end."""

    def on_top(self, files: Sequence[WrittenFile], base: Rows | None, shape: Shape) -> Rows:
        """The rows that a fold staged, on top of a base, under the names of a shape.

        The files are no longer needed then.
        """


class States(Generic[Rows]):
    """SnapshotRows the states of a pipeline's tables; it leaves nothing behind."""

    def __init__(self, store: StateStore[Rows], policy: Policies, unknown: UnknownOf = nothing_unknown) -> None:
        self._store, self._unknown = store, unknown
        self._changes, self._points = store.changes, store.points
        self._bases = Bases(store.points, store.log_properties)
        self._inference = SchemaInference(store.registry, policy)

    def now(self, table: WantedTable) -> State[Rows]:
        """The state of the last point."""
        identity, replica = self._find(table)
        current = self._current(replica)
        return self._folded(identity, replica, Prefix(Base(), None)) if current is None else current

    def _current(self, replica: Replica | None) -> State[Rows] | None:
        """What a replica has; None where it misses changes, or there is none."""
        if replica is None or replica.behind or replica.snapshot is None:
            return None
        return self._stored(replica, replica.snapshot, replica.shape)

    def _stored(self, replica: Replica, snapshot: int, shape: Shape) -> State[Rows]:
        return State(self._store.on_top((), self._store.rows_at(replica, snapshot, shape), shape), shape)

    def at_point(self, table: WantedTable, number: int) -> State[Rows]:
        """The state of one point."""
        identity, replica = self._find(table)
        point = self._points.at(number)
        if point is None:
            raise UsageError(f"there is no point {number}; the last one is {self._points.last.number}")
        merged_to = point.of(identity.source).position
        snapshot = None if replica is None else replica.snapshot_in(point.tables)
        if replica is not None and snapshot is not None and snapshot in self._store.snapshots(replica):
            return self._stored(replica, snapshot, self._store.state_at(replica, snapshot).shape)
        if merged_to is None:
            raise UsageError(f"point {number} does not include source {identity.source}")
        earlier = Points(one for one in self._points.all() if one.number <= number)
        base = None
        if replica is not None:
            bases = Bases(earlier, self._store.log_properties)
            base = bases.before(replica, after(merged_to), self._store.snapshots(replica))
        elif self._bases.log_is_whole():
            base = Base()
        if base is None:
            raise self._too_early(identity, replica, f"point {number}")
        return self._folded(identity, replica, Prefix(base, after(merged_to), point.of(identity.source).batch))

    def as_of(self, table: WantedTable, moment: int) -> State[Rows]:
        """The state before the first transaction that is later than a time, in nanoseconds."""
        identity, replica = self._find(table)
        source = identity.source
        fitting: list[Point] = []
        newer: Point | None = None
        for point in self._points.valid_bases(source):
            if not fitting and (point.of(source).commit_time or moment) > moment:
                newer = point
            elif len(fitting := [*fitting, point]) == 2:
                break
        if not fitting and not self._bases.log_is_whole():
            raise self._too_early(identity, replica, times.to_text(moment))
        # A run that ended inside a transaction showed a part of it: its start may be before the last point that fits.
        start, earlier = ([point.of(source).position or "" for point in fitting] + ["", ""])[:2]
        last = self._points.last.of(source).position or ""
        end = last if newer is None else newer.of(source).position or ""
        limit = first_later(self._changes, source, moment, Span(earlier, start, end))
        if limit is None and end < last:
            # Points of earlier versions have the times of control records, too.
            limit = first_later(self._changes, source, moment, Span(earlier, end, last))
        self._check_is_known(identity, limit, times.to_text(moment))
        base = self._base(identity, replica, limit, times.to_text(moment))
        if base.snapshot is None and limit is not None:
            check_was_known(self._changes, identity, limit, times.to_text(moment))
        return self._folded(identity, replica, Prefix(base, limit))

    def _check_is_known(self, identity: Identity, limit: str | None, wanted: str) -> None:
        if limit is not None:
            for gap in self._unknown(identity):
                gap.check(identity, limit, wanted)

    def from_base(self, table: WantedTable, base: str, before: int | None) -> State[Rows]:
        """A full load and the changes of the log on top of it, strictly before a time if one is given."""
        identity, _ = self._find(table)
        end = self._points.last.of(identity.source).position or ""
        limit = None if before is None else first_later(self._changes, identity.source, before - 1, Span("", "", end))
        return self._folded(identity, None, Prefix(Base(), limit), base)

    def as_of_transaction(self, table: WantedTable, number: str) -> State[Rows]:
        """The state after a transaction."""
        identity, replica = self._find(table)
        last = self._points.last.of(identity.source).position or ""
        own = self._changes.where(equals("source", identity.source), equals("transaction.id", number), is_placed())
        found = own.max_by("position")
        if found is None:
            raise UsageError(
                f"source {identity.source} has no transaction {number}; the last one in the replicas is "
                f"{self._points.last.of(identity.source).transaction}"
            )
        (position,) = found
        if position > last:
            raise UsageError(
                f"transaction {number} of source {identity.source} is not complete yet: ask again when it is"
            )
        self._check_is_known(identity, after(position), f"transaction {number}")
        base = self._base(identity, replica, after(position), f"transaction {number}")
        return self._folded(identity, replica, Prefix(base, after(position)))

    def before(self, source: str, table: TableName, position: str) -> State[Rows]:
        """The state of all that comes before a position; it must be in the last point.

        Where that ends there, it is what the replica has, whoever wrote it.
        """
        identity = Identity(source, table)
        replica = self._store.replicas.get(identity)
        if (self._points.last.of(source).position or "") < position:
            current = self._current(replica)
            if current is not None:
                return current
        return self._folded(
            identity, replica, Prefix(self._base(identity, replica, position, f"position {position}"), position)
        )

    def given(self, source: str, table: TableName, changes: Changes, version: int) -> State[Rows]:
        """The state that the given changes produce, in a version of the table's schema; the log is not read."""
        columns = self._inference.columns(source, table, None)
        folded = FoldTable(source, table, columns, columns.shape(version), stored=False)
        return self._together(folded, changes, None, lambda shape: None, version)

    def _find(self, table: WantedTable) -> tuple[Identity, Replica | None]:
        """The table that is meant: one with a replica if there is one, else one of the log."""
        known = [(identity.source, identity.table) for identity in self._store.replicas if identity.kind == "rows"]
        of_source = [place for place in known if table.source in (None, place[0])]
        place = table.among(of_source) or table.among([*known, *tables_named(self._changes, table.name.name)])
        if place is None:
            hint = table.nearest(one for _, one in all_tables(self._changes))
            raise UsageError(f"there is no table {table}; {hint}")
        return Identity(*place), self._store.replicas.get(Identity(*place))

    def _base(self, identity: Identity, replica: Replica | None, limit: str | None, wanted: str = "") -> Base:
        """The nearest state before a position; raises `UsageError` where the log does not reach back to any."""
        if replica is not None:
            found = self._bases.before(
                replica,
                limit or after(self._points.last.of(identity.source).position or ""),
                self._store.snapshots(replica),
            )
        else:
            found = Base() if self._bases.log_is_whole() else None
        if found is None:
            raise self._too_early(identity, replica, wanted)
        return found

    def _too_early(self, identity: Identity, replica: Replica | None, wanted: str) -> UsageError:
        return UsageError(f"{wanted} lies before the earliest state that is kept: {self._earliest(identity, replica)}")

    def _earliest(self, identity: Identity, replica: Replica | None) -> str:
        there = set() if replica is None else self._store.snapshots(replica)
        for point in reversed(list(self._points.valid_bases(identity.source))):
            moment = point.of(identity.source).commit_time
            if replica is not None and moment is not None and replica.snapshot_in(point.tables) in there:
                return times.to_text(moment)
        return "none is kept"

    def _folded(
        self, identity: Identity, replica: Replica | None, moment: Prefix, given: str | None = None
    ) -> State[Rows]:
        source, table, base, limit = identity.source, identity.table, moment.base, moment.limit
        last = self._points.last.of(source)
        batch = moment.batch or last.batch
        limit = limit or after(last.position or "")
        key = some_key(self._changes, source, table)
        snapshots = SnapshotRows()
        if key is None:
            snapshots = snapshot_rows_of(self._changes, source, table, limit, batch, whole=self._bases.log_is_whole())
            if snapshots.contain > base.position:
                # A complete snapshot contains all of the base.
                base, given = Base(), None
            elif given is None and snapshots.cut_by(base.position):
                base = self._base(identity, replica, snapshots.first, "the snapshot of a table without a key")
        span = between(base.position, limit, batch), at_least("position", snapshots.contain)
        changes = self._changes.where(of_table(source, table), *span).cached()
        truncated = last_truncate(changes)
        if truncated is not None:
            base, given = Base(), None
            changes = changes.where(truncated.at_or_after())
        if replica is None:
            # Merges look for them where there is a replica.
            self._inference.look_for_reversions(
                self._changes, PositionRange(source, table, "", after(last.position or ""), last.batch)
            )
        columns = self._inference.columns(source, table, key)
        version = columns.version_at(*self._version(changes, replica, base))
        folded = FoldTable(
            source,
            table,
            columns,
            columns.shape(version),
            stored=base.snapshot is not None or given is not None,
            attempts=snapshots.attempts,
            contained=snapshots.contain,
            start_after=truncated or START,
        )

        def base_rows(shape: Shape) -> Rows | None:
            if given is not None:
                return self._store.full_load(given, shape)
            if base.snapshot is not None and replica is not None:
                return self._store.rows_at(replica, base.snapshot, shape)
            return None

        return self._together(folded, changes, key, base_rows, version)

    def _together(
        self,
        folded: FoldTable,
        changes: Changes,
        key: str | None,
        base_of: Callable[[Shape], Rows | None],
        version: int | None,
    ) -> State[Rows]:
        """Changes folded on top of a base."""
        with self._store.staging() as place:

            def prepared(one: FoldTable) -> tuple[FoldTable, WriteSpec]:
                return one, WriteSpec(place, staged_layout(one.shape))

            ((done, outcome),) = fold(
                changes,
                [folded],
                prepared,
                WriteSpec(f"{place}/quarantine", log_tables.QUARANTINE.columns),
                0,
                lambda one, kinds: self._inference.widened(one, kinds, key, version),
            )
            return State(self._store.on_top(outcome.files, base_of(done.shape), done.shape), done.shape)

    def _version(self, changes: Changes, replica: Replica | None, base: Base) -> tuple[int | None, str]:
        """The schema version of the last change, or of the state that it begins with, and its position."""
        found = last_version(changes)
        if found[0] is not None or replica is None or base.snapshot is None:
            return found
        state = self._store.state_at(replica, base.snapshot)
        return state.version, state.version_at
