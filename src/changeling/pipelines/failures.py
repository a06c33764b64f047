"""What fails in a run: which parts are failing now, for `status` and the listener, and when each is tried again."""

from time import monotonic

from changeling.iceberg.lock import Lock
from changeling.pipelines.listener import Listener
from changeling.pipelines.loading import LoadedPipeline
from changeling.spark.errors import check_spark

_LONGEST_WAIT = 60.0


class Failures:
    """The parts of one run: sources, `replicas`, targets, feeds."""

    def __init__(self, loaded: LoadedPipeline, lock: Lock, listener: Listener) -> None:
        self._loaded, self._lock, self._listener = loaded, lock, listener

    def failed(self, part: str, error: Exception, retry: "Retry | None") -> None:
        """A part failed, and is tried again when `retry` says so; without one it is not. Raises `SparkEnded` where the JVM is gone."""
        check_spark(error)
        text = self._loaded.redacted(str(error))
        self._lock.failed(text, part)
        self._listener.on_failure(part, text)
        if retry is not None:
            self._listener.on_warning(part, f"{text}; trying again in {retry.failed():.0f} s")

    def succeeded(self, part: str, retry: "Retry") -> None:
        """A part succeeded; reports a recovery if it had failed."""
        if retry.recovered():
            self._lock.failed(None, part)
            self._listener.on_recovery(part)


class Retry:
    """When something that failed is tried again: after 1 s at first, then after twice as long each time, up to a minute."""

    def __init__(self) -> None:
        self._wait = 0.0
        self._next = 0.0

    def due(self) -> bool:
        """Whether to try now."""
        return monotonic() >= self._next

    def remaining(self) -> float:
        """Seconds until the next try; 0 where it is due."""
        return max(0.0, self._next - monotonic())

    def failed(self) -> float:
        """Records a failure; returns how long to wait."""
        self._wait = min(_LONGEST_WAIT, max(1.0, 2 * self._wait))
        self._next = monotonic() + self._wait
        return self._wait

    def recovered(self) -> bool:
        """Records a success; returns whether it follows a failure."""
        failed, self._wait = self._wait > 0, 0.0
        return failed
