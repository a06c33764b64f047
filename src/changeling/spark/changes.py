"""Frames of changes in the layout that kernels write from."""

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StructField

from changeling.model import layout
from changeling.model.errors import UsageError
from changeling.spark.adapter import spark_schema
from changeling.spark.numbering import COUNTS, NUMBER, STANDING


def numbered_changes(frame: DataFrame) -> DataFrame:
    """The frame in layout `CHANGES`, and the columns `number`, `counts` and `standing` where it has them.

    Columns that are not there are null, as `schema` is in the log; `op` must be there.
    """
    if "op" not in frame.columns:
        raise UsageError(f"changes have a column 'op'; there are only {', '.join(frame.columns)}")
    wanted = [*layout.CHANGES, *(field for field in (NUMBER, COUNTS, STANDING) if field.name in frame.columns)]
    return frame.select(*(_column(frame, field) for field in spark_schema(pa.schema(wanted))))


def _column(frame: DataFrame, field: StructField) -> Column:
    column = f.col(field.name) if field.name in frame.columns else _missing(field.name)
    return column.cast(field.dataType).alias(field.name)


def _missing(name: str) -> Column:
    # An image that nothing is said about is none; the kernels know no null here.
    return f.lit("none" if name in ("before_image", "after_image") else None)
