"""Plans the merge of each replica: on top of the stored rows where all changes are newer, from an earlier state otherwise."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from changeling.iceberg.conditions import Condition, above, all_of, any_of, at_least, at_most, equals, one_of
from changeling.iceberg.lake import Lake
from changeling.log import log_tables
from changeling.model.errors import ChangelingError
from changeling.model.table import TableName
from changeling.replicas.bases import Base, Bases
from changeling.replicas.change_order import Rank, Truncate
from changeling.replicas.fold_table import NOTHING_FOLDED, AlreadyFolded, FoldTable
from changeling.replicas.key_move_lookup import reassigned
from changeling.replicas.local_or_spark_changes import LocalOrSparkChanges
from changeling.replicas.logged_changes import all_truncates, between, is_part, of_table
from changeling.replicas.metadata_columns import SERVICE
from changeling.replicas.pending_changes import PendingTable, PointPlan
from changeling.replicas.points import Points, SourcePoint
from changeling.replicas.replica_merges import ReplicaMerge, late_keys
from changeling.replicas.replica_reader import Identity, Replica
from changeling.replicas.schema_inference import SchemaInference
from changeling.replicas.schema_reversion import PositionRange
from changeling.replicas.shape import Shape
from changeling.replicas.snapshot_rows import SnapshotRows, snapshot_rows_of
from changeling.replicas.tables import ReplicaTables

Modes = Callable[[str, TableName], str]
"""merge, history, append, or typed where every change becomes a row; by source and table."""
_FEW_CHANGES = 10_000
"""Up to this many are folded by one task."""
_FEW_TABLES = 20
"""Up to this many have conditions of their own, which skip more of the log."""
_KINDS = {"merge": ("rows",), "history": ("rows", "history"), "append": (), "typed": ("changes",)}


class Planner:
    """Plans the merges of a point."""

    def __init__(
        self, lake: Lake, points: Points, tables: ReplicaTables, inference: SchemaInference, mode: Modes
    ) -> None:
        self._lake, self._points, self._tables, self._inference, self._mode = lake, points, tables, inference, mode
        self._bases = Bases(points, lambda: lake.entries(lake.load(log_tables.CHANGES).properties()))
        self._warnings: list[str] = []
        self.unordered: set[str] = set()
        """The sources whose changes came in several places at one position."""

    @property
    def _changes(self) -> LocalOrSparkChanges:
        """The changes of the log as it is now."""
        return LocalOrSparkChanges.of(self._lake)

    def warnings(self) -> list[str]:
        """Warnings for the user; each is returned once."""
        found, self._warnings = self._warnings, []
        return found

    def merges(self, plan: PointPlan) -> list[ReplicaMerge]:
        """The merges of the replicas that are not at the point yet."""
        made = []
        kinds = [_KINDS[self._mode(table.source, table.table)] for table in plan.tables]
        self._warnings += self._tables.make_room(
            Identity(table.source, table.table, kind)
            for table, wanted in zip(plan.tables, kinds, strict=True)
            for kind in wanted
        )
        for table, wanted in zip(plan.tables, kinds, strict=True):
            self._look_for_reversions(table, wanted, plan)
            for kind in set(SERVICE).difference(wanted):
                known = self._tables.known.get(Identity(table.source, table.table, kind))
                if known is not None:
                    self._tables.leave_behind(known)
            for kind in wanted:
                replica = self._replica(table, Identity(table.source, table.table, kind))
                if replica.state.point < plan.point.number:
                    merge, last = self._merge_of(table, replica, plan), _version(table, replica)
                    version = merge.folded.columns.version_at(*last)
                    few = self._takes_new(merge) and table.changes <= _FEW_CHANGES
                    merge.folded = replace(
                        merge.folded, one_bucket=few, drops_superseded=not few and self._drops_superseded(merge.folded)
                    )
                    made.append(replace(merge, version=version, version_at=last[1]))
        return made

    def _drops_superseded(self, folded: FoldTable) -> bool:
        """Whether events that others supersede may be left out: of rows with a key and columns that a schema declares.

        Of a source whose changes do not come in the order of their positions, they were not left out before.
        """
        is_kept = folded.history or folded.is_change_list or not folded.shape.key or not folded.columns.shapes
        return not is_kept and folded.source not in self.unordered

    def changes(self, merges: Sequence[ReplicaMerge], plan: PointPlan) -> Condition:
        """The changes that the tables need: for most of them what is new, by one condition per source; each fold skips the rest.

        There may be thousands of tables, and a filter with thousands of conditions is slow in every engine.
        """
        fresh = {merge.pending.source for merge in merges if self._takes_new(merge)}
        parts = [
            all_of([equals("source", source), self._new(self._points.last.of(source), plan, source)])
            for source in sorted(fresh)
        ]
        own = [merge for merge in merges if not self._takes_new(merge)]
        taken = {(merge.pending.source, merge.pending.table.name) for merge in merges if self._takes_new(merge)}
        for source in sorted({merge.pending.source for merge in own}):
            with_own = [merge for merge in own if merge.pending.source == source]
            if len(with_own) > _FEW_TABLES:
                # New changes are selected once: a table must not get more because another table has the same name.
                shared = [merge for merge in with_own if (source, merge.pending.table.name) not in taken]
                parts += [self._changes_of_all(source, shared, plan)] if shared else []
                with_own = [merge for merge in with_own if (source, merge.pending.table.name) in taken]
            parts += [self._own_changes(merge, plan) for merge in with_own]
        return any_of(parts)

    def _changes_of_all(self, source: str, merges: Sequence[ReplicaMerge], plan: PointPlan) -> Condition:
        """The changes of many tables, by one condition: each fold skips what comes before its own start."""
        first = at_least("position", min(merge.folded.start_after.position for merge in merges))
        names = one_of("table.name", {merge.pending.table.name for merge in merges})
        span = between("", plan.limits.get(source), plan.point.of(source).batch)
        return all_of([equals("source", source), names, first, span])

    def _takes_new(self, merge: ReplicaMerge) -> bool:
        """Whether a table needs only changes that the last point does not have: all of them where it has nothing of the source."""
        last = self._points.last.of(merge.pending.source)
        on_top = merge.folded.start_after == Rank.end_of(last.position or "")
        return not last.batch or (not merge.from_scratch and (merge.folded.is_change_list or on_top))

    def _own_changes(self, merge: ReplicaMerge, plan: PointPlan) -> Condition:
        source = merge.pending.source
        span = between("", plan.limits.get(source), plan.point.of(source).batch)
        return all_of([of_table(source, merge.pending.table), merge.folded.start_after.at_or_after(), span])

    def _new(self, before: SourcePoint, plan: PointPlan, source: str) -> Condition:
        """Changes that the last point does not have, late or not."""
        span = between("", plan.limits.get(source), plan.point.of(source).batch, before.last_complete_batch)
        if before.position is None:
            return span
        return all_of([span, any_of([above("batch", before.batch), above("position", before.position)])])

    def rebuilt(self, replica: Replica, plan: PointPlan) -> ReplicaMerge:
        """Rebuilds a replica from the first change on."""
        (table,) = plan.tables
        if not self._bases.log_is_whole():
            raise ChangelingError(
                f"the log does not reach back to the first change of {table.table}: what is past retention cannot be rebuilt"
            )
        self._inference.look_for_reversions(self._changes, _position_range(table, "", plan))
        merge = self._from_scratch(table, replica, plan)
        version = merge.folded.columns.version_at(table.version, table.version_at)
        return replace(merge, version=version, version_at=table.version_at)

    def _look_for_reversions(self, table: PendingTable, kinds: Sequence[str], plan: PointPlan) -> None:
        """Finds where the schema reverted: from the start on for a replica that is built from scratch."""
        known = [self._tables.known.get(Identity(table.source, table.table, kind)) for kind in kinds]
        if any(one is None or not one.is_current for one in known):
            self._inference.look_for_reversions(self._changes, _position_range(table, "", plan))
        elif known:
            self._inference.look_for_reversions(self._changes, _position_range(table, table.first, plan), table)

    def _replica(self, table: PendingTable, identity: Identity) -> Replica:
        known = self._tables.known.get(identity)
        if known is not None:
            return known
        columns = self._inference.columns(table.source, table.table, table.key)
        shape = columns.shape(columns.version_at(table.version, table.version_at))
        return self._tables.create(identity, Shape(shape.columns) if identity.kind == "changes" else shape)

    def _folded(self, table: PendingTable, replica: Replica) -> FoldTable:
        key = [column.source_name for column in replica.shape.key_columns]
        columns = self._inference.columns(table.source, table.table, table.key, key)
        shape = columns.shape(columns.version_at(*_version(table, replica)))
        last = self._points.last.of(table.source)
        already_folded = AlreadyFolded(last.last_complete_batch, last.batch, last.position or "")
        folded = FoldTable(table.source, table.table, columns, shape, stored=True, already_folded=already_folded)
        if replica.identity.kind == "changes":
            return replace(folded, shape=Shape(shape.columns), stored=False, is_change_list=True)
        return replace(folded, history=replica.identity.kind == "history")

    def _merge_of(self, table: PendingTable, replica: Replica, plan: PointPlan) -> ReplicaMerge:
        if replica.snapshot is None or replica.behind or self._needs_all(table, replica):
            return self._from_scratch(table, replica, plan)
        merged_to = self._points.last.of(table.source).position or ""
        folded = self._folded(table, replica)
        if not folded.columns.fits(replica.shape, replica.state.version, folded.shape, merged_to):
            if self._bases.log_is_whole():
                return replace(self._from_scratch(table, replica, plan), renamed=True)
            # Rows that are no longer in the log keep their column names.
            named = folded.columns.identified(replica.shape, replica.state.version)
            replica = self._tables.note(replace(replica, shape=named))
        if folded.is_change_list:
            return ReplicaMerge(table, replica, folded)
        folded = replace(folded, start_after=Rank.end_of(merged_to))
        if folded.history:
            folded = replace(folded, truncates=self._truncates(table, plan, merged_to))
        snapshots = SnapshotRows()
        if not folded.shape.key and (table.has_snapshot_rows or table.first_late is not None):
            snapshots = self._snapshot_rows(table, plan)
            folded = replace(folded, attempts=snapshots.attempts, contained=snapshots.contain)
            if self._replaces_stored(table, plan, snapshots):
                return self._from_scratch(table, replica, plan)
        if table.first_late is None and not snapshots.cut_by(merged_to):
            return ReplicaMerge(table, replica, folded)
        return self._late(table, replica, folded, plan, snapshots)

    def _needs_all(self, table: PendingTable, replica: Replica) -> bool:
        """Whether a truncate leaves nothing of what is stored; for histories, whether it came late."""
        if table.truncated is None or replica.identity.kind == "changes":
            return False
        if replica.identity.kind == "rows":
            return True
        return table.truncated <= (self._points.last.of(table.source).position or "") and self._bases.log_is_whole()

    def _from_scratch(self, table: PendingTable, replica: Replica, plan: PointPlan) -> ReplicaMerge:
        """All changes, or those after the last truncate, or from the last complete snapshot of a table without a key on."""
        folded = replace(self._folded(table, replica), stored=False, already_folded=NOTHING_FOLDED)
        before = self._points.last.of(table.source).batch
        if not (folded.shape.key or folded.is_change_list) and (table.has_snapshot_rows or before):
            snapshots = self._snapshot_rows(table, plan)
            folded = replace(folded, attempts=snapshots.attempts, contained=snapshots.contain)
        truncates = self._truncates(table, plan, "")
        if folded.history:
            folded = replace(folded, truncates=truncates)
        elif truncates and not folded.is_change_list:
            folded = replace(folded, start_after=truncates[-1].rank, truncates=truncates[-1:])
        if not (folded.start_after.position or folded.contained or self._bases.log_is_whole()):
            self._warnings.append(
                f"the log does not reach back to the first change of every table: the replica of {table.table} is built from the "
                "changes that it still has"
            )
        return ReplicaMerge(table, replica, folded, from_scratch=True)

    def _late(
        self, table: PendingTable, replica: Replica, folded: FoldTable, plan: PointPlan, snapshots: SnapshotRows
    ) -> ReplicaMerge:
        """Rows that late changes touch are folded again, and so are those of another attempt at a snapshot."""
        there, merged_to = self._tables.snapshots(replica), folded.start_after.position
        base = None
        if table.first_late is not None:
            base = self._bases.before(replica, table.first_late, there)
        if snapshots.cut_by(merged_to if base is None else base.position):
            base = self._bases.before(replica, min(snapshots.first, table.first_late or snapshots.first), there) or base
        if snapshots.contain > (base or Base()).position:
            # A complete snapshot contains all of the base.
            base = Base()
        if base is None:
            self._warnings.append(self._passed_by(table))
            return ReplicaMerge(table, replica, folded)
        truncates = self._truncates(table, plan, base.position)
        start = Rank.end_of(base.position)
        if folded.history:
            folded = replace(folded, truncates=truncates)
        elif truncates:
            base, start = Base(), truncates[-1].rank
            folded = replace(folded, truncates=truncates[-1:])
        folded = replace(folded, start_after=start)
        late = self._came_late(table, plan, start, with_snapshots=bool(snapshots.attempts))
        if folded.shape.key:
            span = between("", plan.limits.get(table.source), plan.point.of(table.source).batch)
            moved = reassigned(self._changes.where(span), late, folded)
            late = late if moved is None else any_of([late, all_of([span, moved])])
        keys = late_keys(self._changes.where(late), folded)
        if keys is not None:
            folded = replace(folded, applied_up_to=merged_to, refold_keys=keys)
            return ReplicaMerge(table, replica, folded, base)
        if folded.history:
            return self._from_scratch(table, replica, plan)
        folded = replace(folded, stored=base.snapshot is not None)
        return ReplicaMerge(table, replica, folded, base, from_scratch=True)

    def _replaces_stored(self, table: PendingTable, plan: PointPlan, snapshots: SnapshotRows) -> bool:
        """Whether a snapshot is complete since the last point, and rows from before it may be stored."""
        if not snapshots.completed_since(self._points.last.of(table.source).last_complete_batch):
            return False
        if len(snapshots.attempts) > 1 or not self._bases.log_is_whole():
            return True
        span = between("", snapshots.contain, plan.point.of(table.source).batch)
        earlier = self._changes.where(of_table(table.source, table.table), span)
        return earlier.any_value("position") is not None

    def _passed_by(self, table: PendingTable) -> str:
        """Warns of changes that are not in the replica, since the log does not reach back to their position."""
        if table.first_late is None:
            return (
                f"the log does not reach back to the first snapshot of {table.table}, which has no key: rows of a later one are "
                "counted in addition to those of the first"
            )
        return (
            f"{table.late:,} changes of {table.table} belong before the earliest state that is kept: they are in the log, "
            "and not in the replica"
        )

    def _snapshot_rows(self, table: PendingTable, plan: PointPlan) -> SnapshotRows:
        """The rows of snapshots of a table without a key."""
        limit, batch = plan.limits.get(table.source), plan.point.of(table.source).batch
        whole = self._bases.log_is_whole()
        return snapshot_rows_of(self._changes, table.source, table.table, limit, batch, whole=whole)

    def _came_late(self, table: PendingTable, plan: PointPlan, start: Rank, *, with_snapshots: bool) -> Condition:
        """The changes for which rows are folded again."""
        last = self._points.last.of(table.source)
        new = [above("batch", last.last_complete_batch), at_most("batch", plan.point.of(table.source).batch)]
        # A new row with a partial image may come from one whose delete was merged before.
        behind = [at_most("position", last.position or ""), is_part()]
        if with_snapshots:
            behind.append(equals("op", "read"))
        own = of_table(table.source, table.table)
        return all_of([own, *new, any_of(behind), start.at_or_after()])

    def _truncates(self, table: PendingTable, plan: PointPlan, after: str) -> tuple[Truncate, ...]:
        limit, batch = plan.limits.get(table.source), plan.point.of(table.source).batch
        return all_truncates(self._changes.where(of_table(table.source, table.table), between(after, limit, batch)))


def _position_range(table: PendingTable, first: str, plan: PointPlan) -> PositionRange:
    limit, batch = plan.limits.get(table.source), plan.point.of(table.source).batch
    return PositionRange(table.source, table.table, first, limit, batch)


def _version(table: PendingTable, replica: Replica) -> tuple[int | None, str]:
    """The schema version of a table's last change, and its position."""
    state = replica.state
    if state.version is not None and state.version_at > table.version_at:
        return state.version, state.version_at
    return table.version, table.version_at
