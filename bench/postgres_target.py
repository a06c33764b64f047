"""A replica into a PostgreSQL database: the first copy, against a script that copies the same rows alone; then changes of it."""

import os
import shutil
import tempfile
from pathlib import Path
from time import perf_counter

import pyarrow as pa
from pyarrow import csv

from bench.accounts import TABLE, Accounts
from bench.folder_pipeline import FolderPipeline
from bench.measuring import Benchmark, Result, medians
from changeling.postgres.connection import connect
from changeling.targets.postgres_target import PostgresTarget
from demo.embedded_postgres import EmbeddedPostgres

ROWS = int(os.environ.get("BENCH_ROWS", "1000000"))
CHANGES = ROWS // 100
RUNS = 5
_PEER = """
CREATE TABLE peer (_id text, owner text, email text, age integer, is_active boolean, balance numeric(18,2),
                   score double precision, opened_at timestamptz)
"""


def benchmarks() -> dict[str, Benchmark]:
    return {"target-copy-1m": first_copy, "target-10k-changes": changes}


def first_copy() -> Result:
    """All rows of a replica, its primary key included."""
    with _Bench() as bench:
        bench.copy_alone()
        bench.server.restart()
        mine = min(bench.copied() for _ in range(3))
        peer = min(bench.copy_alone() for _ in range(3))
    note = f"{ROWS:,} rows of 8 columns: {mine:.2f} s; one script, one COPY of the same rows: {peer:.2f} s"
    return Result("target-copy-1m", ROWS / mine, "rows/s", ROWS / peer, note=note)


def changes() -> Result:
    """Changes of an existing table: 80 % updates, 10 % inserts, 10 % deletes."""
    with _Bench() as bench:
        target = bench.target("changes")
        target.step()
        medians(1, target.step, before_each_round=bench.change)
        (mine,) = medians(RUNS, target.step, before_each_round=bench.change)
    note = f"{CHANGES:,} changes of {ROWS:,} rows: {mine:.2f} s a step"
    return Result("target-10k-changes", CHANGES / mine, "changes/s", note=note)


class _Bench:
    """A replica and a server."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="changeling-bench-"))
        self._folder.chmod(0o755)
        self.server = EmbeddedPostgres(self._folder / "postgres")
        self._accounts = Accounts()
        self._copies = 0

    def __enter__(self) -> "_Bench":
        self.server.start()
        self._feed = FolderPipeline(self._folder / "feed")
        self._feed.add_file(self._accounts.events(self._accounts.load(ROWS)))
        self._feed.ingest()
        self._feed.merge()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.remove()
        shutil.rmtree(self._folder)

    def target(self, name: str) -> PostgresTarget:
        return PostgresTarget(self._feed.lake, name, self.server.url, [TABLE], "feed")

    def change(self) -> None:
        self._feed.add_file(self._accounts.events(self._accounts.batch(CHANGES)))
        self._feed.ingest()
        self._feed.merge()

    def copied(self) -> float:
        """Seconds of a first copy."""
        self._copies += 1
        target = self.target(f"copy{self._copies}")
        start = perf_counter()
        target.step()
        taken = perf_counter() - start
        target.remove()
        return taken

    def copy_alone(self) -> float:
        """Seconds of a script that reads the replica without Spark, and copies it over one connection."""
        start = perf_counter()
        found = self._feed.pipeline.current(TABLE)
        assert found is not None
        with connect(self.server.url) as connection:
            connection.execute("DROP TABLE IF EXISTS peer")
            connection.execute(_PEER)
            with connection.transaction(), connection.cursor() as cursor:
                with cursor.copy("COPY peer FROM STDIN (FORMAT csv)") as copy:
                    for batch in found[0].to_batches(max_chunksize=100_000):
                        sink = pa.BufferOutputStream()
                        csv.write_csv(batch, sink, csv.WriteOptions(include_header=False))
                        copy.write(memoryview(sink.getvalue()))
                connection.execute("ALTER TABLE peer ADD PRIMARY KEY (_id)")
        return perf_counter() - start
