"""The process of a command: it starts quickly, and not silently, and signals stop it.

Importing what a command needs takes longer than most commands do. Measured, pandas, which PyArrow would load though nothing here uses
it, is a third of that, and looking for garbage among what was imported a third of the rest. Spark needs pandas, and what works for
long needs the garbage collected: both are as usual from where PySpark is imported. The first signal stops a command gracefully, the
second one at once.
"""

import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType

_ALLOCATIONS = 50_000
"""Objects between two looks for garbage; Python's own number is 700."""


class _WithoutPandas:
    """Hides pandas until PySpark is imported."""

    def __init__(self) -> None:
        self._thresholds = gc.get_threshold()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "pyspark.sql":
            sys.meta_path.remove(self)
            gc.set_threshold(*self._thresholds)
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is left out of commands that do not need it", name=fullname)
        return None


_HIDES_PANDAS = _WithoutPandas()


def start_quickly() -> None:
    """Hides pandas from PyArrow, and lets garbage be looked for seldom, until PySpark is imported."""
    # NumPy would start a thread for each core, for algebra that nobody does here.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if _HIDES_PANDAS not in sys.meta_path and not {"pandas", "pyspark"} & sys.modules.keys():
        sys.meta_path.insert(0, _HIDES_PANDAS)
        gc.set_threshold(_ALLOCATIONS)


def end_quickly() -> None:
    """Lets Python leave alone what was imported when it ends: to look for garbage there takes longer than many commands do."""
    gc.freeze()


def announce_spark() -> None:
    """Lets a terminal show when Spark is started, which takes a while. A run has its own lines for it."""
    logger = logging.getLogger("changeling.pipelines.lakehouse")
    if sys.stderr.isatty() and not logger.handlers:
        logger.addHandler(logging.StreamHandler())
        logger.setLevel(logging.INFO)


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
