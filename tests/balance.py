"""How long the files of tests take, so that those that take long come first, and workers end together.

`seconds.json` has the files that take long; a file that is not there is guessed by what its tests need. It only decides on the
order, and need not be exact. `python -m tests.balance REPORT` writes it from what `pytest --junit-xml=REPORT` wrote.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[1]
MEASURED = Path(__file__).with_name("seconds.json")
LONG = 8
"""Files that take so many seconds are measured."""
SERVICES = {"spark": 1.5, "broker": 1.0, "guarded_broker": 1.0, "server": 0.2}
"""Fixtures that start Spark or a server, and about how many seconds a test of each takes."""
PLAIN = 0.03
PROCESS = 15.0
"""A test that starts a process of its own with Spark."""


def file_seconds(items: Iterable[pytest.Item]) -> dict[Path, float]:
    """About how long the tests of each file take."""
    guessed: dict[Path, float] = defaultdict(float)
    for item in items:
        needed = SERVICES.keys() & set(getattr(item, "fixturenames", ()))
        by_hand = PROCESS if item.get_closest_marker("services") else PLAIN
        guessed[item.path] += max((SERVICES[name] for name in needed), default=by_hand)
    return {**guessed, **{path: seconds for path, seconds in measured().items() if path in guessed}}


def measured() -> dict[Path, float]:
    """The files that take long, with their seconds."""
    return {ROOT / name: seconds for name, seconds in json.loads(MEASURED.read_text()).items()}


def write(report: Path) -> None:
    """Writes anew what is measured."""
    found: dict[str, float] = defaultdict(float)
    for case in ElementTree.parse(report).iter("testcase"):
        found[case.attrib["classname"].replace(".", "/") + ".py"] += float(case.attrib["time"])
    slowest_first = sorted(found.items(), key=lambda entry: -entry[1])
    long = {name: round(seconds) for name, seconds in slowest_first if seconds >= LONG}
    MEASURED.write_text(json.dumps(long, indent=1) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
