"""Every command on a page can be called as it is printed there, and prints what the page says, in a copy of the page's examples."""

import io
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from changeling.cli.main import _parse
from tests.cli.warm_commands import WARM
from tests.docs.transcripts import (
    EXAMPLES,
    IN_ONE_LAKE,
    REPOSITORY,
    WITH_A_DATABASE,
    examples_of,
    files_on,
    is_printed,
    printed_commands,
)

COMMAND = str(Path(sys.executable).with_name("changeling"))
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
WITH_EXAMPLES = [page for page in PAGES if examples_of(page).is_dir()]
WITH_JAVA = {"README.md", "docs/pipelines.md", "docs/tutorial.md"}
_ELSEWHERE = re.compile(r" \| | [12]?> ?")
"""What follows is the shell's."""


def named(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


def run(command: str, folder: Path, *, with_java: bool) -> str:
    """What the command prints, errors and all; a run prints for people only on a terminal."""
    words = shlex.split(command)
    assert words[0] in ("changeling", "cat", "cp", "mv"), command
    if words[0] == "changeling" and not with_java:
        return WARM.run(tuple(words[1:]), folder, together=True).stdout
    words[0] = {"changeling": COMMAND}.get(words[0], words[0])
    if words[1] == "run":
        return _on_terminal(words, folder)
    done = subprocess.run(
        words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=60
    )
    return done.stdout


def _on_terminal(words: list[str], folder: Path) -> str:
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0) as terminal:
        process = subprocess.Popen(
            words,
            cwd=folder,
            env={**os.environ, "TERM": "dumb"},
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        shown = b"".join(_read(terminal))
    process.wait(60)
    return shown.decode().replace("\r\n", "\n")


def _read(terminal: io.RawIOBase) -> Iterator[bytes]:
    # A terminal ends with an error when the last process that writes to it has ended.
    with suppress(OSError):
        while part := terminal.read(65_536):
            yield part


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=named(page), marks=[pytest.mark.services] if named(page) in WITH_JAVA else [])
        for page in WITH_EXAMPLES
        if page.stem not in (*IN_ONE_LAKE, *WITH_A_DATABASE)
    ],
)
def test_commands_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    folder = tmp_path / "examples"
    shutil.copytree(examples_of(page), folder)
    for command, output in printed_commands(page.read_text(encoding="utf-8")):
        if command.startswith("cd "):
            folder = (folder / command.removeprefix("cd ")).resolve()
        elif command.startswith(("cp ", "mv ")):
            assert run(command, folder, with_java=True) == ""
        elif output is not None:
            actual = run(command, folder, with_java=named(page) in WITH_JAVA)
            assert is_printed(actual, output), f"$ {command}\n{actual}\n-- instead of --\n{output}"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_are_spelled_right(page: Path) -> None:
    for command, _ in printed_commands(page.read_text(encoding="utf-8")):
        first, *words = shlex.split(_ELSEWHERE.split(command)[0])
        if first == "changeling":
            assert _parse(words).verb == words[0]


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=named)
def test_files_on_the_page_are_those_of_the_examples(page: Path) -> None:
    for name, text in files_on(page.read_text(encoding="utf-8")).items():
        assert (examples_of(page) / name).read_text(encoding="utf-8") == text


def test_every_example_has_a_page() -> None:
    folders = {file.parent for file in EXAMPLES.rglob("*") if file.is_file()}
    known = {folder for page in PAGES for folder in (examples_of(page), *examples_of(page).rglob("*"))}
    assert folders <= known
