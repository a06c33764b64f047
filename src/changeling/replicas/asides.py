"""What replicas cannot hold, kept beside them: it goes when its row is written anew, and stays when it is not."""

from collections.abc import Sequence
from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from changeling.log.files import Target, Written
from changeling.log.lake import Lake
from changeling.log.layout import ASIDES
from changeling.replicas import staged
from changeling.replicas.reading import Identity
from changeling.replicas.staging import STALE

_VIEW = "changeling_asides"


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

    def forget(self, after: int) -> None:
        """Lets go of what merges kept aside that were cut off: no replica is behind this point."""
        if self._lake.size(ASIDES).files:
            self._lake.retried(f"DELETE FROM {self._lake.name(ASIDES)} WHERE point > {after}")

    def _let_go(self, identity: Identity, point: int, rows: DataFrame | None, names: Sequence[str]) -> None:
        own = _of(identity)
        if rows is None:
            self._lake.retried(f"DELETE FROM {self._lake.name(ASIDES)} AS a WHERE {own}")
            return
        columns = f.array(*(f.lit(name) for name in names))
        told = f.filter(columns, lambda name, place: f.get(staged.TOLD, place))
        told = f.when(f.col(staged.TOLD).isNull(), f.array().cast("array<string>")).otherwise(told)
        wanted = rows.select(f.col(staged.KEY).alias("row"), f.col(staged.EFFECT), told.alias("told"))
        self._merge(
            wanted,
            f"a.row = s.row AND {own} AND (a.point >= {point} OR s.effect NOT IN ('patch', 'touch') "
            "OR (s.effect = 'patch' AND a.column IS NOT NULL AND array_contains(s.told, a.column)))",
            "WHEN MATCHED THEN DELETE",
        )

    def mark_stale(
        self, identity: Identity, point: int, rows: DataFrame, base: DataFrame | None, keys: Sequence[tuple[str, str]]
    ) -> None:
        """Marks rows that were touched, where there is a stored one. `keys` are the places of the key's columns, and names."""
        if base is None:
            return
        below = base.select(*(f.col(place).alias(f"t{place}") for place, _ in keys)).distinct()
        on = f.lit(True)
        for place, (name, _) in enumerate(keys):
            on = on & f.col(staged.base_name(place)).eqNullSafe(f.col(f"t{name}"))
        found = rows.where(f.col(staged.STALE) == "stored").join(below, on, "left_semi")
        marks = found.select(
            f.lit(identity.source).alias("source"),
            _table(identity).alias("table"),
            f.col(staged.KEY).alias("row"),
            f.to_json(f.struct(*(f.col(place).alias(name) for place, name in keys))).alias("key"),
            f.lit(STALE).alias("reason"),
            f.col(staged.POSITION).alias("position"),
            f.lit(point).cast("bigint").alias("point"),
        )
        names = ("source", "table", "row", "key", "reason", "position", "point")
        self._merge(
            marks,
            f"a.row = s.row AND {_of(identity)} AND a.column IS NULL AND a.value IS NULL",
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(names)}, column, value, encoding) "
            f"VALUES ({', '.join(f's.{name}' for name in names)}, NULL, NULL, NULL)",
        )

    def _merge(self, rows: DataFrame, on: str, actions: str) -> None:
        rows.createOrReplaceTempView(_VIEW)
        try:
            self._lake.retried(f"MERGE INTO {self._lake.name(ASIDES)} a USING {_VIEW} s ON {on} {actions}")
        finally:
            self._lake.spark.catalog.dropTempView(_VIEW)


def _table(identity: Identity) -> Column:
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
