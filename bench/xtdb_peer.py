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
_DOCUMENTS = {
    "users": """
        _id string, name string, email string, created_at timestamp, age int, is_active boolean,
        balance decimal(18,2), uuid string, last_updated timestamp
    """,
    "orders": """
        _id string, customer_id string, order_date timestamp, processing_duration string, total_amount decimal(18,2),
        status string, items array<struct<product_id string, quantity int, price decimal(18,2)>>
    """,
}


def text_images(spark: SparkSession, path: str) -> DataFrame:
    """The envelope typed, both documents left as text."""
    parsed = spark.read.text(path).select(f.from_json("value", _ENVELOPE).alias("event"))
    return parsed.select("event.*")


def typed_images(spark: SparkSession, path: str) -> DataFrame:
    """The envelope and both documents typed, each by the schema of its table; every document is parsed once."""
    images = [_document(image, table) for image in ("before", "after") for table in _DOCUMENTS]
    return text_images(spark, path).select(*images, "source", "op", "ts_ms", "transaction")


def _document(image: str, table: str) -> Column:
    parsed = f.from_json(image, _DOCUMENTS[table])
    return f.when(f.col("source.table") == table, parsed).alias(f"{image}_{table}")
