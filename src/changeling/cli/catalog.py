"""`changeling catalog`: ready settings to read the lake from Spark, PyIceberg, DuckDB, Trino and Flink; needs no Spark."""

import argparse
import json

from changeling.cli.arguments import add_pipeline

_ENGINES = ("spark", "pyiceberg", "duckdb", "trino", "flink")


def add(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the verb."""
    parser = verbs.add_parser("catalog", help="settings to read the lake from other engines", description=__doc__)
    parser.add_argument(
        "engine", nargs="?", metavar="ENGINE", choices=_ENGINES, help=f"only one: {', '.join(_ENGINES)}"
    )
    add_pipeline(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object, a text an engine")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Prints what each engine takes; values of variables are masked."""
    from changeling.pipelines.catalog_settings import catalog_settings
    from changeling.pipelines.loading import find, load

    found = catalog_settings(load(find(parsed.pipeline)))
    chosen = {name: text for name, text in found.items() if parsed.engine in (None, name)}
    if parsed.json:
        print(json.dumps(chosen))
    elif parsed.engine:
        print(chosen[parsed.engine])
    else:
        print("\n\n".join(f"== {name}\n{text}" for name, text in chosen.items()))
    return 0
