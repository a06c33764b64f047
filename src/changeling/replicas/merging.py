"""The merge: what is new in the log, folded into the replicas, up to a point that is one state of all of them.

A row whose changes are all newer than what is stored is changed on top of it; every other row is folded again, from the
nearest earlier point that the late changes do not disturb. What a commit says of its replica tells which point it belongs to:
a merge that was cut off is finished by the next one, and no replica is changed twice.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from time import monotonic
from uuid import uuid4

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from changeling.log import layout
from changeling.log.failpoints import reach
from changeling.log.files import Target, discard
from changeling.log.log import Log
from changeling.model.errors import ChangelingError, UsageError, nearest
from changeling.model.table import TableName
from changeling.replicas.asides import Asides
from changeling.replicas.committing import Committer
from changeling.replicas.folding import TableOutcome
from changeling.replicas.frontier import Delta, Frontier, TableDelta
from changeling.replicas.jobs import fold
from changeling.replicas.learning import Learner, Policies
from changeling.replicas.points import Point, Points, from_row
from changeling.replicas.reading import Identity, ReplicaState
from changeling.replicas.spreading import FoldedTable
from changeling.replicas.staged import staged_layout
from changeling.replicas.tables import Replica, ReplicaTables
from changeling.replicas.works import (
    Base,
    Bases,
    Work,
    after,
    all_truncates,
    between,
    last_truncate,
    late_keys,
    of_table,
    some_key,
)

Mode = str
"""merge, append or history."""


@dataclass(frozen=True)
class Rules:
    """What the user says of tables."""

    mode: Callable[[str, TableName], Mode] = lambda source, table: "merge"
    policy: Policies = lambda source, table: "evolve"


@dataclass(frozen=True)
class Merged:
    """What one replica got."""

    table: TableName
    changes: int
    late: int
    asides: int


@dataclass(frozen=True)
class Report:
    """What a merge did."""

    point: Point
    tables: list[Merged]
    seconds: float
    warnings: list[str]


class Merge:
    """Keeps the replicas of a pipeline up to date."""

    def __init__(self, log: Log, rules: Rules, settle: timedelta) -> None:
        self._log, self._lake, self._rules = log, log.lake, rules
        self._points = Points(from_row(row) for row in self._lake.rows(layout.POINTS).to_pylist())
        self._tables = ReplicaTables(self._lake)
        self._asides = Asides(self._lake)
        self._committer = Committer(self._lake, self._tables, self._asides)
        self._frontier = Frontier(self._lake, settle)
        self._bases = Bases(self._lake, self._points)
        self._learner = Learner(log.registry, rules.policy, log.register)
        self._warnings: list[str] = []
        self._pending = self._cut_off()

    def _cut_off(self) -> Delta | None:
        """The plan of a merge that some replicas have and others do not."""
        last = self._points.last.number
        plans = [known.state.plan for known in self._tables.known.values() if known.state.point > last]
        return msgspec.json.decode(plans[0], type=Delta) if plans else None

    def step(self, *, end: bool) -> Report | None:
        """Merges what is new; None where there is nothing. `end`: what the log has is all there is, transactions included."""
        begun = monotonic()
        batches = {name: state.batch for name, state in self._log.state.sources.items()}
        delta = self._pending or self._frontier.next(self._points.last, batches, end=end)
        if delta is None:
            return None
        works = [work for table in delta.tables for work in self._works(table, delta)]
        merged = self._merge(works, delta)
        point = self._record(delta)
        warnings, self._warnings = self._warnings, []
        self._pending = None
        return Report(point, merged, monotonic() - begun, warnings)

    def _works(self, table: TableDelta, delta: Delta) -> list[Work]:
        mode = self._rules.mode(table.source, table.table)
        kinds = {"merge": ["rows"], "history": ["rows", "history"], "append": []}[mode]
        found = [self._work(table, Identity(table.source, table.table, kind), delta) for kind in kinds]
        return [work for work in found if work is not None]

    def _work(self, table: TableDelta, identity: Identity, delta: Delta) -> Work | None:
        limit, batch = delta.limits.get(table.source), delta.point.of(table.source).batch
        replica = self._tables.known.get(identity)
        if replica is not None and replica.state.point >= delta.point.number:
            return None
        columns = self._learner.columns(table.source, table.table, table.key)
        shape = columns.shape(limit)
        before = self._points.last.of(table.source)
        held = before.position or ""
        own = of_table(table.source, table.table)
        folded = FoldedTable(table.source, table.table, columns, shape, stored=True, history=identity.kind == "history")
        if replica is None:
            rivals = [other.table for other in delta.tables if other.table != table.table]
            replica = self._tables.create(identity, shape, rivals)
        if replica.snapshot is None:
            truncates = all_truncates(self._lake, table.source, table.table, "", limit, batch)
            scratch = replace(folded, stored=False, truncates=truncates if folded.history else ())
            if truncates and not folded.history:
                return Work(table, replica, scratch, own & between(truncates[-1][0], limit, batch), from_scratch=True)
            return Work(table, replica, scratch, own & between("", limit, batch), from_scratch=True)
        if folded.history:
            return self._history(Work(table, replica, folded, own & between(held, limit, batch)), held, limit, batch)
        if table.truncated is not None:
            floor = last_truncate(self._lake, table.source, table.table, "", limit, batch) or ""
            return Work(
                table, replica, replace(folded, stored=False), own & between(floor, limit, batch), from_scratch=True
            )
        new = own & between(held, limit, batch, before.whole_batch)
        if table.first_late is None:
            return Work(table, replica, folded, new)
        return self._late(Work(table, replica, folded, new), held, limit, batch, before.whole_batch)

    def _history(self, work: Work, held: str, limit: str | None, batch: int) -> Work:
        """The states of rows go on; those of rows that late changes touch are told again."""
        table = work.delta
        reshaped = self._tables.reshape(work.replica, work.folded.shape)
        work.replica = reshaped or work.replica
        late_truncate = table.truncated is not None and table.truncated <= held
        if self._bases.log_is_whole() and (reshaped is None or late_truncate):
            truncates = all_truncates(self._lake, table.source, table.table, "", limit, batch)
            folded = replace(work.folded, stored=False, truncates=truncates)
            own = of_table(table.source, table.table)
            return replace(work, folded=folded, changes=own & between("", limit, batch), from_scratch=True)
        truncates = all_truncates(self._lake, table.source, table.table, held, limit, batch)
        work = replace(work, folded=replace(work.folded, truncates=truncates))
        if table.first_late is None:
            return work
        work = self._late(work, held, limit, batch, self._points.last.of(table.source).whole_batch)
        if work.base is not None:
            again = all_truncates(self._lake, table.source, table.table, work.base.position, limit, batch)
            work = replace(work, folded=replace(work.folded, truncates=again))
        return work

    def _late(self, work: Work, held: str, limit: str | None, batch: int, since: int) -> Work:
        """Rows that late changes touch are folded again."""
        table, first = work.delta, work.delta.first_late or ""
        own = of_table(table.source, table.table)
        base = self._bases.before(work.replica, first, self._committer.snapshots(work.replica))
        if base is None:
            self._warnings.append(
                f"{table.late:,} changes of {table.table} belong before the earliest state that is kept: they are in the log, "
                "and not in the replica"
            )
            return work
        truncated = last_truncate(self._lake, table.source, table.table, base.position, limit, batch)
        if truncated is not None and not work.folded.history:
            base = Base(truncated)
        late = own & (f.col("batch") > since) & (f.col("batch") <= batch) & (f.col("position") <= held)
        keys = late_keys(
            self._lake.frame(layout.CHANGES).where(late & (f.col("position") > base.position)), work.folded
        )
        changes = own & between(base.position, limit, batch)
        if keys is None and work.folded.history and self._bases.log_is_whole():
            folded = replace(work.folded, stored=False)
            return replace(work, folded=folded, changes=own & between("", limit, batch), base=Base(), from_scratch=True)
        if keys is None:
            stored = base.snapshot is not None
            return replace(
                work, folded=replace(work.folded, stored=stored), changes=changes, base=base, from_scratch=True
            )
        return replace(work, folded=replace(work.folded, top=held, again=keys), changes=changes, base=base)

    def _merge(self, works: list[Work], delta: Delta) -> list[Merged]:
        if not works:
            return []
        places = {(work.folded.source, work.folded.table, work.folded.history): work for work in works}
        staging = f"{self._lake.load(layout.POINTS).location()}/staged/{uuid4()}"

        def prepared(table: FoldedTable) -> tuple[FoldedTable, Target]:
            work = places[table.source, table.table, table.history]
            self._fit(work, table)
            table = replace(table, staged=table.stored or table.history or work.rewrite)
            if table.staged:
                place = f"{staging}/{works.index(work)}"
                return table, Target(place, staged_layout(table.shape, table.history))
            return table, self._tables.lake.target(work.replica.table, datetime.now(UTC))

        wanted = works[0].changes
        for work in works[1:]:
            wanted = wanted | work.changes
        changes: DataFrame = self._lake.frame(layout.CHANGES).where(wanted)
        outcomes = fold(
            changes,
            [work.folded for work in works],
            prepared,
            self._asides.target(),
            delta.point.number,
            self._widened(delta),
        )
        done = []
        plan = msgspec.json.encode(delta).decode()
        for work, (folded, outcome) in zip(works, outcomes, strict=True):
            work.folded = folded
            done.append(self._commit(work, outcome, plan, delta.point.number))
        discard(
            [
                file
                for work, (_, outcome) in zip(works, outcomes, strict=True)
                if work.folded.staged
                for file in outcome.files
            ]
        )
        return [
            Merged(work.delta.table, work.delta.changes, work.delta.late, outcome.asides + outcome.stale)
            for work, (_, outcome) in zip(works, outcomes, strict=True)
            if not work.folded.history
        ]

    def _fit(self, work: Work, table: FoldedTable) -> None:
        """Gives the replica the columns that the fold has."""
        reshaped = self._tables.reshape(work.replica, table.shape)
        if reshaped is not None:
            work.replica = reshaped
        elif work.replica.snapshot is None:
            self._tables.drop(work.replica)
            work.replica = self._tables.create(work.replica.identity, table.shape, [])
        else:
            work.rewrite = True

    def _widened(self, delta: Delta) -> Callable[[FoldedTable, dict[str, list[str]]], FoldedTable]:
        keys = {(table.source, table.table): table.key for table in delta.tables}

        def widen(folded: FoldedTable, kinds: dict[str, list[str]]) -> FoldedTable:
            key = keys[folded.source, folded.table]
            return self._learner.widened(folded, kinds, key, delta.limits.get(folded.source))

        return widen

    def rebuild(self, table: TableName) -> int:
        """Makes the replicas of a table again from the log, beside those that are there, and swaps them in; counts rows."""
        while self._pending is not None:
            self.step(end=False)
        last = self._points.last
        found = [known for known in self._tables.known.values() if table.fits(known.identity.table)]
        exact = [known for known in found if str(known.identity.table) == str(table)]
        names = {(known.identity.source, known.identity.table) for known in exact or found}
        if len(names) != 1:
            choices = {str(known.identity.table) for known in self._tables.known.values()}
            raise UsageError(f"there is no one replica of {table}; {nearest(str(table), choices)}")
        ((source, name),) = names
        limit, batch = after(last.of(source).position or ""), last.of(source).batch
        point = msgspec.structs.replace(
            last,
            number=last.number + 1,
            sources={**last.sources, source: msgspec.structs.replace(last.of(source), late=None)},
        )
        delta = Delta(
            point, {source: limit}, [TableDelta(source, name, 0, 0, None, None, some_key(self._lake, source, name))]
        )
        works = [self._again(known, delta, limit, batch) for known in exact or found]
        self._merge(works, delta)
        self._record(delta)
        replica = next(known for known in self._tables.known.values() if known.identity == Identity(source, name))
        return self._tables.lake.frame(replica.table).count()

    def _again(self, replica: Replica, delta: Delta, limit: str, batch: int) -> Work:
        """All of a replica, from the earliest state that is needed."""
        (table,) = delta.tables
        columns = self._learner.columns(table.source, table.table, table.key)
        history = replica.identity.kind == "history"
        folded = FoldedTable(table.source, table.table, columns, columns.shape(limit), stored=False, history=history)
        own = of_table(table.source, table.table)
        if not self._bases.log_is_whole():
            raise ChangelingError(
                f"the log does not reach back to the first change of {table.table}: what is past retention cannot be made again"
            )
        truncates = all_truncates(self._lake, table.source, table.table, "", limit, batch)
        if history:
            return Work(
                table, replica, replace(folded, truncates=truncates), own & between("", limit, batch), from_scratch=True
            )
        floor = truncates[-1][0] if truncates else ""
        return Work(table, replica, folded, own & between(floor, limit, batch), from_scratch=True)

    def _commit(self, work: Work, outcome: TableOutcome, plan: str, point: int) -> Replica:
        before = work.replica.state
        state = ReplicaState(
            point=point,
            applied=before.applied + work.delta.changes,
            late=before.late + work.delta.late,
            asides=before.asides + outcome.asides + outcome.stale,
            shape=work.folded.shape,
            plan=plan,
        )
        made = self._committer.commit(work, outcome, state)
        return self._tables.note(made)

    def _record(self, delta: Delta) -> Point:
        """Writes the point down: from now on it is there."""
        tables = {known.name: known.snapshot for known in self._tables.known.values() if known.snapshot is not None}
        point = msgspec.structs.replace(delta.point, made_at=datetime.now(UTC), tables=tables)
        reach("point.before")
        self._lake.append_rows(layout.POINTS, [point.to_row()], point.made_at)
        reach("point.after")
        self._points.add(point)
        return point
