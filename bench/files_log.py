"""Text files to the log, against typed `from_json` by hand into the same kind of Iceberg table."""

import os
import shutil
import tempfile
from itertools import count
from pathlib import Path

from pyspark.sql.functions import partitioning

from bench import xtdb_peer
from bench.events import file_of
from bench.measuring import Benchmark, Result, medians
from changeling.iceberg.lake import PROPERTIES, Lake
from changeling.log import log_tables
from changeling.pipelines.lakehouse import lake_of
from changeling.pipelines.loading import load
from changeling.pipelines.pipeline import Pipeline

COUNT = int(os.environ.get("BENCH_EVENTS", "2000000"))
RUNS = 3
_PIPELINE = """
name: {name}
warehouse: ./lake
sources:
  - {{name: drop, type: files, path: {path}, format: xtdb, batch_bytes: 4000000000}}
tables:
  - {{name: "*", mode: append}}
"""


def benchmarks() -> dict[str, Benchmark]:
    return {"files-to-log": files_to_log}


def files_to_log() -> Result:
    folder = Path(tempfile.mkdtemp(prefix="changeling-bench-"))
    path = file_of(COUNT).resolve()
    numbers = count()

    def ours() -> None:
        name = f"ours{next(numbers)}"
        (folder / f"{name}.yaml").write_text(_PIPELINE.format(name=name, path=path))
        Pipeline.load(folder / f"{name}.yaml").run(once=True)

    def theirs() -> None:
        name = f"theirs{next(numbers)}"
        (folder / f"{name}.yaml").write_text(_PIPELINE.format(name=name, path=path))
        lake = lake_of(load(folder / f"{name}.yaml"))
        lake.create(log_tables.TABLES, log_tables.VERSION)
        written(lake, str(path))

    try:
        medians(1, ours, theirs)
        mine, peer = medians(RUNS, ours, theirs)
    finally:
        shutil.rmtree(folder)
    note = f"{COUNT:,} events: {mine:.1f} s to {peer:.1f} s, creating the tables included"
    return Result("files-to-log", COUNT / mine, "events/s", COUNT / peer, aim=3, note=note)


def written(lake: Lake, path: str) -> None:
    """What the peer does: both images typed, into a table of the same properties, partitioned by day as well."""
    typed = xtdb_peer.typed_images(lake.spark, path).withColumnRenamed("ts_ms", "event_ms")
    writer = typed.selectExpr("*", "current_timestamp() AS ingested_at").writeTo(f"lake.`{lake.namespace}`.typed")
    for name, value in PROPERTIES.items():
        writer = writer.tableProperty(name, value)
    writer.using("iceberg").partitionedBy(partitioning.days("ingested_at")).create()
