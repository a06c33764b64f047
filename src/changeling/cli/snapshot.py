"""`changeling snapshot`: snapshots tables of a PostgreSQL source again, in the current run or the next one."""

import argparse

from changeling.cli.arguments import add_pipeline, pipeline_of
from changeling.model.printable import printable


def add(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the verb."""
    parser = verbs.add_parser("snapshot", description=__doc__)
    parser.add_argument("tables", nargs="+", metavar="TABLE", help="[schema.]name or a pattern")
    add_pipeline(parser)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Requests the snapshots; streaming continues in the meantime."""
    for table in pipeline_of(parsed.pipeline).snapshot(parsed.tables):
        print(f"{printable(table)}: will be snapshotted again by the current run, or by the next one")
    return 0
