"""How old replicas are while a database is written to: the time from a commit in PostgreSQL to the point that has it."""

import json
import os
import statistics
import tempfile
import threading
import time
from bisect import bisect_left
from datetime import UTC
from pathlib import Path

import psycopg

from bench.measuring import Benchmark, Result
from changeling.pipelines.lakehouse import tables_of
from changeling.pipelines.loading import load
from changeling.pipelines.pipeline import Pipeline
from changeling.replicas.points import points_of
from demo.embedded_postgres import EmbeddedPostgres

TABLES = 20
SECONDS = float(os.environ.get("BENCH_SECONDS", "60"))
RATE = 1_000
"""Changes a second."""
CHANGES = 10
"""Changes of one transaction."""


def benchmarks() -> dict[str, Benchmark]:
    return {"freshness": freshness}


def freshness() -> Result:
    with tempfile.TemporaryDirectory(prefix="changeling-bench-") as name:
        folder = Path(name)
        server = EmbeddedPostgres(folder / "postgres")
        server.start()
        try:
            ages = _ages(server.url, folder)
        finally:
            server.remove()
    last = statistics.quantiles(ages, n=100)[98]
    note = f"p99 {last:.1f} s; {RATE:,} changes a second in {TABLES} tables for {SECONDS:g} s; the aim is 4 s and 10 s"
    return Result("freshness", statistics.median(ages), "s", note=note)


def _ages(url: str, folder: Path) -> list[float]:
    """For each commit, how long it took until a point had it."""
    with psycopg.connect(url, autocommit=True) as connection:
        for number in range(TABLES):
            connection.execute(f"CREATE TABLE t{number} (id bigint PRIMARY KEY, name text, n bigint)")
            connection.execute(f"INSERT INTO t{number} SELECT g, 'row ' || g, 0 FROM generate_series(1, 10000) g")
    file = folder / "fresh.yaml"
    source = {"name": "pg", "type": "postgres", "url": url, "tables": ["public.*"]}
    file.write_text(json.dumps({"name": "fresh", "warehouse": "./lake", "sources": [source]}))
    pipeline = Pipeline.load(file)
    pipeline.run(once=True)
    stop, commits = threading.Event(), list[float]()
    running = threading.Thread(target=pipeline.run, kwargs={"stop": stop})
    running.start()
    _write(url, commits)
    time.sleep(20)
    stop.set()
    running.join()
    points = [point for point in points_of(tables_of(load(file))).all() if point.of("pg").commit_time is not None]
    pipeline.remove()
    held = [(point.of("pg").commit_time or 0) / 1e9 for point in points]
    made = [point.made_at.astimezone(UTC).timestamp() for point in points]
    return [made[place] - commit for commit in commits if (place := bisect_left(held, commit)) < len(held)]


def _write(url: str, commits: list[float]) -> None:
    """Writes at the rate, and notes the server's time of each commit."""
    began = time.monotonic()
    with psycopg.connect(url) as connection:
        connection.execute("SET synchronous_commit = off")
        number = 0
        while (now := time.monotonic() - began) < SECONDS:
            if number * CHANGES > now * RATE:
                time.sleep(0.002)
                continue
            for change in range(CHANGES):
                table, row = (number + change) % TABLES, (number * CHANGES + change) % 10_000 + 1
                connection.execute(f"UPDATE t{table} SET n = n + 1 WHERE id = %s", (row,))
            connection.commit()
            commits.append(time.time() - 0.001)
            number += 1
