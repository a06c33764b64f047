"""Text files to typed replicas, the log included, against a job by hand on Spark without a log."""

import json
import os
import shutil
import statistics
import tempfile
from collections.abc import Callable
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

from bench import replica_peer
from bench.documents import AMOUNTS, TABLES, declared
from bench.events import updates_file_of
from bench.measuring import Benchmark, Result, medians
from changeling.iceberg.lake import Lake
from changeling.log import log_tables
from changeling.pipelines.lakehouse import lake_of
from changeling.pipelines.listener import Listener
from changeling.pipelines.loading import load
from changeling.pipelines.pipeline import Pipeline
from changeling.replicas.merge import MergeReport

COUNT = int(os.environ.get("BENCH_EVENTS", "2000000"))
RUNS = 3

Sums = dict[str, tuple[int, Decimal]]
"""How many rows each table has, and the sum of one of its columns."""


def benchmarks() -> dict[str, Benchmark]:
    return {"text-to-replica": text_to_replica}


class _Merges(Listener):
    """Records how long each merge took."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def on_merge_done(self, report: MergeReport) -> None:
        self.seconds.append(report.seconds)


def text_to_replica() -> Result:
    folder = Path(tempfile.mkdtemp(prefix="changeling-bench-"))
    path = updates_file_of(COUNT).resolve()
    numbers = count()
    merges = _Merges()
    last: dict[str, str] = {}

    def ours() -> None:
        last["ours"] = name = f"ours{next(numbers)}"
        Pipeline.load(_pipeline(folder, name, path)).run(once=True, listener=merges)

    def theirs(typed: str) -> None:
        last[typed] = name = f"{typed}{next(numbers)}"
        lake = lake_of(load(_pipeline(folder, name, path)))
        lake.create(log_tables.TABLES, log_tables.VERSION)
        (replica_peer.typed_first if typed == "first" else replica_peer.typed_last)(lake, str(path))

    tasks: list[Callable[[], object]] = [ours, lambda: theirs("first"), lambda: theirs("last")]
    duckdb = replica_peer.duckdb()
    if duckdb is not None:
        tasks.append(lambda: replica_peer.with_duckdb(duckdb, str(path), folder))
    try:
        medians(1, *tasks)
        merges.seconds.clear()
        mine, peer, lean, *alone = medians(RUNS, *tasks)
        lake = lake_of(load(folder / f"{last['ours']}.yaml"))
        found = _sums(lake, f"lake.{last['ours']}_replica.")
        others = [_sums(lake, f"lake.{last[typed]}.typed_") for typed in ("first", "last")]
        others += [_duckdb_sums(duckdb, folder)] if alone else []
    finally:
        shutil.rmtree(folder)
    assert all(other == found for other in others), [found, *others]
    rows = sum(number for number, _ in found.values())
    note = (
        f"{COUNT:,} events to {rows:,} rows: {mine:.1f} s, of it the merge {statistics.median(merges.seconds):.1f} s, "
        f"to {peer:.1f} s; {lean:.1f} s where the peer types only the last images"
    )
    if alone:
        note += f"; limit: DuckDB alone to Parquet, {alone[0]:.1f} s"
    limit = COUNT / alone[0] if alone else None
    return Result("text-to-replica", COUNT / mine, "events/s", COUNT / peer, limit, aim=3, note=note)


def _pipeline(folder: Path, name: str, path: Path) -> Path:
    definition: dict[str, Any] = {
        "name": name,
        "warehouse": "./lake",
        "sources": [
            {"name": "drop", "type": "files", "path": str(path), "format": "xtdb", "batch_bytes": 4_000_000_000}
        ],
        "tables": [{"name": table, "key": ["_id"], "columns": declared(table)} for table in TABLES],
    }
    file = folder / f"{name}.yaml"
    # Any JSON is YAML.
    file.write_text(json.dumps(definition))
    return file


def _sums(lake: Lake, prefix: str) -> Sums:
    found = {}
    for table, column in AMOUNTS.items():
        row = lake.spark.sql(f"SELECT count(*), sum({column}) FROM {prefix}{table}").collect()[0]
        found[table] = (int(row[0]), Decimal(row[1]))
    return found


def _duckdb_sums(duckdb: Any, folder: Path) -> Sums:
    found = {}
    for table, column in AMOUNTS.items():
        row = duckdb.sql(f"SELECT count(*), sum({column}) FROM '{folder / f'{table}.parquet'}'").fetchall()[0]
        found[table] = (int(row[0]), Decimal(row[1]))
    return found
