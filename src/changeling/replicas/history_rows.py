"""The history of rows: every state with the moments and positions between which it held, in the order of positions."""

from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from changeling.iceberg.lake import quoted
from changeling.replicas import staged_rows
from changeling.replicas.merge_tasks import Work
from changeling.replicas.metadata_columns import service_names
from changeling.replicas.row_writer import CLOSE
from changeling.replicas.shape import Shape
from changeling.replicas.stored_merge import columns, completed, key_places, placed, same

_BESIDE = (
    staged_rows.KEY,
    staged_rows.AGAIN,
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
        states = completed(rows, None, shape, _BESIDE).where(f.col(staged_rows.EFFECT) != CLOSE)
    own = [f.col(place).alias(column.name) for place, column in zip(columns(shape), shape.columns, strict=True)]
    beside = zip(_service(), service_names(shape, "history"), strict=True)
    return states.select(*own, *(value.alias(name) for value, name in beside))


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


def closings_and_openings(rows: DataFrame | None, stored: DataFrame, work: Work) -> DataFrame | None:
    """What a merge of histories reads: states that open, and for each row what ends the state that is stored."""
    shape = work.folded.shape
    names = service_names(work.replica.shape, "history")
    valid_from, valid_to = names[4], names[5]
    current = f.col(quoted(names[2]))
    opened = placed(stored.where(current), work.replica.shape, shape)
    parts = []
    if rows is not None:
        is_again = f.coalesce(f.col(staged_rows.AGAIN), f.lit(False))
        parts.append(completed(rows.where(~is_again), opened, shape, _BESIDE))
        if work.base is not None:
            start = work.base.position
            held = (f.col(quoted(valid_from)) <= start) & (
                f.col(quoted(valid_to)).isNull() | (f.col(quoted(valid_to)) > start)
            )
            below = placed(stored.where(held), work.replica.shape, shape)
            parts.append(completed(rows.where(is_again), below, shape, _BESIDE))
    if truncates := work.folded.truncates_of(again=False):
        parts.append(_truncated(rows, opened, shape, *truncates[0]))
    return reduce(DataFrame.unionByName, parts) if parts else None


def _truncated(rows: DataFrame | None, opened: DataFrame, shape: Shape, position: str, time: int | None) -> DataFrame:
    """Rows that no other change touched end where the table was truncated first."""
    keys = key_places(shape)
    if rows is not None:
        touched = rows.select(*(f.col(name).alias(f"n{name}") for name in keys)).distinct()
        opened = opened.join(touched, same([(f.col(name), f.col(f"n{name}")) for name in keys]), "left_anti")
    return opened.select(
        *columns(shape),
        f.lit(CLOSE).alias(staged_rows.EFFECT),
        f.lit(None).cast("string").alias(staged_rows.KEY),
        f.lit(False).alias(staged_rows.AGAIN),
        f.lit(None).cast("string").alias(staged_rows.POSITION),
        f.lit(None).cast("bigint").alias(staged_rows.TIME),
        f.lit(None).cast("string").alias(staged_rows.OP),
        f.lit(position).alias(staged_rows.UNTIL),
        f.lit(time).cast("bigint").alias(staged_rows.UNTIL_TIME),
    )


def merge_statement(table: str, view: str, work: Work) -> str:
    """Ends the states that end, takes those away that late changes tell otherwise, and adds the new ones."""
    shape = work.folded.shape
    names = [quoted(column.name) for column in shape.columns]
    places = columns(shape)
    by_place = dict(zip(places, names, strict=True))
    service = [quoted(name) for name in service_names(shape, "history")]
    valid_from, valid_to, current, op, first, last = service
    start = "" if work.base is None else work.base.position
    keys = " AND ".join(f"t.{by_place[place]} <=> s.{place}" for place in key_places(shape))
    moments = [f"timestamp_micros(s.{name} div 1000)" for name in (staged_rows.TIME, staged_rows.UNTIL_TIME)]
    values = [*(f"s.{place}" for place in places), *moments, "s.until IS NULL", "s.op", "s.position", "s.until"]
    return (
        f"MERGE INTO {table} t USING {view} s ON s.effect = '{CLOSE}' AND {keys} AND (CASE WHEN s.again "
        f"THEN t.{last} IS NULL OR t.{last} > '{start}' ELSE t.{current} END) "
        f"WHEN MATCHED AND s.again AND t.{first} > '{start}' THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET t.{valid_to} = {moments[1]}, t.{current} = false, t.{last} = s.until "
        f"WHEN NOT MATCHED AND s.effect <> '{CLOSE}' "
        f"THEN INSERT ({', '.join([*names, valid_from, valid_to, current, op, first, last])}) VALUES ({', '.join(values)})"
    )
