"""`changeling catalog`: ready settings to read the lake from Spark, PyIceberg, DuckDB, Trino and Flink; needs no Spark.

With --serve, the lake is served as an Iceberg REST catalog that nobody can write to, and the settings are those of that one.
"""

import argparse
import json
import os
import secrets
import sys
import threading
from typing import TYPE_CHECKING

from changeling.cli.arguments import add_pipeline, whole_number
from changeling.cli.process import stopped_by_signals
from changeling.model.errors import UsageError

if TYPE_CHECKING:
    from changeling.pipelines.loading import LoadedPipeline

_ENGINES = ("spark", "pyiceberg", "duckdb", "trino", "flink")
_TOKEN = "CHANGELING_TOKEN"
_LAST_PORT = 65535


def add(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the verb."""
    parser = verbs.add_parser("catalog", description=__doc__)
    parser.add_argument(
        "engine", nargs="?", metavar="ENGINE", choices=_ENGINES, help=f"only one: {', '.join(_ENGINES)}"
    )
    add_pipeline(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object, a text per engine")
    parser.add_argument("--serve", action="store_true", help="serve the lake as an Iceberg REST catalog, to read")
    parser.add_argument("--host", help="the address to listen on (default: 127.0.0.1, this machine alone)")
    parser.add_argument("--port", type=whole_number, help="the port to listen on (default: 8181; 0 is a free one)")
    parser.add_argument(
        "--token", help=f"the token that clients must send (default: the variable {_TOKEN}, else a new one)"
    )
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Prints what each engine takes; values of variables are masked."""
    from changeling.pipelines.catalog_settings import catalog_settings
    from changeling.pipelines.loading import find, load

    loaded = load(find(parsed.pipeline))
    if parsed.serve:
        return _serve(loaded, parsed)
    for name in ("host", "port", "token"):
        if getattr(parsed, name) is not None:
            raise UsageError(f"--{name} is for a catalog that is served: add --serve")
    _print(catalog_settings(loaded), parsed)
    return 0


def _print(found: dict[str, str], parsed: argparse.Namespace) -> None:
    chosen = {name: text for name, text in found.items() if parsed.engine in (None, name)}
    if parsed.json:
        print(json.dumps(chosen), flush=True)
    elif parsed.engine:
        print(chosen[parsed.engine], flush=True)
    else:
        print("\n\n".join(f"== {name}\n{text}" for name, text in chosen.items()), flush=True)


def _serve(loaded: "LoadedPipeline", parsed: argparse.Namespace) -> int:
    """Serves until Ctrl-C or SIGTERM. A token that is given is not printed, a new one is."""
    from changeling.pipelines.catalog_settings import served_catalog

    port = 8181 if parsed.port is None else parsed.port
    if not 0 <= port <= _LAST_PORT:
        raise UsageError(f"--port {port}: ports are numbers from 0 to {_LAST_PORT}")
    given: str | None = parsed.token or os.environ.get(_TOKEN)
    token = given or secrets.token_urlsafe(32)
    served = served_catalog(loaded, parsed.host or "127.0.0.1", port, token, shown="TOKEN" if given else token)
    stop = stopped_by_signals()
    _print(served.settings, parsed)
    with served.server as server:
        threading.Thread(target=server.serve_forever, name="rest-catalog", daemon=True).start()
        print(f"changeling: serves {loaded.definition.name} at {server.uri}; Ctrl-C stops it", file=sys.stderr)
        stop.wait()
        server.shutdown()
    return 0
