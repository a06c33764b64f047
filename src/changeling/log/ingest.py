"""Ingests batch after batch from one source into the log, exactly once.

A batch is planned, and the plan is committed before anything is read. Schemas that its records carry are committed while it is
read: one that is new makes it be read once more. Then come, each in one commit: inferred schemas, rejects, changes. The commit of
changes ends the batch, since it brings the source's new state with it. A batch that was interrupted before that is read again from
its plan; rejects that it had committed are taken back first.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from time import monotonic

import msgspec
import pyarrow as pa

from changeling.formats import registry as formats
from changeling.formats.options import ReadOptions
from changeling.iceberg.failpoints import reach
from changeling.iceberg.parquet_files import WriteSpec, discard
from changeling.log import log_tables
from changeling.log.batch_plans import READ, REPLAY, BatchPlan
from changeling.log.change_log import Log
from changeling.log.ingest_task import OUTCOME, Batch, IngestKernel
from changeling.log.schema_registry import CarriedSchemas, Policy, Registry, Version
from changeling.log.source_state import SourceState, advanced, micros
from changeling.log.task_result import Outcome, SeenSchema, merged
from changeling.model.errors import ChangelingError
from changeling.model.table import TableName, schema_from_json
from changeling.sources.source import Input, PlanSize, Source, StatefulSource
from changeling.spark.adapter import run
from changeling.spark.errors import SPARK_ERRORS, translate_error

_SAMPLED_ROWS = 100
"""Rows of a batch's frame, records or ranges of them, that are sampled for declared schemas first."""
_REPLANNED = 3
"""How often a batch is planned again because files changed while they were read."""


@dataclass(frozen=True)
class BatchReport:
    """The result of a batch."""

    source: str
    batch: int
    outcome: Outcome
    size: PlanSize
    seconds: float
    schemas: tuple[Version, ...] = ()


class Ingest:
    """Ingests one source into the log."""

    def __init__(
        self,
        log: Log,
        source: Source,
        *,
        policy: Callable[[TableName], Policy] = lambda table: "evolve",
        fail_on_reject: bool = False,
    ) -> None:
        self._log, self._lake, self.source = log, log.lake, source
        self._policy, self._fail = policy, fail_on_reject
        self._format = None if source.format is None else formats.get(source.format)
        self._warnings: list[str] = []
        self._remembered = 0
        """The last batch that the source knows of."""
        self._begin()
        self._declare()

    def _begin(self) -> None:
        """Reads from the log how far the source is: at the start, and again after a failure, which may have happened anywhere."""
        source = self.source
        done = self._log.state.batch(source.name)
        plans = self._log.plans.of(source.name)
        if done and (not plans or plans[-1].batch < done):
            raise ChangelingError(
                f"source {source.name}: its log has {done} batches, but only {len(plans)} plans of them exist, so that it "
                "is not known what was read: restore the table `batches`, or start again under another name"
            )
        self._pending: BatchPlan | None = None
        for plan in plans:
            if plan.batch > done:
                self._pending = plan
            elif plan.batch > self._remembered:
                self._remember(plan)
        self._failed = False

    @contextmanager
    def _resumable(self) -> Iterator[None]:
        """After a failure in this context, ingest resumes from the state of the log, as another process would."""
        if self._failed:
            self._log.reload()
            self._begin()
        self._failed = True
        yield
        self._failed = False

    def _remember(self, plan: BatchPlan) -> None:
        try:
            if plan.kind == READ:
                self.source.remember(plan.text)
            self._remembered = plan.batch
        except msgspec.DecodeError:
            raise ChangelingError(
                f"source {self.source.name}: batch {plan.batch} was planned by a source of another type; give this one "
                "another name"
            ) from None

    def _declare(self) -> None:
        """Registers what the user declared of tables that records do not name, or of schemas that they name by number.

        The others are registered when records come, under the names that those give to their tables.
        """
        name, options = self.source.name, self.source.options
        names_table = self._format is None or self._format.names_table
        for schema in options.schemas:
            table = schema.table or (None if names_table else options.table)
            if table is not None and schema.columns and (schema.id is not None or not names_table):
                declare = partial(
                    Registry.register_declared, source=name, table=table, schema=schema, policy=self._policy(table)
                )
                self._log.register(declare)

    def warnings(self) -> list[str]:
        """Warnings for the user; each is returned once."""
        found, self._warnings = [*self._warnings, *self.source.warnings()], []
        return found

    @property
    def state(self) -> SourceState:
        """How far the source is."""
        return self._log.state.of(self.source.name)

    def step(self, started: Callable[[int, PlanSize], None] = lambda batch, size: None) -> BatchReport | None:
        """Ingests the next batch; None where there is none."""
        with self._resumable():
            polled_at, resumed = datetime.now(UTC), self._pending_plan()
            plan, report = resumed or self._new_plan(), None
            if plan is not None:
                self._pending = plan
                report = self._read_planned(plan, started)
            if resumed is None:
                self._log.record_poll(
                    self.source.name, polled_at, all_read=self.source.took_all, no_more=not self.source.has_more
                )
            return report

    def _read_planned(self, plan: BatchPlan, started: Callable[[int, PlanSize], None]) -> BatchReport:
        for _ in range(_REPLANNED):
            try:
                return self._read_plan(plan, started)
            except ChangelingError:
                if self.source.broken(plan.text) is None:
                    raise
                # Files that are still being written are left for a later batch.
                plan = self._pending_plan() or plan
        return self._read_plan(plan, started)

    def _read_plan(self, plan: BatchPlan, started: Callable[[int, PlanSize], None]) -> BatchReport:
        size = self.source.plan_size(plan.text)
        started(plan.batch, size)
        given = self.source.input(self._lake.spark, plan.text)
        return self._ingest_batch(plan, given, size, is_replay=False)

    def replay(self, given: Input) -> BatchReport:
        """Reads records that were rejected before, as a batch of its own: those that decode now are added to the log."""
        with self._resumable():
            if self.read_is_pending:
                raise AssertionError("the interrupted batch comes first, or its records would count as read")
            plan = self._pending
            if plan is None:
                plan = BatchPlan(self._next_batch(), 1, REPLAY, "{}")
                self._log.add_plan(self.source.name, plan)
            self._pending = plan
            return self._ingest_batch(plan, given, PlanSize(), is_replay=True)

    @property
    def read_is_pending(self) -> bool:
        """A batch was interrupted before its changes were in the log."""
        return self._pending is not None and self._pending.kind == READ

    @property
    def replay_is_pending(self) -> bool:
        """A replay was interrupted before its changes were in the log: it must be repeated before anything else."""
        return self._pending is not None and self._pending.kind == REPLAY

    @property
    def last_replay(self) -> int | None:
        """The number of the last batch, where it was a replay."""
        last = self._log.plans.last(self.source.name)
        return last.batch if last is not None and last.kind == REPLAY else None

    def _next_batch(self) -> int:
        last = self._log.plans.last(self.source.name)
        return 1 if last is None else last.batch + 1

    def _pending_plan(self) -> BatchPlan | None:
        plan = self._pending
        if plan is None or plan.kind == REPLAY:
            return None
        self._log.take_back_rejects(self.source.name, plan.batch)
        reason = self.source.broken(plan.text)
        if reason is None:
            return plan
        self._warnings.append(reason)
        plan = BatchPlan(plan.batch, plan.attempt + 1, READ, self.source.plan_next() or self.source.nothing())
        self._log.add_plan(self.source.name, plan)
        self._pending = plan
        return plan

    def _new_plan(self) -> BatchPlan | None:
        text = self.source.plan_next()
        if text is None:
            return None
        plan = BatchPlan(self._next_batch(), 1, READ, text)
        self._log.add_plan(self.source.name, plan)
        return plan

    def _ingest_batch(self, plan: BatchPlan, given: Input, size: PlanSize, *, is_replay: bool) -> BatchReport:
        begun, moment = monotonic(), datetime.now(UTC)
        outcome, schemas = self._read(plan, given, moment, is_replay)
        reach("read.after")
        if self._fail and outcome.refused is not None and not is_replay:
            discard([*outcome.changes, *outcome.rejects])
            raise ChangelingError(
                f"source {self.source.name}: {outcome.refused.origin}: {outcome.refused.reason} "
                "(on_error: reject continues without it)"
            )
        inferred = self._log.register(lambda registry: registry.register_sampled(self.source.name, outcome.samples))
        if outcome.rejects and not is_replay:
            self._log.commit_rejects(self.source.name, plan.batch, outcome.rejects, moment)
        state = self._advanced(plan, outcome, moment, is_replay)
        self._log.commit_changes(self.source.name, state, outcome.changes, moment, outcome.stats)
        self._remember(plan)
        self._pending = None
        return BatchReport(self.source.name, plan.batch, outcome, size, monotonic() - begun, (*schemas, *inferred))

    def _read(
        self, plan: BatchPlan, given: Input, moment: datetime, is_replay: bool
    ) -> tuple[Outcome, tuple[Version, ...]]:
        """Reads until every schema in the batch is known: a new one makes its batch be read a second time."""
        written = (log_tables.CHANGES,) if is_replay else (log_tables.CHANGES, log_tables.REJECTS)
        specs = {table.name: self._lake.write_spec(table, moment) for table in written}
        seen = [
            SeenSchema(one.table, one.schema, one.position, one.position, False)
            for one in self.source.known_schemas(plan.text)
        ]
        seen += self._sampled_schemas(plan, given, moment, specs)
        added = self._learn(seen)
        while True:
            outcome = self._run(plan, given, moment, specs, seen)
            seen = outcome.schemas
            learned = self._learn(seen)
            added += learned
            if not outcome.unknown and not learned:
                return outcome, tuple(added)
            discard([*outcome.changes, *outcome.rejects])

    def _sampled_schemas(
        self, plan: BatchPlan, given: Input, moment: datetime, specs: Mapping[str, WriteSpec]
    ) -> list[SeenSchema]:
        """The declared schemas that a first batch begins with: they are registered before the batch runs.

        They hold from the start. For one that comes with the records, all of them are needed to know from where on it holds.
        """
        declared = {(schema.columns, schema.key) for schema in self.source.options.schemas if schema.columns}
        if not declared or self._format is None or self._log.state.batch(self.source.name):
            return []
        first = replace(given, frame=given.frame.limit(_SAMPLED_ROWS).coalesce(1))
        outcome = self._run(plan, first, moment, specs, (), sample_only=True)
        discard([*outcome.changes, *outcome.rejects])
        seen = [(one, schema_from_json(one.schema)) for one in outcome.schemas]
        return [one for one, schema in seen if (schema.columns, schema.key) in declared]

    def _learn(self, seen: Sequence[SeenSchema]) -> list[Version]:
        """Registers the schemas that are new."""
        # The log is queried once, outside the commit lock.
        furthest = cache(self._log.furthest)
        carried = CarriedSchemas(
            declared=tuple(self.source.options.schemas),
            by_number=self._numbers_schemas,
            with_all_rows=self._format is None,
        )
        return self._log.register(
            lambda registry: registry.register_carried(self.source.name, seen, self._policy, furthest, carried)
        )

    def _run(
        self,
        plan: BatchPlan,
        given: Input,
        moment: datetime,
        specs: Mapping[str, WriteSpec],
        seen: Sequence[SeenSchema],
        *,
        sample_only: bool = False,
    ) -> Outcome:
        batch = Batch(
            source=self.source.name,
            number=plan.batch,
            format=self.source.format,
            options=self._options(),
            moment=micros(moment),
            changes=specs["changes"],
            rejects=specs.get("rejects"),
            known=self._log.registry.known(self.source.name, seen, by_number=self._numbers_schemas),
            last_position=self.state.position,
            topics=given.topics,
            sample_only=sample_only,
        )
        rows = _outcomes(given, IngestKernel(given.reader, batch))
        return merged(msgspec.json.decode(row, type=Outcome) for row in rows.column("outcome").to_pylist())

    @property
    def _numbers_schemas(self) -> bool:
        return self._format is not None and self._format.numbers_schemas

    def _options(self) -> ReadOptions:
        if not self._numbers_schemas:
            return self.source.options
        return msgspec.structs.replace(self.source.options, registry=self._log.registry.by_number())

    def _advanced(self, plan: BatchPlan, outcome: Outcome, moment: datetime, is_replay: bool) -> SourceState:
        """How far the source is with this batch."""
        own = advanced(self.state, plan.batch, outcome, moment, is_replay)
        if isinstance(self.source, StatefulSource) and plan.kind == READ:
            own = msgspec.structs.replace(own, own_state=self.source.state_after(plan.text, outcome.notes))
        return own


def _outcomes(given: Input, kernel: IngestKernel) -> pa.Table:
    """The output of the kernel for a batch: run in the driver where it is small, else in tasks."""
    if given.driver_rows is not None:
        try:
            return pa.Table.from_batches(list(kernel(iter([given.driver_rows]))), OUTCOME)
        except ChangelingError:
            raise
        except Exception as error:  # as a task's would be reported
            raise ChangelingError(f"{type(error).__name__}: {error}") from error
    try:
        return run(given.frame, kernel, OUTCOME).toArrow()
    except SPARK_ERRORS as error:
        raise translate_error(error) from error
