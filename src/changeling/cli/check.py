"""`changeling check`: whether a pipeline can run, and what to do where it cannot; needs no Spark, and alters nothing."""

import argparse
import json
import shutil
import sys
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from changeling.cli.arguments import add_pipeline_file
from changeling.model.printable import printable_lines

if TYPE_CHECKING:
    from changeling.pipelines.checking import Check

_SIGNS = {"ok": "✓", "warning": "!", "failed": "✗"}
_GRAVEST_FIRST = (2, 1, 3)


def add(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the verb."""
    parser = verbs.add_parser("check", description=__doc__)
    add_pipeline_file(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per check")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Prints a line a check: all is well, or what to do. The exit code is the one that a run would have."""
    from changeling.pipelines.checking import checks
    from changeling.pipelines.loading import find

    wanted = checks(find(parsed.file or parsed.pipeline))
    width = max(len(check.subject) for check in wanted)
    codes = {_tell(check, width, parsed.json) for check in wanted}
    return next((code for code in _GRAVEST_FIRST if code in codes), 0)


def _tell(check: "Check", width: int, as_json: bool) -> int:
    found = check.look()
    if as_json:
        line = json.dumps({"check": check.subject, "status": found.status, "text": found.text}, ensure_ascii=False)
    else:
        line = "\n".join(_wrapped(f"{_SIGNS[found.status]} {check.subject:<{width}}  ", printable_lines(found.text)))
    # Some checks take seconds.
    print(line, flush=True)
    return found.code


def _wrapped(start: str, text: str) -> Iterator[str]:
    """The lines of a finding below each other; a terminal gets them in its width."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for number, line in enumerate(text.split("\n")):
        begin = " " * len(start) if number else start
        if width is None or len(begin) + len(line) <= width:
            yield begin + line.lstrip()
        else:
            yield from textwrap.wrap(
                line, width, initial_indent=begin, subsequent_indent=" " * len(start), break_on_hyphens=False
            )
