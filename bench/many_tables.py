"""A few changes of each of many tables, merged at once: what a table costs, whatever is in it."""

import json
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from bench.folder_pipeline import FolderPipeline
from bench.measuring import Benchmark, Result

ROWS = 100
"""Rows of each table before the measured merge."""
CHANGES = 20
"""Changes of each table in it."""


def benchmarks() -> dict[str, Benchmark]:
    return {"many-tables-20": lambda: _measured(20, 3.0), "many-tables-200": lambda: _measured(200, 20.0)}


def _measured(tables: int, aim: float) -> Result:
    taken = seconds_for(tables)
    note = f"{CHANGES} changes in each of {tables} tables of {ROWS} rows, {taken / tables:.3f} s a table; the aim is {aim:g} s"
    return Result(f"many-tables-{tables}", taken, "s", note=note)


def seconds_for(tables: int, spark: Mapping[str, str] | None = None) -> float:
    """How long a merge of a few changes of each of so many tables takes; `spark`: settings of a new session."""
    folder = Path(tempfile.mkdtemp(prefix="changeling-bench-"))
    try:
        pipeline = FolderPipeline(folder / "many", format="debezium-json", key=["id"], spark=spark)
        pipeline.add_file(_event(table, key, "c", 0) for table in range(tables) for key in range(ROWS))
        pipeline.ingest()
        pipeline.merge()
        pipeline.add_file(_event(table, key, "u", 1) for table in range(tables) for key in range(CHANGES))
        pipeline.ingest()
        start = time.perf_counter()
        pipeline.merge()
        taken = time.perf_counter() - start
        total = pipeline.lake.spark.sql(f"SELECT sum(n) FROM lake.many_replica.{_name(tables - 1)}").first()
        assert total is not None
        assert total[0] == CHANGES
    finally:
        shutil.rmtree(folder)
    return taken


def _name(table: int) -> str:
    return f"public__t{table:04d}"


def _event(table: int, key: int, op: str, number: int) -> bytes:
    lsn = 1_000_000 * (number + 1) + table * 1_000 + key
    row = {"id": key, "name": f"row {key}", "n": number}
    source = {
        "connector": "postgresql",
        "db": "",
        "schema": "public",
        "table": f"t{table:04d}",
        "lsn": lsn,
        "txId": lsn,
    }
    event = {"before": None, "after": row, "source": {**source, "ts_ms": 1_700_000_000_000}, "op": op, "ts_ms": 1}
    return json.dumps(event).encode()
