"""Debezium's events on disk to changes on Spark, against `from_json` by hand with both images typed."""

import os

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bench.events import debezium_file_of
from bench.measuring import Benchmark, Result
from bench.spark_runs import times

COUNT = int(os.environ.get("BENCH_EVENTS", "1000000"))
_ROW = """struct<_id string, name string, email string, created_at timestamp, age int, is_active boolean,
    balance decimal(18,2), uuid string, last_updated timestamp, customer_id string, order_date timestamp,
    processing_duration string, total_amount decimal(18,2), status string,
    items array<struct<product_id string, quantity int, price decimal(18,2)>>>"""
_ENVELOPE = f"""before {_ROW}, after {_ROW},
    source struct<version string, connector string, name string, ts_ms bigint, snapshot string, db string,
                  `sequence` string, `schema` string, `table` string, txId bigint, lsn bigint>,
    op string, ts_ms bigint, transaction struct<id string, total_order bigint, data_collection_order bigint>"""


def benchmarks() -> dict[str, Benchmark]:
    return {"debezium-spark-typed": typed}


def typed() -> Result:
    ours, theirs = times(debezium_file_of(COUNT), "debezium-json", _typed_images, key="_id")
    note = f"{COUNT:,} events: {ours:.1f} s to {theirs:.1f} s"
    return Result("debezium-spark-typed", COUNT / ours, "events/s", COUNT / theirs, note=note)


def _typed_images(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.text(path).select(f.from_json("value", _ENVELOPE).alias("event")).select("event.*")
