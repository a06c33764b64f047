"""`verify` alongside a run: what it waits for lies before the mark that makes the run read, so that an idle server is read up to there."""

import itertools
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import pytest

from changeling.pipelines import verification
from changeling.pipelines.definition import PostgresSource
from tests.pipelines.pipeline_files import HEAD, loaded

PG = f'{HEAD}  - {{name: pg, type: postgres, url: "postgresql://127.0.0.1:1/shop", tables: ["*"]}}\n'


class Server:
    """A server whose log becomes longer with all that is asked of it."""

    def __init__(self, *given: object) -> None:
        self._log = itertools.count(1)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Nothing to close."""

    def present(self) -> int:
        return next(self._log)

    def mark(self) -> None:
        MARKS.append(next(self._log))


MARKS: list[int] = []


def test_a_run_that_reads_up_to_the_mark_has_read_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = loaded(tmp_path, PG)
    waited: list[int] = []

    def wait(of: Any, source: Any, lsn: int) -> None:
        waited.append(lsn)

    monkeypatch.setattr(verification, "is_held", lambda file: True)
    monkeypatch.setattr(verification, "ServerProbe", Server)
    monkeypatch.setattr(verification, "_wait", wait)
    verification._catch_up(found, cast(PostgresSource, found.definition.sources[0]), lambda name, lsn: None)
    assert waited < MARKS
