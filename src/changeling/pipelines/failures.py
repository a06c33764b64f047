"""What fails in a run: which parts are failing now, for `status` and the listener, and when each is tried again."""

from time import monotonic

from changeling.iceberg.lock import Lock
from changeling.pipelines.listener import PartListener

_LONGEST_WAIT = 60.0


class Failures:
    """The parts of one run: sources, `replicas`, targets, feeds."""

    def __init__(self, lock: Lock, listener: PartListener) -> None:
        self._lock, self._listener = lock, listener

    def failed(self, part: str, error: str) -> None:
        """A part failed; the text has no secrets."""
        self._lock.failed(error, part)
        self._listener.fails(part, error)

    def recovered(self, part: str) -> None:
        """It works again."""
        self._lock.failed(None, part)
        self._listener.recovers(part)


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
