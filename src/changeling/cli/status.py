"""`changeling status`: the progress, lag and last error of each source, table, feed and target; needs no Spark."""

import argparse
import json
from typing import Any

from changeling.cli.arguments import add_pipeline, pipeline_of
from changeling.cli.definitions import definitions

_LEGEND = {
    "source": (
        ("read", "records that were taken from the source"),
        ("accepted", "those that became changes"),
        ("rejected", "those that could not be read: changeling rejects shows them"),
        ("changes", "changes in the log"),
        ("late", "changes that arrived after a later position of an earlier batch"),
        (
            "to extraction",
            "from the commit in the database to the tool that took the change from it, in the last batch",
        ),
        ("to log", "from the commit to the log, in the last batch"),
        ("to replica", "from the last commit that replicas have to the point that brought it"),
        ("last batch", "when the last batch was read, in UTC"),
    ),
    "table": (
        ("schema", "the number of the table's schema in the log"),
        ("version", "which of the table's own schemas that is, from 1"),
        ("origin", "where it is from: declared, carried by the records, taken from the database, or inferred"),
        ("status", "accepted; ignored or aside, as the policy of the table has it"),
        ("applied", "changes in the replica"),
        ("late", "changes that came after a later one of the same row had been applied"),
        ("ties", "changes of one row with equal positions: the order of arrival decided"),
        ("stale", "rows of which a change left out columns that were never seen"),
        ("aside", "values and changes that do not fit their column, in the quarantine"),
    ),
    "feed": (
        ("published", "records in the topic"),
        ("rejected", "changes that the feed's dialect cannot carry"),
        ("late", "changes that came late: what they did is published with a later point"),
        ("last barrier", "the step and transaction up to which all is published"),
        ("points behind, lag", "how far the feed is behind the replicas, in points and in time"),
    ),
}


def add(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the verb."""
    parser = verbs.add_parser("status", help="the state of a pipeline", description=__doc__)
    add_pipeline(parser)
    parser.add_argument(
        "--json", action="store_true", help="lines of JSON: one object a source, a table, a feed, a target"
    )
    parser.add_argument("--legend", action="store_true", help="what the columns mean")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Prints what the tables of the log contain."""
    if parsed.legend:
        print(
            "\n".join(line for title, words in _LEGEND.items() for line in ("", title, *definitions(words, "  ")))[1:]
        )
        return 0
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
    if console.is_terminal:
        console.print("changeling status --legend says what the columns mean", style="dim")


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
