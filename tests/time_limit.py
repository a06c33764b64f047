"""A test that hangs fails after a while, with the stacks of its threads, and the others continue.

The limit is the setting `time_limit`. pytest's own `faulthandler_timeout` prints the stacks from a thread of C while the test goes
on, which now and then ends the process; here the thread that hangs prints them.
"""

import faulthandler
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

import pytest

_STDERR = 2


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("time_limit", "Seconds after which a test that hangs fails", default="0")


@contextmanager
def _limited(item: pytest.Item) -> Generator[None, None, None]:
    seconds = float(item.config.getini("time_limit"))
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def fail(number: int, frame: FrameType | None) -> None:
        faulthandler.dump_traceback(_STDERR)
        pytest.fail(f"takes longer than {seconds:g} seconds")

    before = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    with _limited(item):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    with _limited(item):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    with _limited(item):
        yield
