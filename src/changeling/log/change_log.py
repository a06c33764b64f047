"""What the sources of a pipeline share: the tables, the registry, the plans, and how far each source is.

Sources are read at the same time, and the merge runs alongside. So commits to these tables are made one at a time, and what the
merge needs to know of them is one immutable value.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import msgspec

from changeling.iceberg.failpoints import reach
from changeling.iceberg.lake import Lake
from changeling.iceberg.parquet_files import WrittenFile
from changeling.log import log_tables
from changeling.log.batch_plans import BatchPlan, BatchPlans
from changeling.log.batch_stats import BatchStats
from changeling.log.schema_registry import Registry, Version
from changeling.log.source_state import PROPERTY, SourceState, State, stored_state
from changeling.model.arrow_layouts import tables_array


class Progress(msgspec.Struct, frozen=True):
    """How far the log is: an immutable value, so that its parts belong together."""

    state: State = State()
    stats: Mapping[str, Mapping[int, BatchStats]] = {}
    """The statistics of batches that the replicas do not have yet, by source and number."""
    polled_at: Mapping[str, datetime] = {}
    """By source, the time of the last poll up to which everything is in the log."""
    complete: Mapping[str, datetime] = {}
    """By source, the time up to which all that it had is in the log; never later than that of its last poll."""


class Log:
    """One pipeline's log, as its writer process holds it. Its tables exist already."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.registry = Registry()
        """Other threads see a version in it once it is stored."""
        self.progress = Progress()
        self._commits = threading.Lock()
        self._uncertain = False
        """A commit failed, so that it is unknown what the tables have."""
        self.reload()

    def reload(self) -> None:
        """Reads again what the tables have: after a failure it is unknown which commits succeeded."""
        with self._commits:
            self._read()

    def _read(self) -> None:
        self.registry.replace(Registry.from_rows(self.lake.rows(log_tables.SCHEMAS).to_pylist()))
        self.plans = BatchPlans(self.lake)
        self._advance(state=stored_state(self.lake, log_tables.CHANGES))
        self._reject_state = stored_state(self.lake, log_tables.REJECTS)
        self._uncertain = False

    @contextmanager
    def _committing(self) -> Iterator[None]:
        """One commit at a time: that of a batch has the state of every source.

        After a failed one the tables are read first: the next commit would undo what it may have stored.
        """
        with self._commits:
            if self._uncertain:
                self._read()
            self._uncertain = True
            yield
            self._uncertain = False

    def _advance(self, **changed: object) -> None:
        self.progress = msgspec.structs.replace(self.progress, **changed)

    @property
    def state(self) -> State:
        """How far each source is."""
        return self.progress.state

    def record_poll(self, source: str, moment: datetime, *, all_read: bool, no_more: bool) -> None:
        """Records that everything a source had at that time is in the log (`all_read`), and the ends of its transactions (`no_more`)."""
        with self._commits:
            known = self.progress
            if all_read:
                self._advance(complete={**known.complete, source: moment})
            if no_more:
                self._advance(polled_at={**known.polled_at, source: moment})

    def forget_stats(self, merged: Mapping[str, int]) -> None:
        """The replicas have the batches of each source up to a number: their statistics are not needed any more."""
        with self._commits:
            stats = {
                name: {batch: one for batch, one in known.items() if batch > merged.get(name, 0)}
                for name, known in self.progress.stats.items()
            }
            self._advance(stats=stats)

    def add_plan(self, source: str, plan: BatchPlan) -> None:
        """Commits the plan of a batch."""
        with self._committing():
            self.plans.add(source, plan)

    def commit_rejects(self, source: str, batch: int, files: Sequence[WrittenFile], moment: datetime) -> None:
        """Commits the rejects of a batch."""
        reach("rejects.before")
        with self._committing():
            state = self._reject_state.with_source(source, SourceState(batch=batch))
            self.lake.append(log_tables.REJECTS, files, moment, {PROPERTY: state.to_text()})
            self._reject_state = state
        reach("rejects.after")

    def take_back_rejects(self, source: str, batch: int) -> None:
        """Removes the rejects of a batch that was interrupted after it had committed them."""
        if self._reject_state.batch(source) == batch > self.state.batch(source):
            with self._committing():
                self.lake.retried(
                    f"DELETE FROM {self.lake.name(log_tables.REJECTS)} WHERE source = '{source}' AND batch = {batch}"
                )

    def commit_changes(
        self, source: str, own: SourceState, files: Sequence[WrittenFile], moment: datetime, stats: BatchStats
    ) -> None:
        """Commits the changes of a batch, and with them how far its source is."""
        reach("changes.before")
        with self._committing():
            known = self.progress
            state = known.state.with_source(source, own)
            self.lake.append(log_tables.CHANGES, files, moment, {PROPERTY: state.to_text()})
            of_source = {**known.stats.get(source, {}), own.batch: stats}
            self._advance(state=state, stats={**known.stats, source: of_source})
        reach("changes.after")

    def register(self, change: Callable[[Registry], list[Version]]) -> list[Version]:
        """Commits the versions of schemas that `change` adds to the registry that it is given; returns them.

        It is called a second time where there are any: others may have registered some meanwhile.
        """
        if not change(Registry(self.registry.versions)):
            return []
        with self._committing():
            registry = Registry(self.registry.versions)
            versions = change(registry)
            reach("schemas.before")
            self._store(versions)
            self.registry.replace(registry)
        reach("schemas.after")
        return versions

    def _store(self, versions: Sequence[Version]) -> None:
        if not versions:
            return
        moment = datetime.now(UTC)
        rows: list[dict[str, object]] = [
            {
                **{
                    name: getattr(version, name) for name in ("id", "source", "version", "position", "origin", "status")
                },
                "table": tables_array([version.table])[0].as_py(),
                "schema": version.schema.to_json(),
                "note": version.note,
                "registered_at": moment,
            }
            for version in versions
        ]
        self.lake.append_rows(log_tables.SCHEMAS, rows, moment)

    def furthest(self, version: Version) -> str | None:
        """The last position in the log of changes that carry a version."""
        found = self.lake.frame(log_tables.CHANGES).where(f"schema_id = {version.id}").agg({"position": "max"}).first()
        return None if found is None else found[0]
