"""`changeling init`: a pipeline with comments and a few records, which run at once."""

import argparse
import shlex
from importlib import resources
from pathlib import Path

from changeling.model.errors import UsageError

_FILES = {"shop.yaml": "shop.yaml", "in/customers.jsonl": "customers.jsonl"}
"""What is written, and the file of the starter that it is a copy of."""


def add(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the verb."""
    parser = verbs.add_parser("init", description=__doc__)
    parser.add_argument("folder", nargs="?", default=".", metavar="DIR", help="where to write it (default: here)")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Writes the files, all of them or none, and says what to do with them."""
    folder = Path(parsed.folder)
    targets = {folder / name: starter for name, starter in _FILES.items()}
    for target in targets:
        if target.exists() or target.is_symlink():
            raise UsageError(f"{target} exists already: nothing was written; choose another folder with init DIR")
    starters = resources.files("changeling.cli") / "starter"
    for target, starter in targets.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            file.write((starters / starter).read_bytes())
        print(f"wrote {target}")
    steps = [
        *([f"cd {shlex.quote(parsed.folder)}"] if parsed.folder != "." else []),
        "changeling decode in/customers.jsonl --pretty   # the records, as changes",
        "changeling check                                # whether the pipeline can run",
        "changeling run --once                           # records to log, log to table",
        "changeling replica customers                    # the table as it is now",
    ]
    print("\n".join(["", "next:", *(f"  {step}" for step in steps)]))
    return 0
