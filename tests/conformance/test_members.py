"""A member of the wrong type: the reason of the reject names it, in every dialect."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

import changeling
from changeling.formats import registry
from tests.golden.test_golden import CASES, options_of, records_of

WRONG: tuple[Any, ...] = (5, True, 1.5, "x", [7], {"zz": 1})


def members(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of an object's members and of those inside them."""
    for name, inside in value.items() if isinstance(value, dict) else ():
        yield (*path, name)
        if not path:
            yield from members(inside, (name,))


def spoiled(record: dict[str, Any], value: Any, path: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """The record with a value of every other type in one place."""
    for wrong in WRONG:
        made = copy.deepcopy(value)
        place = made
        for name in path[:-1]:
            place = place[name]
        if type(place[path[-1]]) is not type(wrong):
            place[path[-1]] = wrong
            yield {**record, "value": json.dumps(made)}


@pytest.mark.parametrize("name", registry.names())
def test_the_reason_names_a_member_of_the_wrong_type(name: str) -> None:
    unnamed = []
    for case in (case for case in CASES if case.parent.name == name and not (case / "rows.csv").exists()):
        for record in records_of(case):
            value = None if record["value"] is None else json.loads(record["value"])
            for path in members(value):
                records = list(spoiled(record, value, path))
                _, rejects = changeling.decode(records, name, **options_of(case, "read")) if records else (None, None)
                reasons = [] if rejects is None else rejects["reason"].to_pylist()
                unnamed += [
                    (case.name, path, reason)
                    for reason in reasons
                    if reason.startswith("not a record of this format") and not any(part in reason for part in path)
                ]
    assert unnamed == []
