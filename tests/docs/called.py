"""Commands of pages in this process, alongside a session of Spark that is there already: each takes what it takes to do, no more."""

import contextlib
import io
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from changeling.cli.main import main

_OF_THE_SYSTEM = ("cat", "cp", "ls", "mv")


class Answer(NamedTuple):
    """How a command ended."""

    code: int
    printed: str
    """Errors and all."""


class _Terminal(io.TextIOWrapper):
    """Where people see what a run prints."""

    def isatty(self) -> bool:
        return True


def called(words: list[str], folder: Path) -> Answer:
    """`changeling …`, or a command of the system, in that folder. A run prints as on a terminal, as pages show it; others as into a pipe."""
    if words[0] != "changeling":
        assert words[0] in _OF_THE_SYSTEM, words
        done = subprocess.run(
            words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=60
        )
        return Answer(done.returncode, done.stdout)
    kind = _Terminal if words[1] == "run" and "--log-format" not in words else io.TextIOWrapper
    printed = io.BytesIO()
    with pytest.MonkeyPatch.context() as patched, kind(printed, encoding="utf-8", write_through=True) as output:
        patched.chdir(folder)
        patched.setenv("TERM", "dumb")
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            code = main(words[1:])
        return Answer(code, printed.getvalue().decode())
