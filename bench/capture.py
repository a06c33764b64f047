"""PostgreSQL into the log: its changes compared with Debezium's embedded engine, which only counts them; a snapshot compared with COPY."""

import json
import os
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from bench import debezium_runs
from bench.debezium_peer import server_cpu_seconds
from bench.debezium_runs import PeerRun
from bench.items import TRANSACTION, Items, items
from bench.measuring import Benchmark, Result, medians
from bench.process_costs import Watch
from changeling.log.log_tables import CHANGES
from changeling.pipelines.lakehouse import tables_of
from changeling.pipelines.loading import load
from changeling.pipelines.pipeline import Pipeline

COUNT = int(os.environ.get("BENCH_ROWS", "1000000")) // TRANSACTION * TRANSACTION
WARM_UP = max(1, COUNT // 20 // TRANSACTION) * TRANSACTION
ROWS = int(os.environ.get("BENCH_ROWS", "2000000"))
RUNS = 3
_PUBLICATION = "peer"
_PEEK = (
    "SELECT count(*) FROM pg_logical_slot_peek_binary_changes("
    f"'decoding', NULL, NULL, 'proto_version', '1', 'publication_names', '{_PUBLICATION}')"
)


@dataclass(frozen=True)
class _Run:
    """What one run of ours took; the server's CPU is not in ours."""

    seconds: float
    cpu_seconds: float
    server_cpu_seconds: float
    peak_bytes: int


def benchmarks() -> dict[str, Benchmark]:
    return {"capture-postgres": capture, "snapshot-postgres": snapshot}


def capture() -> Result:
    """Each run has a pipeline and slots of its own, all of them from before the changes; the runs alternate."""
    debezium_runs.environment()
    with items() as table:
        warm = _pipeline(table, "warm")
        _run(table, warm, {})
        _run(table, warm, table.change(WARM_UP))
        warm.remove()
        table.execute("TRUNCATE items", f"CREATE PUBLICATION {_PUBLICATION} FOR TABLE items")
        pipelines = [_pipeline(table, f"run{number}") for number in range(RUNS)]
        for pipeline in pipelines:
            _run(table, pipeline, {})
        for slot in ("decoding", *(f"{kind}{number}" for kind in ("warm", "peer") for number in range(RUNS))):
            table.execute(f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")
        written = table.change(COUNT)
        ours: list[_Run] = []
        peers: list[PeerRun] = []
        decoding: list[float] = []
        for number, pipeline in enumerate(pipelines):
            ours.append(_run(table, pipeline, written))
            peers.append(_peer(table, number))
            decoding += medians(1, lambda: table.execute(_PEEK))
    seconds = statistics.median(run.seconds for run in ours)
    peer = statistics.median(run.per_second for run in peers)
    limit = COUNT / statistics.median(decoding)
    note = f"{COUNT:,} changes: {seconds:.1f} s, {_costs(ours)}; peer from its first batch on: {_peer_costs(peers)}"
    return Result("capture-postgres", COUNT / seconds, "changes/s", peer, limit, aim=5, note=note)


def snapshot() -> Result:
    """Of an existing table, against COPY by psql to /dev/null, the faster of its two forms."""
    with items() as table:
        table.fill(ROWS)
        psql = Path(psutil.Process(table.pid).exe()).with_name("psql")
        ours: list[_Run] = []
        copies: dict[str, list[float]] = {"binary": [], "text": []}
        for number in range(RUNS + 1):
            pipeline = _pipeline(table, f"run{number}")
            ours.append(_run(table, pipeline, {"read": ROWS}))
            pipeline.remove()
            for form, taken in copies.items():
                taken.append(_copy(psql, table, form))
    # The first round only warms up.
    ours = ours[1:]
    seconds = statistics.median(run.seconds for run in ours)
    copied = {form: statistics.median(taken[1:]) for form, taken in copies.items()}
    fastest = min(copied, key=copied.__getitem__)
    timings = ", ".join(f"{form} {taken:.2f} s" for form, taken in copied.items())
    note = f"{ROWS:,} rows: {seconds:.1f} s, {_costs(ours)}; COPY to /dev/null: {timings}"
    return Result("snapshot-postgres", ROWS / seconds, "rows/s", ROWS / copied[fastest], note=note)


def _pipeline(table: Items, name: str) -> Pipeline:
    source = {"name": "pg", "type": "postgres", "url": table.server.url, "tables": ["public.items"]}
    rule = {"name": "*", "mode": "append"}
    file = _file(table, name)
    # Any JSON is YAML.
    file.write_text(json.dumps({"name": name, "warehouse": f"./{name}", "sources": [source], "tables": [rule]}))
    return Pipeline.load(file)


def _file(table: Items, name: str) -> Path:
    return table.folder / f"{name}.yaml"


def _run(table: Items, pipeline: Pipeline, expected: dict[str, int]) -> _Run:
    """Reads everything into the log, which must then contain exactly these numbers of changes."""
    server = server_cpu_seconds(table.pid)
    with Watch(os.getpid(), without=table.pid) as watch:
        start = time.perf_counter()
        (totals,) = pipeline.run(once=True)
        seconds = time.perf_counter() - start
    server = server_cpu_seconds(table.pid) - server
    rows = tables_of(load(_file(table, pipeline.name))).rows(CHANGES, columns=("op",))
    found = {one["values"]: one["counts"] for one in rows.column("op").value_counts().to_pylist()}
    # Where the last change of a transaction and its end came in two chunks, the end is a change of its own. So is the schema of a table
    # that had no rows, which an earlier run may have read.
    ends, schemas = (found.pop(op, 0) for op in ("commit", "ddl"))
    changes = sum(expected.values()) + ends
    assert found == expected, (found, expected)
    assert totals.changes in (changes, changes + schemas), totals
    return _Run(seconds, watch.cpu_seconds, server, watch.peak_bytes)


def _peer(table: Items, number: int) -> PeerRun:
    """In a new JVM, which reads as many changes as our session did before, to warm up."""
    settings = {
        "database.hostname": "127.0.0.1",
        "database.port": str(table.server.port),
        "database.user": "postgres",
        "database.password": "none",
        "database.dbname": "postgres",
        "publication.name": _PUBLICATION,
        "table.include.list": "public.items",
    }
    slots = {f"warm{number}": WARM_UP, f"peer{number}": COUNT}
    run = debezium_runs.read(settings, slots, table.pid, table.folder / f"peer{number}")
    assert run.stats.changes == COUNT, run
    return run


def _copy(psql: Path, table: Items, form: str) -> float:
    command = [str(psql), "-X", "-d", table.server.url, "-c", f"COPY items TO STDOUT (FORMAT {form})"]
    (seconds,) = medians(1, lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=True))
    return seconds


def _costs(runs: Sequence[_Run]) -> str:
    return _cost_text(
        [run.cpu_seconds for run in runs], [run.server_cpu_seconds for run in runs], [run.peak_bytes for run in runs]
    )


def _peer_costs(runs: Sequence[PeerRun]) -> str:
    stats = [run.stats for run in runs]
    rest, whole = (
        statistics.median(taken) for taken in ([one.rest_seconds for one in stats], [one.seconds for one in stats])
    )
    rate = statistics.median(run.per_second_from_start for run in runs)
    costs = _cost_text(
        [one.cpu_seconds for one in stats], [one.server_cpu_seconds for one in stats], [run.peak_bytes for run in runs]
    )
    return f"{rest:.1f} s; from its start {whole:.1f} s ({rate:,.0f}/s), {costs}"


def _cost_text(cpu: Sequence[float], server: Sequence[float], peaks: Sequence[int]) -> str:
    peak = statistics.median(peaks) / 1e6
    return f"CPU {statistics.median(cpu):.1f} s (and the server {statistics.median(server):.1f} s), {peak:,.0f} MB"
