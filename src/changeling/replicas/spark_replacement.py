"""Replaces stored rows by the result of a fold on Spark: rows with partial images are completed, and all become one state.

`row_replacement.py` and `state_rows.py` do the same in Arrow.

Columns go by their places here (`c0`, `c1`, …), since their names may be anything.
"""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from changeling.iceberg.lake import quoted
from changeling.iceberg.parquet_files import WrittenFile
from changeling.replicas import staged_rows
from changeling.replicas.row_effect import Effect
from changeling.replicas.shape import ReplicaColumn, Shape
from changeling.replicas.stored_types import sql_type
from changeling.replicas.type_widening import converted, plainly_converted

INSERT = "insert"
"""One more row without a key."""


def staged_frame(spark: SparkSession, files: Sequence[WrittenFile]) -> DataFrame:
    """The staged rows of a fold."""
    return spark.read.parquet(*(written.path for written in files))


def placed(rows: DataFrame, stored: Shape, wanted: Shape) -> DataFrame:
    """Stored rows, with the columns of one shape, in the places and types of another."""
    values = placed_columns(stored, wanted)
    return rows.select(*(value.alias(staged_rows.column_name(place)) for place, value in enumerate(values)))


def placed_columns(stored: Shape, wanted: Shape) -> list[Column]:
    """The columns of one shape, given rows that have those of another."""
    known = {column.id: column for column in stored.columns}
    return [_as(known.get(column.id), column, in_key=column.id in wanted.key) for column in wanted.columns]


def _as(stored: ReplicaColumn | None, wanted: ReplicaColumn, *, in_key: bool) -> Column:
    if stored is None:
        return f.lit(None).cast(sql_type(wanted.kind))
    convert = plainly_converted if in_key or not wanted.is_declared else converted
    return convert(f.col(quoted(stored.name)), stored.kind, wanted.kind)


def columns(shape: Shape) -> list[str]:
    """The places of a shape's columns."""
    return [staged_rows.column_name(place) for place in range(len(shape.columns))]


def key_places(shape: Shape) -> list[str]:
    """The places of the key."""
    ids = [column.id for column in shape.columns]
    return [staged_rows.column_name(ids.index(number)) for number in shape.key]


def same(pairs: Sequence[tuple[Column, Column]]) -> Column:
    """Equal in all of these; NULL equals NULL."""
    return reduce(lambda one, other: one & other, (left.eqNullSafe(right) for left, right in pairs), f.lit(True))


def completed(rows: DataFrame, base: DataFrame | None, shape: Shape, service: Sequence[str] = ()) -> DataFrame:
    """Rows of a table with a key as they are now: complete, or removed. Rows that were only touched are unchanged.

    `service` names the other columns that are wanted.
    """
    names, effect, whole = (
        columns(shape),
        f.col(staged_rows.EFFECT),
        f.lit(Effect.REPLACE.value).alias(staged_rows.EFFECT),
    )
    patched = effect == Effect.PATCH.value
    if base is None:
        written = f.when(patched, Effect.REPLACE.value).otherwise(effect).alias(staged_rows.EFFECT)
        return rows.where(effect != Effect.TOUCH.value).select(*names, written, *service)
    plain = rows.where(~effect.isin(Effect.PATCH.value, Effect.TOUCH.value)).select(*names, effect, *service)
    below = base.select(*(f.col(name).alias(f"t{name}") for name in names))
    keys = key_places(shape)
    on = same([(f.col(staged_rows.stored_key_name(place)), f.col(f"t{name}")) for place, name in enumerate(keys)])
    filled = [
        f.col(name)
        if name in keys
        else f.when(f.element_at(staged_rows.MENTIONED, place + 1), f.col(name))
        .otherwise(f.col(f"t{name}"))
        .alias(name)
        for place, name in enumerate(names)
    ]
    return plain.unionByName(rows.where(patched).join(below, on, "left").select(*filled, whole, *service))


def recounted(rows: DataFrame, base: DataFrame | None, shape: Shape) -> DataFrame:
    """Rows without a key: all copies of a row are removed, and as many are added as there are now."""
    names = columns(shape)
    changed = rows.groupBy(*names).agg(f.sum(staged_rows.COUNT).alias(staged_rows.COUNT))
    now = f.col(staged_rows.COUNT)
    if base is not None:
        below = base.groupBy(*(f.col(name).alias(f"t{name}") for name in names)).agg(f.count("*").alias("stored"))
        on = same([(f.col(name), f.col(f"t{name}")) for name in names])
        changed = changed.join(below, on, "left")
        now = now + f.coalesce(f.col("stored"), f.lit(0))
    counted = changed.select(*names, now.alias("now"))
    going = counted.select(*names, f.lit(Effect.DELETE.value).alias(staged_rows.EFFECT))
    coming = counted.where("now > 0").select(
        *names,
        f.explode(f.sequence(f.lit(1), f.col("now").cast("int"))).alias("copy"),
        f.lit(INSERT).alias(staged_rows.EFFECT),
    )
    return going.unionByName(coming.drop("copy"))


def together(base: DataFrame | None, now: DataFrame, shape: Shape) -> DataFrame:
    """A complete state: unchanged stored rows, and the rows that `completed` or `recounted` returned."""
    names = columns(shape)
    coming = now.where(f.col(staged_rows.EFFECT) != Effect.DELETE.value).select(*names)
    if base is None:
        return coming
    keys = key_places(shape) or names
    changed = now.select(*(f.col(name).alias(f"n{name}") for name in keys)).distinct()
    on = same([(f.col(name), f.col(f"n{name}")) for name in keys])
    return base.join(changed, on, "left_anti").unionByName(coming)


def named(rows: DataFrame, shape: Shape) -> DataFrame:
    """The columns under their own names."""
    return rows.select(
        *(f.col(staged_rows.column_name(place)).alias(column.name) for place, column in enumerate(shape.columns))
    )
