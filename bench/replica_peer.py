"""The peers of a replica: what one would write by hand on Spark, and DuckDB alone, from events to current rows."""

from importlib import import_module
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from bench.documents import TABLES, duckdb_structure, spark_schema
from changeling.iceberg.lake import PROPERTIES, Lake

_ENVELOPE = """
    before string, after string, source struct<`table` string, tx_id bigint>,
    transaction struct<data_collection_order bigint>
"""
_PARTS = 4
_DUCKDB_EVENTS = """
    read_ndjson('{path}', columns = {{
        before: 'VARCHAR', after: 'VARCHAR', source: 'STRUCT("table" VARCHAR, tx_id BIGINT)',
        transaction: 'STRUCT(data_collection_order BIGINT)'
    }}, maximum_object_size = 1000000)
"""


def typed_first(lake: Lake, path: str) -> None:
    """Every image typed, then the last one of each key."""
    events = _events(lake.spark, path).select("*", *(_typed(table) for table in TABLES))
    _write(lake, _last(events, *TABLES))


def typed_last(lake: Lake, path: str) -> None:
    """The last image of each key as text, and only those typed."""
    _write(lake, _last(_events(lake.spark, path), "after").select("*", *(_typed(table) for table in TABLES)))


def _events(spark: SparkSession, path: str) -> DataFrame:
    parsed = spark.read.text(path).select(f.from_json("value", _ENVELOPE).alias("event"))
    order = f.struct("event.source.tx_id", "event.transaction.data_collection_order")
    key = f.get_json_object(f.coalesce("event.after", "event.before"), "$._id")
    return parsed.select(
        f.col("event.source.table").alias("table"), key.alias("key"), order.alias("order"), "event.after"
    )


def _typed(table: str) -> Column:
    return f.when(f.col("table") == table, f.from_json("after", spark_schema(table))).alias(table)


def _last(events: DataFrame, *images: str) -> DataFrame:
    last = events.groupBy("table", "key").agg(f.max_by(f.struct(*images), "order").alias("last"))
    return last.select("table", "last.*")


def _write(lake: Lake, rows: DataFrame) -> None:
    # Cached for both tables, in few partitions: each becomes a file.
    rows = rows.coalesce(_PARTS).persist()
    for table in TABLES:
        writer = rows.where(f.col(f"{table}._id").isNotNull()).select(f"{table}.*").writeTo(name(lake, table))
        for key, value in PROPERTIES.items():
            writer = writer.tableProperty(key, value)
        writer.using("iceberg").create()
    rows.unpersist()


def name(lake: Lake, table: str) -> str:
    """The peer's table."""
    return f"lake.`{lake.namespace}`.typed_{table}"


def duckdb() -> Any:
    """The module, which is no dependency of ours; None where it is not installed."""
    try:
        return import_module("duckdb")
    except ImportError:
        return None


def with_duckdb(duckdb: Any, path: str, folder: Path) -> dict[str, Path]:
    """The same by DuckDB, which types the last images only, to Parquet files."""
    made = {table: folder / f"{table}.parquet" for table in TABLES}
    with duckdb.connect() as connection:
        connection.execute(f"SET TimeZone = 'UTC'; SET temp_directory = '{folder}'")
        connection.execute(
            f"""
            CREATE TEMP TABLE last AS
            SELECT source."table" AS "table", json_extract_string(coalesce(after, before), '$._id') AS key,
                   arg_max(row(after), row(source.tx_id, transaction.data_collection_order))[1] AS after
            FROM {_DUCKDB_EVENTS.format(path=path)} GROUP BY 1, 2
            """
        )
        for table, file in made.items():
            connection.execute(
                f"""
                COPY (SELECT unnest(from_json(after::JSON, '{duckdb_structure(table)}'))
                      FROM last WHERE "table" = '{table}' AND after IS NOT NULL)
                TO '{file}' (FORMAT parquet, COMPRESSION zstd)
                """
            )
    return made
