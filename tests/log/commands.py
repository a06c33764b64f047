"""The command line on a pipeline: in this process where Spark is needed, which runs here already, else in one of its own."""

import json
import signal
from typing import Any

from changeling.cli import main
from tests.cli.warm_commands import WARM
from tests.log.lakes import Shop


def run_once(made: Shop) -> int:
    """`changeling run --once`; returns the exit code."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return main(["run", str(made.file), "--once"])
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def printed(made: Shop, *arguments: str) -> str:
    """What a command that needs no Spark prints in the folder of the pipeline."""
    done = WARM.run(arguments, made.folder)
    done.check_returncode()
    return done.stdout


def printed_objects(made: Shop, *arguments: str) -> list[dict[str, Any]]:
    """The same with `--json`."""
    return [json.loads(line) for line in printed(made, *arguments, "--json").splitlines()]
