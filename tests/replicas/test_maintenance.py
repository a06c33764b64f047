"""Maintenance of replicas, and which states can be read after retention has passed."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from changeling.iceberg.data_files import OpenFile
from changeling.log import log_tables
from changeling.model.errors import ChangelingError, UsageError
from changeling.pipelines.lakehouse import lake_of
from changeling.pipelines.loading import load
from changeling.replicas.maintenance import chosen, maintain
from changeling.replicas.points import Point, SourcePoint
from changeling.replicas.replacement import Replacement
from changeling.replicas.row_replacement import Scan, StoredSnapshot
from changeling.replicas.shape import ReplicaColumn, Shape
from changeling.replicas.stored_rows import StoredRows
from changeling.replicas.tables import ReplicaTables
from tests.log.lakes import Shop
from tests.replicas.shops import bus, item, moment, replica, then


def run(made: Shop, name: str, *records: str) -> None:
    made.write(f"{name}.json", *records)
    made.pipeline.run(once=True)


def user(number: int, key: int = 1) -> str:
    return item(number, "insert", {"id": key, "name": f"v{number}", "n": number})


def test_replicas_are_kept_compact_and_their_states_stay(spark: SparkSession, tmp_path: Path) -> None:
    made = bus(tmp_path)
    for number in range(1, 7):
        run(made, str(number), user(number), user(number, 10 + number).replace('"txPosition": 0', '"txPosition": 1'))
    before = replica(made)
    lake = lake_of(load(made.file))
    tables = ReplicaTables(lake)
    (known,) = tables.known.values()
    assert tables.lake.size(known.table).deletes > 0
    maintain(lake, timedelta(days=30), keep_snapshots=timedelta(0))
    assert tuple(tables.lake.size(known.table)) == (1, 0)
    assert replica(made) == before
    # Of the points of one hour the last one is kept; earlier states are folded from the log.
    assert then(made, as_of=moment(3)) == [
        {"id": 1, "name": "v3", "n": 3},
        *({"id": 10 + number, "name": f"v{number}", "n": number} for number in (1, 2, 3)),
    ]
    run(made, "7", user(7), user(2, 99).replace('"txPosition": 0', '"txPosition": 2'))
    assert [row["id"] for row in replica(made)] == [1, 11, 12, 13, 14, 15, 16, 99]
    assert then(made, point=6) == before
    _assert_rows_are_looked_up_again(made)


def _assert_rows_are_looked_up_again(made: Shop) -> None:
    """Where maintenance rewrites files after a merge looked its rows up; a new column comes with them."""
    lake = lake_of(load(made.file))
    tables = ReplicaTables(lake)
    (known,) = tables.known.values()
    shape = Shape((*known.shape.columns, ReplicaColumn("more", "more", "string")), known.shape.key)
    before = replica(made)
    looked: list[set[str]] = []

    def found(rows: pa.Table, current: StoredSnapshot) -> tuple[Scan, pa.Table]:
        looked.append({file.path for file in current.files})
        if len(looked) == 1:
            maintain(lake, timedelta(days=30))
        deleted: dict[str, np.ndarray] = {}
        for file in current.files:
            with OpenFile(file) as opened:
                hits = np.flatnonzero(opened.live() & (np.asarray(opened.columns(current.key_columns).column(0)) == 99))
            deleted |= {file.path: hits} if len(hits) else {}
        return Scan(deleted), pa.table([[99], ["new"], pa.array([9], pa.int32()), ["x"]], names=["a", "b", "c", "d"])

    state = msgspec.structs.replace(known.state, shape=shape)
    assert StoredRows(tables).replace(known, Replacement((), shape, found), state).shape == shape
    assert len(looked) == 2
    assert not looked[0] & looked[1]
    rows = [{**row, "more": None} for row in before if row["id"] != 99]
    assert replica(made) == [*rows, {"id": 99, "name": "new", "n": 9, "more": "x"}]


def test_what_is_past_retention_is_refused_and_the_replica_stays(spark: SparkSession, tmp_path: Path) -> None:
    made = bus(tmp_path, retention="1d")
    run(made, "a", user(1), user(2, 2))
    lake = lake_of(load(made.file))
    lake.sql(f"UPDATE {lake.name(log_tables.CHANGES)} SET ingested_at = TIMESTAMP '2001-01-01 00:00:00'")
    made.pipeline.maintain()
    assert made.log() == []
    run(made, "b", item(4, "update", {"id": 1, "n": 44}, {"id": 1}))
    rows = [{"id": 1, "name": "v1", "n": 44}, {"id": 2, "name": "v2", "n": 2}]
    assert replica(made) == rows
    assert then(made, as_of=moment(3)) == [{"id": 1, "name": "v1", "n": 1}, {"id": 2, "name": "v2", "n": 2}]
    with pytest.raises(UsageError, match=f"lies before the earliest state that is kept: {moment(2)}"):
        then(made, as_of=moment(1))
    with pytest.raises(ChangelingError, match="what is past retention cannot be rebuilt"):
        made.pipeline.rebuild("users")
    # It belongs before everything that is kept: the log has it, the replica cannot.
    run(made, "c", item(1, "update", {"id": 2, "n": 0}, {"id": 2}, order=5))
    assert replica(made) == rows
    assert len(made.log()) == 2


def test_the_points_that_are_kept() -> None:
    now = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
    ages = [timedelta(minutes=5), timedelta(minutes=50), timedelta(hours=3, minutes=1), timedelta(hours=3, minutes=2)]
    ages += [timedelta(days=2), timedelta(days=2, minutes=1), timedelta(days=9), timedelta(days=40)]
    points = [
        Point(number, now - age, True, {"s": SourcePoint(number)}, {"t": number})
        for number, age in enumerate(sorted(ages, reverse=True), start=1)
    ]
    kept = chosen(points, now, timedelta(days=30), timedelta(hours=1))
    assert [point.number for point in kept] == [2, 4, 6, 7, 8]
    assert chosen(points[:1], now, timedelta(days=30), timedelta(hours=1)) == points[:1]
