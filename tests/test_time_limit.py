"""A test that hangs is reported, wherever it hangs, and the others are run."""

import subprocess
import sys
from pathlib import Path

HANGING = """
import threading
import pytest

@pytest.fixture
def hanging():
    threading.Event().wait()

def test_hangs():
    threading.Event().wait()

def test_hangs_before_it_begins(hanging):
    pass

def test_is_run():
    pass
"""


def test_what_hangs_fails_and_the_others_are_run(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(HANGING)
    options = [
        "-q",
        "-rN",  # no summary: under CI it repeats each failure
        "-p",
        "tests.time_limit",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
        "-o",
        "time_limit=0.2",
    ]
    call = [sys.executable, "-m", "pytest", *options, "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(call, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    assert done.stdout.count("takes longer than 0.2 seconds\n") == 2, done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 failed, 1 passed, 1 error in"), done.stdout
    assert done.stdout.count("most recent call first") == 2, done.stdout
