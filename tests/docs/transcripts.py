"""Commands as the pages print them: `$ command`, and below it what it prints."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLES = REPOSITORY / "examples"
IN_ONE_LAKE = ("log", "operations", "reading-feeds", "reading-the-lake", "deployment")
"""Pages whose commands are run alongside one session of Spark, in this order: the first makes the lake, and the last one moves it."""
WITH_A_DATABASE = ("postgres", "targets")
"""Pages whose commands need a PostgreSQL as well."""

_BLOCK = re.compile(r"^```(?:sh)?\n(\$ .*?)^```", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^```yaml\n(# (\S+\.yaml)\n.*?)^```", re.MULTILINE | re.DOTALL)
_EXPLAINED = re.compile(r"(.*?\S) {3,}\S.*")
_LEFT_OUT = "…"


class Printed(NamedTuple):
    """A command on a page."""

    command: str
    output: str | None
    """What it prints; `…` stands for what is left out. None where the page only explains the command."""


def printed_commands(page: str) -> Iterator[Printed]:
    """The commands of a page, in its order; a list of commands has an explanation behind each, and no output."""
    for block in _BLOCK.findall(page):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            explained = _EXPLAINED.fullmatch(command)
            yield Printed(command, output) if explained is None else Printed(explained[1], None)


def files_on(page: str) -> dict[str, str]:
    """The files that a page shows whole, by their names, which a comment in the first line has."""
    return {name: block for block, name in _FILE.findall(page)}


def examples_of(page: Path) -> Path:
    """The folder of the files that the commands of a page work on: `examples/formats/xtdb` for `docs/formats/xtdb.md`."""
    inside = page.relative_to(REPOSITORY / "docs" if page.name != "README.md" else REPOSITORY)
    return EXAMPLES / str(inside.with_suffix("")).lower()


def is_printed(actual: str, expected: str) -> bool:
    """Whether a text is the expected one: `…` stands for any text in its line, or for any lines where it is alone in one."""
    lines = [re.escape(line.rstrip()).replace(_LEFT_OUT, ".*") for line in expected.rstrip("\n").split("\n")]
    pattern = (
        "".join("(?:.*\n)*?" if line.lstrip("\\ ") == ".*" else f"{line} *\n" for line in lines)
        if expected.strip()
        else ""
    )
    return re.fullmatch(pattern, f"{actual.rstrip()}\n" if actual.strip() else "") is not None
