"""`changeling status`: the progress, lag and last error of each source, table, feed and target; needs no Spark."""

import argparse
import json
from typing import TYPE_CHECKING, Any

from changeling.cli.arguments import add_pipeline, pipeline_of
from changeling.cli.process import stopped_by_signals
from changeling.cli.verbs import definitions
from changeling.model.printable import counted, sized

if TYPE_CHECKING:
    from rich.console import Console

    from changeling.pipelines.pipeline import Pipeline

_MIN_RATE = 0.05
"""Records a second that are shown as 0.1."""
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
        ("lag now", "the age of the oldest change that is not in the log; 0 where nothing is missing"),
        ("waiting", "what is not in the log; of a database, what its server retains of its log for the slot"),
        ("replicas", "the age of the oldest batch in the log that the replicas do not have"),
    ),
    "table": (
        ("schema", "the number of the table's schema in the log"),
        ("version", "which of the table's own schemas that is, from 1"),
        ("origin", "where it is from: declared, carried by the records, taken from the database, or inferred"),
        ("status", "accepted; ignored or aside (its records are rejected), per the table's policy"),
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
        ("points behind, lag now", "what the replicas have and the feed does not: points, and the age of the oldest"),
    ),
}


def add(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the verb."""
    parser = verbs.add_parser("status", description=__doc__)
    add_pipeline(parser)
    parser.add_argument(
        "--json", action="store_true", help="lines of JSON: one object for each source, table, feed and target"
    )
    parser.add_argument("--legend", action="store_true", help="explain the columns")
    parser.add_argument(
        "--watch",
        nargs="?",
        type=_seconds,
        const=2.0,
        metavar="SECONDS",
        help="show it again every 2 seconds, or as many as given, until Ctrl-C",
    )
    parser.set_defaults(run=run)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: write a number of seconds")
    return seconds


def run(parsed: argparse.Namespace) -> int:
    """Prints what the tables of the log contain."""
    if parsed.legend:
        print(
            "\n".join(line for title, words in _LEGEND.items() for line in ("", title, *definitions(words, "  ")))[1:]
        )
        return 0
    pipeline = pipeline_of(parsed.pipeline)
    if parsed.watch is None:
        _print(pipeline, parsed.json)
        return 0
    stop = stopped_by_signals()
    while not stop.is_set():
        _print(pipeline, parsed.json, again=True)
        stop.wait(parsed.watch)
    return 0


def _print(pipeline: "Pipeline", as_json: bool, *, again: bool = False) -> None:
    """`again`: in place of what a terminal shows."""
    rows = pipeline.status()
    if as_json:
        print("\n".join(json.dumps(row) for row in rows), flush=True)
        return
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    if again and console.is_terminal:
        console.clear()
    _show(console, pipeline.name, rows)


def _show(console: "Console", name: str, rows: list[dict[str, Any]]) -> None:
    from changeling.cli.display import duration, show_table, table
    from changeling.model.printable import printable_lines

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
    console.print()
    shown = table("source", numbers=("lag now", "waiting", "replicas"))
    for row in sources:
        shown.add_row(row["name"], _age(row.get("behind_seconds")), _waiting(row), _age(row["replica_behind_seconds"]))
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
            kept = "unknown" if behind is None else f"{sized(behind)} retained for it by the server"
            console.print(f"slot {row['slot']}: {kept}", markup=False)
            if row["slot_error"] and row["slot_error"] != row["last_error"]:
                console.print(printable_lines(f"  {row['slot_error']}"), style="red", markup=False)
    for row in sources:
        if "slot" not in row and row.get("behind_error") not in (None, row["last_error"]):
            console.print(printable_lines(f"{row['name']}: {row['behind_error']}"), style="red", markup=False)
        for name, why in row["left_out"].items():
            console.print(printable_lines(f"left out: {name}: {why}"), style="red", markup=False)
        if row["last_error"]:
            console.print(printable_lines(f"{row['name']}: {row['last_error']}"), style="red", markup=False)
    if console.is_terminal:
        console.print("changeling status --legend says what the columns mean", style="dim")


def _show_feeds(feeds: list[dict[str, Any]]) -> None:
    from changeling.cli.display import show_table, table

    counts = ("published", "rejected", "late")
    numbers = (*counts, "a second", "points behind", "lag now")
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
            "" if row["rate"] is None or row["rate"] < _MIN_RATE else f"{row['rate']:,.1f}",
            "" if row["lag_points"] is None else f"{row['lag_points']:,}",
            "" if row["lag_seconds"] is None else _age(row["lag_seconds"]),
        )
    show_table(shown)


def _age(seconds: float | None) -> str:
    from changeling.cli.display import duration

    return "unknown" if seconds is None else duration(_nanos(seconds)) if seconds else "0 s"


def _waiting(source: dict[str, Any]) -> str:
    """What of a source is not in the log."""
    records, files, size = (source.get(f"behind_{what}") for what in ("records", "files", "bytes"))
    if records is not None:
        return counted(records, "record")
    if files is not None:
        return counted(files, "file") + (f", {sized(size)}" if files and size is not None else "")
    return "unknown" if size is None else f"{sized(size)} of WAL"


def _how_far(target: dict[str, Any]) -> str:
    if not target["reachable"]:
        return "unknown, it cannot be reached"
    if target["point"] is None:
        return "not at a point yet"
    aside = target["aside"]
    kept = f", {counted(aside, 'row')} quarantined (changeling.asides lists them)" if aside else ""
    points = target["lag_points"]
    late = f", {counted(points, 'point')} behind" if points else ""
    return f"at point {target['point']}{late}{kept}"


def _nanos(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1_000_000_000)


def _to_the_second(time: str | None) -> str:
    return "never" if time is None else f"{time[:19]}Z"
