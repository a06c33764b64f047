"""Changeling: every change-data-capture dialect, one change log, on Spark.

Names are loaded when they are first asked for: what a short command does not need takes longer to import than the command does.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from changeling.api import decode, encode
    from changeling.pipelines.pipeline import Pipeline

__all__ = ["Pipeline", "decode", "encode"]
__version__ = "0.1.0"
_HOMES = {"Pipeline": "changeling.pipelines.pipeline"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'changeling' has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "changeling.api")), name)
