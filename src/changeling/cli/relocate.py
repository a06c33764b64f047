"""`changeling relocate`: makes a warehouse that was moved or copied whole again, where the pipeline file says it is; needs no Spark.

The paths in Iceberg's metadata are absolute. They are corrected in place; data files stay as they are. It can be interrupted and
run again at any time.
"""

import argparse
import dataclasses
import json

from changeling.cli.arguments import add_pipeline
from changeling.model.printable import counted


def add(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the verb."""
    parser = verbs.add_parser("relocate", description=__doc__)
    add_pipeline(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Prints what was corrected."""
    from changeling.pipelines.lakehouse import relocate
    from changeling.pipelines.loading import find, load

    done = relocate(load(find(parsed.pipeline)))
    if parsed.json:
        print(json.dumps(dataclasses.asdict(done)))
    elif not done.from_places:
        print("nothing to do: the tables are where the catalog says")
    else:
        what = f"{counted(done.tables, 'table')}, {counted(done.files, 'file')}"
        print(f"{what} corrected; the warehouse was {' and '.join(done.from_places)}")
    return 0
