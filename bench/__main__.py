"""`python -m bench [NAME]`: runs all benchmarks or one, prints the results, and stores them in results.json.

Sizes that the environment asks for (`BENCH_EVENTS=100000`) are for trials: their results are printed, and not stored.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import (
    as_of,
    capture,
    debezium_spark,
    feed_latency,
    feed_to_kafka,
    files_log,
    freshness,
    growth,
    kafka_log,
    kernels,
    many_tables,
    memory,
    merge_batch,
    mixed_feed,
    postgres_target,
    publish,
    text_to_replica,
    xtdb_spark,
)
from bench.measuring import Benchmark, Result
from changeling.model.errors import nearest

FAMILIES = (
    kernels,
    memory,
    xtdb_spark,
    debezium_spark,
    files_log,
    kafka_log,
    text_to_replica,
    merge_batch,
    mixed_feed,
    many_tables,
    growth,
    freshness,
    as_of,
    capture,
    postgres_target,
    publish,
    feed_to_kafka,
    feed_latency,
)
RESULTS = Path(__file__).parent / "results.json"


def main(arguments: list[str]) -> int:
    known: dict[str, Benchmark] = {}
    for family in FAMILIES:
        known |= family.benchmarks()
    chosen = arguments or list(known)
    for name in chosen:
        if name not in known:
            print(f"there is no benchmark {name!r}; {nearest(name, known)}", file=sys.stderr)
            return 2
    console = Console()
    results = []
    for name in chosen:
        with console.status(name):
            results.append(known[name]())
    console.print(_shown(results))
    sizes = sorted(name for name in os.environ if name.startswith("BENCH_"))
    if sizes:
        print(f"results.json is as it was: {', '.join(sizes)} asks for other sizes", file=sys.stderr)
    else:
        _store(results, replace_all=not arguments)
    return 0


def _shown(results: list[Result]) -> Table:
    table = Table("benchmark", box=None, header_style="bold")
    for column in ("ours", "peer", "ratio", "aim", "limit"):
        table.add_column(column, justify="right")
    table.add_column("unit")
    table.add_column("note", style="dim")
    for result in results:
        numbers = [
            _number(result.ours),
            _number(result.peer),
            "" if result.ratio is None else f"{result.ratio:.2f}",
            "" if result.aim is None else f"{result.aim:.3g}",
            _number(result.limit),
        ]
        table.add_row(result.name, *numbers, result.unit, result.note or "")
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _store(results: list[Result], replace_all: bool) -> None:
    """Writes the results; after a run of some benchmarks the entries of the others stay."""
    kept: dict[str, Any] = {}
    if not replace_all and RESULTS.exists():
        kept = {entry["name"]: entry for entry in json.loads(RESULTS.read_text())}
    kept |= {result.name: result.as_json() for result in results}
    RESULTS.write_text(json.dumps(list(kept.values()), indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
