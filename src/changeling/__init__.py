"""Changeling: every change-data-capture dialect, one change log, on Spark."""

from typing import TYPE_CHECKING, Any

from changeling.api import decode, encode

if TYPE_CHECKING:
    from changeling.pipelines.pipeline import Pipeline

__all__ = ["Pipeline", "decode", "encode"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`Pipeline` is loaded when it is first asked for: short commands do without it."""
    if name != "Pipeline":
        raise AttributeError(f"module 'changeling' has no attribute {name!r}")
    from changeling.pipelines.pipeline import Pipeline

    return Pipeline
