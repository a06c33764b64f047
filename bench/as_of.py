"""A table as of a time, asked from the shell: of a small log, of a long one, and of one ten times shorter, which must not matter."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.accounts import TABLE, Accounts, commit_time_text
from bench.folder_pipeline import FolderPipeline
from bench.measuring import Benchmark, Result, medians

SHORT = int(os.environ.get("BENCH_AS_OF", "200000"))
"""Changes in the shorter log, half of them the load."""
LONG = 10 * SHORT
SMALL = 200
POINTS = 5
"""The last batches, each with a point of its own and a twentieth of the load's changes; the time is within the last but one."""
RUNS = 5


def benchmarks() -> dict[str, Benchmark]:
    return {"as-of": as_of, "as-of-small": as_of_small}


def as_of() -> Result:
    with _folder() as folder:
        short, long = _Query(folder / "short", SHORT, SHORT), _Query(folder / "long", SHORT, LONG)
        medians(1, short.ask, long.ask)
        brief, extended = medians(RUNS, short.ask, long.ask)
    note = (
        f"`changeling replica --as-of`, a table of {SHORT // 2:,} rows, {SHORT // 40:,} changes after a point: {extended:.2f} s "
        f"in a log of {LONG:,} changes, {brief:.2f} s in one of {SHORT:,}; the ratio should stay near 1"
    )
    return Result("as-of", extended * 1000, "ms", brief * 1000, aim=1, note=note)


def as_of_small() -> Result:
    with _folder() as folder:
        small = _Query(folder / "small", SMALL, SMALL)
        medians(1, small.ask)
        (seconds,) = medians(RUNS, small.ask)
    note = f"`changeling replica --as-of`, a table of {SMALL // 2:,} rows, {SMALL // 40:,} changes after a point"
    return Result("as-of-small", seconds * 1000, "ms", note=note)


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="changeling-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


class _Query:
    """A table of half of `size` rows and a log of `length` changes, the last of them in small batches."""

    def __init__(self, folder: Path, size: int, length: int) -> None:
        accounts = Accounts()
        self._feed = FolderPipeline(folder)
        start, batch, last = size // 2, size // 4, size // 20
        self._feed.add_file(accounts.events(accounts.load(start)))
        for _ in range((length - start - POINTS * last) // batch):
            self._feed.add_file(accounts.events(accounts.batch(batch)))
        self._advance()
        for number in range(POINTS):
            before = accounts.tx
            self._feed.add_file(accounts.events(accounts.batch(last)))
            self._advance()
            if number == POINTS - 2:
                self._commit_time = commit_time_text((before + accounts.tx) // 2)

    def _advance(self) -> None:
        self._feed.ingest()
        self._feed.merge()

    def ask(self) -> None:
        """Prints the first rows, in a process of its own that must not start Spark."""
        command = [sys.executable, "-m", "changeling", "replica", TABLE, "--as-of", self._commit_time]
        done = subprocess.run(
            [*command, "--pipeline", str(self._feed.file)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=True,
        )
        assert b"Spark" not in done.stderr
