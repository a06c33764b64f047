"""The map of the code is true: its modules exist, and a record passes them in the order that it shows."""

import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType

from pyspark.sql import SparkSession

import changeling
from tests.log.lakes import event, shop

SOURCE = Path(changeling.__file__).parent
PAGE = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()
MODULE = re.compile(r"`((?:[a-z_]+/)*)([a-z_]+\.py)`")
OTHER_SOURCES = ("sources/kafka", "sources/postgres", "postgres/", "targets/", "pipelines/target_sync")
"""What a record from a file does not pass."""


def modules(text: str) -> list[str]:
    """The modules that a text names; one without a folder is in that of the one before, or in none."""
    found, folder = [], ""
    for given, name in MODULE.findall(text):
        folder = given or folder
        alone = not given and (SOURCE / name).is_file()
        found.append(name if alone else f"{folder}{name}")
    return found


def rows(heading: str) -> list[list[str]]:
    """The cells of the rows of the table that has a heading."""
    table = PAGE[PAGE.index(heading) :].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]


def test_every_module_that_the_map_names_exists() -> None:
    certain = "\n".join(line for line in PAGE.splitlines() if "<dialect>" not in line)
    named = {module for module in modules(certain) if not module.startswith("tests/")}
    assert len(named) > 50
    assert sorted(module for module in named if not (SOURCE / module).is_file()) == []


def test_every_room_is_on_the_map() -> None:
    (rooms,) = re.findall(r"\| room \| what it contains \|\n\|[-|]+\n((?:\|.*\n)+)", PAGE)
    named = {name for line in rooms.splitlines() for name in re.findall(r"`([a-z_]+)(?:/|\.py)`", line.split(" | ")[0])}
    there = {path.stem for path in SOURCE.iterdir() if path.stem[0] not in "_." and (path / "__init__.py").exists()}
    there |= {path.stem for path in SOURCE.glob("[a-z]*.py")}
    assert there == named


def called(call: Callable[[], object]) -> dict[str, None]:
    """The functions and modules of ours that a call runs, in the order in which each is entered for the first time."""
    codes: dict[CodeType, None] = {}

    def note(frame: FrameType, event: str, argument: object) -> None:
        codes.setdefault(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    found: dict[str, None] = {}
    for code in codes:
        path = Path(code.co_filename)
        if path.is_relative_to(SOURCE):
            found.setdefault(path.relative_to(SOURCE).as_posix())
            found.setdefault(code.co_qualname)
    return found


def test_a_record_passes_the_walk_step_by_step(spark: SparkSession, tmp_path: Path) -> None:
    feed = {"name": "users_feed", "table": "users", "with": {"FORMAT": "JSON", "MODE": "NEW_AND_OLD_IMAGES"}}
    made = shop(tmp_path, feeds=[feed])
    made.write("a.json", event(1))
    made.pipeline.run(once=True)
    made.write("b.json", event(2))
    found = list(called(lambda: made.pipeline.run(once=True)))
    walk = [row for row in rows("| step | what happens |") if not modules(row[3])[0].startswith(OTHER_SOURCES)]
    assert [step for step, *_ in walk] == ["plan", "read", "decode", "write", "commit", "merge", "publish"]
    begins = [found.index(first.strip("`")) for _, _, first, _ in walk]
    assert begins == sorted(begins)
    passed = [module for *_, where in walk for module in modules(where) if not module.startswith(OTHER_SOURCES)]
    assert [module for module in passed if module not in found] == []
