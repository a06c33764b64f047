"""Decoding a file on Spark, ours and a peer alternating in the same session."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import changeling.spark
from bench.measuring import medians

RUNS = 3

Peer = Callable[[SparkSession, str], DataFrame]


def times(path: Path, format: str, peer: Peer, **options: Any) -> list[float]:
    """The seconds that ours and the peer take from the file to all columns of its changes, after one round to warm up."""
    spark = changeling.spark.session()

    def ours() -> None:
        _consume(changeling.spark.decode_files(spark, str(path), format, **options).changes)

    def theirs() -> None:
        _consume(peer(spark, str(path)))

    medians(1, ours, theirs)
    return medians(RUNS, ours, theirs)


def _consume(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()
