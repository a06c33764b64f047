"""The same question as of a moment shortly before the end, of a log and of one ten times as long: the cost must not grow."""

import os
import shutil
import tempfile
from pathlib import Path

from bench.accounts import TABLE, Accounts, moment_text
from bench.feed import Feed
from bench.measuring import Benchmark, Result, medians

SHORT = int(os.environ.get("BENCH_AS_OF", "200000"))
"""Changes in the shorter log, half of them the load."""
LONG = 10 * SHORT
POINTS, CHANGES = 5, SHORT // 20
"""The last batches, each with a point of its own; what is asked lies within the last but one."""
RUNS = 5


def benchmarks() -> dict[str, Benchmark]:
    return {"as-of": as_of}


def as_of() -> Result:
    folder = Path(tempfile.mkdtemp(prefix="changeling-bench-"))
    try:
        short, long = _Question(folder / "short", SHORT), _Question(folder / "long", LONG)
        medians(1, short.ask, long.ask)
        brief, extended = medians(RUNS, short.ask, long.ask)
    finally:
        shutil.rmtree(folder)
    note = (
        f"a table of {short.rows:,} rows, {CHANGES // 2:,} changes behind a point: {extended:.2f} s in a log of {LONG:,} changes, "
        f"{brief:.2f} s in one of {SHORT:,}; the ratio should stay near 1"
    )
    return Result("as-of", extended * 1000, "ms", brief * 1000, aim=1, note=note)


class _Question:
    """A log of so many changes, the last of them in small batches."""

    def __init__(self, folder: Path, length: int) -> None:
        accounts = Accounts()
        self._feed = Feed(folder)
        start, batch = SHORT // 2, SHORT // 4
        self._feed.drop(accounts.told(accounts.load(start)))
        for _ in range((length - start - POINTS * CHANGES) // batch):
            self._feed.drop(accounts.told(accounts.batch(batch)))
        self._advance()
        for number in range(POINTS):
            before = accounts.tx
            self._feed.drop(accounts.told(accounts.batch(CHANGES)))
            self._advance()
            if number == POINTS - 2:
                self._moment = moment_text((before + accounts.tx) // 2)
        self.rows = self.ask()

    def _advance(self) -> None:
        self._feed.take()
        self._feed.merge()

    def ask(self) -> int:
        rows = self._feed.pipeline.replica(TABLE, as_of=self._moment)
        found = rows.selectExpr("count(*)", "sum(balance)").collect()[0]
        return int(found[0])
