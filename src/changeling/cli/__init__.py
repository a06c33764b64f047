"""The command line: one file a verb."""

from changeling.cli.main import main

__all__ = ["main"]
