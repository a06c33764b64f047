"""States of replicas: now, at a point, after a transaction, or as of any time within retention.

A state is a prefix of a source's positions. It begins with the nearest point that is such a prefix too, and takes the changes
from there on: what it costs follows those, not the length of the log.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from changeling.iceberg.parquet_files import Target, discard
from changeling.log import layout
from changeling.log.change_log import Log
from changeling.model import times
from changeling.model.errors import UsageError, nearest
from changeling.model.table import TableName
from changeling.replicas.commits import Committer
from changeling.replicas.fold_job import fold
from changeling.replicas.full_load import base_rows
from changeling.replicas.gaps import Unknown, UnknownOf, nothing_unknown
from changeling.replicas.merge_tasks import (
    Base,
    Bases,
    after,
    between,
    first_later,
    last_truncate,
    names_a_table,
    of_table,
    points_of,
    some_key,
    tables_named,
)
from changeling.replicas.points import Point, Points
from changeling.replicas.quarantine import Quarantine
from changeling.replicas.replica_reader import Identity
from changeling.replicas.row_events import FoldTable
from changeling.replicas.schema_inference import Policies, SchemaInference
from changeling.replicas.schema_reversion import PositionRange
from changeling.replicas.shape import Shape
from changeling.replicas.snapshot_rows import Reads, reads_of
from changeling.replicas.staged_rows import staged_layout
from changeling.replicas.staging_folder import place_of_reader
from changeling.replicas.stored_merge import completed, named, placed, recounted, staged_frame, together
from changeling.replicas.table_lookup import WantedTable
from changeling.replicas.tables import Replica, ReplicaTables


@dataclass(frozen=True)
class Prefix:
    """A prefix of a source: the state to begin with, and where it ends (None where it ends with the last point)."""

    base: Base
    limit: str | None
    batch: int | None = None
    """The last batch that counts; None for that of the last point."""


@dataclass(frozen=True)
class State:
    """Rows, and their columns."""

    rows: DataFrame
    shape: Shape


class States:
    """Reads the states of a pipeline's tables; it leaves nothing behind."""

    def __init__(self, log: Log, policy: Policies, unknown: UnknownOf = nothing_unknown) -> None:
        self._lake = log.lake
        self._unknown = unknown
        self._points = points_of(self._lake)
        self._tables = ReplicaTables(self._lake)
        self._committer = Committer(self._lake, self._tables, Quarantine(self._lake))
        self._bases = Bases(self._lake, self._points)
        self._inference = SchemaInference(log.registry, policy, lambda versions: None)

    def now(self, table: WantedTable) -> State:
        """The state of the last point."""
        identity, replica = self._find(table)
        if replica is not None and replica.is_current:
            return State(self._tables.lake.frame(replica.table), replica.shape)
        return self._folded(identity, replica, Prefix(Base(), None))

    def at_point(self, table: WantedTable, number: int) -> State:
        """The state of one point."""
        identity, replica = self._find(table)
        point = next((one for one in self._points.all() if one.number == number), None)
        if point is None:
            raise UsageError(f"there is no point {number}; the last one is {self._points.last.number}")
        held = point.of(identity.source).position
        snapshot = None if replica is None else replica.snapshot_in(point.tables)
        if replica is not None and snapshot is not None and snapshot in self._tables.snapshots(replica):
            shape = self._tables.state_at(replica, snapshot).shape
            return State(named(self._committer.rows_at(replica, snapshot, shape), shape), shape)
        if held is None:
            raise UsageError(f"point {number} has nothing of source {identity.source}")
        earlier = Points(one for one in self._points.all() if one.number <= number)
        base = None
        if replica is not None:
            base = Bases(self._lake, earlier).before(replica, after(held), self._tables.snapshots(replica))
        elif self._bases.log_is_whole():
            base = Base()
        if base is None:
            raise self._too_early(identity, replica, f"point {number}")
        return self._folded(identity, replica, Prefix(base, after(held), point.of(identity.source).batch))

    def as_of(self, table: WantedTable, moment: int) -> State:
        """The state before the first transaction that is later than a time, in nanoseconds."""
        identity, replica = self._find(table)
        source = identity.source
        fitting: list[Point] = []
        newer: Point | None = None
        for point in self._points.undisturbed(source):
            if (point.of(source).commit_time or moment) <= moment:
                fitting.append(point)
                break
            newer = point
        if not fitting and not self._bases.log_is_whole():
            raise self._too_early(identity, replica, times.to_text(moment))
        start = fitting[0].of(source).position or "" if fitting else ""
        end = newer.of(source).position if newer is not None else self._points.last.of(source).position
        limit = first_later(self._lake, source, moment, start, end or "")
        self._check_is_known(identity, limit, times.to_text(moment))
        base = self._base(identity, replica, limit, times.to_text(moment))
        if base.snapshot is None and limit is not None:
            self._check_was_known(identity, limit, moment)
        return self._folded(identity, replica, Prefix(base, limit))

    def _check_is_known(self, identity: Identity, limit: str | None, wanted: str) -> None:
        if limit is not None:
            for gap in self._unknown(identity):
                gap.check(identity, limit, wanted)

    def _check_was_known(self, identity: Identity, limit: str, moment: int) -> None:
        """Raises `UsageError` where a table is known only from its snapshot on, and the snapshot is later."""
        reads = self._lake.frame(layout.CHANGES).where(
            of_table(identity.source, identity.table) & (f.col("op") == "read")
        )
        found = reads.agg(f.min("position"), f.min("commit_time")).first()
        if found is not None and found[0] is not None and found[1] is not None:
            Unknown("", after(found[0]), found[1]).check(identity, limit, times.to_text(moment))

    def from_base(self, table: WantedTable, base: str, before: int | None) -> State:
        """A full load and the changes of the log on top of it, strictly before a time if one is given."""
        identity, _ = self._find(table)
        end = self._points.last.of(identity.source).position or ""
        limit = None if before is None else first_later(self._lake, identity.source, before - 1, "", end)
        return self._folded(identity, None, Prefix(Base(), limit), base)

    def as_of_transaction(self, table: WantedTable, number: str) -> State:
        """The state after a transaction."""
        identity, replica = self._find(table)
        last = self._points.last.of(identity.source).position or ""
        own = (f.col("source") == identity.source) & (f.col("transaction.id") == number)
        found = self._lake.frame(layout.CHANGES).where(own).agg(f.max("position")).first()
        position = None if found is None else found[0]
        if position is None:
            raise UsageError(
                f"source {identity.source} has no transaction {number}; the last one in the replicas is "
                f"{self._points.last.of(identity.source).transaction}"
            )
        if position > last:
            raise UsageError(
                f"transaction {number} of source {identity.source} is not complete yet: ask again when it is"
            )
        self._check_is_known(identity, after(position), f"transaction {number}")
        base = self._base(identity, replica, after(position), f"transaction {number}")
        return self._folded(identity, replica, Prefix(base, after(position)))

    def before(self, source: str, table: TableName, position: str) -> State:
        """The state of all that comes before a position; it must be in the last point.

        Where that ends there, it is what the replica has, whoever wrote it.
        """
        identity = Identity(source, table)
        replica = self._tables.known.get(identity)
        last = self._points.last.of(source).position or ""
        if replica is not None and replica.is_current and last < position:
            return State(self._tables.lake.frame(replica.table), replica.shape)
        return self._folded(
            identity, replica, Prefix(self._base(identity, replica, position, f"position {position}"), position)
        )

    def given(self, source: str, table: TableName, changes: DataFrame, version: int) -> State:
        """The state that the given changes produce, in a version of the table's schema; the log is not read."""
        columns = self._inference.columns(source, table, None)
        folded = FoldTable(source, table, columns, columns.shape(version), stored=False)
        return self._together(folded, changes, None, lambda shape: None, version)

    def tables(self) -> list[TableName]:
        """All tables that the log or a replica has."""
        rows = self._lake.frame(layout.CHANGES).where(names_a_table()).select("table.*").distinct().collect()
        return [TableName(row.catalog, row.schema, row.name) for row in rows]

    def _find(self, table: WantedTable) -> tuple[Identity, Replica | None]:
        """The table that is meant: one with a replica if there is one, else one of the log."""
        known = [(identity.source, identity.table) for identity in self._tables.known if identity.kind == "rows"]
        of_source = [place for place in known if table.source in (None, place[0])]
        place = table.among(of_source) or table.among([*known, *tables_named(self._lake, table.name.name)])
        if place is None:
            spelled = (one.spelled() for one in self.tables())
            raise UsageError(f"there is no table {table}; {nearest(table.name.spelled(), spelled)}")
        return Identity(*place), self._tables.known.get(Identity(*place))

    def _base(self, identity: Identity, replica: Replica | None, limit: str | None, wanted: str = "") -> Base:
        """The nearest state before a position; raises `UsageError` where the log does not reach back to any."""
        if replica is not None:
            found = self._bases.before(
                replica,
                limit or after(self._points.last.of(identity.source).position or ""),
                self._tables.snapshots(replica),
            )
        else:
            found = Base() if self._bases.log_is_whole() else None
        if found is None:
            raise self._too_early(identity, replica, wanted)
        return found

    def _too_early(self, identity: Identity, replica: Replica | None, wanted: str) -> UsageError:
        return UsageError(f"{wanted} lies before the earliest state that is kept: {self._earliest(identity, replica)}")

    def _earliest(self, identity: Identity, replica: Replica | None) -> str:
        there = set() if replica is None else self._tables.snapshots(replica)
        for point in reversed(self._points.undisturbed(identity.source)):
            moment = point.of(identity.source).commit_time
            if replica is not None and moment is not None and replica.snapshot_in(point.tables) in there:
                return times.to_text(moment)
        return "none is kept"

    def _folded(self, identity: Identity, replica: Replica | None, moment: Prefix, given: str | None = None) -> State:
        source, table, base, limit = identity.source, identity.table, moment.base, moment.limit
        last = self._points.last.of(source)
        batch = moment.batch or last.batch
        limit = limit or after(last.position or "")
        own = of_table(source, table)
        key = some_key(self._lake, source, table)
        reads = Reads()
        if key is None:
            reads = reads_of(self._lake, source, table, limit, batch)
            if reads.contain > base.position:
                # A complete snapshot contains all of the base.
                base, given = Base(), None
            elif given is None and reads.cut_by(base.position):
                base = self._base(identity, replica, reads.first, "the snapshot of a table without a key")
        truncated = last_truncate(self._lake, source, table, base.position, limit, batch)
        if truncated is not None:
            base, given = Base(truncated), None
        wanted = between(base.position, limit, batch) & (f.col("position") >= reads.contain)
        changes = self._lake.frame(layout.CHANGES).where(own & wanted)
        if replica is None:
            # Merges look for them where there is a replica.
            self._inference.look_for_reversions(
                self._lake, PositionRange(source, table, "", after(last.position or ""), last.batch)
            )
        columns = self._inference.columns(source, table, key)
        version = columns.version_at(*self._version(changes, replica, base))
        folded = FoldTable(
            source,
            table,
            columns,
            columns.shape(version),
            stored=base.snapshot is not None or given is not None,
            attempts=reads.attempts,
            contained=reads.contain,
        )

        def below(shape: Shape) -> DataFrame | None:
            if given is not None:
                return base_rows(self._lake.spark, given, shape)
            if base.snapshot is not None and replica is not None:
                return self._committer.rows_at(replica, base.snapshot, shape)
            return None

        return self._together(folded, changes, key, below, version)

    def _together(
        self,
        folded: FoldTable,
        changes: DataFrame,
        key: str | None,
        below_of: Callable[[Shape], DataFrame | None],
        version: int | None,
    ) -> State:
        """Changes folded on top of the rows below them."""
        place = place_of_reader(self._lake.load(layout.POINTS).location())

        def prepared(one: FoldTable) -> tuple[FoldTable, Target]:
            return one, Target(place, staged_layout(one.shape))

        quarantine = Target(f"{place}/quarantine", layout.QUARANTINE.columns)
        ((done, outcome),) = fold(
            changes,
            [folded],
            prepared,
            quarantine,
            0,
            lambda one, kinds: self._inference.widened(one, kinds, key, version),
        )
        shape = done.shape
        below = below_of(shape)
        if outcome.files:
            made = completed if shape.key else recounted
            now = made(staged_frame(self._lake.spark, outcome.files), below, shape).localCheckpoint()
            discard([*outcome.files, *outcome.quarantine_files])
            return State(named(together(below, now, shape), shape), shape)
        return State(named(self._nothing(shape) if below is None else below, shape), shape)

    def _version(self, changes: DataFrame, replica: Replica | None, base: Base) -> tuple[int | None, str]:
        """The schema version of the last change, or of the state that it begins with, and its position."""
        with_schema = f.when(f.col("schema_id").isNotNull(), f.col("position"))
        found = changes.agg(f.max_by("schema_id", with_schema), f.max(with_schema)).first()
        if found is not None and found[0] is not None:
            return int(found[0]), found[1]
        if replica is None or base.snapshot is None:
            return None, ""
        state = self._tables.state_at(replica, base.snapshot)
        return state.version, state.version_at

    def _nothing(self, shape: Shape) -> DataFrame:
        return placed(self._lake.spark.range(0), Shape(()), shape)
