"""Frames of wire records and of changes, whatever columns they have, in the layouts that kernels read."""

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, BinaryType, StringType, StructField, StructType

from changeling.model import arrow_layouts
from changeling.model.errors import UsageError
from changeling.spark.adapter import spark_schema
from changeling.spark.numbering import COUNTS, NUMBER, STANDING

_SCHEMA = spark_schema(arrow_layouts.RECORDS)


def wire_records(frame: DataFrame) -> DataFrame:
    """The frame in layout `RECORDS`. Only `value`, text or bytes, is required.

    A frame from Kafka is recognised by its columns: its headers' names are called `key`, and origins are built from `topic`,
    `partition` and `offset`. A frame without them has null origins, which `OriginFiller` fills in the tasks.
    """
    if "value" not in frame.columns:
        raise UsageError(f"records need a column 'value'; the frame has only {', '.join(frame.columns)}")
    return frame.select(
        _bytes(frame, "value"), _bytes(frame, "key"), _headers(frame), _or_null(frame, "topic"), _origin(frame)
    )


def _or_null(frame: DataFrame, name: str) -> Column:
    kind = _SCHEMA[name].dataType
    return (f.col(name) if name in frame.columns else f.lit(None)).cast(kind).alias(name)


def _bytes(frame: DataFrame, name: str) -> Column:
    if name in frame.columns and not isinstance(frame.schema[name].dataType, BinaryType | StringType):
        found = frame.schema[name].dataType.simpleString()
        raise UsageError(f"the column {name!r} must be text or bytes, it is {found}")
    return _or_null(frame, name)


def _headers(frame: DataFrame) -> Column:
    if "headers" not in frame.columns:
        return _or_null(frame, "headers")
    kind = frame.schema["headers"].dataType
    # Fields of structs are cast by position: Kafka's (key, value) become (name, value).
    if not (isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType) and len(kind.elementType) == 2):
        raise UsageError(f"the column 'headers' must be an array of names and values, it is {kind.simpleString()}")
    return _or_null(frame, "headers")


def _origin(frame: DataFrame) -> Column:
    if "origin" in frame.columns:
        kind = frame.schema["origin"].dataType
        if not isinstance(kind, StructType):
            raise UsageError(f"the column 'origin' must be a struct, it is {kind.simpleString()}")
        given = {name: f.col("origin").getField(name) for name in kind.fieldNames()}
    elif {"topic", "partition", "offset"} <= set(frame.columns):
        given = {name: f.col(name) for name in ("topic", "partition", "offset")}
    else:
        return _or_null(frame, "origin")
    fields = spark_schema(pa.schema(list(arrow_layouts.ORIGIN)))
    return f.struct(
        *(given.get(field.name, f.lit(None)).cast(field.dataType).alias(field.name) for field in fields)
    ).alias("origin")


class OriginFiller:
    """Gives origins to the records of one partition that have none: partition and row, as ordinal and record.

    These identify a record inside one run only: a stream of a format without positions of its own should have an `origin`.
    """

    def __init__(self) -> None:
        context = TaskContext.get()
        self._partition = 0 if context is None else context.partitionId()
        self._row = 0

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch of layout `RECORDS`, with an origin in every row where it had none at all."""
        at, count = batch.schema.get_field_index("origin"), batch.num_rows
        if batch.column(at).null_count < count:
            return batch
        known = {
            "ordinal": pa.repeat(pa.scalar(self._partition, pa.int64()), count),
            "record": pa.array(range(self._row, self._row + count), pa.int64()),
        }
        self._row += count
        return batch.set_column(at, arrow_layouts.RECORDS.field(at), origins(count, known))


def origins(count: int, known: dict[str, pa.Array]) -> pa.Array:
    """`count` origins of which only these fields are known."""
    fields = list(arrow_layouts.ORIGIN)
    return pa.StructArray.from_arrays(
        [known.get(field.name, pa.nulls(count, field.type)) for field in fields], fields=fields
    )


def numbered_changes(frame: DataFrame) -> DataFrame:
    """The frame in layout `CHANGES`, and the columns `number`, `counts` and `standing` where it has them.

    Missing columns become null, as `schema` is in the log; `op` is required.
    """
    if "op" not in frame.columns:
        raise UsageError(f"changes need a column 'op'; the frame has only {', '.join(frame.columns)}")
    wanted = [*arrow_layouts.CHANGES, *(field for field in (NUMBER, COUNTS, STANDING) if field.name in frame.columns)]
    return frame.select(*(_change_column(frame, field) for field in spark_schema(pa.schema(wanted))))


def _change_column(frame: DataFrame, field: StructField) -> Column:
    column = f.col(field.name) if field.name in frame.columns else _missing_column(field.name)
    return column.cast(field.dataType).alias(field.name)


def _missing_column(name: str) -> Column:
    # A missing image is `none`: the kernels accept no null here.
    return f.lit("none" if name in ("before_image", "after_image") else None)
