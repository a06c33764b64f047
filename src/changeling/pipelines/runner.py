"""Runs a pipeline: all sources at the same time, and alongside them what follows the log.

A source is read in a thread of its own. One more thread moves replicas, targets and feeds, so that what is slow there holds no source
back. The main thread waits for the end, for failures and for a changed pipeline file.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from time import monotonic

from changeling.iceberg.lake import Lake
from changeling.iceberg.lock import Lock
from changeling.log.change_log import Log
from changeling.model.errors import ChangelingError
from changeling.pipelines.definition import RecordSource
from changeling.pipelines.definition import Source as Declared
from changeling.pipelines.failures import Retry
from changeling.pipelines.file_changes import FileChange, WatchedFile
from changeling.pipelines.lag import Reading, RunState, behind, lag_of, unmerged_seconds
from changeling.pipelines.listener import Listener
from changeling.pipelines.loading import LoadedPipeline
from changeling.pipelines.log_follower import LogFollower
from changeling.pipelines.replay import finish_replay
from changeling.pipelines.source_ingest import SourceIngest, carrier_of
from changeling.pipelines.source_run import SourceRun, Totals
from changeling.pipelines.worker import Ended, Worker
from changeling.spark.errors import check_spark

_LOOKS_EVERY = 0.2
"""Seconds between two looks of the main thread at whether to stop."""
NO_STOP_POSITIONS: Mapping[str, int] = {}
_FOLLOWER = "replicas, targets, feeds"
"""The name of their thread; no source can have it."""


class Runner:
    """One run of a pipeline, which must hold its lock."""

    def __init__(
        self,
        loaded: LoadedPipeline,
        lake: Lake,
        lock: Lock,
        listener: Listener,
        stop: threading.Event,
        *,
        resnapshot: bool = False,
    ) -> None:
        self._loaded, self._lake, self._lock, self._listener, self._stop = loaded, lake, lock, listener, stop
        self._resnapshot = resnapshot
        self._sources: list[SourceRun] = []
        self._follower: LogFollower | None = None
        self._between_points = threading.Lock()
        """Held while replicas, targets and feeds are moved."""
        self._merge_retry = Retry()
        self._totals: dict[str, Totals] = {}
        self._workers: dict[str, Worker] = {}
        self._ended = Ended()

    def run(
        self, once: bool, poll_seconds: float = 1.0, stop_positions: Mapping[str, int] = NO_STOP_POSITIONS
    ) -> list[Totals]:
        """Reads until there is nothing new (`once`), or until `stop` is set; current batches are always completed.

        With `once`, sources end at what is available, or at `stop_positions` of a server's log. Without it, a source
        that fails is tried again, after one second at first and then with exponential backoff, and the pipeline file is checked
        again: what has changed there is applied between two batches.
        """
        self._listener.on_prepare("opening the log")
        self._log = Log(self._lake)
        self._sources = self._sources_of(self._loaded)
        self._resnapshot = False
        try:
            self._follower = self._follower_of(self._loaded)
            if once:
                self._run_once(self._follower, stop_positions)
            else:
                self._run_on(poll_seconds)
        finally:
            if self._follower is not None:
                self._follower.close()
            for source in self._sources:
                source.close()
        return list(self._totals.values())

    @property
    def is_reading(self) -> bool:
        """Whether everything that a run begins with is done."""
        return self._follower is not None

    def state(self) -> RunState | None:
        """Where the run is now, for another thread; None before it reads."""
        follower = self._follower
        if follower is None:
            return None
        progress, points = self._log.progress, follower.points
        sources, replicas = {}, {}
        for declared in (source.source_ingest.declared for source in self._sources):
            plans, batch = self._log.plans.of(declared.name), progress.state.of(declared.name).batch
            reading = Reading.of(plans, batch, progress.complete.get(declared.name), running=True)
            sources[declared.name] = lag_of(self._loaded, declared, reading)
            merged = points.last.of(declared.name).last_complete_batch
            replicas[declared.name] = unmerged_seconds(plans, batch, merged)
        return RunState(
            points.last.number,
            sources,
            replicas,
            {name: behind(points, point) for name, point in follower.feeds.reached.copy().items()},
            {name: behind(points, point) for name, point in follower.targets.reached.copy().items()},
        )

    def _sources_of(self, loaded: LoadedPipeline) -> list[SourceRun]:
        """All sources of a pipeline file; those that exist and have the same settings stay."""
        found = []
        for declared in loaded.definition.sources:
            known = next((one for one in self._sources if one.source_ingest.is_of(loaded, declared)), None)
            found.append(known or self._new_source(loaded, declared))
        return found

    def _new_source(self, loaded: LoadedPipeline, declared: Declared) -> SourceRun:
        source_ingest = SourceIngest.of(loaded, self._log, declared, resnapshot=self._resnapshot)
        if isinstance(declared, RecordSource):
            finish_replay(self._lake, source_ingest.ingest, carrier_of(declared))
        totals = self._totals.setdefault(declared.name, Totals(declared.name, state=source_ingest.ingest.state))
        return SourceRun(source_ingest, totals, loaded, self._log, self._lock, self._listener)

    def _follower_of(self, loaded: LoadedPipeline) -> LogFollower:
        return LogFollower(loaded, self._lake, self._log, self._lock, self._listener, self._merge_retry)

    def _run_once(self, follower: LogFollower, stop_positions: Mapping[str, int]) -> None:
        for source in self._sources:
            records = source.source_ingest.ingest.source
            records.stop_at_present()
            if (end := stop_positions.get(source.name)) is not None:
                records.stop_at(end)
        with self._ending_workers():
            for source in self._sources:
                self._start(source.name, partial(source.step, once=True), pause=None)
            reading = len(self._sources)
            while reading:
                reading -= self._next_ended() is not None
                follower.expire()
        if not self._stop.is_set():
            follower.follow(drain=True)

    def _run_on(self, poll_seconds: float) -> None:
        file, looked = WatchedFile(self._loaded), monotonic()
        with self._ending_workers():
            self._start(_FOLLOWER, self._follow, pause=poll_seconds)
            for source in self._sources:
                self._read_on(source, poll_seconds)
            while not self._stop.is_set():
                self._next_ended()
                self._tell_waiting(poll_seconds)
                if monotonic() - looked >= poll_seconds:
                    self._look_at(file, poll_seconds)
                    looked = monotonic()
        # What the last batches brought.
        while self._follow():
            pass

    def _read_on(self, source: SourceRun, poll_seconds: float) -> None:
        step = partial(source.step, self._workers[_FOLLOWER].wake)
        self._start(source.name, step, pause=poll_seconds)

    def _start(self, name: str, step: Callable[[], bool], *, pause: float | None) -> None:
        begin = partial(self._lake.enter_thread, name)
        self._workers[name] = Worker(name, step, begin=begin, stop=self._stop, ended=self._ended, pause=pause)

    def _follow(self) -> bool:
        """Moves replicas, targets and feeds; returns whether there may be more at once."""
        assert self._follower is not None
        with self._between_points:
            return self._follower.follow()

    @contextmanager
    def _ending_workers(self) -> Iterator[None]:
        """On exit, all workers have finished their current step; raises what one of them failed with."""
        try:
            yield
        finally:
            for worker in self._workers.values():
                worker.end()
            for worker in self._workers.values():
                worker.join()
        for worker in self._workers.values():
            _check(worker)

    def _next_ended(self) -> Worker | None:
        """The next worker that has ended, waited for a moment; raises what it failed with."""
        worker = self._ended.next(_LOOKS_EVERY)
        if worker is not None:
            _check(worker)
        return worker

    def _tell_waiting(self, poll_seconds: float) -> None:
        if all(worker.is_waiting for worker in self._workers.values()):
            retries = (source.source_ingest.retry.remaining() for source in self._sources)
            self._listener.on_wait(max(poll_seconds, min(retries)))

    def _look_at(self, file: WatchedFile, poll_seconds: float) -> None:
        """Applies what has changed in the pipeline file; where it cannot be used, the run continues as before, and reports that."""
        try:
            change = file.change()
            if change is None:
                return
            self._apply(change, poll_seconds)
        except (ChangelingError, OSError) as error:
            check_spark(error)
            self._listener.on_reload([], [self._loaded.redacted(str(error))])
        else:
            file.applied(change)
            self._listener.on_reload(change.taken, change.left)

    def _apply(self, change: FileChange, poll_seconds: float) -> None:
        """Continues with another pipeline file. Unchanged sources keep running."""
        declared = change.loaded.definition.sources
        former = [
            one for one in self._sources if not any(one.source_ingest.is_of(change.loaded, new) for new in declared)
        ]
        for source in former:
            self._workers[source.name].end()
        for source in former:
            self._workers.pop(source.name).join()
        try:
            with self._between_points:
                self._log.reload()
                sources, follower = self._sources_of(change.loaded), self._follower_of(change.loaded)
                assert self._follower is not None
                self._follower.close()
                for source in former:
                    source.give_up()
                self._loaded, self._sources, self._follower = change.loaded, sources, follower
        finally:
            for source in self._sources:
                if source.name not in self._workers:
                    self._read_on(source, poll_seconds)


def _check(worker: Worker) -> None:
    if worker.failure is not None:
        # All threads fail once the JVM is gone, whatever they were doing.
        check_spark(worker.failure)
        raise worker.failure
