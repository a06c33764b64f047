"""Events of XTDB on disk to changes on Spark, against `from_json` by hand."""

import os

from bench import xtdb_peer
from bench.events import file_of
from bench.measuring import Benchmark, Result
from bench.spark_runs import times

COUNT = int(os.environ.get("BENCH_EVENTS", "2000000"))
FLINK_TYPED = 365_000
"""Events a second of Flink's debezium-json with typed rows, once measured on two cores."""


def benchmarks() -> dict[str, Benchmark]:
    return {"xtdb-spark-typed": typed, "xtdb-spark-text": text}


def typed() -> Result:
    ours, theirs = times(file_of(COUNT), "xtdb", xtdb_peer.typed_images)
    note = f"{COUNT:,} events: {ours:.1f} s to {theirs:.1f} s; limit: Flink's debezium-json, typed, on two such cores"
    return Result("xtdb-spark-typed", COUNT / ours, "events/s", COUNT / theirs, FLINK_TYPED, aim=4, note=note)


def text() -> Result:
    ours, theirs = times(file_of(COUNT), "xtdb", xtdb_peer.text_images)
    note = f"{COUNT:,} events: {ours:.1f} s to {theirs:.1f} s"
    return Result("xtdb-spark-text", COUNT / ours, "events/s", COUNT / theirs, aim=2, note=note)
