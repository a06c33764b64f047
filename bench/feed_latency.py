"""How long a change takes from its commit in PostgreSQL to those who read a feed: a Kafka consumer, and `feed read --follow`."""

import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Collection, Iterator
from pathlib import Path

import psycopg
from confluent_kafka import Consumer, TopicPartition

from bench.measuring import Benchmark, Result
from changeling.pipelines.pipeline import Pipeline
from demo.embedded_postgres import EmbeddedPostgres
from tests.brokers.broker import Broker

SECONDS = float(os.environ.get("BENCH_SECONDS", "60"))
RATE = 1_000
"""Changes a second."""
CHANGES = 10
"""Changes of one transaction."""
ROWS = 10_000
PARTITIONS = 4
PATIENCE = 120.0
"""Seconds that readers have to get what was written."""
FIRST = -1
"""The number of a change that is not measured: when readers have it, all that has to start has started."""

Times = dict[int, float]
"""When a change was committed, or came to a reader, by its number."""


def benchmarks() -> dict[str, Benchmark]:
    return {"feed-latency": feed_latency}


def feed_latency() -> Result:
    with tempfile.TemporaryDirectory(prefix="changeling-bench-") as name, Broker() as broker:
        folder = Path(name)
        server = EmbeddedPostgres(folder / "postgres")
        server.start()
        try:
            in_kafka, in_table = _latencies(server.url, broker.servers, folder)
        finally:
            server.remove()
    (half, most), (own_half, own_most) = _shares(in_kafka), _shares(in_table)
    note = (
        f"to a Kafka consumer, p99 {most:.1f} s; to `feed read --follow`, p50 {own_half:.1f} s and p99 {own_most:.1f} s; "
        f"{RATE:,} changes a second for {SECONDS:g} s"
    )
    return Result("feed-latency", half, "s", note=note)


def _shares(latencies: list[float]) -> tuple[float, float]:
    """p50 and p99."""
    return statistics.median(latencies), statistics.quantiles(latencies, n=100)[98]


def _latencies(url: str, servers: str, folder: Path) -> tuple[list[float], list[float]]:
    """How long each change took to come out of Kafka, and out of the feed's own topic."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE accounts (id bigint PRIMARY KEY, name text, n bigint)")
        connection.execute(f"INSERT INTO accounts SELECT g, 'row ' || g, NULL FROM generate_series(1, {ROWS}) g")
    pipeline = _pipeline(url, servers, folder)
    pipeline.run(once=True)
    stop, commits, in_kafka, in_table = threading.Event(), Times(), Times(), Times()
    tasks = [
        threading.Thread(target=pipeline.run, kwargs={"stop": stop}),
        threading.Thread(target=_note, args=(_from_kafka(servers, stop), in_kafka)),
        threading.Thread(target=_note, args=(_from_table(pipeline, stop), in_table)),
    ]
    for task in tasks:
        task.start()
    try:
        with psycopg.connect(url) as connection:
            connection.execute("UPDATE accounts SET n = %s WHERE id = 1", (FIRST,))
        _wait({FIRST}, in_kafka, in_table)
        _write(url, commits)
        _wait(commits.keys(), in_kafka, in_table)
    finally:
        stop.set()
        for task in tasks:
            task.join()
    pipeline.remove()
    return _ages(commits, in_kafka), _ages(commits, in_table)


def _wait(numbers: Collection[int], *readers: Times) -> None:
    """Waits until all readers have these changes."""
    until = time.monotonic() + PATIENCE
    while not all(number in arrivals for arrivals in readers for number in numbers):
        if time.monotonic() > until:
            raise RuntimeError(f"readers of the feed did not get all changes in {PATIENCE:g} s")
        time.sleep(0.1)


def _ages(commits: Times, arrivals: Times) -> list[float]:
    return [arrivals[number] - moment for number, moment in commits.items()]


def _pipeline(url: str, servers: str, folder: Path) -> Pipeline:
    source = {"name": "pg", "type": "postgres", "url": url, "tables": ["public.*"]}
    feed = {
        "name": "latency",
        "table": "public.accounts",
        "with": {"FORMAT": "JSON", "MODE": "UPDATES", "TOPIC_MIN_ACTIVE_PARTITIONS": PARTITIONS},
        "topic": {"type": "kafka", "servers": servers, "name": "{feed}"},
    }
    file = folder / "latency.yaml"
    file.write_text(json.dumps({"name": "latency", "warehouse": "./lake", "sources": [source], "feeds": [feed]}))
    return Pipeline.load(file)


def _write(url: str, commits: Times) -> None:
    """Writes at the rate; each change has a number, which is the new value of its row."""
    began, number = time.monotonic(), 0
    with psycopg.connect(url) as connection:
        connection.execute("SET synchronous_commit = off")
        while (now := time.monotonic() - began) < SECONDS:
            if number > now * RATE:
                time.sleep(0.002)
                continue
            own = range(number, number + CHANGES)
            for change in own:
                connection.execute("UPDATE accounts SET n = %s WHERE id = %s", (change, change % ROWS + 1))
            connection.commit()
            commits.update(dict.fromkeys(own, time.time()))
            number += CHANGES


def _from_kafka(servers: str, stop: threading.Event) -> Iterator[bytes | None]:
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "latency", "isolation.level": "read_committed", "log_level": 0}
    )
    consumer.assign([TopicPartition("latency", place, 0) for place in range(PARTITIONS)])
    while not stop.is_set():
        for message in consumer.consume(1_000, 0.05):
            assert message.error() is None, message.error()
            yield message.value()
    consumer.close()


def _from_table(pipeline: Pipeline, stop: threading.Event) -> Iterator[bytes | None]:
    for record in pipeline.read_feed("latency", follow=True, stop=stop):
        yield record.value


def _note(values: Iterator[bytes | None], arrivals: Times) -> None:
    """Notes when each change arrives."""
    for value in values:
        arrivals[json.loads(value or b"")["update"]["n"]] = time.time()
