"""Quarantine: values that replicas cannot store. An entry is removed when its row is written again, and stays otherwise."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from changeling.iceberg.lake import Lake
from changeling.iceberg.parquet_files import Target, Written
from changeling.log.layout import QUARANTINE
from changeling.replicas import staged_rows
from changeling.replicas.replica_reader import Identity

_VIEW = "changeling_asides"


class Quarantine:
    """The table `asides` of a pipeline."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def target(self) -> Target:
        """Where its files are written."""
        return self._lake.target(QUARANTINE, datetime.now(UTC))

    def take(
        self,
        identity: Identity,
        point: int,
        rows: Callable[[], DataFrame] | None,
        names: Sequence[str],
        files: Sequence[Written],
        *,
        any_before: bool,
    ) -> None:
        """Adds what a fold quarantined, and removes the entries of rows that it wrote again: all of the table's without `rows`.

        `names` are the table's columns in their places. It may be done twice.
        """
        if any_before:
            self._let_go(identity, point, None if rows is None else rows(), names)
        if files:
            self._lake.append(QUARANTINE, files, datetime.now(UTC))

    def forget(self, after: int) -> None:
        """Removes what interrupted merges quarantined: no replica is past this point."""
        if self._lake.size(QUARANTINE).files:
            self._lake.retried(f"DELETE FROM {self._lake.name(QUARANTINE)} WHERE point > {after}")

    def _let_go(self, identity: Identity, point: int, rows: DataFrame | None, names: Sequence[str]) -> None:
        own = _of(identity)
        if rows is None:
            self._lake.retried(f"DELETE FROM {self._lake.name(QUARANTINE)} AS a WHERE {own}")
            return
        columns = f.array(*(f.lit(name) for name in names))
        mentioned = f.filter(columns, lambda name, place: f.get(staged_rows.MENTIONED, place))
        mentioned = f.when(f.col(staged_rows.MENTIONED).isNull(), f.array().cast("array<string>")).otherwise(mentioned)
        # A row that moved here is not the row whose mark is there.
        stale = f.coalesce(f.col(staged_rows.STALE) | f.col(staged_rows.NEEDS_BASE), f.lit(False)).alias(
            staged_rows.STALE
        )
        wanted = rows.select(
            f.col(staged_rows.KEY).alias("row"), f.col(staged_rows.EFFECT), stale, mentioned.alias("mentioned")
        )
        self._merge(
            wanted,
            # A stale row has one mark; the fold reports it again where it is still stale.
            f"a.row = s.row AND {own} AND (a.point >= {point} OR s.effect NOT IN ('patch', 'touch') "
            "OR (s.effect = 'patch' AND a.column IS NOT NULL AND array_contains(s.mentioned, a.column)) "
            "OR (s.stale AND a.column IS NULL AND a.value IS NULL))",
            "WHEN MATCHED THEN DELETE",
        )

    def _merge(self, rows: DataFrame, on: str, actions: str) -> None:
        rows.createOrReplaceTempView(_VIEW)
        try:
            self._lake.retried(f"MERGE INTO {self._lake.name(QUARANTINE)} a USING {_VIEW} s ON {on} {actions}")
        finally:
            self._lake.spark.catalog.dropTempView(_VIEW)


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
