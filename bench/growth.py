"""What a merge costs by the size of its batch, of its table, of the log, and by the number of tables: in one process, and on a cluster.

`python -m bench.growth ADDRESS` measures on a cluster of Spark, and prints the curves as JSON.
"""

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.accounts import Accounts
from bench.curves import Curve, Points, store
from bench.folder_pipeline import FolderPipeline
from bench.many_tables import CHANGES as CHANGES_OF_A_TABLE
from bench.many_tables import seconds_for
from bench.measuring import Benchmark, Result
from demo.spark_cluster import settings_for, spark_cluster

RUNS = 3
ROWS = 100_000
CHANGES = 1_000
BATCHES = (100, 1_000, 10_000, 100_000)
TABLES = (10_000, 100_000, 1_000_000)
LOGS = (100_000, 300_000, 1_000_000)
NUMBERS = (1, 10, 50, 200)
LOCAL, CLUSTER = "one process, two cores", "a cluster of two workers, a core each"
Settings = Mapping[str, str]


def benchmarks() -> dict[str, Benchmark]:
    return {**{name: partial(_measured, name) for name in CURVES}, "cluster": _on_cluster}


def _by_batch(spark: Settings) -> Curve:
    accounts = Accounts()
    with _pipeline(spark) as feed:
        _load(feed, accounts, ROWS)
        points: Points = [(size, _merged(feed, accounts, size)) for size in BATCHES]
    return Curve("growth-batch", f"A merge into a table of {ROWS:,} rows", "changes in the batch", points)


def _by_table(spark: Settings) -> Curve:
    points: Points = []
    for rows in TABLES:
        accounts = Accounts()
        with _pipeline(spark) as feed:
            _load(feed, accounts, rows)
            points.append((rows, _merged(feed, accounts, CHANGES)))
    return Curve("growth-table", f"A merge of {CHANGES:,} changes", "rows of the table", points)


def _by_log(spark: Settings) -> Curve:
    """The table stays as it is: the log grows by updates of its rows."""
    points: Points = []
    accounts = Accounts()
    with _pipeline(spark) as feed:
        _load(feed, accounts, ROWS)
        logged = ROWS
        for size in LOGS:
            while logged < size:
                more = min(ROWS // 2, size - logged)
                feed.add_file(accounts.events(accounts.batch(more)))
                feed.ingest()
                feed.merge()
                logged += more
            points.append((size, _merged(feed, accounts, CHANGES)))
            logged += RUNS * CHANGES
    title = f"A merge of {CHANGES:,} changes into a table of {ROWS:,} rows"
    return Curve("growth-log", title, "changes in the log", points)


def _by_number(spark: Settings) -> Curve:
    points: Points = [(number, seconds_for(number, spark)) for number in NUMBERS]
    return Curve("growth-tables", f"A merge of {CHANGES_OF_A_TABLE} changes a table", "tables", points)


CURVES: dict[str, Callable[[Settings], Curve]] = {
    "growth-batch": _by_batch,
    "growth-table": _by_table,
    "growth-log": _by_log,
    "growth-tables": _by_number,
}


def _measured(name: str) -> Result:
    curve = CURVES[name]({})
    store(curve, LOCAL)
    return Result(name, curve.points[-1][1], "s", note=f"{curve.title}, by {curve.size}: {curve.text()}")


def _on_cluster() -> Result:
    with (
        tempfile.TemporaryDirectory(prefix="changeling-bench-") as folder,
        spark_cluster(Path(folder), "2g") as address,
    ):
        # A session of another place may run in this process already.
        line = [sys.executable, "-m", "bench.growth", address]
        printed = subprocess.run(line, stdout=subprocess.PIPE, check=True, text=True).stdout
    curves = [Curve(**{**one, "points": [tuple(point) for point in one["points"]]}) for one in json.loads(printed)]
    for curve in curves:
        store(curve, CLUSTER)
    note = "; ".join(f"{curve.name}: {curve.text()}" for curve in curves)
    return Result("cluster", sum(curve.points[-1][1] for curve in curves), "s", note=note)


@contextmanager
def _pipeline(spark: Settings) -> Iterator[FolderPipeline]:
    folder = Path(tempfile.mkdtemp(prefix="changeling-bench-"))
    try:
        yield FolderPipeline(folder / "feed", spark=spark)
    finally:
        shutil.rmtree(folder)


def _load(feed: FolderPipeline, accounts: Accounts, rows: int) -> None:
    feed.add_file(accounts.events(accounts.load(rows)))
    feed.ingest()
    feed.merge()


def _merged(feed: FolderPipeline, accounts: Accounts, changes: int) -> float:
    """The median time of merges of so many changes, after one to warm up."""
    taken = []
    for _ in range(RUNS + 1):
        feed.add_file(accounts.events(accounts.batch(changes)))
        feed.ingest()
        start = time.perf_counter()
        feed.merge()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken[1:])


def _main(address: str) -> None:
    curves = [measure(settings_for(address, "1g")) for measure in CURVES.values()]
    print(json.dumps([vars(curve) for curve in curves]))


if __name__ == "__main__":
    _main(sys.argv[1])
