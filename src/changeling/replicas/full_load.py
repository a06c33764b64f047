"""Rows of a full load to begin with: a table, or files of Parquet, CSV or JSON lines with the columns by name."""

import os
from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from changeling.iceberg.lake import quoted
from changeling.model.errors import UsageError, nearest
from changeling.replicas import staged_rows
from changeling.replicas.shape import ReplicaColumn, Shape
from changeling.replicas.stored_types import sql_type
from changeling.spark.errors import SPARK_ERRORS, translate_error


def base_rows(spark: SparkSession, place: str, shape: Shape) -> DataFrame:
    """The rows in the places of a shape; columns that the base lacks are NULL.

    Raises `UsageError` where a key column is missing, or the base cannot be read.
    """
    try:
        rows, as_text = _read(spark, place)
    except SPARK_ERRORS as error:
        raise UsageError(f"--base {place}: {translate_error(error)}") from None
    types = dict(rows.dtypes)
    for column in shape.key_columns:
        if _name(column, types) not in types:
            raise UsageError(
                f"--base {place}: it has no column {column.source_name!r}, which is of the key; "
                f"{nearest(column.source_name, types)}"
            )
    return rows.select(
        *(
            _value(column, _name(column, types), types, as_text).alias(staged_rows.column_name(number))
            for number, column in enumerate(shape.columns)
        )
    )


def _name(column: ReplicaColumn, there: Mapping[str, str]) -> str:
    """What a base calls a column: as the source does, or as a replica does."""
    return column.source_name if column.source_name in there else column.name


def _read(spark: SparkSession, place: str) -> tuple[DataFrame, bool]:
    """The rows, and whether their values are text."""
    # Spark's own folder is the one that it was started in.
    path = place if "://" in place else os.path.abspath(place)
    ending = place.rstrip("/").rsplit("/", 1)[-1].removesuffix(".gz").rsplit(".", 1)[-1].lower()
    if ending == "csv":
        # An empty field is NULL, "" is a text.
        return spark.read.csv(path, header=True, escape='"', multiLine=True, emptyValue=""), True
    if ending in ("json", "jsonl", "ndjson"):
        return spark.read.json(path, primitivesAsString=True), True
    if ending == "parquet" or "/" in place:
        return spark.read.parquet(path), False
    return spark.table(place), False


def _value(column: ReplicaColumn, name: str, there: Mapping[str, str], as_text: bool) -> Column:
    kind, stored = sql_type(column.kind), there.get(name)
    if stored is None:
        return f.lit(None).cast(kind)
    value = f.col(quoted(name))
    if kind == "STRING" and stored.startswith(("struct", "array", "map")):
        return f.to_json(value)
    if kind == "BINARY" and as_text:
        return f.unbase64(value)
    return value.cast(kind)
