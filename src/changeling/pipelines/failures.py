"""Which parts of a run are failing now: `status` reads it from the lock's file, and the listener is notified."""

from changeling.iceberg.lock import Lock
from changeling.pipelines.listener import PartListener


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
