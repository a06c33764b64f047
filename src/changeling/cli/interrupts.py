"""Signals that stop a command: the first one gracefully, the second one at once."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType


def stop_at_once(number: int) -> None:
    """Ends the process and Spark immediately; the next run completes what was not finished."""
    # A third signal does not wait for Spark to shut down.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda received, frame: os._exit(128 + received))
    shown = "\x1b[?25h" if sys.stderr.isatty() else ""
    os.write(2, f"{shown}changeling: stopped at once\n".encode())
    # Other threads meet the end of Spark, and would report it.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    gateway = sys.modules.get("changeling.spark.gateway")
    if gateway is not None:
        gateway.end()
    os._exit(128 + number)


def stopped_by_signals(announce: Callable[[], object] = lambda: None) -> threading.Event:
    """An event that the first Ctrl-C (or SIGTERM) sets, which is announced; the second stops at once."""
    stop = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            stop_at_once(number)
        stop.set()
        announce()

    signal.signal(signal.SIGINT, ask)
    signal.signal(signal.SIGTERM, ask)
    return stop


def interrupt_once() -> None:
    """The first Ctrl-C interrupts a command and lets it clean up; the second does not wait for that."""
    interrupted = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        if interrupted:
            stop_at_once(number)
        interrupted = True
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, ask)
