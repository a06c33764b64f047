"""A moved row whose record names its old key: written where positions tell the same, else refused."""

import json
from typing import Any

import pyarrow as pa
import pytest

import changeling
from changeling.formats import registry
from changeling.model import arrow_layouts
from changeling.model.change import Change, Record
from changeling.named_old_keys import CARRIED, drop_redundant_old_keys
from changeling.replicas.key_moves import Half, moved

FORMATS = [name for name in registry.names() if name != "debezium-json" and registry.get(name).carries >= CARRIED]


def event(op: str, key: int, lsn: int = 7, old: int | None = None, count: int | None = None) -> Record:
    row = {"id": key, "n": "b", "big": "__debezium_unavailable_value"}
    source = {"connector": "postgresql", "db": "d", "schema": "s", "table": "t", "lsn": lsn}
    value = {"before": row if op == "d" else None, "after": None if op == "d" else row, "source": source, "op": op}
    if count is not None:
        value["transaction"] = {"id": "5", "total_order": count, "data_collection_order": count}
    headers = () if old is None else (("__debezium.oldkey", b'{"id":%d}' % old),)
    return Record(json.dumps(value).encode(), b'{"id":%d}' % key, headers)


def changes(*records: Record) -> pa.Table:
    origins = pa.array([{"ordinal": 0, "record": place} for place in range(len(records))], arrow_layouts.ORIGIN)
    found, rejects = changeling.decode(arrow_layouts.records_batch(records, origins), "debezium-json")
    assert rejects.num_rows == 0, rejects.to_pylist()
    return found


def old_keys(found: pa.Table) -> dict[Any, str | None]:
    """The rows that creates were, as readers know it."""
    every: list[Change] = [change for batch in found.to_batches() for change in arrow_layouts.changes(batch)]
    halves = {
        op: [Half(c.position or "", str(c.key), c.transaction) for c in every if c.op == op]
        for op in ("insert", "delete")
    }
    return moved(halves["insert"], halves["delete"]).old_keys


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("size", [1, 2, 100])
def test_a_name_that_says_no_more_than_the_position_is_not_needed(form: str, size: int) -> None:
    given = changes(event("d", 1), event("c", 2, old=1), event("d", 3, 8), event("c", 4, 8, old=3))
    given = pa.Table.from_batches(given.combine_chunks().to_batches(max_chunksize=size))
    records, refused = changeling.encode(given, form)
    assert refused.num_rows == 0, refused.to_pylist()
    back, _ = changeling.decode(records.drop_columns(["origin"]), form, key="id")
    assert [old and json.loads(old)["id"] for old in old_keys(back).values()] in ([1, 3], ["1", "3"])


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    ("records", "refused"),
    [
        pytest.param([event("c", 2, old=1)], [2], id="no delete"),
        pytest.param([event("d", 1, 6), event("c", 2, old=1)], [2], id="a delete of another position"),
        pytest.param([event("d", 1), event("d", 3), event("c", 2, old=1)], [2], id="two deletes"),
        # Of the deletes of 1 and 2, only one is of another row than the one that became 2; both are of others than 3.
        pytest.param([event("d", 2), event("c", 3, old=2), event("d", 1), event("c", 2, old=1)], [3, 2], id="a chain"),
        pytest.param(
            [
                event("d", 2, count=1),
                event("c", 3, old=2, count=2),
                event("d", 1, count=3),
                event("c", 2, old=1, count=4),
            ],
            [],
            id="a chain that the transaction counts",
        ),
    ],
)
def test_a_name_that_says_more_than_the_position_is_a_loss(
    form: str, records: list[Record], refused: list[int]
) -> None:
    _, found = changeling.encode(changes(*records), form)
    assert found["feature"].to_pylist() == ["key-change"] * len(refused)
    assert [json.loads(raw)["key"]["id"] for raw in found["raw"].to_pylist()] == refused


def test_the_dialect_that_has_names_keeps_them() -> None:
    given = changes(event("d", 1), event("c", 2, old=1))
    assert pa.Table.from_batches(drop_redundant_old_keys(given.to_batches(), registry.get("debezium-json"))) == given
