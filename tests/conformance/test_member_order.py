"""A record keeps the order of its members on the way through its own dialect, whatever that order is."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import changeling
from changeling.formats import registry
from tests.golden.test_golden import CASES, exact, options_of, records_of

Pairs = list[tuple[str, Any]]


class _Object(list[tuple[str, Any]]):
    """The members of an object in their order; no array is equal to it."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Object) and list.__eq__(self, other)

    __hash__ = None


def ordered(text: bytes | str) -> Any:
    """JSON with the order of all members, and numbers as the digits that stand there."""
    return json.loads(text, object_pairs_hook=_Object, parse_int=_number, parse_float=_number)


def _number(digits: str) -> tuple[str, str]:
    return ("number", digits)


def arranged(value: Any, arrange: Callable[[Pairs], Pairs]) -> str:
    """The text of JSON, the members of every object in another order."""
    if isinstance(value, _Object):
        pairs = (f"{json.dumps(name)}:{arranged(part, arrange)}" for name, part in arrange(list(value)))
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(arranged(part, arrange) for part in value) + "]"
    return value[1] if isinstance(value, tuple) else json.dumps(value, ensure_ascii=False)


def _shuffled(pairs: Pairs) -> Pairs:
    random.Random(len(pairs)).shuffle(pairs)
    return pairs


ARRANGEMENTS: dict[str, Callable[[Pairs], Pairs]] = {
    "as it stands": lambda pairs: pairs,
    "last first": lambda pairs: pairs[::-1],
    "by name": lambda pairs: sorted(pairs, key=lambda pair: pair[0]),
    "first two swapped": lambda pairs: [*pairs[1::-1], *pairs[2:]],
    "last two swapped": lambda pairs: [*pairs[:-2], *pairs[:-3:-1]],
    "mixed": _shuffled,
}


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize("name", registry.names())
def test_members_keep_their_order(name: str, arrangement: str) -> None:
    for case in (case for case in CASES if case.parent.name == name):
        given = records_of(case)
        if not (case / "rows.csv").exists():
            given = [{**row, "value": _arranged(row["value"], ARRANGEMENTS[arrangement])} for row in given]
        found = through(given, case)
        if (case / "rows.csv").exists():
            assert found == [row["value"] for row in given], case
            continue
        assert [value and ordered(value) for value in found] == [
            row["value"] and ordered(row["value"]) for row in given
        ], case


def _arranged(value: str | None, arrange: Callable[[Pairs], Pairs]) -> str | None:
    if value is None:
        return None
    text = arranged(ordered(value), arrange)
    assert exact(text) == exact(value)
    return text


def through(given: list[dict[str, Any]], case: Path) -> list[str | None]:
    """The values of records that were read and written again; together, and each alone."""
    name, reading, writing = case.parent.name, options_of(case, "read"), options_of(case, "write")
    written = []
    for rows in (given, *([row] for row in given)):
        changes, rejects = changeling.decode(rows, name, **reading)
        assert rejects.to_pylist() == [], case
        records, rejects = changeling.encode(changes, name, **writing)
        assert rejects.to_pylist() == [], case
        written.append([None if value is None else value.decode() for value in records["value"].to_pylist()])
    assert written[0] == [value for alone in written[1:] for value in alone]
    return written[0]
