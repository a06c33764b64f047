"""Every command on a page can be called as it is printed there, and prints what the page says, in a copy of the page's examples."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from changeling.cli.main import _parse
from tests.cli.warm_commands import WARM
from tests.docs.called import Answer, called
from tests.docs.transcripts import (
    ELSEWHERE,
    EXAMPLES,
    ON_SPARK,
    REPOSITORY,
    WITH_A_DATABASE,
    examples_of,
    files_on,
    is_printed,
    printed_commands,
)

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
WITH_EXAMPLES = [page for page in PAGES if examples_of(page).is_dir()]
_TOGETHER = {*WITH_A_DATABASE, *(page for pages in ON_SPARK.values() for page in pages)}
ALONE = [page for page in WITH_EXAMPLES if page.stem not in _TOGETHER]
_ELSEWHERE = re.compile(r" \| | [12]?> ?")
"""What follows is the shell's."""


def named(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


def run(command: str, folder: Path) -> Answer:
    """How the command ends, and what it prints, errors and all."""
    words = shlex.split(command)
    if words[0] != "changeling":
        return called(words, folder)
    done = WARM.run(tuple(words[1:]), folder, together=True)
    return Answer(done.returncode, done.stdout)


@pytest.mark.parametrize("page", ALONE, ids=named)
def test_commands_print_what_the_page_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java(tmp_path / "java", monkeypatch)
    folder = tmp_path / "examples"
    shutil.copytree(examples_of(page), folder)
    for command, output in printed_commands(page.read_text(encoding="utf-8")):
        found = run(command, folder)
        right = found.code == 0 if output is None else is_printed(found.printed, output)
        assert right, f"$ {command}\n{found.printed}\n-- instead of --\n{output}"


def java(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `changeling check` finds; nothing is started."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").touch()
    (folder / "release").write_text('JAVA_VERSION="17.0.2"\n')
    monkeypatch.setenv("JAVA_HOME", str(folder))


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


def test_every_page_with_commands_is_run() -> None:
    run_by = {*_TOGETHER, *ELSEWHERE, *(page.stem for page in ALONE)}
    assert {page.stem for page in PAGES if any(printed_commands(page.read_text(encoding="utf-8")))} <= run_by
    assert all((REPOSITORY / test).is_file() for tests in ELSEWHERE.values() for test in tests)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_are_in_blocks_that_are_run(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count("\n$ ") == sum(1 for _ in printed_commands(text))


def test_every_example_has_a_page() -> None:
    folders = {file.parent for file in EXAMPLES.rglob("*") if file.is_file()}
    known = {folder for page in PAGES for folder in (examples_of(page), *examples_of(page).rglob("*"))}
    assert folders <= known
