"""The threads of a run: each repeats a step, such as bringing in a batch, until it is asked to end."""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue


class Worker:
    """A thread that repeats a step. What ends it, an error or not, is known once it has ended."""

    def __init__(
        self,
        name: str,
        step: Callable[[], bool],
        *,
        begin: Callable[[], None],
        stop: threading.Event,
        ended: "Ended",
        pause: float | None,
    ) -> None:
        """`step` returns whether there may be more to do at once. If not, the worker waits for `pause` seconds, or ends (None).

        `begin` runs first, in the new thread. No step starts once `stop` is set.
        """
        self.name = name
        self._step, self._begin, self._stop, self._ended, self._pause = step, begin, stop, ended, pause
        self._asked_to_end = False
        self._woken = threading.Event()
        self._waits = False
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"changeling-{name}", daemon=True)
        self._thread.start()

    @property
    def is_waiting(self) -> bool:
        """Whether there was nothing to do at the last look, and nothing woke it since."""
        return self._waits and not self._woken.is_set()

    def wake(self) -> None:
        """There is something to do."""
        self._woken.set()

    def end(self) -> None:
        """Asks it to end after the current step."""
        self._asked_to_end = True
        self._woken.set()

    def join(self) -> None:
        """Returns when it has ended."""
        self._thread.join()

    def _run(self) -> None:
        try:
            self._begin()
            while not (self._asked_to_end or self._stop.is_set()):
                if self._step():
                    continue
                if self._pause is None:
                    break
                self._waits = True
                self._woken.wait(self._pause)
                self._waits = False
                self._woken.clear()
        except BaseException as error:
            self.failure = error
        finally:
            self._ended.put(self)


class Ended:
    """The workers that have ended, in this order."""

    def __init__(self) -> None:
        self._workers: SimpleQueue[Worker] = SimpleQueue()

    def put(self, worker: Worker) -> None:
        """Adds one."""
        self._workers.put(worker)

    def next(self, seconds: float) -> Worker | None:
        """The next one; None where none has ended after `seconds`."""
        try:
            return self._workers.get(timeout=seconds)
        except Empty:
            return None
