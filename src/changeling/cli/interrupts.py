"""Signals that ask a command to stop: the first one politely, the second one at once."""

import os
import signal
import sys
from types import FrameType


def stop_at_once(number: int) -> None:
    """Ends the process, and Spark with it, wherever it is: what was not finished is finished by the next run."""
    # Whoever asks for the third time does not wait for Spark to tidy up.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda asked, frame: os._exit(128 + asked))
    shown = "\x1b[?25h" if sys.stderr.isatty() else ""
    os.write(2, f"{shown}changeling: stopped at once\n".encode())
    gateway = sys.modules.get("changeling.spark.gateway")
    if gateway is not None:
        gateway.end()
    os._exit(128 + number)


def interrupt_once() -> None:
    """The first Ctrl-C ends a command where it is, and lets it tidy up; the second does not wait for that."""
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            stop_at_once(number)
        asked = True
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, ask)
