"""The metrics of a run, as Prometheus reads them: what was done is counted as it happens, lag is computed on scrape."""

import threading
from collections.abc import Iterator, Mapping
from time import monotonic
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily

from changeling.pipelines.listener import Listener

if TYPE_CHECKING:
    from changeling.feeds.publish import FeedReport
    from changeling.log.ingest import BatchReport
    from changeling.pipelines.lag import Lag, RunState
    from changeling.pipelines.runner import Runner
    from changeling.replicas.merge import MergeReport
    from changeling.targets.postgres_target import TargetReport

_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_FRESH = 5.0
"""Seconds for which an answer about the lag is good: each asks every source."""
_LAGS = {
    "seconds": ("changeling_source_lag_seconds", "Age of the oldest change that is not in the log"),
    "records": ("changeling_source_backlog_records", "Records of Kafka that are not in the log"),
    "files": ("changeling_source_backlog_files", "Files that are not in the log"),
}


class RunMetrics(Listener):
    """A listener that counts; every metric has the label `pipeline`."""

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline
        self._registry = CollectorRegistry()
        self._runner: Runner | None = None
        self._asked: tuple[float, RunState | None] = (0.0, None)
        self._asking = threading.Lock()
        self.failing: dict[str, str] = {}
        """The parts of the pipeline that fail at present, and why."""
        self._records = self._counter("changeling_records", "Records read", "source")
        self._rejected = self._counter("changeling_rejected_records", "Records that could not be read", "source")
        self._changes = self._counter("changeling_changes", "Changes brought into the log", "source", "table")
        self._late = self._counter("changeling_late_changes", "Changes that came late into the log", "source")
        self._batch = self._histogram("changeling_batch_seconds", "Time to bring a batch into the log", "source")
        self._last_batch = self._gauge("changeling_last_batch_timestamp_seconds", "When the last batch ended", "source")
        self._merge = self._histogram("changeling_merge_seconds", "Time to merge the log into the replicas")
        self._merged = self._counter("changeling_merged_changes", "Changes merged into replicas", "source", "table")
        self._merged_late = self._counter(
            "changeling_late_merged_changes", "Changes that belong before what a replica had", "source", "table"
        )
        self._ties = self._counter("changeling_ties", "Changes of a row with equal positions", "source", "table")
        self._quarantined = self._counter(
            "changeling_quarantined", "Values and changes that a replica cannot store", "source", "table"
        )
        self._published = self._counter("changeling_feed_records", "Records published", "feed")
        self._refused = self._counter("changeling_feed_rejected_changes", "Changes that a feed cannot carry", "feed")
        self._copied = self._counter("changeling_feed_copied_records", "Records copied to Kafka or files", "feed")
        self._written = self._counter("changeling_target_rows_written", "Rows written to a target", "target")
        self._deleted = self._counter("changeling_target_rows_deleted", "Rows deleted from a target", "target")
        self._target = self._histogram("changeling_target_seconds", "Time to move a target to a point", "target")
        self._registry.register(self)

    def watch(self, runner: "Runner") -> None:
        """From now on the lag is that of this run."""
        self._runner = runner

    def text(self) -> bytes:
        """In the text format of Prometheus."""
        return generate_latest(self._registry)

    @property
    def is_reading(self) -> bool:
        """Whether Spark has started, and the log is open."""
        return self._runner is not None and self._runner.is_reading

    def on_batch_done(self, report: "BatchReport") -> None:
        """Counts a batch."""
        outcome, source = report.outcome, report.source
        self._records.labels(self._pipeline, source).inc(outcome.read)
        self._rejected.labels(self._pipeline, source).inc(outcome.rejected)
        self._late.labels(self._pipeline, source).inc(outcome.late)
        self._batch.labels(self._pipeline, source).observe(report.seconds)
        self._last_batch.labels(self._pipeline, source).set_to_current_time()
        for one in outcome.stats.tables:
            self._changes.labels(self._pipeline, source, str(one.table)).inc(one.changes)

    def on_merge_done(self, report: "MergeReport") -> None:
        """Counts a merge."""
        self._merge.labels(self._pipeline).observe(report.seconds)
        for one in report.tables:
            place = (self._pipeline, one.source, str(one.table))
            self._merged.labels(*place).inc(one.changes)
            self._merged_late.labels(*place).inc(one.late)
            self._ties.labels(*place).inc(one.ties)
            self._quarantined.labels(*place).inc(one.quarantined)

    def on_target_synced(self, report: "TargetReport") -> None:
        """Counts a step of a target."""
        self._target.labels(self._pipeline, report.target).observe(report.seconds)
        self._written.labels(self._pipeline, report.target).inc(sum(one.written for one in report.tables))
        self._deleted.labels(self._pipeline, report.target).inc(sum(one.deleted for one in report.tables))

    def on_feed_published(self, report: "FeedReport") -> None:
        """Counts a commit to a topic."""
        self._published.labels(self._pipeline, report.feed).inc(report.records)
        self._refused.labels(self._pipeline, report.feed).inc(report.rejected)

    def on_feed_copied(self, feed: str, records: int, place: str) -> None:
        """Counts a copy."""
        self._copied.labels(self._pipeline, feed).inc(records)

    def on_failure(self, part: str, error: str) -> None:
        """Notes a part that fails."""
        self.failing = {**self.failing, part: error}

    def on_recovery(self, part: str) -> None:
        """Notes a part that works again."""
        self.failing = {name: error for name, error in self.failing.items() if name != part}

    def describe(self) -> list[GaugeMetricFamily]:
        """What `collect` returns; without it, registering would ask the sources."""
        return list(self._lags(None))

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The state of the run now."""
        yield from self._lags(self._state())

    def _state(self) -> "RunState | None":
        with self._asking:
            moment, known = self._asked
            if self._runner is not None and monotonic() - moment > _FRESH:
                known = self._runner.state()
                self._asked = monotonic(), known
            return known

    def _lags(self, state: "RunState | None") -> Iterator[GaugeMetricFamily]:
        sources: Mapping[str, Lag] = {} if state is None else state.sources
        for member, (name, text) in _LAGS.items():
            yield self._family(name, text, "source", {one: getattr(lag, member) for one, lag in sources.items()})
        of_files = {one: lag.bytes for one, lag in sources.items() if lag.files is not None}
        yield self._family("changeling_source_backlog_bytes", "Bytes of files not in the log", "source", of_files)
        retained = {one: lag.bytes for one, lag in sources.items() if lag.files is None}
        text = "Bytes of its log that a server retains for the slot"
        yield self._family("changeling_source_retained_bytes", text, "source", retained)
        text = "Time since the first batch that the replicas do not have"
        yield self._family("changeling_replica_lag_seconds", text, "source", {} if state is None else state.replicas)
        parts = {"feed": {}, "target": {}} if state is None else {"feed": state.feeds, "target": state.targets}
        for part, behind in parts.items():
            points = {name: float(found[0]) for name, found in behind.items()}
            seconds = {name: found[1] for name, found in behind.items()}
            yield self._family(f"changeling_{part}_lag_points", f"Points that a {part} does not have", part, points)
            text = f"Time since the first point that a {part} does not have"
            yield self._family(f"changeling_{part}_lag_seconds", text, part, seconds)
        last = GaugeMetricFamily("changeling_point", "The newest point of the replicas", labels=["pipeline"])
        if state is not None:
            last.add_metric([self._pipeline], state.point)
        yield last
        failing = dict.fromkeys(self.failing, 1.0)
        yield self._family("changeling_failing", "Parts that fail at present", "part", failing)

    def _family(self, name: str, text: str, label: str, values: Mapping[str, float | None]) -> GaugeMetricFamily:
        family = GaugeMetricFamily(name, text, labels=["pipeline", label])
        for one, value in values.items():
            if value is not None:
                family.add_metric([self._pipeline, one], value)
        return family

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, ("pipeline", *labels), registry=self._registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, ("pipeline", *labels), registry=self._registry)

    def _histogram(self, name: str, text: str, *labels: str) -> Histogram:
        return Histogram(name, text, ("pipeline", *labels), registry=self._registry, buckets=_SECONDS)
