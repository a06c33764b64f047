"""The merge: folds new changes of the log into the replicas, up to a point that is one state of all of them.

A row whose changes are all newer than what is stored is changed on top of it; every other row is folded again, from the
nearest earlier point that the late changes do not invalidate. The state in a replica's commit says which point it belongs to:
an interrupted merge is finished by the next one, and no replica is changed twice.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from time import monotonic

import msgspec

from changeling.iceberg.failpoints import reach
from changeling.iceberg.parquet_files import WriteSpec, discard
from changeling.log import log_tables
from changeling.log.change_log import Log
from changeling.model.errors import UsageError
from changeling.model.table import TableName
from changeling.replicas.commits import Committer
from changeling.replicas.fold_job import fold
from changeling.replicas.fold_table import FoldTable
from changeling.replicas.fold_task import TableOutcome
from changeling.replicas.key_move_lookup import with_halves_merged_before
from changeling.replicas.local_or_spark_changes import LocalOrSparkChanges
from changeling.replicas.logged_changes import after, last_version, of_table, some_key
from changeling.replicas.merge_plan import Modes, Planner
from changeling.replicas.pending_changes import PendingChanges, PendingTable, PointPlan
from changeling.replicas.points import BASE, Point, Points, points_of
from changeling.replicas.quarantine import Quarantine
from changeling.replicas.replica_merges import ReplicaMerge
from changeling.replicas.replica_reader import Identity, ReplicaState
from changeling.replicas.schema_inference import Policies, SchemaInference
from changeling.replicas.staged_rows import staged_layout
from changeling.replicas.staging_folder import folder_of_merge, read_plan, remove_folder, write_plan
from changeling.replicas.table_lookup import WantedTable
from changeling.replicas.tables import ReplicaTables
from changeling.spark.errors import translated_errors

COMMITS = 6
"""Concurrent commits: each mostly waits for files and the catalog."""


@dataclass(frozen=True)
class Rules:
    """The user's settings of tables."""

    mode: Modes = lambda source, table: "merge"
    policy: Policies = lambda source, table: "evolve"


@dataclass(frozen=True)
class Merged:
    """The changes that were merged into one replica."""

    source: str
    table: TableName
    changes: int
    late: int
    ties: int
    quarantined: int


@dataclass(frozen=True)
class MergeReport:
    """The result of a merge."""

    point: Point
    tables: list[Merged]
    seconds: float
    warnings: list[str]


class Merge:
    """Keeps the replicas of a pipeline up to date."""

    def __init__(self, log: Log, rules: Rules, settle: timedelta) -> None:
        self._log, self._lake, self._mode = log, log.lake, rules.mode
        self._quarantine = Quarantine(self._lake)
        self._pending_changes = PendingChanges(self._lake, settle)
        self._inference = SchemaInference(log.registry, rules.policy, log.register)
        # It lasts as long as the merge: each thread has a connection to the JVM.
        self._pool = ThreadPoolExecutor(COMMITS, "changeling-commit")
        self._begin()

    def _begin(self) -> None:
        """Reads from the lake how far the replicas are: at the start, and again after a failure, which may have happened anywhere."""
        self._points = points_of(self._lake)
        self._tables = ReplicaTables(self._lake)
        self._committer = Committer(self._lake, self._tables, self._quarantine)
        self._planner = Planner(self._lake, self._points, self._tables, self._inference, self._mode)
        self._interrupted = self._interrupted_plan()
        self._staging: str | None = None
        """Where the rows and the plan of the merge are whose point is recorded next."""
        if self._interrupted is None:
            self._quarantine.forget(self._points.last.number)
        self._failed = False

    @contextmanager
    def _resumable(self) -> Iterator[None]:
        """After a failure in this context, the merge is finished from the state in the lake, as another process would."""
        with translated_errors():
            if self._failed:
                self._log.reload()
                self._begin()
            self._failed = True
            yield
            self._failed = False

    def _interrupted_plan(self) -> PointPlan | None:
        """The plan of an interrupted merge: it is committed to some replicas and not to others."""
        last = self._points.last.number
        plans = [known.state.plan for known in self._tables.known.values() if known.state.point > last]
        return msgspec.json.decode(read_plan(plans[0]), type=PointPlan) if plans else None

    def step(self, *, drain: bool) -> MergeReport | None:
        """Merges what is new; None where there is nothing. `drain`: what the log has is all there is, transactions included."""
        with self._resumable():
            return self._step(drain)

    def _step(self, drain: bool) -> MergeReport | None:
        begun = monotonic()
        # Sources continue meanwhile: what they add from here on is for the next point.
        known = self._log.progress
        batches = {name: state.batch for name, state in known.state.sources.items()}
        plan = self._interrupted or self._pending_changes.next_plan(
            self._points.last, batches, known.stats, known.polled_at, drain=drain
        )
        if plan is None:
            return None
        merges = self._planner.merges(plan)
        plan = _invalidating_bases(plan, merges)
        plan, merged = self._merge(merges, plan)
        point = self._record(plan)
        self._interrupted = None
        return MergeReport(point, merged, monotonic() - begun, self._planner.warnings())

    def _merge(self, merges: list[ReplicaMerge], plan: PointPlan) -> tuple[PointPlan, list[Merged]]:
        """Brings the replicas to a point; some late changes show only when they are folded."""
        if not merges:
            return plan, []
        places = {(merge.folded.source, merge.folded.table, merge.folded.history): merge for merge in merges}
        staging = folder_of_merge(self._lake.load(log_tables.POINTS).location(), plan.point.number)

        def prepared(table: FoldTable) -> tuple[FoldTable, WriteSpec]:
            merge = places[table.source, table.table, table.history]
            self._fit(merge, table)
            table = replace(table, staged=table.stored or table.history)
            if table.staged:
                place = f"{staging}/{merges.index(merge)}"
                return table, WriteSpec(place, staged_layout(table.shape, table.history))
            return table, self._tables.write_spec(merge.replica, table.shape)

        changes = LocalOrSparkChanges.of(self._lake).where(self._planner.changes(merges, plan))
        wanted = [merge.folded.drops_superseded for merge in merges]
        outcomes = fold(
            changes,
            [merge.folded for merge in merges],
            prepared,
            self._quarantine.write_spec(),
            plan.point.number,
            self._widened(plan, merges),
        )
        for merge, wants_drop, (folded, _) in zip(merges, wanted, outcomes, strict=True):
            merge.folded = folded
            if wants_drop and not folded.drops_superseded:
                self._planner.unordered.add(folded.source)
        later = with_halves_merged_before(LocalOrSparkChanges.of(self._lake), plan, merges)
        if later is not None:
            discard([file for _, outcome in outcomes for file in (*outcome.files, *outcome.quarantine_files)])
            merges = self._planner.merges(later)
            return self._merge(merges, _invalidating_bases(later, merges))
        plan_file = write_plan(staging, msgspec.json.encode(plan))
        found = [
            (merge, self._committer.with_missing_old_rows(merge, outcome, plan.point.number))
            for merge, (_, outcome) in zip(merges, outcomes, strict=True)
        ]
        self._commit_all(found, plan_file, plan)
        self._staging = staging
        return plan, [
            Merged(
                merge.pending.source,
                merge.pending.table,
                merge.pending.changes,
                merge.pending.late,
                outcome.ties,
                outcome.quarantined + outcome.stale,
            )
            for merge, outcome in found
            if not merge.folded.history
        ]

    def _fit(self, merge: ReplicaMerge, table: FoldTable) -> None:
        """Makes sure that the replica can have the columns of the fold; it gets them together with its rows."""
        merge.folded = table
        if merge.replica.snapshot is None and merge.replica.shape != table.shape:
            self._tables.drop(merge.replica)
            merge.replica = self._tables.create(merge.replica.identity, table.shape)
        elif not self._tables.can_alter(merge.replica, table.shape):
            merge.replica = self._committer.rewritten(merge.replica, table.shape)

    def _widened(
        self, plan: PointPlan, merges: list[ReplicaMerge]
    ) -> Callable[[FoldTable, dict[str, list[str]]], FoldTable]:
        found = {(table.source, table.table): table for table in plan.tables}
        versions = {(merge.folded.source, merge.folded.table, merge.folded.history): merge.version for merge in merges}

        def widen(folded: FoldTable, kinds: dict[str, list[str]]) -> FoldTable:
            table = found[folded.source, folded.table]
            version = versions[folded.source, folded.table, folded.history]
            return self._inference.widened(folded, kinds, table.key, version)

        return widen

    def close(self) -> None:
        """Ends its threads."""
        self._pool.shutdown()

    @property
    def points(self) -> Points:
        """The points that are recorded."""
        return self._points

    @property
    def tables(self) -> ReplicaTables:
        """The replicas as the last point has them."""
        return self._tables

    def rebuild(self, table: WantedTable) -> int:
        """Rebuilds the replicas of a table from the log alongside the existing ones, and swaps them in; returns the number of rows."""
        while self._failed or self._interrupted is not None:
            self.step(drain=False)
        with self._resumable():
            return self._rebuild(table)

    def _rebuild(self, table: WantedTable) -> int:
        last = self._points.last
        place = table.among((identity.source, identity.table) for identity in self._tables.known)
        if place is None:
            hint = table.nearest(identity.table for identity in self._tables.known)
            raise UsageError(f"there is no replica of {table}; {hint}")
        source, name = place
        own = [known for known in self._tables.known.values() if (known.identity.source, known.identity.table) == place]
        limit = after(last.of(source).position or "")
        sources = {**last.sources, source: msgspec.structs.replace(last.of(source), late=None)}
        point = Point(last.number + 1, last.made_at, last.complete, sources)
        changes = LocalOrSparkChanges.of(self._lake)
        key, version = some_key(changes, source, name), last_version(changes.where(of_table(source, name)))
        plan = PointPlan(point, {source: limit}, [PendingTable(source, name, 0, 0, None, None, key, *version)])
        merges = [self._planner.rebuilt(known, plan) for known in own]
        self._merge(merges, plan)
        self._record(plan)
        rows = self._tables.known.get(Identity(source, name), merges[0].replica)
        return self._tables.lake.frame(rows.table).count()

    def _commit_all(self, found: Sequence[tuple[ReplicaMerge, TableOutcome]], plan_file: str, plan: PointPlan) -> None:
        """Commits every table: those that need Spark in turn, the others several at a time. After a failure no other begins."""
        self._committer.quarantine(found, plan.point.number, resumed=self._interrupted is not None)
        failed = threading.Event()

        def commit(merge: ReplicaMerge, outcome: TableOutcome) -> None:
            if failed.is_set():
                return
            try:
                self._commit(merge, outcome, plan_file, plan.point.number)
            except BaseException:
                failed.set()
                raise

        on_spark = [one for one in found if self._committer.needs_spark(*one)]
        light = [one for one in found if not self._committer.needs_spark(*one)]
        for one in on_spark:
            commit(*one)
        started = [self._pool.submit(commit, *one) for one in light]
        wait(started)
        for done in started:
            done.result()

    def _commit(self, merge: ReplicaMerge, outcome: TableOutcome, plan_file: str, point: int) -> None:
        before = merge.replica.state
        state = ReplicaState(
            point=point,
            applied=before.applied + merge.pending.changes,
            late=before.late + merge.pending.late,
            ties=outcome.ties + (before.ties if merge.folded.is_incremental else 0),
            quarantined=before.quarantined + outcome.quarantined + outcome.stale,
            shape=merge.folded.shape,
            version=merge.version,
            version_at=merge.version_at,
            plan=plan_file,
        )
        self._tables.catch_up(self._committer.commit(merge, outcome, state))

    def _record(self, plan: PointPlan) -> Point:
        """Records the point: from now on it exists."""
        tables = {known.name: known.snapshot for known in self._tables.known.values() if known.is_current}
        point, row = self._points.following(
            msgspec.structs.replace(plan.point, made_at=datetime.now(UTC), tables=tables)
        )
        reach("point.before")
        self._lake.append_rows(log_tables.POINTS, [row], point.made_at, {BASE: str(point.first_row)})
        reach("point.after")
        self._points.add(point)
        if self._staging is not None:
            remove_folder(self._staging)
            self._staging = None
        self._log.forget_stats({name: one.last_complete_batch for name, one in point.sources.items()})
        return point


def _invalidating_bases(plan: PointPlan, merges: list[ReplicaMerge]) -> PointPlan:
    """The plan, whose point makes earlier ones unusable as bases for sources with a table whose columns were renamed."""
    renamed = {merge.pending.source for merge in merges if merge.renamed}
    if not renamed:
        return plan
    sources = {
        name: msgspec.structs.replace(one, late="") if name in renamed else one
        for name, one in plan.point.sources.items()
    }
    return msgspec.structs.replace(plan, point=msgspec.structs.replace(plan.point, sources=sources))
