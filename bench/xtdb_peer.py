"""The peer on Spark: what one would write by hand with `from_json` for these two documents."""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

_ENVELOPE = """
    before string, after string,
    source struct<version string, connector string, name string, ts_ms bigint, snapshot string, db string,
                  `table` string, tx_id bigint, system_time bigint>,
    op string, ts_ms bigint,
    transaction struct<id string, total_order bigint, data_collection_order bigint>
"""
# One schema for the documents of both tables, since the events of both come in one stream.
_DOCUMENT = """
    _id string,
    name string, email string, created_at timestamp, age int, is_active boolean, balance decimal(18,2), uuid string,
    last_updated timestamp,
    customer_id string, order_date timestamp, processing_duration string, total_amount decimal(18,2), status string,
    items array<struct<product_id string, quantity int, price decimal(18,2)>>
"""


def text_images(spark: SparkSession, path: str) -> DataFrame:
    """The envelope typed, both documents left as text."""
    parsed = spark.read.text(path).select(f.from_json("value", _ENVELOPE).alias("event"))
    return parsed.select("event.*")


def typed_images(spark: SparkSession, path: str) -> DataFrame:
    """The envelope and both documents typed."""
    return text_images(spark, path).select(
        _document("before"), _document("after"), "source", "op", "ts_ms", "transaction"
    )


def _document(name: str) -> Column:
    return f.from_json(name, _DOCUMENT).alias(name)
