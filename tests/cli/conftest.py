"""Runs commands as a user would, in a folder of their own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.warm_commands import WARM

Run = Callable[..., subprocess.CompletedProcess[str]]
COMMAND = Path(sys.executable).with_name("changeling")
RECORDS = Path(__file__).parent / "records"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs `changeling ARGS` in a new folder that holds published records."""
    for path in RECORDS.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())

    def command(*arguments: str, stdin: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        if stdin is None and not environment:
            return WARM.run(arguments, tmp_path)
        return subprocess.run(
            [str(COMMAND), *arguments],
            cwd=tmp_path,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={**os.environ, **environment},
        )

    return command
