"""How commands start: quickly, and not silently.

Importing what a command needs takes longer than most commands do. Measured, pandas, which PyArrow would load though nothing here uses
it, is a third of that, and looking for garbage among what was imported a third of the rest. Spark needs pandas, and what works for
long needs the garbage collected: both are as usual from where PySpark is imported.
"""

import gc
import logging
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

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
