"""CPU and memory of a process and all that it started, while something runs."""

import threading
from types import TracebackType

import psutil  # type: ignore[import-untyped]

_SECONDS = 0.5


class Watch:
    """Samples a tree of processes twice a second until the context ends; an excluded subtree is not counted.

    The kernel's totals of ended children are of no use here: PySpark's daemon does not wait for its workers. So a process that
    ends counts up to its last sample.
    """

    def __init__(self, pid: int, without: int | None = None) -> None:
        self._root, self._without = psutil.Process(pid), without
        self._before: dict[psutil.Process, float] = {}
        self._last: dict[psutil.Process, float] = {}
        self._peak = 0
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="watch", daemon=True)

    @property
    def cpu_seconds(self) -> float:
        """Since the context was entered."""
        return sum(used - self._before.get(process, 0.0) for process, used in self._last.items())

    @property
    def peak_bytes(self) -> int:
        """The largest sample; pages that processes share are counted once."""
        return self._peak

    def __enter__(self) -> "Watch":
        self._look()
        self._before = dict(self._last)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()
        self._thread.join()
        self._look()

    def _look_on(self) -> None:
        while not self._left.wait(_SECONDS):
            self._look()

    def _look(self) -> None:
        memory = 0
        for process in _tree(self._root, self._without):
            try:
                used = process.cpu_times()
                self._last[process] = used.user + used.system
                memory += process.memory_full_info().pss
            except psutil.Error:
                # It has ended.
                continue
        self._peak = max(self._peak, memory)


def _tree(root: psutil.Process, without: int | None) -> list[psutil.Process]:
    try:
        found = [root, *root.children(recursive=True)]
        apart = set() if without is None else {without, *(one.pid for one in psutil.Process(without).children(True))}
    except psutil.Error:
        return []
    return [process for process in found if process.pid not in apart]
