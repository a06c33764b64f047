"""The verbs, and lists of words with their explanations.

A verb is a module of its own, which is imported when it is called: most of them need much that others do not.
"""

import importlib
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

VERBS = {
    "files": {
        "formats": "list the dialects, or describe one",
        "decode": "show records of any dialect as changes",
        "convert": "turn files of one dialect into another",
    },
    "a pipeline": {
        "init": "write a pipeline to begin with",
        "check": "say whether a pipeline can run, and what it lacks",
        "run": "run a pipeline, once or until it is stopped",
        "status": "show how far a pipeline is, and what it lags behind",
        "rejects": "show the records that could not be read, or read them again",
        "verify": "compare replicas with their database, or check a feed",
        "snapshot": "snapshot tables of a database again",
    },
    "its tables": {
        "replica": "show the rows of a table, now or at an earlier time",
        "history": "show every change of one row",
        "catalog": "print settings to read the lake from other engines",
        "feed": "create, change, list and read changefeeds",
        "sql": "add, alter and drop changefeeds",
    },
    "upkeep": {
        "maintain": "compact the tables of a pipeline, and remove what has expired",
        "relocate": "correct the paths of a moved or copied warehouse",
        "remove": "drop a pipeline's tables, and what it has on servers",
        "completion": "print a script for the completion of a shell",
    },
}
"""By what they are for, each with what it does. A verb has the name of its module, and `add` there declares it."""
NAMES = tuple(name for group in VERBS.values() for name in group)
_WIDTH = max(map(len, NAMES))


def declare(names: Iterable[str], verbs: Any) -> None:
    """Adds the parsers of some verbs, to what `add_subparsers` gives."""
    for name in names:
        importlib.import_module(f"changeling.cli.{name}").add(verbs)


def listed() -> Iterator[str]:
    """The lines of the help that say what each verb does."""
    for title, group in VERBS.items():
        yield f"{title}:"
        yield from definitions(((f"{name:<{_WIDTH}}", does) for name, does in group.items()), "  ")
        yield ""


WIDTH = 80
"""The columns that every terminal has."""


def definitions(pairs: Iterable[tuple[str, str]], indent: str = "") -> Iterator[str]:
    """Lines of at most `WIDTH` letters: the words on the left, what they mean on the right."""
    listed = list(pairs)
    width = max((len(word) for word, _ in listed), default=0) + 2
    for word, meaning in listed:
        start = f"{indent}{word:<{width}}"
        further = " " * len(start)
        yield from textwrap.wrap(
            meaning, WIDTH, initial_indent=start, subsequent_indent=further, break_on_hyphens=False
        ) or [start.rstrip()]
