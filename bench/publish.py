"""Changes of the log into the topic of a feed: completed from the replica, encoded, committed."""

import os
import shutil
import tempfile
import time
from pathlib import Path

from bench.accounts import TABLE, Accounts
from bench.folder_pipeline import FolderPipeline
from bench.measuring import Benchmark, Result

CHANGES = int(os.environ.get("BENCH_RECORDS", "1000000"))
ROWS = 100_000
BATCH = 50_000
"""Changes of rows that differ from each other."""


def benchmarks() -> dict[str, Benchmark]:
    return {"feed-publish": feed_publish}


def feed_publish() -> Result:
    folder = Path(tempfile.mkdtemp(prefix="changeling-bench-"))
    accounts = Accounts()
    try:
        pipeline = FolderPipeline(folder / "feed")
        pipeline.add_file(accounts.events(accounts.load(ROWS)))
        pipeline.ingest()
        pipeline.merge()
        pipeline.pipeline.sql(
            f"ALTER TABLE {TABLE} ADD CHANGEFEED f WITH (FORMAT = 'JSON', MODE = 'NEW_AND_OLD_IMAGES')"
        )
        for _ in range(CHANGES // BATCH):
            pipeline.add_file(accounts.events(accounts.batch(BATCH)))
        pipeline.ingest()
        pipeline.merge()
        start = time.perf_counter()
        published = pipeline.publish()
        taken = time.perf_counter() - start
    finally:
        shutil.rmtree(folder)
    note = (
        f"{published:,} records of {CHANGES:,} changes of a table of {ROWS:,} rows, before and after, in {taken:.1f} s"
    )
    return Result("feed-publish", published / taken, "records/s", note=note)
