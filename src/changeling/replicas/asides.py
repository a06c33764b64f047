"""What replicas cannot hold, kept beside them: it goes when its row is written anew, and stays when it is not."""

from collections.abc import Sequence
from datetime import UTC, datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from changeling.log.files import Target, Written
from changeling.log.lake import Lake
from changeling.log.layout import ASIDES
from changeling.replicas import staged
from changeling.replicas.effect import Effect
from changeling.replicas.reading import Identity

_VIEW = "changeling_staged_keys"


class Asides:
    """The table `asides` of a pipeline."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def target(self) -> Target:
        """Where files of it go."""
        return self._lake.target(ASIDES, datetime.now(UTC))

    def take(
        self,
        identity: Identity,
        point: int,
        rows: DataFrame | None,
        names: Sequence[str],
        files: Sequence[Written],
        *,
        any_before: bool,
    ) -> None:
        """Takes what a fold kept aside, and lets go of what it wrote anew: all of the table's without `rows`.

        `names` are the table's columns in their places. It may be done twice.
        """
        if any_before:
            self._let_go(identity, point, rows, names)
        if files:
            self._lake.append(ASIDES, files, datetime.now(UTC))

    def _let_go(self, identity: Identity, point: int, rows: DataFrame | None, names: Sequence[str]) -> None:
        own = _of(identity)
        if rows is None:
            self._lake.retried(f"DELETE FROM {self._lake.name(ASIDES)} AS a WHERE {own}")
            return
        told = f.transform(
            f.filter(f.arrays_zip(f.array(*(f.lit(name) for name in names)), staged.TOLD), lambda one: one["1"]),
            lambda one: one["0"],
        )
        told = f.when(f.col(staged.TOLD).isNull(), f.array().cast("array<string>")).otherwise(told)
        wanted = rows.where(f.col(staged.EFFECT) != Effect.TOUCH.value).select(
            f.col(staged.KEY).alias("row"), f.col(staged.EFFECT).alias("effect"), told.alias("told")
        )
        wanted.createOrReplaceTempView(_VIEW)
        self._lake.retried(
            f"MERGE INTO {self._lake.name(ASIDES)} a USING {_VIEW} s ON a.row = s.row AND {own} AND (a.point >= {point} "
            "OR s.effect <> 'patch' OR (a.column IS NOT NULL AND array_contains(s.told, a.column))) "
            "WHEN MATCHED THEN DELETE"
        )
        self._lake.spark.catalog.dropTempView(_VIEW)

    def mark_stale(
        self, identity: Identity, point: int, rows: DataFrame, base: DataFrame, on_keys: Sequence[str]
    ) -> int:
        """Marks rows that were touched, where there is a stored one; tells how many."""
        below = base.select(*(f.col(name).alias(f"t{name}") for name in on_keys)).distinct()
        on = f.lit(True)
        for place, name in enumerate(on_keys):
            on = on & f.col(staged.base_name(place)).eqNullSafe(f.col(f"t{name}"))
        found = (
            rows.where(f.col(staged.STALE) == "stored").join(below, on, "left_semi").select(staged.KEY, staged.POSITION)
        )
        marks = found.select(
            f.lit(identity.source).alias("source"),
            _table(identity).alias("table"),
            f.col(staged.KEY).alias("row"),
            f.col(staged.KEY).alias("key"),
            *(f.lit(None).cast("string").alias(name) for name in ("column", "value", "encoding")),
            f.lit("a change touched the row and did not tell its values").alias("reason"),
            f.col(staged.POSITION).alias("position"),
            f.lit(point).cast("bigint").alias("point"),
        ).localCheckpoint()
        count = marks.count()
        if count:
            marks.writeTo(self._lake.name(ASIDES)).append()
        return count


def _table(identity: Identity) -> "f.Column":  # type: ignore[name-defined]
    table = identity.table
    return f.struct(
        f.lit(table.catalog).cast("string").alias("catalog"),
        f.lit(table.schema).cast("string").alias("schema"),
        f.lit(table.name).alias("name"),
    )


def _of(identity: Identity) -> str:
    table = identity.table
    parts = [
        ("source", identity.source),
        ("table.catalog", table.catalog),
        ("table.schema", table.schema),
        ("table.name", table.name),
    ]
    return " AND ".join(f"a.{name} {'IS NULL' if value is None else f'= {_text(value)}'}" for name, value in parts)


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
