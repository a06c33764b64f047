"""Follows the log: a merge moves the replicas to the next point, then targets and feeds are moved, one after the other."""

from datetime import timedelta

from changeling.iceberg.lake import Lake
from changeling.iceberg.lock import Lock
from changeling.log.change_log import Log
from changeling.log.maintenance import expire
from changeling.model.errors import ChangelingError, UsageError
from changeling.model.times import span_millis
from changeling.pipelines.failures import Failures, Retry
from changeling.pipelines.feed_run import FeedRun
from changeling.pipelines.listener import Listener
from changeling.pipelines.loading import LoadedPipeline
from changeling.pipelines.target_sync import TargetSync
from changeling.replicas import maintenance
from changeling.replicas.merge import Merge, Rules
from changeling.replicas.merge_plan import Modes
from changeling.replicas.points import Points

_REPLICAS = "replicas"
_EXPIRE_AFTER = 500
"""Batches, and points, after which a run expires old snapshots."""


class LogFollower:
    """Replicas, targets and feeds of one run. They are moved in one thread, so each of them sees the others between points."""

    def __init__(
        self, loaded: LoadedPipeline, lake: Lake, log: Log, lock: Lock, listener: Listener, retry: Retry
    ) -> None:
        """`retry` says when a merge that failed is tried again."""
        self._loaded, self._lake, self._log, self._listener, self._retry = loaded, lake, log, listener, retry
        self._failures = Failures(loaded, lock, listener)
        self._followed = log.state
        """How far the sources were at the last merge."""
        self._expired_at = self._batches()
        self.feeds = FeedRun(loaded, log, lock, listener, loaded.policy)
        try:
            self.targets = TargetSync(loaded, lake, lock, listener)
            self._merge = merge_of(loaded, log, self.feeds.mode)
        except BaseException:
            self.feeds.close()
            raise

    @property
    def points(self) -> Points:
        """The points of the replicas."""
        return self._merge.points

    def follow(self, *, drain: bool = False) -> bool:
        """Moves the replicas to the next point, and targets and feeds to it; returns whether there may be another one at once.

        What fails is tried again later. With `drain`, all of the log is merged, every transaction in it counts as complete, and a
        failure is an error.
        """
        self.expire()
        before, self._followed = self._followed, self._log.state
        if drain or self._followed is not before:
            self._listener.on_merge_start()
        moved = self._move(drain)
        self.targets.step(self.points.last, self._merge.tables, once=drain)
        self.feeds.step(self._merge, once=drain)
        self._listener.on_idle(_REPLICAS)
        return moved and not drain

    def expire(self) -> None:
        """Expires old snapshots of the log now and then."""
        if (batches := self._batches()) - self._expired_at >= _EXPIRE_AFTER:
            self._expired_at = batches
            expire(self._lake)

    def close(self) -> None:
        """Closes connections, and ends the threads of the merge."""
        self.feeds.close()
        self._merge.close()

    def _batches(self) -> int:
        return sum(state.batch for state in self._log.state.sources.values())

    def _move(self, drain: bool) -> bool:
        """Merges up to the next point, with `drain` all there is; returns whether there was something."""
        moved = False
        if not (drain or self._retry.due()):
            return moved
        try:
            while (report := self._merge.step(drain=drain)) is not None:
                self._listener.on_merge_done(report)
                for text in report.warnings:
                    self._listener.on_warning(_REPLICAS, self._loaded.redacted(text))
                if report.point.number % _EXPIRE_AFTER == 0:
                    retention = timedelta(milliseconds=span_millis(self._loaded.definition.retention))
                    maintenance.expire(self._lake, retention, self.feeds.needed_points())
                moved = True
                if not drain:
                    # Sources that bring more during each merge would keep targets and feeds waiting forever.
                    break
        except (ChangelingError, OSError) as error:
            is_final = drain or isinstance(error, UsageError)
            self._failures.failed(_REPLICAS, error, None if is_final else self._retry)
            if is_final:
                raise
        else:
            self._failures.succeeded(_REPLICAS, self._retry)
        return moved


def merge_of(loaded: LoadedPipeline, log: Log, mode: Modes | None = None) -> Merge:
    """The merge that keeps the pipeline's replicas up to date; `mode` says what they contain, by default the pipeline file."""
    settle = timedelta(milliseconds=span_millis(loaded.definition.settle))
    return Merge(log, Rules(mode or loaded.mode, loaded.policy), settle)
