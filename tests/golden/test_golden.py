"""Every record of the seeds and samples: it decodes to a change that is written down in full, and encodes to an equal record again."""

import json
from pathlib import Path
from typing import Any

import pytest

import changeling
from changeling.formats import registry
from changeling.model.line import lines

FOLDER = Path(__file__).parent
CASES = sorted(path.parent for path in FOLDER.glob("*/*/changes.jsonl"))


def exact(text: bytes | str | None) -> Any:
    """JSON with the original digits of every number."""
    return None if text is None else json.loads(text, parse_float=_Digits, parse_int=_Digits)


class _Digits(str):
    """A number's text: equal only to the same digits, and never to a string."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Digits) and str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def records_of(case: Path) -> list[dict[str, Any]]:
    """The wire records of a case.

    `input.jsonl` or `rows.csv`: a record a line; `messages.jsonl`: objects of value, key and topic as texts.
    """
    messages = case / "messages.jsonl"
    if messages.exists():
        return [json.loads(line) for line in messages.read_text().splitlines() if line]
    if (case / "rows.csv").exists():
        return [{"value": row} for row in (case / "rows.csv").read_text().splitlines()]
    return [{"value": line} for line in (case / "input.jsonl").read_text().splitlines() if line]


def options_of(case: Path, side: str) -> dict[str, Any]:
    path = case / "options.json"
    return json.loads(path.read_text()).get(side, {}) if path.exists() else {}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_records_decode_to_changes_written_down_whole(case: Path) -> None:
    changes, rejects = changeling.decode(records_of(case), case.parent.name, **options_of(case, "read"))
    assert rejects.to_pylist() == []
    found = [exact(line) for batch in changes.to_batches() for line in lines(batch)]
    assert found == [exact(line) for line in (case / "changes.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_changes_encode_back_to_equal_records(case: Path) -> None:
    given = records_of(case)
    changes, _ = changeling.decode(given, case.parent.name, **options_of(case, "read"))
    records, rejects = changeling.encode(changes, case.parent.name, **options_of(case, "write"))
    assert rejects.to_pylist() == []
    comparable = str if (case / "rows.csv").exists() else exact
    found = [value if value is None else value.decode() for value in records["value"].to_pylist()]
    assert [comparable(value) for value in found] == [comparable(row["value"]) for row in given]
    for row, key in zip(given, records["key"].to_pylist(), strict=True):
        if row.get("key") is not None:
            assert key is not None
            assert key.decode() == row["key"]


def test_every_format_has_golden_cases() -> None:
    assert {case.parent.name for case in CASES} == set(registry.names())


def test_exactness_of_the_comparison_itself() -> None:
    assert exact("150.00") != exact("150.0")
    assert exact("1") != exact('"1"')
    assert exact('{"a":1,"b":2}') == exact('{"b":2,"a":1}')
