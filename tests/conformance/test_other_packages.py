"""A format of another package: found by its entry point, used like any other, and put through the suite that comes with Changeling."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from changeling.formats import registry
from changeling.model.errors import UsageError

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-format.md"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with an installed package that brings the dialect of the page."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "my_notes.py").write_text(code)
    (entry_points,) = re.findall(
        r"```toml\n\[project\.entry-points\.\"(.*?)\"\]\n(.*?)```", PAGE.read_text(), re.DOTALL
    )
    info = tmp_path / "my_notes-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-notes\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{entry_points[0]}]\n{entry_points[1].replace(chr(34), '')}")
    return tmp_path


def run(package: Path, *command: str) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, "PYTHONPATH": os.pathsep.join([str(package), *sys.path])}
    return subprocess.run(
        [sys.executable, *command], cwd=package, env=given, capture_output=True, text=True, check=False
    )


def test_it_is_listed_and_read(package: Path) -> None:
    (package / "notes.jsonl").write_text('{"do":"put","in":"users","id":7,"row":{"id":7},"n":12}\n')
    made = run(package, "-m", "changeling", "decode", "notes.jsonl", "--from", "notes")
    assert (made.returncode, '"op":"upsert"' in made.stdout) == (0, True), made.stderr
    assert "a diary of rows" in run(package, "-m", "changeling", "formats").stdout


def test_the_suite_runs_for_it_alone(package: Path) -> None:
    made = run(
        package,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--pyargs",
        "changeling.conformance",
        "-k",
        "by_name or declares",
    )
    assert made.returncode == 0, made.stdout
    assert re.search(r"\b\d+ passed", made.stdout)
    listed = run(package, "-m", "pytest", "-q", "--collect-only", "--pyargs", "changeling.conformance").stdout
    assert "declares_itself[notes]" in listed
    assert "declares_itself[xtdb]" not in listed


def test_what_is_registered_must_be_a_format_of_that_name() -> None:
    with pytest.raises(
        UsageError, match=r"some\.module is registered as the format 'notes', but is not a Format: it is 5"
    ):
        registry._checked(5, "notes", "some.module")
    with pytest.raises(UsageError, match=r"some\.module is registered as 'notes', but calls itself 'xtdb'"):
        registry._checked(registry.get("xtdb"), "notes", "some.module")
