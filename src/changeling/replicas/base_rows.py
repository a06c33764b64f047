"""Rows of a full load to begin with: a table, or files of Parquet, CSV or JSON lines with the columns by name."""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from changeling.log.lake import quoted
from changeling.model.errors import UsageError, nearest
from changeling.replicas import staged
from changeling.replicas.shape import ReplicaColumn, Shape
from changeling.replicas.stored_types import sql_type
from changeling.spark.failures import SPARKS, told


def base_rows(spark: SparkSession, place: str, shape: Shape) -> DataFrame:
    """The rows in the places of a shape; columns that the base lacks are NULL.

    Raises `UsageError` where a key column is missing, or the base cannot be read.
    """
    try:
        rows, as_text = _read(spark, place)
    except SPARKS as error:
        raise UsageError(f"--base {place}: {told(error)}") from None
    there = {name: name for name in rows.columns}
    for column in shape.key_columns:
        if column.name not in there:
            raise UsageError(
                f"--base {place}: it has no column {column.name!r}, which is of the key; {nearest(column.name, there)}"
            )
    types = dict(rows.dtypes)
    return rows.select(
        *(
            _value(column, types.get(column.name), as_text).alias(staged.column_name(number))
            for number, column in enumerate(shape.columns)
        )
    )


def _read(spark: SparkSession, place: str) -> tuple[DataFrame, bool]:
    """The rows, and whether their values are text."""
    ending = place.rstrip("/").rsplit("/", 1)[-1].removesuffix(".gz").rsplit(".", 1)[-1].lower()
    if ending == "csv":
        # An empty field is NULL, "" is a text.
        return spark.read.csv(place, header=True, escape='"', multiLine=True, emptyValue=""), True
    if ending in ("json", "jsonl", "ndjson"):
        return spark.read.json(place, primitivesAsString=True), True
    if ending == "parquet" or "/" in place:
        return spark.read.parquet(place), False
    return spark.table(place), False


def _value(column: ReplicaColumn, stored: str | None, as_text: bool) -> Column:
    kind = sql_type(column.kind)
    if stored is None:
        return f.lit(None).cast(kind)
    value = f.col(quoted(column.name))
    if kind == "STRING" and stored.startswith(("struct", "array", "map")):
        return f.to_json(value)
    if kind == "BINARY" and as_text:
        return f.unbase64(value)
    return value.cast(kind)
