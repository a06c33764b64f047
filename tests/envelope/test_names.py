"""Columns of any name: a struct cannot have all of them, an object can."""

import json

import pytest

import changeling
from bench.events import event
from changeling.envelope.shapes import Shape
from changeling.replicas.old_keys import _keys_in

NAMES = ['a"b', "a\\b", "a\nb", "a\x00b", "ä b"]


@pytest.mark.parametrize("name", NAMES)
def test_a_key_column_is_read_and_written(name: str) -> None:
    rows: list[dict[str, object]] = [{name: number, "n": 1} for number in range(3)]
    records = [event("t", None, row, number, 0) for number, row in enumerate(rows)]
    changes, rejects = changeling.decode(records, "xtdb", key=name)
    assert rejects.to_pylist() == []
    assert [json.loads(key) for key in changes["key"].to_pylist()] == [{name: number} for number in range(3)]
    for form in ("debezium-json", "transferia", "xtdb", "ydb-json"):
        written, rejects = changeling.encode(changes, form, drop="all")
        assert (written.num_rows, rejects.num_rows) == (3, 0), form


@pytest.mark.parametrize("name", NAMES)
def test_a_key_is_found_in_its_row(name: str) -> None:
    (found,) = _keys_in([json.dumps({"n": 1, name: 5})], (name,))
    (other,) = _keys_in([json.dumps({name: 5})], (name,))
    assert found == other
    assert found != _keys_in([json.dumps({name: 6})], (name,))[0]


def test_what_a_struct_cannot_have_has_no_shape() -> None:
    shapes = [Shape.of(json.dumps({name: 1}).encode()) for name in NAMES]
    assert [shape is None for shape in shapes] == [True, True, True, True, False]
