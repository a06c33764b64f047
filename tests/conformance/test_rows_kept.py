"""Whoever reads an output gets the rows of the input, or the conversion says that their order is lost: every target, ties and moves."""

import json
import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import changeling
from changeling.conversion import Conversion
from changeling.formats import registry
from changeling.formats.capabilities import FEATURES
from changeling.formats.format import write_options
from changeling.model import arrow_layouts
from changeling.model.errors import LossError
from changeling.reading_changes import ConversionReport
from changeling.rejects import RejectSink

HARMLESS = ",".join(
    sorted(FEATURES.keys() - {"order", "delete", "after", "key-change", "keys-only", "partial", "types"})
)
"""What may be lost while the rows stay the same."""
KEYS = range(5)


def half(number: int, side: str, key: int, value: str = "old", op: str = "U") -> dict[str, Any]:
    flags = ("Y", "N") if side == "before" else ("N", "Y")
    names = ("_sequence_id_", "_operation_type_", "_execute_time_", "_before_image_", "_after_image_", "id", "v")
    return dict(zip(names, (str(number), op, number, *flags, key, value), strict=True))


def dataworks(chance: random.Random) -> list[dict[str, Any]]:
    """Inserts, deletes, updates, moved rows, and chains of moved rows under one sequence id, in either order."""
    made = []
    for number in range(100, 100 + chance.randint(1, 6)):
        keys = chance.sample(KEYS, chance.randint(1, 4))
        if len(keys) == 1:
            op = chance.choice("ID")
            made.append(half(number, "before" if op == "D" else "after", keys[0], str(chance.random()), op))
            continue
        moves = list(pairwise(keys))
        for old, new in moves if chance.random() < 0.5 else moves[::-1]:
            made += [half(number, "before", old), half(number, "after", new, str(chance.random()))]
    return made


def debezium(chance: random.Random) -> list[dict[str, Any]]:
    """Events of PostgreSQL, some of one position, some with a place inside their transaction, some that move their row."""
    made: list[dict[str, Any]] = []
    position = 100
    for number in range(chance.randint(1, 8)):
        position += chance.choice([0, 1, 7])
        before, after = ({"id": chance.choice(KEYS), "v": str(chance.random())} for _ in range(2))
        op = chance.choice("cuud")
        event = {"before": None if op == "c" else before, "after": None if op == "d" else after, "op": op, "ts_ms": 1}
        event["source"] = {"connector": "postgresql", "lsn": position, "db": "d", "table": "t", "ts_ms": 1}
        if chance.random() < 0.3:
            event["transaction"] = {"id": "9", "total_order": number, "data_collection_order": number}
        made.append(event)
    return made


INPUTS: dict[str, Callable[[random.Random], list[dict[str, Any]]]] = {"dataworks": dataworks, "debezium-json": debezium}


def read(records: Any, name: str) -> pa.Table:
    changes, rejects = changeling.decode(records, name, table="t", key="_id" if name == "xtdb" else "id")
    assert rejects.num_rows == 0, rejects.to_pylist()
    return changes


def converted(changes: pa.Table, source: str, target: str, drop: str, folder: Path) -> pa.Table:
    """The records of a conversion, two changes a batch."""
    form = registry.get(target)
    with RejectSink(str(folder / "rejects.jsonl")) as rejects:
        conversion = Conversion(form, write_options(form, {"drop": drop, "keyed": True}), rejects, ConversionReport())
        batches = changes.combine_chunks().to_batches(max_chunksize=2)
        return pa.Table.from_batches(list(conversion.records_of(batches, registry.get(source))), arrow_layouts.RECORDS)


def rows(changes: pa.Table) -> dict[str, str]:
    """The rows that changes leave, by what positions mean and nothing else."""
    found: dict[str, str] = {}
    for change in sorted(changes.to_pylist(), key=lambda change: change["position"]):
        if change["op"] == "message":
            continue
        key = json.loads(change["key"])
        old = json.loads(change["before"] or "{}")
        found.pop(_text({name: old.get(name, value) for name, value in key.items()}), None)
        found.pop(_text(key), None)
        if change["after"] is not None:
            found[_text(key)] = _text(json.loads(change["after"])["v"])
    return found


def _text(value: Any) -> str:
    """The same text for numbers, texts, and values that name their type."""
    while isinstance(value, dict):
        (value,) = value.values()
    return str(value)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("source", INPUTS)
def test_rows_are_the_same_or_their_order_is_lost(source: str, seed: int, tmp_path: Path) -> None:
    given = INPUTS[source](random.Random(seed))
    changes = read([json.dumps(record).encode() for record in given], source)
    for target in registry.names():
        try:
            records = converted(changes, source, target, HARMLESS, tmp_path)
        except LossError as refusal:
            if "  order: " not in str(refusal):
                raise
        else:
            assert rows(read(records.drop_columns(["origin"]), target)) == rows(changes), (target, given)


MOVED = [half(100, "before", 1, "a"), half(100, "after", 2, "b")]


def test_the_halves_of_a_moved_row_keep_their_positions(tmp_path: Path) -> None:
    changes = read([json.dumps(record).encode() for record in MOVED], "dataworks")
    made = converted(changes, "dataworks", "debezium-json", "", tmp_path)
    found = [json.loads(value) for value in made["value"].to_pylist() if value is not None]
    assert [(event["op"], event["source"]["position"]) for event in found] == [("d", "03100.010"), ("c", "03100.011")]


def test_one_pair_for_the_halves_of_a_moved_row_is_a_lost_position(tmp_path: Path) -> None:
    changes = read([json.dumps(record).encode() for record in MOVED], "dataworks")
    with pytest.raises(LossError, match="--drop position;"):
        converted(changes, "dataworks", "ydb-debezium", "", tmp_path)
    made = converted(changes, "dataworks", "ydb-debezium", "position", tmp_path)
    sources = [json.loads(value)["payload"]["source"] for value in made["value"].to_pylist()]
    assert [(source["step"], source["txId"]) for source in sources] == [(100, 100), (100, 100)]


def test_the_half_that_no_row_moved_from_loses_nothing(tmp_path: Path) -> None:
    same = [half(100, "before", 1, "a"), half(100, "after", 1, "b")]
    changes = read([json.dumps(record).encode() for record in same], "dataworks")
    assert converted(changes, "dataworks", "ydb-debezium", "", tmp_path).num_rows == 1
