"""Kafka to the log, compared with Spark's connector writing the raw bytes to the same kind of Iceberg table, undecoded."""

import os
import shutil
import tempfile
from itertools import count, islice
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import functions as f
from pyspark.sql.functions import partitioning

from bench.events import events
from bench.measuring import Benchmark, Result, medians
from changeling.iceberg.lake import PROPERTIES
from changeling.log import log_tables
from changeling.pipelines.lakehouse import lake_of
from changeling.pipelines.loading import load
from changeling.pipelines.pipeline import Pipeline
from tests.brokers.broker import Broker
from tests.brokers.topics import Topics

COUNT = int(os.environ.get("BENCH_MESSAGES", "1000000"))
PARTITIONS = 4
RUNS = 3
_PIPELINE = """
name: {name}
warehouse: ./lake
sources:
  - {{name: bus, type: kafka, servers: "{servers}", topics: [events], format: xtdb, batch_records: {count}}}
tables:
  - {{name: "*", mode: append}}
"""


def benchmarks() -> dict[str, Benchmark]:
    return {"kafka-to-log": kafka_to_log}


def kafka_to_log() -> Result:
    folder = Path(tempfile.mkdtemp(prefix="changeling-bench-"))
    numbers = count()

    def file(kind: str) -> Path:
        made = folder / f"{kind}{next(numbers)}.yaml"
        made.write_text(_PIPELINE.format(name=made.stem, servers=broker.servers, count=COUNT))
        return made

    def ours() -> None:
        (totals,) = Pipeline.load(file("ours")).run(once=True)
        assert (totals.read, totals.accepted) == (COUNT, COUNT)

    def theirs() -> None:
        lake = lake_of(load(file("theirs")))
        lake.create(log_tables.TABLES, log_tables.VERSION)
        raw = lake.spark.read.format("kafka").option("kafka.bootstrap.servers", broker.servers)
        frame = raw.option("subscribe", "events").option("minPartitions", str(COUNT // 100_000)).load()
        writer = frame.withColumn("ingested_at", f.current_timestamp()).writeTo(f"lake.`{lake.namespace}`.raw")
        for name, value in PROPERTIES.items():
            writer = writer.tableProperty(name, value)
        writer.using("iceberg").partitionedBy(partitioning.days("ingested_at")).create()

    try:
        with Broker() as broker:
            _fill(broker)
            medians(1, ours, theirs)
            mine, peer = medians(RUNS, ours, theirs)
    finally:
        shutil.rmtree(folder)
    note = f"{COUNT:,} messages: {mine:.1f} s to {peer:.1f} s"
    return Result("kafka-to-log", COUNT / mine, "messages/s", COUNT / peer, aim=1 / 1.5, note=note)


def _fill(broker: Broker) -> None:
    Topics(broker).make("events", PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 50, "queue.buffering.max.messages": 500_000})
    for number, event in enumerate(islice(events(COUNT), COUNT)):
        while True:
            try:
                producer.produce("events", event, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()
