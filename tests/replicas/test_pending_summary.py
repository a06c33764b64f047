"""What is known of new changes is the same in this process and on Spark."""

import random
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from pyspark.sql import SparkSession

from changeling.log import log_tables
from changeling.replicas.pending_summary import FewChanges, ManyChanges

NEEDED = (
    *("source", "table", "op", "position", "key", "schema_id", "transaction", "commit_time", "batch"),
    *("ingested_at", "origin", "arrived"),
)
COLUMNS = pa.schema([log_tables.CHANGES.columns.field(name) for name in NEEDED])
OPS = ("read", "insert", "update", "delete", "truncate", "ddl", "commit", "message")


def changes(seed: int, count: int) -> pa.Table:
    made = random.Random(seed)
    rows = []
    for number in range(count):
        table = made.choice(
            [None, {"catalog": None, "schema": "s", "name": "t"}, {"catalog": "c", "schema": None, "name": "u"}]
        )
        transaction = made.choice(
            [
                None,
                {
                    "id": str(made.randrange(4)),
                    "complete": made.choice([None, False, made.random() < 0.1]),
                    "total": made.choice([None, 1, 3, 200]),
                },
            ]
        )
        topic = made.choice([None, "bus", "other"])
        rows.append(
            {
                "source": made.choice("ab"),
                "table": table,
                "op": made.choice(OPS),
                "position": f"{made.randrange(1000):03d}.{number:03d}",
                "key": made.choice([None, '{"id":1}', '{"id":2}']),
                "schema_id": made.choice([None, 1, 2, 3]),
                "transaction": transaction,
                "commit_time": made.choice([None, made.randrange(10**15)]),
                "batch": made.randrange(1, 5),
                "ingested_at": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=made.randrange(100)),
                "origin": {"topic": topic, "partition": None if topic is None else made.randrange(2)},
                "arrived": made.choice([None, False, True]),
            }
        )
        if number and made.random() < 0.2:
            # Changes of one position are of one transaction, and may have several versions of a schema.
            rows[-1] |= {name: rows[-2][name] for name in ("source", "position", "transaction", "commit_time")}
    return pa.Table.from_pylist(rows, COLUMNS)


def test_the_driver_and_spark_know_the_same(spark: SparkSession) -> None:
    for seed, count in enumerate((0, 1, 40, 300)):
        rows = changes(seed, count)
        few, many = FewChanges(rows), ManyChanges(spark.createDataFrame(rows))
        assert sorted(few.partitions()) == sorted(many.partitions())
        assert sorted(few.open_transactions()) == sorted(many.open_transactions())
        for limits, held in (
            ({"a": None, "b": None}, {"a": None, "b": None}),
            ({"a": "500", "b": None}, {"a": "100", "b": "900"}),
            ({"a": "000", "b": "999.999"}, {"a": None, "b": "500"}),
        ):
            assert sorted(few.tables(limits, held), key=repr) == sorted(many.tables(limits, held), key=repr)
