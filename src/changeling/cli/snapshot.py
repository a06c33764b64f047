"""`changeling snapshot`: takes tables of a PostgreSQL source anew, by the run that goes on or the next one."""

import argparse

from changeling.cli.pipeline import add_pipeline, pipeline_of
from changeling.model.printable import printable


def add(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the verb."""
    parser = verbs.add_parser("snapshot", help="take tables of a database anew", description=__doc__)
    parser.add_argument("tables", nargs="+", metavar="TABLE", help="[schema.]name or a pattern")
    add_pipeline(parser)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Asks for it; the stream goes on meanwhile."""
    for table in pipeline_of(parsed.pipeline).snapshot(parsed.tables):
        print(f"{printable(table)}: is taken anew by the run that goes on, or by the next one")
    return 0
