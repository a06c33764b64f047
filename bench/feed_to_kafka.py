"""A table topic to Kafka, exactly once, compared with Spark's Kafka sink, at least once, writing the same bytes."""

import os
import shutil
import tempfile
from datetime import UTC, datetime
from itertools import count, islice
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from bench.events import events
from bench.measuring import Benchmark, Result, medians
from changeling.feeds.feed import Feed
from changeling.feeds.kafka_cluster import Cluster
from changeling.feeds.kafka_topic import KafkaTopicSettings, KafkaTopicWriter
from changeling.feeds.topic import COLUMNS, STATE, VERSION, FeedState, Topic, namespace_of, topic_table
from changeling.iceberg.catalog import catalog
from changeling.iceberg.lake import Lake
from changeling.iceberg.parquet_files import Writer
from changeling.iceberg.reader import Tables
from changeling.model.table import TableName
from changeling.spark import session
from tests.brokers.broker import Broker
from tests.brokers.topics import Topics

COUNT = int(os.environ.get("BENCH_RECORDS", "1000000"))
PARTITIONS = 4
RUNS = 3
BATCH = 100_000
PIPELINE = "bench"
FEED = Feed(
    name="events",
    id="bench",
    table=TableName(None, None, "events"),
    format="xtdb",
    mode="NEW_AND_OLD_IMAGES",
    partitions=PARTITIONS,
)


def benchmarks() -> dict[str, Benchmark]:
    return {"feed-to-kafka": feed_to_kafka}


def feed_to_kafka() -> Result:
    folder = Path(tempfile.mkdtemp(prefix="changeling-bench-"))
    place = catalog(str(folder / "lake"), folder, {})
    lake = Lake(session(), place, namespace_of(PIPELINE))
    table = topic_table(FEED.name)
    numbers = count()

    def ours() -> None:
        name = f"ours{next(numbers)}"
        topic = Topic(Tables(place, PIPELINE), PIPELINE, FEED)
        writer = KafkaTopicWriter(FEED, topic, KafkaTopicSettings(broker.servers, name))
        copied = writer.step()
        assert copied is not None
        assert copied.records == COUNT
        writer.close()
        topics.delete(name)

    def theirs() -> None:
        name = topics.make(f"theirs{next(numbers)}", PARTITIONS)
        frame = lake.frame(table).selectExpr(
            "partition", "key", "value", "transform(headers, h -> struct(h.name AS key, h.value AS value)) AS headers"
        )
        sink = frame.write.format("kafka").option("kafka.bootstrap.servers", broker.servers)
        sink.option("topic", name).option("includeHeaders", "true").save()
        spans = Cluster(broker.servers, {}).spans(name, PARTITIONS)
        assert sum(end - begin for begin, end in spans) == COUNT
        topics.delete(name)

    try:
        _fill(lake)
        with Broker() as broker:
            topics = Topics(broker)
            medians(1, ours, theirs)
            mine, peer = medians(RUNS, ours, theirs)
    finally:
        shutil.rmtree(folder)
    note = f"{COUNT:,} records: {mine:.1f} s to {peer:.1f} s"
    return Result("feed-to-kafka", COUNT / mine, "records/s", COUNT / peer, aim=0.8, note=note)


def _fill(lake: Lake) -> None:
    """As a feed with many points would: each commit has some records of every partition."""
    table = topic_table(FEED.name)
    lake.create([table], VERSION)
    rest, written = events(COUNT), 0
    while values := list(islice(rest, min(BATCH, COUNT - written))):
        places = np.arange(written, written + len(values))
        written += len(values)
        moment = datetime.now(UTC)
        rows = pa.table(
            [
                pa.array(places % PARTITIONS, pa.int32()),
                pa.array(places // PARTITIONS, pa.int64()),
                pa.array([b"%d" % place for place in places]),
                pa.array(values, pa.binary()),
                pa.nulls(len(values), COLUMNS.field("headers").type),
                pa.array([moment] * len(values), COLUMNS.field("published_at").type),
                pa.array([written] * len(values), pa.int64()),
            ],
            schema=COLUMNS,
        )
        writer = Writer(lake.write_spec(table, moment))
        for batch in rows.to_batches():
            writer.write(batch)
        offsets = [(written - place + PARTITIONS - 1) // PARTITIONS for place in range(PARTITIONS)]
        state = FeedState(id=FEED.id, point=written, offsets=offsets)
        lake.append(table, writer.close(), moment, {STATE: msgspec.json.encode(state).decode()})
