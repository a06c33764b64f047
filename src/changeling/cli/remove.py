"""`changeling remove`: drops a pipeline's log, replicas and feeds with their data, and what it has on servers."""

import argparse
import sys

from changeling.cli.arguments import add_pipeline, pipeline_of
from changeling.model.errors import UsageError
from changeling.model.printable import printable


def add(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the verb."""
    parser = verbs.add_parser("remove", description=__doc__)
    add_pipeline(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Asks first, unless `--yes` is given; the pipeline file and its sources stay."""
    pipeline = pipeline_of(parsed.pipeline)
    if not parsed.yes:
        if not sys.stdin.isatty():
            raise UsageError(f"this drops the log, the replicas and the feeds of {pipeline.name}, for good: say --yes")
        answer = input(f"Drop the log, the replicas and the feeds of {pipeline.name}, for good? Type its name: ")
        if answer.strip() != pipeline.name:
            print("nothing was dropped")
            return 1
    dropped = pipeline.remove()
    print(f"dropped {', '.join(map(printable, dropped))}" if dropped else "there was nothing to drop")
    return 0
