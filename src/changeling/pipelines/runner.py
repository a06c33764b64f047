"""Runs a pipeline: batch after batch from each source in turn, to the end of the available input, or until it is stopped."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

from changeling.files.reading import Carrier
from changeling.iceberg.lake import Lake
from changeling.iceberg.lock import Lock
from changeling.log.change_log import Log
from changeling.log.ingest import Ingest, Report
from changeling.log.maintenance import expire
from changeling.log.source_state import SourceState
from changeling.model.errors import ChangelingError, UsageError
from changeling.model.spans import span_millis
from changeling.pipelines.backoff import Retry
from changeling.pipelines.definition import (
    FilesSource,
    KafkaSource,
    PostgresSource,
    RecordSource,
)
from changeling.pipelines.definition import Source as Declared
from changeling.pipelines.feed_run import FeedRun
from changeling.pipelines.listener import Listener
from changeling.pipelines.loading import Loaded
from changeling.pipelines.replay import settle
from changeling.pipelines.target_sync import TargetSync
from changeling.replicas import maintenance
from changeling.replicas.merge import Merge, Rules
from changeling.sources.files import FilesSource as Files
from changeling.sources.source import LeavingSource, Source
from changeling.spark.errors import check_spark

_EXPIRE_AFTER = 500
"""Batches after which a run expires old snapshots."""


@dataclass
class Totals:
    """What a run did for one source."""

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


class Runner:
    """One run of a pipeline, which must hold its lock."""

    def __init__(
        self,
        loaded: Loaded,
        lake: Lake,
        lock: Lock,
        listener: Listener,
        stop: threading.Event,
        *,
        resnapshot: bool = False,
        ends: Mapping[str, int] | None = None,
    ) -> None:
        """`ends`: positions of a server's log at which sources end, instead of at what is available."""
        self._loaded, self._lake, self._lock, self._listener, self._stop = loaded, lake, lock, listener, stop
        self._resnapshot, self._ends = resnapshot, ends or {}
        self._ingests: list[Ingest] = []
        self._totals: dict[str, Totals] = {}
        self._merging = Retry()

    def run(self, once: bool, poll_seconds: float = 1.0) -> list[Totals]:
        """Reads until there is nothing new (`once`), or until `stop` is set; the current batch is always completed.

        Without `once`, a source that fails is tried again, after one second at first and then with exponential backoff.
        """
        log = Log(self._lake)
        sources = self._loaded.definition.sources
        self._ingests = [ingest_of(self._loaded, log, source, resnapshot=self._resnapshot) for source in sources]
        self._totals = {ingest.source.name: Totals(ingest.source.name, state=ingest.state) for ingest in self._ingests}
        for ingest, source in zip(self._ingests, sources, strict=True):
            if not isinstance(source, PostgresSource):
                settle(self._lake, ingest, carrier_of(source))
        rules = rules_of(self._loaded)
        feeds = FeedRun(self._loaded, log, self._lock, self._listener, rules.policy)
        try:
            targets = TargetSync(self._loaded, self._lake, self._lock, self._listener)
            merge = Merge(log, replace(rules, mode=feeds.mode), _settle(self._loaded))
            self._run(merge, targets, feeds, once, poll_seconds)
        finally:
            feeds.close()
            for ingest in self._ingests:
                ingest.source.close()
        return list(self._totals.values())

    def _run(self, merge: Merge, targets: TargetSync, feeds: FeedRun, once: bool, poll_seconds: float) -> None:
        retries = {ingest.source.name: Retry() for ingest in self._ingests}
        if once:
            for ingest in self._ingests:
                ingest.source.stop_at_present()
                if (end := self._ends.get(ingest.source.name)) is not None:
                    ingest.source.stop_at(end)
        while not self._stop.is_set():
            moved = [self._step(ingest, None if once else retries[ingest.source.name]) for ingest in self._ingests]
            if not once:
                self._merge(merge, feeds, end=False)
                targets.step(once=False)
                feeds.step(merge, once=False)
            if any(moved):
                continue
            if once:
                self._merge(merge, feeds, end=True)
                targets.step(once=True)
                feeds.step(merge, once=True)
                break
            self._listener.waits()
            self._stop.wait(poll_seconds)

    def _merge(self, merge: Merge, feeds: FeedRun, *, end: bool) -> None:
        """Moves the replicas to the newest point; at the end of the input, every transaction in it counts as complete."""
        if not self._merging.due():
            return
        try:
            while (report := merge.step(end=end)) is not None:
                self._listener.merged(report)
                for text in report.warnings:
                    self._listener.warns("replicas", self._loaded.redacted(text))
                if report.point.number % _EXPIRE_AFTER == 0:
                    retention = timedelta(milliseconds=span_millis(self._loaded.definition.retention))
                    maintenance.expire(self._lake, retention, feeds.needed_points())
        except (ChangelingError, OSError) as error:
            check_spark(error)
            self._lock.failed(self._loaded.redacted(str(error)), "replicas")
            if end or isinstance(error, UsageError):
                raise
            text = self._loaded.redacted(f"{error}; trying again in {self._merging.failed():.0f} s")
            self._listener.warns("replicas", text)
        else:
            if self._merging.recovered():
                self._lock.failed(None, "replicas")

    def _step(self, ingest: Ingest, retry: "Retry | None") -> bool:
        name = ingest.source.name
        if self._stop.is_set() or (retry is not None and not retry.due()):
            return False
        try:
            report = ingest.step(lambda spread: self._listener.starts(name, spread))
        except (ChangelingError, OSError) as error:
            check_spark(error)
            self._lock.failed(self._loaded.redacted(str(error)), name)
            if retry is None or isinstance(error, UsageError):
                raise
            text = self._loaded.redacted(f"{error}; trying again in {retry.failed():.0f} s")
            self._listener.warns(name, text)
            return False
        finally:
            for text in ingest.warnings():
                self._listener.warns(name, self._loaded.redacted(text))
            self._note_left_out(ingest)
        if retry is not None and retry.recovered():
            self._lock.failed(None, name)
        if report is None:
            return False
        self._count(ingest, report)
        self._listener.done(report)
        if sum(totals.batches for totals in self._totals.values()) % _EXPIRE_AFTER == 0:
            expire(self._lake)
        return True

    def _note_left_out(self, ingest: Ingest) -> None:
        if isinstance(ingest.source, LeavingSource):
            found = {table: self._loaded.redacted(why) for table, why in ingest.source.left_out().items()}
            self._totals[ingest.source.name].left_out = found
            self._lock.leaves_out(found, ingest.source.name)

    def _count(self, ingest: Ingest, report: Report) -> None:
        totals = self._totals[report.source]
        totals.batches += 1
        totals.read += report.outcome.read
        totals.rejected += report.outcome.rejected
        totals.changes += report.outcome.changed
        totals.late += report.outcome.late
        totals.seconds += report.seconds
        totals.state = ingest.state


def record_sources(loaded: Loaded) -> list[RecordSource]:
    """The sources of records of the pipeline."""
    return [source for source in loaded.definition.sources if isinstance(source, FilesSource | KafkaSource)]


def ingest_of(loaded: Loaded, log: Log, source: Declared, *, resnapshot: bool = False) -> Ingest:
    """The ingest of a source into the log. `resnapshot`: tables of a database are snapshotted again."""
    policy = partial(loaded.policy, source.name)
    if isinstance(source, PostgresSource):
        from changeling.pipelines.postgres_sources import capture_settings, requests_of
        from changeling.sources.postgres import PostgresSource as Postgres

        settings, requests = capture_settings(loaded, source, log.lake), requests_of(loaded, source)
        state = log.state.of(source.name)
        postgres = Postgres(settings, requests, stored=state.position, kept=state.kept, resnapshot=resnapshot)
        return Ingest(log, postgres, policy=policy)
    records = _source(loaded, log.lake, source)
    return Ingest(log, records, policy=policy, fail_on_reject=source.on_error == "fail")


def merge_of(loaded: Loaded, log: Log) -> Merge:
    """The merge that keeps the pipeline's replicas up to date."""
    return Merge(log, rules_of(loaded), _settle(loaded))


def _settle(loaded: Loaded) -> timedelta:
    return timedelta(milliseconds=span_millis(loaded.definition.settle))


def rules_of(loaded: Loaded) -> Rules:
    """The rules for tables in the pipeline file."""
    return Rules(loaded.mode, loaded.policy)


def carrier_of(source: RecordSource) -> Carrier:
    """How records are framed in the input of the source."""
    return source.carrier if isinstance(source, FilesSource) else "plain"


def _source(loaded: Loaded, lake: Lake, source: RecordSource) -> Source:
    options = loaded.read_options(source)
    if isinstance(source, FilesSource):
        return Files(
            name=source.name,
            format=source.format,
            options=options,
            path=source.path,
            folder=loaded.folder,
            carrier=source.carrier,
            batch_bytes=source.batch_bytes,
            batch_files=source.batch_files,
        )
    # The Kafka classes of the JVM are loaded only when needed.
    from changeling.sources.kafka import KafkaSource as Kafka

    return Kafka(
        lake.spark,
        name=source.name,
        format=source.format,
        options=options,
        servers=source.servers,
        topics=source.topics,
        settings=source.kafka,
        batch_records=source.batch_records,
        start=source.start,
        on_gap=source.on_gap,
    )
