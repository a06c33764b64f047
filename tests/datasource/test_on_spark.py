"""`format("changeling")`: what it reads is what `decode` reads, once or as a stream, each record once over crashes and restarts."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import changeling.spark
from changeling.spark.rows_and_rejects import REJECT
from tests.brokers.broker import Broker
from tests.brokers.topics import Sent, Topics
from tests.log.lakes import event
from tests.spark.inputs import in_order, lines_file


def frame(spark: SparkSession, path: Path, **options: str) -> DataFrame:
    return spark.read.format("changeling").options(format="xtdb", **options).load(str(path))


def test_files_are_read_as_decode_reads_them(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        lines_file(tmp_path / name, "xtdb")
    changes, rejects = (part.toArrow() for part in changeling.spark.decode_files(spark, str(tmp_path), "xtdb"))
    assert rejects.num_rows
    both = frame(spark, tmp_path, rejects="include").toArrow()
    refused = both[REJECT].is_valid()
    assert in_order(both.filter(pc.invert(refused)).drop_columns([REJECT])) == in_order(changes)
    assert in_order(pa.Table.from_pylist(both[REJECT].drop_null().to_pylist(), rejects.schema)) == in_order(rejects)
    with pytest.raises(PySparkException, match=r"a\.jsonl record \d+: .*rejects = skip, only or include"):
        frame(spark, tmp_path).collect()
    with pytest.raises(PySparkException, match="there is no such file"):
        frame(spark, tmp_path / "none.jsonl").collect()
    # By hand it is registered as well: where Spark's Python does not find it by itself.
    changeling.spark.register(spark)
    assert frame(spark, tmp_path, rejects="skip").count() == changes.num_rows


class Sink:
    """What a stream delivered, by batch; fails on demand, after it was given a batch."""

    def __init__(self) -> None:
        self.batches: dict[int, pa.Table] = {}
        self.fails = False

    def __call__(self, rows: DataFrame, number: int) -> None:
        found = rows.toArrow()
        if number in self.batches:
            assert found.sort_by("position") == self.batches[number].sort_by("position")
        self.batches[number] = found
        if self.fails:
            raise RuntimeError("the sink is full")

    def column(self, name: str) -> list[list[Any]]:
        """A column of each batch, sorted."""
        return [sorted(batch.column(name).to_pylist()) for _, batch in sorted(self.batches.items())]


def started(stream: DataFrame, sink: Sink, folder: Path) -> StreamingQuery:
    return stream.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder / "checkpoint")).start()


def drained(stream: DataFrame, sink: Sink, folder: Path) -> None:
    query = started(stream, sink, folder)
    try:
        query.processAllAvailable()
    finally:
        query.stop()


def test_a_stream_of_files_reads_each_once_in_bounded_batches_over_a_crash(spark: SparkSession, tmp_path: Path) -> None:
    files = tmp_path / "in"
    files.mkdir()

    def write(name: str, *numbers: int) -> None:
        (files / name).write_text("".join(event(number) + "\n" for number in numbers))

    given = {"format": "xtdb", "batch_files": "1", "plans": str(tmp_path / "plans")}
    stream = spark.readStream.format("changeling").options(**given).load(str(files))
    sink = Sink()
    write("b.json", 1, 2)
    write("c.json", 3)
    drained(stream, sink, tmp_path)
    ids = [["id-1", "id-2"], ["id-3"]]
    assert [[key[8:-2] for key in batch] for batch in sink.column("key")] == ids
    # A name before those that were read; the batch fails, and comes again as it was although there is more by then.
    write("a.json", 4)
    sink.fails = True
    with pytest.raises(PySparkException, match="the sink is full"):
        drained(stream, sink, tmp_path)
    write("d.json", 5)
    sink.fails = False
    drained(stream, sink, tmp_path)
    assert [[key[8:-2] for key in batch] for batch in sink.column("key")] == [*ids, ["id-4"], ["id-5"]]
    ordinals = [
        origin["ordinal"] for _, batch in sorted(sink.batches.items()) for origin in batch["origin"].to_pylist()
    ]
    assert ordinals == [0, 0, 1, 2, 3]
    # Without its plans the checkpoint means nothing: that is said, and nothing is read.
    (tmp_path / "plans").unlink()
    with pytest.raises(PySparkException, match="they do not belong together"):
        drained(stream, sink, tmp_path)
    assert len(sink.batches) == 4


def by_offset(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: (row["origin"]["partition"], row["origin"]["offset"]))


def test_topics_are_read_as_sparks_connector_reads_them(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topics = Topics(broker)
    topics.make("datasource.users", 2)
    for number in range(1, 7):
        topics.send("datasource.users", event(number).encode(), partition=number % 2)
    topics.send_all([Sent("datasource.users", 0, -1, b"no event", b"key", (("trace", b"1"), ("empty", None)))])
    kafka = {"format": "xtdb", "servers": broker.servers, "topics": "datasource.*"}
    read = spark.read.format("changeling").options(**kafka, rejects="include").load().toArrow()
    (refused,) = read[REJECT].drop_null().to_pylist()
    assert (refused["raw"], refused["key"], refused["headers"]) == (
        b"no event",
        b"key",
        [{"name": "trace", "value": b"1"}, {"name": "empty", "value": None}],
    )
    given = {**kafka, "rejects": "skip", "batch_records": "3", "plans": str(tmp_path / "plans")}
    stream = spark.readStream.format("changeling").options(**given).load()
    sink = Sink()
    drained(stream, sink, tmp_path)
    topics.send("datasource.users", event(7).encode(), event(8).encode(), partition=1)
    drained(stream, sink, tmp_path)
    assert max(batch.num_rows for batch in sink.batches.values()) <= 3
    connector = {"kafka.bootstrap.servers": broker.servers, "subscribe": "datasource.users", "includeHeaders": "true"}
    expected = changeling.spark.decode(spark.read.format("kafka").options(**connector).load(), "xtdb").changes.toArrow()
    streamed = pa.concat_tables(sink.batches.values())
    assert by_offset(streamed) == by_offset(expected)
    assert by_offset(read.filter(read[REJECT].is_null()).drop_columns([REJECT])) == by_offset(expected)[:6]
