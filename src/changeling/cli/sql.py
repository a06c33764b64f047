"""`changeling sql`: statements on changefeeds, as YDB has them: ALTER TABLE t ADD CHANGEFEED f WITH (…), DROP TABLE t."""

import argparse
import sys
from typing import TYPE_CHECKING

from changeling.cli.arguments import add_pipeline, add_source, pipeline_of

if TYPE_CHECKING:
    from changeling.feeds.execution import Done

_WHAT = {"add": "added", "set": "altered", "disable": "disabled", "drop": "dropped", "drop table": "dropped"}


def add(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the verb."""
    parser = verbs.add_parser("sql", description=__doc__)
    parser.add_argument("text", metavar="TEXT", help="statements, separated by semicolons; - reads the input")
    add_source(parser)
    add_pipeline(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per action")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Runs all statements, or none of them."""
    import msgspec

    text = sys.stdin.read() if parsed.text == "-" else parsed.text
    for done in pipeline_of(parsed.pipeline).sql(text, source=parsed.source):
        print(msgspec.json.encode(done).decode() if parsed.json else _sentence(done))
    return 0


def _sentence(done: "Done") -> str:
    from changeling.model.printable import printable

    table = printable(done.table) if done.source is None else f"{printable(done.table)} of source {done.source}"
    if done.feed is None:
        return f"table {table} {_WHAT[done.action]}"
    waiting = ": it waits for the table" if done.action == "add" and done.status == "pending" else ""
    return f"feed {done.feed} on {table} {_WHAT[done.action]}{waiting}"
