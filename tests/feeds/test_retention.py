"""Retention of topics, and topics as Spark reads them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import sleep

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from changeling.feeds.retention import expire, expire_snapshots, maintain
from changeling.feeds.topic import COLUMNS, STATE, VERSION, FeedState, Topic, namespace_of, topic_table
from changeling.iceberg.catalog import catalog
from changeling.iceberg.lake import Lake
from changeling.iceberg.parquet_files import Writer
from changeling.iceberg.reader import Tables
from changeling.pipelines.lakehouse import tables_of
from changeling.pipelines.loading import load
from tests.feeds.topics import PIPELINE, feed
from tests.log.lakes import shop
from tests.replicas.shops import SOURCE, item

NOW = datetime.now(UTC)
OLD = NOW - timedelta(hours=2)
PUBLISHED = feed(retention=3600)
TABLE = topic_table(PUBLISHED.name)


def publish(lake: Lake, first: int, times: Sequence[datetime]) -> None:
    """One file with a record of each time, and the state of the feed."""
    topics = lake.in_namespace(namespace_of(PIPELINE))
    writer = Writer(topics.write_spec(TABLE, NOW))
    rows = [
        {"partition": 0, "offset": first + place, "key": b"[1]", "value": b"{}", "published_at": time, "point": first}
        for place, time in enumerate(times)
    ]
    writer.write(pa.RecordBatch.from_pylist(rows, COLUMNS))
    state = FeedState(id=PUBLISHED.id, point=first, offsets=[first + len(times)])
    topics.append(TABLE, writer.close(), NOW, {STATE: msgspec.json.encode(state).decode()})


def offsets(topic: Topic) -> list[int]:
    """All that is stored, expired or not."""
    found: list[int] = topic.records(0, 0, 100, expired=True)["offset"].to_pylist()
    return found


def test_what_has_expired_goes_away_and_offsets_go_on(spark: SparkSession, tmp_path: Path) -> None:
    place = catalog(str(tmp_path / "lake"), tmp_path, {})
    lake = Lake(spark, place, PIPELINE)
    topics, topic = lake.in_namespace(namespace_of(PIPELINE)), Topic(Tables(place, PIPELINE), PIPELINE, PUBLISHED)
    assert expire(lake, PUBLISHED) == 0
    topics.create([TABLE], VERSION)
    publish(lake, 0, [OLD, OLD])
    publish(lake, 2, [NOW])
    read = lake.spark.read.table(topics.name(TABLE)).orderBy("offset").collect()
    assert [(row.offset, bytes(row.key), row.headers) for row in read] == [(n, b"[1]", None) for n in range(3)]
    assert streamed(lake, tmp_path) == [0, 1, 2]

    assert topic.earliest() == [2]
    assert expire(lake, PUBLISHED) == 1
    assert offsets(topic) == [2]
    publish(lake, 3, [OLD, NOW])
    assert expire(lake, PUBLISHED) == 0
    assert streamed(lake, tmp_path) == [0, 1, 2, 3, 4]
    assert (offsets(topic), topic.records(0, 0, 9)["offset"].to_pylist()) == ([2, 3, 4], [2, 4])

    # A file of both kinds, as compaction makes them, loses what has expired.
    (done,) = maintain(lake, [PUBLISHED])
    assert (done.table, done.files_after, done.files_dropped) == ("shop_feeds.users_feed", 1, 0)
    assert offsets(topic) == [2, 4]
    publish(lake, 5, [NOW])
    assert streamed(lake, tmp_path) == [0, 1, 2, 3, 4, 5]
    assert expire(lake, PUBLISHED, NOW + timedelta(hours=2)) == 2
    expire_snapshots(lake, PUBLISHED, datetime.now(UTC) + timedelta(minutes=1))
    assert offsets(topic) == []
    state = topic.state()
    assert state is not None
    assert (state.offsets, topic.earliest()) == ([6], [6])


def test_a_single_run_drops_what_has_expired(spark: SparkSession, tmp_path: Path) -> None:
    given = {"FORMAT": "JSON", "MODE": "UPDATES", "RETENTION_PERIOD": "PT1S"}
    made = shop(tmp_path, SOURCE, feeds=[{"name": "brief", "table": "users", "with": given}])
    for number in (1, 2):
        made.write(f"{number}.json", item(number, "insert", {"id": number, "name": "a", "n": None}))
        made.pipeline.run(once=True)
        sleep(1.1)
    (published,) = made.pipeline.feeds()
    topic = Topic(tables_of(load(made.file)), PIPELINE, published)
    assert offsets(topic) == [1]
    assert [record.offset for record in made.pipeline.read_feed("brief")] == []


def streamed(lake: Lake, folder: Path) -> list[int]:
    """All offsets that a stream has got so far; it continues where its last run was."""
    stream = (
        lake.spark.readStream.format("iceberg")
        .option("streaming-skip-delete-snapshots", "true")
        .option("streaming-skip-overwrite-snapshots", "true")
        .load(f"lake.{namespace_of(PIPELINE)}.{PUBLISHED.name}")
    )
    writing = stream.select("offset").writeStream.format("parquet").trigger(availableNow=True)
    writing.option("checkpointLocation", str(folder / "place")).start(str(folder / "out")).awaitTermination()
    return sorted(row.offset for row in lake.spark.read.parquet(str(folder / "out")).collect())
