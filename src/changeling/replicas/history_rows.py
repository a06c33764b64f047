"""The history of rows: every state with the moments and positions between which it held, in the order of positions."""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from changeling.replicas import staged_rows
from changeling.replicas.metadata_columns import service_names
from changeling.replicas.row_writer import CLOSE
from changeling.replicas.shape import Shape
from changeling.replicas.spark_replacement import columns, completed, placed

_SERVICE_COLUMNS = (
    staged_rows.KEY,
    staged_rows.REFOLDED,
    staged_rows.POSITION,
    staged_rows.TIME,
    staged_rows.OP,
    staged_rows.UNTIL,
    staged_rows.UNTIL_TIME,
)


def intervals(spark: SparkSession, rows: DataFrame | None, shape: Shape) -> DataFrame:
    """Histories that begin with nothing, as the table has them."""
    if rows is None:
        states = placed(spark.range(0), Shape(()), shape)
        for name in (staged_rows.POSITION, staged_rows.OP, staged_rows.UNTIL):
            states = states.withColumn(name, f.lit(None).cast("string"))
        for name in (staged_rows.TIME, staged_rows.UNTIL_TIME):
            states = states.withColumn(name, f.lit(None).cast("bigint"))
    else:
        states = completed(rows, None, shape, _SERVICE_COLUMNS).where(f.col(staged_rows.EFFECT) != CLOSE)
    own = [f.col(place).alias(column.name) for place, column in zip(columns(shape), shape.columns, strict=True)]
    service = zip(_service(), service_names(shape, "history"), strict=True)
    return states.select(*own, *(value.alias(name) for value, name in service))


def _service() -> list[Column]:
    return [
        _moment(staged_rows.TIME),
        _moment(staged_rows.UNTIL_TIME),
        f.col(staged_rows.UNTIL).isNull(),
        f.col(staged_rows.OP),
        f.col(staged_rows.POSITION),
        f.col(staged_rows.UNTIL),
    ]


def _moment(name: str) -> Column:
    return f.timestamp_micros(f.expr(f"{name} div 1000"))
