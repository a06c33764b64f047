"""The threads of a run: what they do next, and how they end."""

import threading
import time
from collections.abc import Callable

from changeling.pipelines.worker import Ended, Worker

PATIENCE = 60.0


def nothing() -> None:
    pass


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_a_worker_without_a_pause_ends_when_there_is_nothing_more() -> None:
    ended, left = Ended(), [True, True, False]
    worker = Worker("w", lambda: left.pop(0), begin=nothing, stop=threading.Event(), ended=ended, pause=None)
    assert ended.next(PATIENCE) is worker
    assert (worker.failure, left) == (None, [])
    assert ended.next(0.0) is None


def test_a_worker_waits_until_it_is_woken_and_ends_when_it_is_asked() -> None:
    steps = []

    def step() -> bool:
        steps.append(threading.current_thread().name)
        return False

    ended = Ended()
    worker = Worker("w", step, begin=nothing, stop=threading.Event(), ended=ended, pause=PATIENCE)
    wait_for(lambda: worker.is_waiting)
    worker.wake()
    wait_for(lambda: len(steps) == 2 and worker.is_waiting)
    worker.wake()
    wait_for(lambda: len(steps) == 3)
    wait_for(lambda: worker.is_waiting)
    worker.end()
    worker.join()
    assert steps == ["changeling-w"] * 3
    assert ended.next(0.0) is worker


def test_what_comes_during_a_step_is_seen_to_afterwards() -> None:
    """As a batch that comes into the log during a merge."""
    began, goes_on, steps = threading.Event(), threading.Event(), list[int]()

    def step() -> bool:
        steps.append(len(steps))
        began.set()
        goes_on.wait(PATIENCE)
        return False

    worker = Worker("w", step, begin=nothing, stop=threading.Event(), ended=Ended(), pause=PATIENCE)
    began.wait(PATIENCE)
    worker.wake()
    assert not worker.is_waiting
    goes_on.set()
    wait_for(lambda: len(steps) == 2 and worker.is_waiting)
    worker.end()
    worker.join()


def test_a_stop_begins_nothing_and_a_failure_is_handed_over() -> None:
    stop, ended, steps = threading.Event(), Ended(), []

    def step() -> bool:
        steps.append(1)
        stop.set()
        return True

    worker = Worker("w", step, begin=nothing, stop=stop, ended=ended, pause=PATIENCE)
    assert ended.next(PATIENCE) is worker
    assert (steps, worker.failure) == ([1], None)

    def fail() -> bool:
        raise KeyError("odd")

    worker = Worker("w", fail, begin=nothing, stop=threading.Event(), ended=ended, pause=PATIENCE)
    assert ended.next(PATIENCE) is worker
    assert repr(worker.failure) == "KeyError('odd')"
