"""A batch of changes from the log into a large replica, against Iceberg's MERGE INTO of the same rows, typed already."""

import os
import shutil
import tempfile
from itertools import count
from pathlib import Path

import pyarrow.parquet as pq

from bench.accounts import DECLARED, Accounts, typed
from bench.folder_pipeline import FolderPipeline
from bench.measuring import Benchmark, Result, medians

ROWS = int(os.environ.get("BENCH_ROWS", "2000000"))
CHANGES = ROWS // 20
RUNS = 5


def benchmarks() -> dict[str, Benchmark]:
    return {"merge-100k-into-2m": merge_batch}


def merge_batch() -> Result:
    folder = Path(tempfile.mkdtemp(prefix="changeling-bench-"))
    accounts = Accounts()
    numbers = count()
    batch = folder

    def prepare() -> None:
        nonlocal batch
        changes = accounts.batch(CHANGES)
        batch = folder / f"batch{next(numbers)}.parquet"
        pq.write_table(typed(changes), batch)
        feed.add_file(accounts.events(changes))
        feed.ingest()

    def theirs() -> None:
        feed.lake.spark.read.parquet(str(batch)).createOrReplaceTempView("batch")
        feed.lake.spark.sql(_statement(peer_table)).collect()

    try:
        feed = FolderPipeline(folder / "feed")
        feed.add_file(accounts.events(accounts.load(ROWS)))
        feed.ingest()
        feed.merge()
        peer_table = _copy(feed)
        medians(1, feed.merge, theirs, before_each_round=prepare)
        mine, peer = medians(RUNS, feed.merge, theirs, before_each_round=prepare)
        _compare(feed, peer_table)
    finally:
        shutil.rmtree(folder)
    note = (
        f"{CHANGES:,} changes into {ROWS:,} rows: {mine:.2f} s to {peer:.2f} s, {mine / peer:.2f} of its time (aim 1.3)"
    )
    return Result("merge-100k-into-2m", CHANGES / mine, "changes/s", CHANGES / peer, aim=1 / 1.3, note=note)


def _copy(feed: FolderPipeline) -> str:
    """An equal table: the same rows, in about as many files, with the same properties."""
    name = "lake.feed.typed_accounts"
    properties = feed.lake.spark.sql(f"SHOW TBLPROPERTIES {feed.replica}").collect()
    writer = feed.lake.spark.table(feed.replica).writeTo(name).using("iceberg")
    for row in properties:
        if row.key.startswith(("write.", "format-version", "commit.")) and row.key != "format":
            writer = writer.tableProperty(row.key, row.value)
    writer.create()
    return name


def _statement(table: str) -> str:
    written = ", ".join(f"t.{name} = s.{name}" for name in DECLARED)
    values = ", ".join(f"s.{name}" for name in DECLARED)
    return (
        f"MERGE INTO {table} t USING batch s ON t._id = s._id WHEN MATCHED AND s.gone THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {written} WHEN NOT MATCHED AND NOT s.gone "
        f"THEN INSERT ({', '.join(DECLARED)}) VALUES ({values})"
    )


def _compare(feed: FolderPipeline, peer_table: str) -> None:
    """Both tables have the same rows."""
    names = ", ".join(DECLARED)
    query = "SELECT count(*), sum(balance), sum(xxhash64({}) % 1000000007) FROM {}"
    ours, theirs = (feed.lake.spark.sql(query.format(names, table)).collect() for table in (feed.replica, peer_table))
    assert ours == theirs, (ours, theirs)
