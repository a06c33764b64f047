"""Commands as processes of their own that begin with everything imported: forked from one that has done nothing else.

A command takes half a second of imports to do a few milliseconds of work. `python -m tests.cli.warm_commands` reads calls, one
JSON object a line, runs each in a fork, and prints its exit code.
"""

import atexit
import gc
import importlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any


class WarmCommands:
    """Runs `changeling ARGS`; the first call starts the process that the others are forked from."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[str] | None = None

    def run(
        self, arguments: tuple[str, ...], folder: Path, *, together: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """One command in that folder, its standard input empty; with `together`, errors are printed to standard output."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            call: dict[str, Any] = {"arguments": arguments, "folder": str(folder), "environment": dict(os.environ)}
            call |= {"out": f"/proc/{os.getpid()}/fd/{out.fileno()}", "err": f"/proc/{os.getpid()}/fd/{err.fileno()}"}
            call["together"] = together
            code = self._code(json.dumps(call))
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(["changeling", *arguments], code, out.read(), err.read())

    def _code(self, call: str) -> int:
        if self._server is None:
            line = [sys.executable, "-m", "tests.cli.warm_commands"]
            self._server = subprocess.Popen(
                line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
            )
            atexit.register(self.stop)
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(call + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())

    def stop(self) -> None:
        """Ends the process where there is one."""
        server, self._server = self._server, None
        if server is not None:
            server.communicate()


WARM = WarmCommands()


def _serve() -> None:
    import changeling.cli
    from changeling.cli.process import start_quickly
    from changeling.cli.verbs import NAMES
    from changeling.formats import registry

    # As the commands do that are served here.
    start_quickly()
    for name in registry.names():
        registry.get(name)
    # What commands import when they come to need it.
    needed = ("pyarrow.parquet", "pyiceberg.catalog.sql", "pyiceberg.io.pyarrow", "rich.console")
    for name in (*needed, *(f"changeling.cli.{verb}" for verb in NAMES), "changeling.pipelines.pipeline"):
        importlib.import_module(name)
    # What is imported stays in the memory that all forks share.
    gc.freeze()
    for line in sys.stdin:
        call = json.loads(line)
        child = os.fork()
        if child == 0:
            os.chdir(call["folder"])
            os.environ.clear()
            os.environ.update(call["environment"])
            for number, path, flags in (
                (0, os.devnull, os.O_RDONLY),
                (1, call["out"], os.O_WRONLY),
                (2, call["err"], os.O_WRONLY),
            ):
                os.dup2(os.open(path, flags), number)
            if call["together"]:
                os.dup2(1, 2)
            sys.argv = ["changeling", *call["arguments"]]
            _end(changeling.cli.main)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _end(main: Callable[[], int]) -> None:
    """Ends the process with that command, without taking apart what was imported: that takes longer than most commands."""
    code: object = 1
    try:
        code = main()
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    _serve()
