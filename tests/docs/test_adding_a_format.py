"""The page "adding a format" is true: its dialect is built from the page, and put through the conformance suite."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import changeling
from changeling import formats
from changeling.conformance.cases import CASES, batch
from changeling.formats import registry
from changeling.model.line import lines
from tests.conformance import written
from tests.conformance.test_conformance import check_pair
from tests.docs.called import called

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-format.md"


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The dialect of the page, registered for one test."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "notes.py").write_text(code)
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(tmp_path)])
    monkeypatch.setitem(registry._MODULES, "notes", "notes")
    registry.get.cache_clear()
    yield "notes"
    registry.get.cache_clear()
    for module in [module for module in sys.modules if module.startswith("changeling.formats.notes")]:
        del sys.modules[module]


def test_the_records_of_the_page_come_back(notes: str) -> None:
    records = re.search(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert records is not None
    lines = records[1].splitlines()
    changes, rejects = changeling.decode(lines, notes)
    assert rejects.num_rows == 0
    assert changes["op"].to_pylist() == ["upsert", "delete"]
    assert changes["after"].to_pylist() == ['{"name": "Ann", "age": 30}', None]
    written, _ = changeling.encode(changes, notes)
    again, _ = changeling.decode(written, notes)
    assert again.equals(changes)


@pytest.mark.parametrize("case", CASES)
def test_the_dialect_of_the_page_conforms(notes: str, case: str) -> None:
    check_pair(CASES[case], batch([CASES[case]]), notes)


def test_the_golden_case_that_the_page_prints_is_right(notes: str, tmp_path: Path) -> None:
    records = re.search(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert records is not None
    (tmp_path / "input.jsonl").write_text(records[1])
    printed = called(["changeling", "decode", "input.jsonl", "--from", notes], tmp_path).printed
    (expression,) = re.findall(r"\$ changeling decode input.jsonl --from notes \| sed 's/(.*)//' >", PAGE.read_text())
    kept = [json.loads(re.sub(expression, "", line)) for line in printed.splitlines()]
    changes, _ = changeling.decode(records[1].splitlines(), notes)
    assert kept == [json.loads(line) for part in changes.to_batches() for line in lines(part)]


def test_it_really_writes_something(notes: str, capsys: pytest.CaptureFixture[str]) -> None:
    written.main(notes)
    found = [line.removesuffix(": written") for line in capsys.readouterr().out.splitlines() if ": written" in line]
    assert found == [
        "insert",
        "insert of nulls",
        "read",
        "update without before",
        "upsert",
        "replace",
        "delete by key",
        "delete without image",
        "key change shown by the key alone",
        "table by name alone",
        "text null",
    ]
