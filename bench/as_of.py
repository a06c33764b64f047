"""The same query as of a time shortly before the end, of a log and of one ten times as long: the cost must not grow."""

import os
import shutil
import tempfile
from pathlib import Path

from bench.accounts import TABLE, Accounts, commit_time_text
from bench.folder_pipeline import FolderPipeline
from bench.measuring import Benchmark, Result, medians

SHORT = int(os.environ.get("BENCH_AS_OF", "200000"))
"""Changes in the shorter log, half of them the load."""
LONG = 10 * SHORT
POINTS, CHANGES = 5, SHORT // 20
"""The last batches, each with a point of its own; the queried time is within the last but one."""
RUNS = 5


def benchmarks() -> dict[str, Benchmark]:
    return {"as-of": as_of}


def as_of() -> Result:
    folder = Path(tempfile.mkdtemp(prefix="changeling-bench-"))
    try:
        short, long = _Query(folder / "short", SHORT), _Query(folder / "long", LONG)
        medians(1, short.ask, long.ask)
        brief, extended = medians(RUNS, short.ask, long.ask)
    finally:
        shutil.rmtree(folder)
    note = (
        f"a table of {short.rows:,} rows, {CHANGES // 2:,} changes after a point: {extended:.2f} s in a log of {LONG:,} changes, "
        f"{brief:.2f} s in one of {SHORT:,}; the ratio should stay near 1"
    )
    return Result("as-of", extended * 1000, "ms", brief * 1000, aim=1, note=note)


class _Query:
    """A log of `length` changes, the last of them in small batches."""

    def __init__(self, folder: Path, length: int) -> None:
        accounts = Accounts()
        self._feed = FolderPipeline(folder)
        start, batch = SHORT // 2, SHORT // 4
        self._feed.add_file(accounts.events(accounts.load(start)))
        for _ in range((length - start - POINTS * CHANGES) // batch):
            self._feed.add_file(accounts.events(accounts.batch(batch)))
        self._advance()
        for number in range(POINTS):
            before = accounts.tx
            self._feed.add_file(accounts.events(accounts.batch(CHANGES)))
            self._advance()
            if number == POINTS - 2:
                self._commit_time = commit_time_text((before + accounts.tx) // 2)
        self.rows = self.ask()

    def _advance(self) -> None:
        self._feed.ingest()
        self._feed.merge()

    def ask(self) -> int:
        rows = self._feed.pipeline.replica(TABLE, as_of=self._commit_time)
        found = rows.selectExpr("count(*)", "sum(balance)").collect()[0]
        return int(found[0])
