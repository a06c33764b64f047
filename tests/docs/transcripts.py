"""What pages print: commands as `$ command`, and examples in Python, each with what it prints below it."""

import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLES = REPOSITORY / "examples"
ON_SPARK = {
    "readme": ("README",),
    "tutorial": ("tutorial",),
    "log": ("log", "operations", "reading-feeds", "reading-the-lake", "deployment"),
    "replicas": ("replicas",),
    "feeds": ("feeds", "feed-files"),
}
"""Pages that are run alongside one session of Spark: by the folder of their examples, those with one lake in the order that it needs."""
WITH_A_DATABASE = ("postgres", "targets")
"""Pages whose commands need Spark, and a PostgreSQL as well."""
ELSEWHERE = {
    "adding-a-format": ("tests/docs/test_adding_a_format.py", "tests/conformance/test_other_packages.py"),
    "install": ("tests/installed/test_small_install.py",),
}
"""Pages whose commands need surroundings of their own, and the tests that have them."""

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^```yaml\n(# (\S+\.yaml)\n.*?)^```", re.MULTILINE | re.DOTALL)
_EXPLAINED = re.compile(r"(.*?\S) {3,}\S.*")
_LEFT_OUT = "…"
_PROMPT = "$ "


class Printed(NamedTuple):
    """A command on a page."""

    command: str
    output: str | None
    """What it prints; `…` stands for what is left out. None where the page only explains the command."""


class Example(NamedTuple):
    """A few lines of Python on a page."""

    code: str
    output: str
    """What they print."""


def steps(page: str) -> Iterator[Printed | Example]:
    """What a page shows how to do, in its order; a list of commands has an explanation behind each, and no output.

    The block directly below one of Python is what that prints.
    """
    blocks = list(_FENCE.finditer(page))
    for block, after in zip_longest(blocks, blocks[1:]):
        language, text = block.groups()
        if language == "python":
            below = after is not None and not after[1] and not page[block.end() : after.start()].strip()
            output = after[2] if after is not None and below else ""
            yield Example(text, "" if output.startswith(_PROMPT) else output)
        elif text.startswith(_PROMPT):
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                explained = _EXPLAINED.fullmatch(command)
                yield Printed(command, output) if explained is None else Printed(explained[1], None)


def printed_commands(page: str) -> Iterator[Printed]:
    """The commands of a page, in its order."""
    return (step for step in steps(page) if isinstance(step, Printed))


def examples(page: str) -> Iterator[Example]:
    """The examples in Python, in the order of the page."""
    return (step for step in steps(page) if isinstance(step, Example))


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
