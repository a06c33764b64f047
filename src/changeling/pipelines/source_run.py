"""One source of a run: brings batch after batch into the log, and retries after failures."""

from collections.abc import Callable
from dataclasses import dataclass, field

from changeling.iceberg.lock import Lock
from changeling.log.change_log import Log
from changeling.log.ingest import BatchReport
from changeling.log.source_state import SourceState
from changeling.model.errors import ChangelingError, UsageError
from changeling.pipelines.failures import Failures
from changeling.pipelines.listener import Listener
from changeling.pipelines.loading import LoadedPipeline
from changeling.pipelines.source_ingest import SourceIngest
from changeling.sources.source import SkippingSource


@dataclass
class Totals:
    """The totals of a run for one source."""

    source: str
    batches: int = 0
    read: int = 0
    rejected: int = 0
    changes: int = 0
    late: int = 0
    seconds: float = 0.0
    left_out: dict[str, str] = field(default_factory=dict)
    """Tables that cannot be captured as they are, and why."""
    state: SourceState = field(default_factory=SourceState)

    @property
    def accepted(self) -> int:
        """Records that were decoded into changes."""
        return self.read - self.rejected

    def add(self, report: BatchReport, state: SourceState) -> None:
        """Counts a batch, after which the source is in this state."""
        self.batches += 1
        self.read += report.outcome.read
        self.rejected += report.outcome.rejected
        self.changes += report.outcome.changed
        self.late += report.outcome.late
        self.seconds += report.seconds
        self.state = state

    def leave_out(self, tables: dict[str, str]) -> None:
        """Notes which tables cannot be captured now, and why."""
        self.left_out = tables


class SourceRun:
    """One source, read in a thread of its own."""

    def __init__(
        self,
        source_ingest: SourceIngest,
        totals: Totals,
        loaded: LoadedPipeline,
        log: Log,
        lock: Lock,
        listener: Listener,
    ) -> None:
        self.source_ingest, self._totals, self._loaded, self._log = source_ingest, totals, loaded, log
        self._lock, self._listener = lock, listener
        self._failures = Failures(loaded, lock, listener)

    @property
    def name(self) -> str:
        """The name of the source."""
        return self.source_ingest.declared.name

    def step(self, on_batch: Callable[[], None] = lambda: None, *, once: bool = False) -> bool:
        """Brings in the next batch; returns whether there was one. A failure is tried again later, with `once` it is an error."""
        retry = self.source_ingest.retry
        if not (once or retry.due()):
            return False
        try:
            report = self._ingest()
        except (ChangelingError, OSError) as error:
            is_final = once or isinstance(error, UsageError)
            self._failures.failed(self.name, error, None if is_final else retry)
            if is_final:
                raise
            report = None
        else:
            self._failures.succeeded(self.name, retry)
        if report is None:
            self._listener.on_idle(self.name)
            return False
        self._totals.add(report, self.source_ingest.ingest.state)
        self._listener.on_batch_done(report)
        on_batch()
        return True

    def close(self) -> None:
        """Releases everything at the end."""
        self.source_ingest.ingest.source.close()

    def give_up(self) -> None:
        """The source was removed; its failure is cleared."""
        self.close()
        self._failures.succeeded(self.name, self.source_ingest.retry)

    def _ingest(self) -> BatchReport | None:
        ingest = self.source_ingest.ingest
        try:
            self._listener.on_poll(self.name)
            report = ingest.step(lambda batch, size: self._listener.on_batch_start(self.name, batch, size))
        finally:
            for text in ingest.warnings():
                self._listener.on_warning(self.name, self._loaded.redacted(text))
            self._note_left_out()
        if (complete := self._log.progress.complete.get(self.name)) is not None:
            self._lock.log_complete_until(complete, self.name)
        return report

    def _note_left_out(self) -> None:
        source = self.source_ingest.ingest.source
        if isinstance(source, SkippingSource):
            found = {table: self._loaded.redacted(why) for table, why in source.left_out().items()}
            self._totals.leave_out(found)
            self._lock.leaves_out(found, self.name)
