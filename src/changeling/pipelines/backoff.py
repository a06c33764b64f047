"""When something that failed is tried again: after a second at first, then after longer and longer waits."""

from time import monotonic

_LONGEST_WAIT = 60.0


class Retry:
    """When a source that failed is tried again."""

    def __init__(self) -> None:
        self._wait = 0.0
        self._next = 0.0

    def due(self) -> bool:
        """Whether it is time."""
        return monotonic() >= self._next

    def failed(self) -> float:
        """Notes a failure; returns how long to wait."""
        self._wait = min(_LONGEST_WAIT, max(1.0, 2 * self._wait))
        self._next = monotonic() + self._wait
        return self._wait

    def recovered(self) -> bool:
        """Notes a success; true where it follows a failure."""
        failed, self._wait = self._wait > 0, 0.0
        return failed
