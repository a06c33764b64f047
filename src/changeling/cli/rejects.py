"""`changeling rejects`: records that could not be read, and reading them again after a fix."""

import argparse
import json
import sys

from changeling.cli.arguments import add_pipeline, pipeline_of, whole_number
from changeling.model.errors import UsageError
from changeling.model.printable import counted
from changeling.rejects import reject_line


def add(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the verb."""
    parser = verbs.add_parser("rejects", description=__doc__)
    add_pipeline(parser)
    parser.add_argument(
        "--replay", action="store_true", help="read them again; those that can be read now join the log"
    )
    parser.add_argument("--take-over", action="store_true", help="with --replay, as `run` takes it")
    parser.add_argument("--limit", type=whole_number, metavar="N", help="show the first N (default: all)")
    parser.add_argument("--json", action="store_true", help="lines of JSON, with the raw bytes")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Shows the rejects, or replays them; a replay exits with 3 if some remain."""
    if parsed.take_over and not parsed.replay:
        raise UsageError("--take-over is for --replay: to show the rejects takes nothing over")
    pipeline = pipeline_of(parsed.pipeline)
    if parsed.replay:
        found = pipeline.replay(take_over=parsed.take_over)
        for source, (accepted, remaining) in found.items():
            text = {"source": source, "accepted": accepted, "rejected": remaining}
            print(
                json.dumps(text)
                if parsed.json
                else f"{source}: {counted(accepted, 'record')} in the log now, {remaining:,} still rejected"
            )
        if not found and not parsed.json:
            print("there are no rejects")
        if any(accepted for accepted, _ in found.values()):
            print("the next `changeling run` merges them into the replicas", file=sys.stderr)
        return 3 if any(remaining for _, remaining in found.values()) else 0
    rows = list(pipeline.rejects(parsed.limit))
    if parsed.json:
        for row in rows:
            print(json.dumps({"id": row["id"], "source": row["source"], **reject_line(row)}))
    elif rows:
        _show(rows)
    else:
        print("there are no rejects")
    sys.stdout.flush()
    return 0


def _show(rows: list[dict[str, object]]) -> None:
    from changeling.cli.display import show_table, table

    shown = table("record", "reason", "begins with")
    for row in rows:
        raw = row["raw"]
        start = "" if not isinstance(raw, bytes) else raw[:60].decode(errors="replace")
        shown.add_row(str(row["id"]), str(row["reason"]), start)
    show_table(shown, folded=True)
