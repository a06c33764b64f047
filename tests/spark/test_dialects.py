"""What Spark's tasks give is what the call on Arrow tables gives, for every format."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import changeling
import changeling.spark
from changeling.formats import registry
from changeling.model import arrow_layouts
from changeling.model.errors import UsageError
from changeling.spark import adapter, rows_and_rejects
from tests.spark.inputs import groups, in_order, records, union

XTDB = '{"before":null,"after":"{\\"_id\\":%d}","source":{"table":"t","tx_id":%d},"op":"c","ts_ms":null,"transaction":null}'


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    return spark.createDataFrame(table).repartition(2)


def concatenated(tables: list[pa.Table]) -> list[dict[str, Any]]:
    return in_order(pa.concat_tables(tables))


@pytest.mark.parametrize("name", registry.names())
def test_decode_and_encode_equal_the_calls_on_arrow(spark: SparkSession, name: str) -> None:
    given = [(options, records(rows, at)) for at, (options, rows) in enumerate(groups(name))]
    expected = [changeling.decode(table, name, **options) for options, table in given]
    frames = [changeling.spark.decode_both(frame_of(spark, table), name, **options) for options, table in given]
    found = union(frames).toArrow()
    is_row = pc.is_null(found[rows_and_rejects.REJECT])
    changes = found.filter(is_row).drop([rows_and_rejects.REJECT])
    assert changes.schema == arrow_layouts.CHANGES
    assert in_order(changes) == concatenated([part for part, _ in expected])
    rejects = found.filter(pc.invert(is_row))[rows_and_rejects.REJECT].to_pylist()
    assert rejects
    assert in_order(pa.Table.from_pylist(rejects, arrow_layouts.REJECTS)) == concatenated(
        [part for _, part in expected]
    )

    # One partition, in order: numbers run as they do in the call on Arrow.
    whole = pa.concat_tables([part for part, _ in expected]).combine_chunks()
    expected_records, expected_rejects = changeling.encode(whole, name, drop="all")
    written = changeling.spark.encode_both(spark.createDataFrame(whole).coalesce(1), name, drop="all").toArrow()
    is_row = pc.is_null(written[rows_and_rejects.REJECT])
    assert written.schema.names == [*arrow_layouts.RECORDS.names, rows_and_rejects.REJECT]
    assert written.filter(is_row).drop([rows_and_rejects.REJECT]).to_pylist() == expected_records.to_pylist()
    assert written.filter(pc.invert(is_row))[rows_and_rejects.REJECT].to_pylist() == expected_rejects.to_pylist()


def test_changes_and_rejects_are_frames_of_their_own(spark: SparkSession) -> None:
    options, rows = groups("xtdb")[0]
    table = records(rows, 0)
    found = [part.toArrow() for part in changeling.spark.decode(frame_of(spark, table), "xtdb", **options)]
    assert [part.schema for part in found] == [arrow_layouts.CHANGES, arrow_layouts.REJECTS]
    assert [in_order(part) for part in found] == [
        in_order(part) for part in changeling.decode(table, "xtdb", **options)
    ]


def test_what_has_no_place_is_in_the_rejects_of_encode(spark: SparkSession) -> None:
    changes, _ = changeling.decode([XTDB % (1, 1)], "xtdb")
    changes = changes.set_column(2, arrow_layouts.CHANGES.field("op"), pa.array(["truncate"]))
    written, refused = changeling.encode(changes, "ydb-json")
    assert written.num_rows == 0
    records_found, rejects = changeling.spark.encode(spark.createDataFrame(changes), "ydb-json")
    assert records_found.count() == 0
    assert rejects.toArrow().to_pylist() == refused.to_pylist()
    assert refused["feature"][0].as_py() is not None


def test_both_in_one_pass_come_apart_again(spark: SparkSession) -> None:
    options, rows = groups("xtdb")[0]
    table = records(rows, 0)
    changes, rejects = changeling.decode(table, "xtdb", **options)
    both = changeling.spark.decode_both(frame_of(spark, table), "xtdb", **options)
    found = [part.toArrow() for part in rows_and_rejects.split(both)]
    assert in_order(found[0]) == in_order(changes)
    assert in_order(found[1]) == in_order(rejects)
    assert both.count() == changes.num_rows + rejects.num_rows


def test_a_frame_from_kafka_is_taken_as_it_is(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [
            (b"1", XTDB.replace('"table":"t",', "").encode() % (1, 1), "xtdb.cdc.t", 2, 70, [("a", b"x")]),
            (b"k", b"nothing", "xtdb.cdc.t", 0, 3, None),
        ],
        "key binary, value binary, topic string, partition int, offset long, headers array<struct<key string, value binary>>",
    ).withColumn("timestamp", f.current_timestamp())
    changes, rejects = (part.toArrow().to_pylist() for part in changeling.spark.decode(frame, "xtdb"))
    assert changes[0]["table"]["name"] == "t"
    place = {"file": None, "ordinal": None, "record": None, "topic": "xtdb.cdc.t"}
    assert changes[0]["origin"] == {**place, "partition": 2, "offset": 70}
    assert rejects[0]["origin"] == {**place, "partition": 0, "offset": 3}
    assert rejects[0]["key"] == b"k"


def test_kafka_headers_are_kept_with_a_reject(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [("?", [("a", b"x")])], "value string, headers array<struct<key string, value binary>>"
    )
    rejects = changeling.spark.decode(frame, "xtdb").rejects.toArrow().to_pylist()
    assert rejects[0]["headers"] == [{"name": "a", "value": b"x"}]


def test_texts_without_origins_get_partition_and_row(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(XTDB % (n, n),) for n in range(40)], "value string").repartition(2)
    origins = [row.origin for row in changeling.spark.decode(frame, "xtdb").changes.select("origin").collect()]
    places = sorted((origin.ordinal, origin.record) for origin in origins)
    counts = [sum(ordinal == partition for ordinal, _ in places) for partition in (0, 1)]
    assert places == [(partition, row) for partition in (0, 1) for row in range(counts[partition])]


def test_the_kernel_runs_in_the_tasks(spark: SparkSession) -> None:
    pids = pa.schema([("pid", pa.int64())])

    def kernel(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch([pa.array([os.getpid()] * batch.num_rows, pa.int64())], schema=pids)

    found = {row.pid for row in adapter.run(spark.range(0, 20, 1, 2), kernel, pids).collect()}
    assert found
    assert os.getpid() not in found


def test_large_types_and_stricter_nullability_are_cast_to_the_layout(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    try:
        frame = spark.range(1, 3).select(f.format_string(XTDB.replace("%d", "%s"), "id", "id").alias("value"))
        assert not changeling.spark.decode(frame, "xtdb").rejects.toArrow().num_rows
        made = changeling.spark.decode(frame, "xtdb").changes
        assert made.count() == 2
        assert changeling.spark.encode(made.withColumn("op", f.lit("insert")), "xtdb").records.count() == 2
    finally:
        spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")


def test_numbers_that_the_frame_brings_are_used(spark: SparkSession) -> None:
    rows = [XTDB.replace('"op":"c"', f'"op":"{op}"') % (n, n) for n, op in enumerate("cucr", 1)]
    changes, _ = changeling.decode(rows, "xtdb")
    expected, _ = changeling.encode(changes, "arcion-json", drop="all")
    operations = changes["op"].to_pylist()
    numbers = list(range(1, len(rows) + 1))
    counts = [
        {"insert": sum(op != "update" for op in seen), "update": seen.count("update"), "delete": 0, "replace": 0}
        for seen in (operations[:number] for number in numbers)
    ]
    kind = pa.struct([(name, pa.int64()) for name in ("insert", "update", "delete", "replace")])
    numbered = changes.append_column("number", pa.array(numbers)).append_column("counts", pa.array(counts, kind))
    shuffled = spark.createDataFrame(numbered.take([2, 0, 3, 1])).repartition(2)
    found = changeling.spark.encode(shuffled, "arcion-json", drop="all").records.toArrow()
    assert in_order(found) == in_order(expected)


def test_places_in_transactions_that_the_frame_brings_are_used(spark: SparkSession) -> None:
    """Three changes of one transaction and one of another, in any order and any partition: one numbering for all of them."""
    rows = [f'{{"key":[{n}],"update":{{}},"newImage":{{"v":{n}}},"ts":[5,{tx}]}}' for n, tx in enumerate([7, 7, 7, 8])]
    changes, _ = changeling.decode(rows, "ydb-json", table="t", key="id")
    expected, _ = changeling.encode(changes, "xtdb", drop="all")
    kind = pa.struct([(name, pa.int64()) for name in ("ordinal", "events", "moved")])
    standings = [{"ordinal": 1, "events": events, "moved": 0} for events in range(3)]
    standings.append({"ordinal": 2, "events": 0, "moved": 0})
    placed = changes.append_column("standing", pa.array(standings, kind))
    shuffled = spark.createDataFrame(placed.take([2, 0, 3, 1])).repartition(2)
    found = changeling.spark.encode(shuffled, "xtdb", drop="all").records.toArrow()
    assert in_order(found) == in_order(expected)


def test_a_wrong_call_is_refused_before_any_task_starts(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("x",)], "value string")
    with pytest.raises(UsageError, match="did you mean 'xtdb'"):
        changeling.spark.decode(frame, "xtdbb")
    with pytest.raises(UsageError, match="topic_prefix"):
        changeling.spark.decode(frame, "xtdb", topic_prefx="x")
    with pytest.raises(UsageError, match="'value'"):
        changeling.spark.decode(frame.withColumnRenamed("value", "text"), "xtdb")
    with pytest.raises(UsageError, match="must be text or bytes"):
        changeling.spark.decode(spark.range(1).withColumnRenamed("id", "value"), "xtdb")
    with pytest.raises(UsageError, match="'op'"):
        changeling.spark.encode(frame, "xtdb")


def test_a_stream_gives_the_same(spark: SparkSession, tmp_path: Path) -> None:
    rows = [XTDB % (number, number) for number in range(50)]
    rows[17] = "broken"
    for at in range(0, 50, 10):
        (tmp_path / f"part-{at}.txt").write_text("\n".join(rows[at : at + 10]))
    stream = spark.readStream.option("maxFilesPerTrigger", 2).text(str(tmp_path))
    changes: list[pa.Table] = []
    rejects: list[pa.Table] = []

    def keep(frame: DataFrame, batch: int) -> None:
        frame.persist()
        parts = rows_and_rejects.split(frame)
        changes.append(parts[0].toArrow())
        rejects.append(parts[1].toArrow())
        frame.unpersist()

    both = changeling.spark.decode_both(stream, "xtdb")
    query = both.writeStream.trigger(availableNow=True).foreachBatch(keep)
    query.option("checkpointLocation", str(tmp_path / "_checkpoint")).start().awaitTermination()
    expected, refused = changeling.decode(rows, "xtdb")
    assert len(changes) == 3

    def without_origins(tables: list[pa.Table]) -> list[dict[str, Any]]:
        # Origins are those inside one micro-batch.
        return sorted(pa.concat_tables(tables).drop(["origin"]).to_pylist(), key=str)

    assert without_origins(changes) == without_origins([expected])
    assert without_origins(rejects) == without_origins([refused])


def test_streams_of_changes_are_encoded(spark: SparkSession, tmp_path: Path) -> None:
    changes, _ = changeling.decode([XTDB % (number, number) for number in range(9)], "xtdb")
    spark.createDataFrame(changes).write.parquet(str(tmp_path / "changes"))
    stream = spark.readStream.schema(adapter.spark_schema(arrow_layouts.CHANGES)).parquet(str(tmp_path / "changes"))
    query = changeling.spark.encode(stream, "xtdb").records.writeStream.format("memory").queryName("written")
    query.trigger(availableNow=True).option("checkpointLocation", str(tmp_path / "point")).start().awaitTermination()
    expected, _ = changeling.encode(changes, "xtdb")
    assert in_order(spark.table("written").toArrow()) == in_order(expected)
