"""Events of XTDB on disk to changes on Spark, against `from_json` by hand, in the same session and in turns."""

import functools
import os

from pyspark.sql import DataFrame, SparkSession

import changeling.spark
from bench import xtdb_peer
from bench.events import file_of
from bench.measuring import Benchmark, Result, medians

COUNT = int(os.environ.get("BENCH_EVENTS", "2000000"))
RUNS = 3
FLINK_TYPED = 365_000
"""Events a second of Flink's debezium-json with typed rows, once measured on two cores."""


def benchmarks() -> dict[str, Benchmark]:
    return {"xtdb-spark-typed": typed, "xtdb-spark-text": text}


def typed() -> Result:
    peer = functools.partial(xtdb_peer.typed_images, _session(), str(file_of(COUNT)))
    ours, theirs = _times(peer)
    note = f"{_told(ours, theirs)}; limit: Flink's debezium-json, typed, on two such cores"
    return Result("xtdb-spark-typed", COUNT / ours, "events/s", COUNT / theirs, FLINK_TYPED, aim=4, note=note)


def text() -> Result:
    peer = functools.partial(xtdb_peer.text_images, _session(), str(file_of(COUNT)))
    ours, theirs = _times(peer)
    return Result("xtdb-spark-text", COUNT / ours, "events/s", COUNT / theirs, aim=2, note=_told(ours, theirs))


def _session() -> SparkSession:
    return changeling.spark.session()


def _times(peer: functools.partial[DataFrame]) -> list[float]:
    path = str(file_of(COUNT))

    def ours() -> None:
        _consume(changeling.spark.decode_files(_session(), path, "xtdb").changes)

    def theirs() -> None:
        _consume(peer())

    medians(1, ours, theirs)
    return medians(RUNS, ours, theirs)


def _consume(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _told(ours: float, theirs: float) -> str:
    return f"{COUNT:,} events: {ours:.1f} s to {theirs:.1f} s"
