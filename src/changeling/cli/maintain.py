"""`changeling maintain`: compacts small files, expires old snapshots, drops days past retention."""

import argparse
import dataclasses
import json

from changeling.cli.arguments import add_pipeline, pipeline_of


def add(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the verb."""
    parser = verbs.add_parser("maintain", description=__doc__)
    add_pipeline(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per table")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Prints what was done to each table. Safe while the pipeline runs."""
    done = pipeline_of(parsed.pipeline).maintain()
    if parsed.json:
        print("\n".join(json.dumps(dataclasses.asdict(one)) for one in done))
        return 0
    if not done:
        print("there is nothing to maintain: the pipeline has no log yet")
        return 0
    from changeling.cli.display import show_table, table

    counts = ("files before", "after", "rewritten", "snapshots expired", "files past retention", "orphans removed")
    shown = table("table", numbers=counts)
    for one in done:
        shown.add_row(*(str(value) for value in dataclasses.astuple(one)))
    show_table(shown)
    return 0
