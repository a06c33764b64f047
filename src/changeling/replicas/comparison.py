"""Whether two states of a table are the same, row for row; what differs is found by comparing sums of hashes first."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from changeling.iceberg.lake import quoted
from changeling.model import json_text
from changeling.replicas.as_of import State
from changeling.replicas.json_output import json_column
from changeling.replicas.shape import Shape
from changeling.replicas.spark_replacement import same
from changeling.replicas.stored_types import sql_type

_RANGES = 256
"""Parts of all keys whose sums are compared before their rows are."""


@dataclass(frozen=True)
class Difference:
    """A row that is not the same on both sides, as JSON texts; None where a side does not have it."""

    key: bytes | None
    source: bytes | None
    replica: bytes | None


@dataclass(frozen=True)
class Compared:
    """The result of a comparison."""

    rows: int
    """Of the source."""
    different: int
    differences: list[Difference]
    """The first of them."""


def compare(source: State[DataFrame], replica: State[DataFrame], most: int) -> Compared:
    """The rows in which two states differ; columns go by their names, and one that a side lacks is NULL there."""
    shape = source.shape
    left, right = _aligned(source, shape), _aligned(replica, shape)
    keys = [f"c{place}" for place, column in enumerate(shape.columns) if column.id in shape.key]
    if not keys:
        left, right = _counted(left, shape), _counted(right, shape)
        keys = _names(shape)
    sums = _sums(left, keys).alias("l").join(_sums(right, keys).alias("r"), "part", "full")
    differing = sums.where(~(f.col("l.sum").eqNullSafe(f.col("r.sum")) & f.col("l.count").eqNullSafe(f.col("r.count"))))
    found = sums.agg(f.sum("l.count")).first()
    rows = 0 if found is None else found[0] or 0
    parts = [row.part for row in differing.select("part").collect()]
    if not parts:
        return Compared(rows, 0, [])
    pairs = _pairs(left.where(_part(keys).isin(parts)), right.where(_part(keys).isin(parts)), keys).cache()
    try:
        table = pairs.limit(most).toArrow()
        return Compared(rows, pairs.count(), list(_differences(table, shape)))
    finally:
        pairs.unpersist()


def _names(shape: Shape) -> list[str]:
    return [f"c{place}" for place in range(len(shape.columns))]


def _aligned(state: State[DataFrame], shape: Shape) -> DataFrame:
    """Rows with the columns of a shape, and the number of copies of each."""
    there = {column.name: column for column in state.shape.columns}
    values: list[Column] = []
    for place, column in enumerate(shape.columns):
        kind = sql_type(column.kind)
        own = there.get(column.name)
        value = f.lit(None) if own is None else f.col(quoted(column.name))
        values.append(
            (value if own is not None and sql_type(own.kind) == kind else value.cast(kind)).alias(f"c{place}")
        )
    return state.rows.select(*values, f.lit(1).cast("long").alias("times"))


def _counted(rows: DataFrame, shape: Shape) -> DataFrame:
    return rows.groupBy(*_names(shape)).agg(f.count("*").alias("times"))


def _part(keys: list[str]) -> Column:
    return f.pmod(f.xxhash64(*keys), f.lit(_RANGES))


def _sums(rows: DataFrame, keys: list[str]) -> DataFrame:
    hashed = rows.select(_part(keys).alias("part"), f.xxhash64(*rows.columns).alias("hash"), "times")
    # A sum that cannot overflow: that of the hashes' lower halves, together with their exclusive or.
    lower = f.sum(f.col("hash").bitwiseAND(f.lit(0xFFFFFFFF)))
    return hashed.groupBy("part").agg(
        f.concat_ws(",", f.bit_xor("hash").cast("string"), lower.cast("string")).alias("sum"),
        f.sum("times").alias("count"),
    )


def _pairs(left: DataFrame, right: DataFrame, keys: list[str]) -> DataFrame:
    def packed(rows: DataFrame, side: str) -> DataFrame:
        return rows.select(f.struct(*rows.columns).alias(side), *(f.col(name).alias(f"{side}_{name}") for name in keys))

    on = same([(f.col(f"l_{name}"), f.col(f"r_{name}")) for name in keys])
    joined = packed(left, "l").join(packed(right, "r"), on, "full").where(~f.col("l").eqNullSafe(f.col("r")))
    # Not as structs: their non-nullable fields would not be NULL where a side has no row.
    return joined.select(
        *(f.col(f"{side}.{name}").alias(f"{side}_{name}") for side in ("l", "r") for name in left.columns),
        *(f.col(side).isNull().alias(f"{side}_missing") for side in ("l", "r")),
    )


def _differences(pairs: pa.Table, shape: Shape) -> Iterator[Difference]:
    sides = [_texts(pairs, side, shape) for side in ("l", "r")]
    key = [column.name for column in shape.key_columns]
    for source, replica in zip(*sides, strict=True):
        known = source or replica
        whole = None if known is None or not key else json_text.members(known.decode())
        found = None if whole is None else json_text.join((name, whole[name]) for name in key)
        yield Difference(found, source, replica)


def _texts(pairs: pa.Table, side: str, shape: Shape) -> list[bytes | None]:
    """The rows of a side as JSON; one without a key has the number of its copies."""
    names = [column.name for column in shape.columns]
    columns = [json_column(pairs.column(f"{side}_c{place}"), column.kind) for place, column in enumerate(shape.columns)]
    missing, times = (pairs.column(f"{side}_{name}").to_pylist() for name in ("missing", "times"))
    made: list[bytes | None] = []
    for place, row in enumerate(zip(*columns, strict=True)):
        members = list(zip(names, row, strict=True))
        if not shape.key and not missing[place] and times[place] != 1:
            members.append(("times", b"%d" % times[place]))
        made.append(None if missing[place] else json_text.join(members))
    return made
