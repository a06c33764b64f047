"""Row events reach the tasks that fold them whole, in order, and those of a group together."""

import random
from collections.abc import Iterable, Iterator
from itertools import pairwise

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from changeling.replicas import event_bundles
from changeling.replicas.event_bundles import BUNDLES, Bundling, Unbundling
from changeling.replicas.row_events import ROW_EVENTS, sorted_events
from changeling.replicas.spark_changes import BUCKET_BYTES, buckets_of


def events_of(made: random.Random, table: int, count: int) -> pa.RecordBatch:
    rows = []
    for record in range(count):
        group = f"[{made.randrange(9)}]"
        values = made.choice([None, "{}", "ä" * made.randrange(50)])
        position = f"{made.randrange(5)}"
        rows.append(
            {"table": table, "group": group, "key": group, "position": position, "values": values, "record": record}
        )
    return pa.RecordBatch.from_pylist(rows, ROW_EVENTS)


def same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return iter(batches)


@pytest.mark.parametrize("buckets", [1, 3, 40])
@pytest.mark.parametrize("most", [100, 16 * 1024 * 1024])
@pytest.mark.parametrize("many", [1, 2**30])
def test_events_come_back_in_order(buckets: int, most: int, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_bundles, "MAX_BYTES", most)
    monkeypatch.setattr(event_bundles, "_MANY_BYTES", many)
    made = random.Random(buckets)
    given = [events_of(made, table, made.randrange(60)) for table in (-1, 0, 1, 2, 0, 1, 2)]
    bundles = pa.Table.from_batches(list(Bundling(same, buckets, frozenset({2}))(given)), BUNDLES)
    assert {row["bucket"] for row in bundles.to_pylist() if row["table"] == 2} == {0}
    places = bundles.select(["table", "bucket"]).to_pylist()
    tasks = [
        bundles.take([row for row, place in enumerate(places) if hash((place["table"], place["bucket"])) % 2 == task])
        for task in (0, 1)
    ]
    parts = [
        pa.Table.from_batches(
            [
                batch.cast(ROW_EVENTS)
                for batch in Unbundling(same)(
                    task.sort_by([("table", "ascending"), ("bucket", "ascending")]).to_batches(3)
                )
            ],
            ROW_EVENTS,
        )
        for task in tasks
    ]
    assert sorted_events(pa.concat_tables(parts)) == sorted_events(pa.Table.from_batches(given))
    groups = [{(row["table"], row["group"]) for row in part.to_pylist()} for part in parts]
    assert groups[0].isdisjoint(groups[1])
    for part in parts:
        rows = [(row["table"], row["group"]) for row in part.to_pylist()]
        # No group begins twice, and no table does.
        for met in (rows, [table for table, _ in rows]):
            assert len(dict.fromkeys(met)) == 1 + sum(one != other for one, other in pairwise(met))


def test_buckets_grow_with_the_changes(spark: SparkSession) -> None:
    """A task holds one bucket at a time, so a log of any size must have small ones; what Spark cannot measure gets a fixed number."""
    bytes_a_row = 8
    assert buckets_of(spark.range(10)) == buckets_of(spark.range(1_000_000)) == 64
    assert buckets_of(spark.range(10**12)) == 10**12 * bytes_a_row // BUCKET_BYTES
    unmeasured = spark.range(10).rdd.toDF()
    assert buckets_of(unmeasured) == 64
