"""Exponential backoff: something that failed is tried again after 1 s at first, and after 60 s at most."""

from time import monotonic

_LONGEST_WAIT = 60.0


class Retry:
    """When something that failed is tried again."""

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
