"""`changeling status`: the progress, lag and last error of each source, table, feed and target; needs no Spark."""

import argparse
import json
from typing import Any

from changeling.cli.arguments import add_pipeline, pipeline_of


def add(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the verb."""
    parser = verbs.add_parser("status", help="the state of a pipeline", description=__doc__)
    add_pipeline(parser)
    parser.add_argument(
        "--json", action="store_true", help="lines of JSON: one object a source, a table, a feed, a target"
    )
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Prints what the tables of the log contain."""
    pipeline = pipeline_of(parsed.pipeline)
    rows = pipeline.status()
    if parsed.json:
        print("\n".join(json.dumps(row) for row in rows))
        return 0
    _show(pipeline.name, rows)
    return 0


def _show(name: str, rows: list[dict[str, Any]]) -> None:
    from rich.console import Console

    from changeling.cli.display import duration, show_table, table
    from changeling.model.printable import printable_lines

    console = Console(highlight=False, soft_wrap=True)
    sources = [row for row in rows if row["kind"] == "source"]
    running = any(row["running"] for row in sources)
    console.print(f"pipeline [bold]{name}[/bold], {'[green]running[/green]' if running else 'not running'}")
    names = ("read", "accepted", "rejected", "changes", "late", "to extraction", "to log", "to replica", "last batch")
    shown = table("source", numbers=names)
    for row in sources:
        numbers = (f"{row[column]:,}" for column in ("read", "accepted", "rejected", "changes", "late"))
        lags = (_nanos(row[name]) for name in ("extraction_lag_seconds", "lag_seconds", "replica_lag_seconds"))
        shown.add_row(row["name"], *numbers, *(duration(lag) for lag in lags), _to_the_second(row["ingested_at"]))
    show_table(shown)
    tables = [row for row in rows if row["kind"] == "table"]
    if tables:
        counts = ("applied", "late", "ties", "stale", "aside")
        shown = table("table", "source", "schema", "version", "origin", "status", numbers=counts)
        for row in tables:
            described = (
                row["name"],
                row["source"],
                str(row["schema_id"]),
                str(row["version"]),
                row["origin"],
                row["status"],
            )
            shown.add_row(*described, *("" if row[name] is None else f"{row[name]:,}" for name in counts))
        console.print()
        show_table(shown)
    if feeds := [row for row in rows if row["kind"] == "feed"]:
        console.print()
        _show_feeds(feeds)
    for row in feeds:
        if row["last_error"]:
            console.print(printable_lines(f"feed {row['name']}: {row['last_error']}"), style="red", markup=False)
    for row in rows:
        if row["kind"] == "target":
            console.print(f"target {row['name']}: {_how_far(row)}", markup=False)
            if row["last_error"]:
                console.print(printable_lines(f"  {row['last_error']}"), style="red", markup=False)
    for row in sources:
        if "slot" in row:
            behind = row["slot_lag_bytes"]
            kept = "unknown" if behind is None else f"{behind / 1024**2:,.1f} MB retained for it by the server"
            console.print(f"slot {row['slot']}: {kept}", markup=False)
            if row["slot_error"]:
                console.print(printable_lines(f"  {row['slot_error']}"), style="red", markup=False)
    for row in sources:
        for name, why in row["left_out"].items():
            console.print(printable_lines(f"left out: {name}: {why}"), style="red", markup=False)
    if error := next((row["last_error"] for row in sources if row["last_error"]), None):
        console.print(printable_lines(f"last error: {error}"), style="red", markup=False)


def _show_feeds(feeds: list[dict[str, Any]]) -> None:
    from changeling.cli.display import duration, show_table, table

    counts = ("published", "rejected", "late")
    numbers = (*counts, "a second", "points behind", "lag")
    shown = table("feed", "table", "format", "mode", "topic", "status", "last barrier", numbers=numbers)
    for row in feeds:
        state = row["status"]
        if row["scanned"] is not None and row["scanned"] < 1:
            state += f", {row['scanned']:.0%} scanned"
        shown.add_row(
            *(row[name] for name in ("name", "table", "format", "mode", "topic")),
            state,
            "" if row["barrier"] is None else f"[{row['barrier'][0]},{row['barrier'][1]}]",
            *("" if row[name] is None else f"{row[name]:,}" for name in counts),
            "" if row["rate"] is None else f"{row['rate']:,.1f}",
            "" if row["lag_points"] is None else f"{row['lag_points']:,}",
            duration(_nanos(row["lag_seconds"])),
        )
    show_table(shown)


def _how_far(target: dict[str, Any]) -> str:
    if not target["reachable"]:
        return "unknown, it cannot be reached"
    if target["point"] is None:
        return "not at a point yet"
    aside = target["aside"]
    kept = f", {aside:,} row{'' if aside == 1 else 's'} quarantined (changeling.asides lists them)" if aside else ""
    return f"at point {target['point']}{kept}"


def _nanos(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1_000_000_000)


def _to_the_second(time: str | None) -> str:
    return "never" if time is None else f"{time[:19]}Z"
