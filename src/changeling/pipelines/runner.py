"""Runs a pipeline: batch after batch from each source in turn, to the end of the available input, or until it is stopped."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from changeling.iceberg.lake import Lake
from changeling.iceberg.lock import Lock
from changeling.log.change_log import Log
from changeling.log.ingest import Ingest, Report
from changeling.log.maintenance import expire
from changeling.log.source_state import SourceState
from changeling.model.errors import ChangelingError, UsageError
from changeling.model.spans import span_millis
from changeling.pipelines.backoff import Retry
from changeling.pipelines.definition import RecordSource
from changeling.pipelines.failures import Failures
from changeling.pipelines.feed_run import FeedRun
from changeling.pipelines.file_changes import WatchedFile
from changeling.pipelines.lag import Reading, RunState, behind, lag_of, unmerged_seconds
from changeling.pipelines.listener import Listener
from changeling.pipelines.loading import Loaded
from changeling.pipelines.readers import Reader, carrier_of
from changeling.pipelines.replay import settle
from changeling.pipelines.target_sync import TargetSync
from changeling.replicas import maintenance
from changeling.replicas.merge import Merge, Rules
from changeling.sources.source import LeavingSource
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


@dataclass(frozen=True)
class _Followers:
    """What follows the log: replicas, targets, feeds."""

    merge: Merge
    targets: TargetSync
    feeds: FeedRun


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
        self._failures = Failures(lock, listener)
        self._readers: list[Reader] = []
        self._followers: _Followers | None = None
        self._totals: dict[str, Totals] = {}
        self._merging = Retry()

    def run(self, once: bool, poll_seconds: float = 1.0) -> list[Totals]:
        """Reads until there is nothing new (`once`), or until `stop` is set; the current batch is always completed.

        Without `once`, a source that fails is tried again, after one second at first and then with exponential backoff, and
        the pipeline file is looked at again: what has changed there is taken up between two batches.
        """
        self._listener.prepares("opening the log")
        self._log = Log(self._lake)
        self._readers = self._read_by(self._loaded)
        self._resnapshot = False
        try:
            self._followers = self._followed_by(self._loaded)
            if once:
                self._run_once(self._followers)
            else:
                self._run_on(self._followers, poll_seconds)
        finally:
            if self._followers is not None:
                self._followers.feeds.close()
            for reader in self._readers:
                reader.ingest.source.close()
        return list(self._totals.values())

    @property
    def is_reading(self) -> bool:
        """Whether everything that a run begins with is done."""
        return self._followers is not None

    def state(self) -> RunState | None:
        """Where the run is now, for another thread; None before it reads."""
        followers = self._followers
        if followers is None:
            return None
        log, points = self._log, followers.merge.points
        sources, replicas = {}, {}
        for declared in (reader.declared for reader in self._readers):
            plans, batch = log.plans.of(declared.name), log.state.of(declared.name).batch
            reading = Reading.of(plans, batch, log.complete.get(declared.name), running=True)
            sources[declared.name] = lag_of(self._loaded, declared, reading)
            merged = points.last.of(declared.name).whole_batch
            replicas[declared.name] = unmerged_seconds(plans, batch, merged)
        return RunState(
            points.last.number,
            sources,
            replicas,
            {name: behind(points, point) for name, point in followers.feeds.reached.copy().items()},
            {name: behind(points, point) for name, point in followers.targets.reached.copy().items()},
        )

    def _read_by(self, loaded: Loaded) -> list[Reader]:
        """The readers of all sources; those that exist and have the same settings stay."""
        found = []
        for source in loaded.definition.sources:
            reader = next((one for one in self._readers if one.is_of(loaded, source)), None)
            if reader is None:
                reader = Reader.of(loaded, self._log, source, resnapshot=self._resnapshot)
                if isinstance(source, RecordSource):
                    settle(self._lake, reader.ingest, carrier_of(source))
            found.append(reader)
            self._totals.setdefault(source.name, Totals(source.name, state=reader.ingest.state))
        return found

    def _followed_by(self, loaded: Loaded) -> _Followers:
        rules = rules_of(loaded)
        feeds = FeedRun(loaded, self._log, self._lock, self._listener, rules.policy)
        try:
            targets = TargetSync(loaded, self._lake, self._lock, self._listener)
            return _Followers(Merge(self._log, replace(rules, mode=feeds.mode), _settle(loaded)), targets, feeds)
        except BaseException:
            feeds.close()
            raise

    def _run_once(self, followers: _Followers) -> None:
        for reader in self._readers:
            source = reader.ingest.source
            source.stop_at_present()
            if (end := self._ends.get(source.name)) is not None:
                source.stop_at(end)
        while not self._stop.is_set():
            moved = [self._step(reader.ingest, None) for reader in self._readers]
            if any(moved):
                continue
            self._follow(followers, once=True)
            break

    def _run_on(self, followers: _Followers, poll_seconds: float) -> None:
        file = WatchedFile(self._loaded)
        while not self._stop.is_set():
            followers = self._look_at(file, followers)
            moved = [self._step(reader.ingest, reader.retry) for reader in self._readers]
            self._follow(followers, once=False, is_new=any(moved))
            if any(moved):
                continue
            self._listener.waits(max(poll_seconds, min(reader.retry.remaining() for reader in self._readers)))
            self._stop.wait(poll_seconds)

    def _follow(self, followers: _Followers, *, once: bool, is_new: bool = True) -> None:
        self._lock.has_all(self._log.complete)
        if is_new:
            self._listener.merges()
        self._merge(followers.merge, followers.feeds, end=once)
        followers.targets.step(followers.merge.points.last.number, once=once)
        followers.feeds.step(followers.merge, once=once)

    def _look_at(self, file: WatchedFile, followers: _Followers) -> _Followers:
        """Takes up what has changed in the pipeline file; where it cannot be used, the run goes on as before, and reports that."""
        try:
            change = file.change()
            if change is None:
                return followers
            self._log.reload()
            readers, found = self._read_by(change.loaded), self._followed_by(change.loaded)
        except (ChangelingError, OSError) as error:
            check_spark(error)
            self._listener.reloads([], [self._loaded.redacted(str(error))])
            return followers
        followers.feeds.close()
        for reader in self._readers:
            if reader not in readers:
                reader.ingest.source.close()
                if reader.retry.recovered():
                    self._failures.recovered(reader.declared.name)
        self._loaded, self._readers, self._followers = change.loaded, readers, found
        file.take_up(change)
        self._listener.reloads(change.taken, change.left)
        return found

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
            self._failures.failed("replicas", self._loaded.redacted(str(error)))
            if end or isinstance(error, UsageError):
                raise
            text = self._loaded.redacted(f"{error}; trying again in {self._merging.failed():.0f} s")
            self._listener.warns("replicas", text)
        else:
            if self._merging.recovered():
                self._failures.recovered("replicas")

    def _step(self, ingest: Ingest, retry: "Retry | None") -> bool:
        name = ingest.source.name
        if self._stop.is_set() or (retry is not None and not retry.due()):
            return False
        try:
            self._listener.looks(name)
            report = ingest.step(lambda batch, spread: self._listener.starts(name, batch, spread))
        except (ChangelingError, OSError) as error:
            check_spark(error)
            self._failures.failed(name, self._loaded.redacted(str(error)))
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
            self._failures.recovered(name)
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


def merge_of(loaded: Loaded, log: Log) -> Merge:
    """The merge that keeps the pipeline's replicas up to date."""
    return Merge(log, rules_of(loaded), _settle(loaded))


def _settle(loaded: Loaded) -> timedelta:
    return timedelta(milliseconds=span_millis(loaded.definition.settle))


def rules_of(loaded: Loaded) -> Rules:
    """The rules for tables in the pipeline file."""
    return Rules(loaded.mode, loaded.policy)
