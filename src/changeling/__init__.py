"""Changeling: every change-data-capture dialect, one change log, on Spark."""

from changeling.api import decode, encode

__all__ = ["decode", "encode"]
__version__ = "0.1.0"
