"""Small mixed batches one after another, into current rows and into their history, and what maintenance does for readers."""

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Literal

from bench.accounts import Accounts
from bench.folder_pipeline import FolderPipeline
from bench.measuring import Benchmark, Result, medians

BATCHES = int(os.environ.get("BENCH_BATCHES", "20"))
CHANGES = 10_000
ROWS = 100_000
"""Rows that exist before the first batch."""
READS = 3


def benchmarks() -> dict[str, Benchmark]:
    return {"mixed-feed": mixed_feed, "mixed-feed-history": mixed_feed_history}


def mixed_feed() -> Result:
    return _measured("mixed-feed", "merge")


def mixed_feed_history() -> Result:
    return _measured("mixed-feed-history", "history")


def _measured(name: str, mode: Literal["merge", "history"]) -> Result:
    folder = Path(tempfile.mkdtemp(prefix="changeling-bench-"))
    accounts = Accounts()
    merging = taking = 0.0
    try:
        feed = FolderPipeline(folder / "feed", mode)
        table = feed.replica if mode == "merge" else f"{feed.replica}__history"
        feed.add_file(accounts.events(accounts.load(ROWS)))
        feed.ingest()
        feed.merge()
        for _ in range(BATCHES):
            feed.add_file(accounts.events(accounts.batch(CHANGES)))
            start = time.perf_counter()
            feed.ingest()
            taken = time.perf_counter()
            feed.merge()
            taking += taken - start
            merging += time.perf_counter() - taken
        before, rows = _read(feed, table)
        start = time.perf_counter()
        feed.pipeline.maintain()
        maintenance = time.perf_counter() - start
        after, rows_after = _read(feed, table)
        assert rows == rows_after
    finally:
        shutil.rmtree(folder)
    changes = BATCHES * CHANGES
    note = (
        f"{BATCHES} batches of {CHANGES:,} onto {ROWS:,} rows: into the log {taking:.1f} s, merges {merging:.1f} s; "
        f"reading all {rows[0]:,} rows takes {before:.2f} s before and {after:.2f} s after maintenance ({maintenance:.1f} s)"
    )
    return Result(name, changes / (taking + merging), "changes/s", note=note)


def _read(feed: FolderPipeline, table: str) -> tuple[float, tuple[int, object]]:
    """How long reading the whole table takes, after one read to warm up, and its result."""

    def read() -> tuple[int, object]:
        row = feed.lake.spark.sql(f"SELECT count(*), sum(balance) FROM {table}").collect()[0]
        return int(row[0]), row[1]

    found = read()
    (seconds,) = medians(READS, read)
    return seconds, found
