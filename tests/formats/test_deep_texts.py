"""JSON inside a text, which shows no nesting where records are checked for it, is held to the same limit when it is taken out."""

import json

import pytest

import changeling
from changeling.formats import registry
from changeling.formats.capabilities import FEATURES
from changeling.model.json_text import DEPTH_LIMIT

ROWS, DEEP = 20, 7


def event(number: int, document: str) -> dict[str, bytes]:
    source = {"connector": "postgresql", "name": "s", "db": "d", "schema": "public", "table": "t", "lsn": number + 5}
    source |= {"ts_ms": 1, "sequence": json.dumps(["1", str(number + 5)])}
    row = {"id": number, "doc": document}
    return {"value": json.dumps({"before": None, "after": row, "source": source, "op": "c", "ts_ms": 1}).encode()}


@pytest.mark.parametrize("target", registry.names())
@pytest.mark.parametrize("depth", [DEPTH_LIMIT // 4, DEPTH_LIMIT + 1, 5_000])
def test_only_the_row_with_the_deep_document_is_refused(target: str, depth: int) -> None:
    documents = ["[" * depth + "]" * depth if number == DEEP else '{"a":1}' for number in range(ROWS)]
    events = [event(number, document) for number, document in enumerate(documents)]
    changes, rejects = changeling.decode(events, "debezium-json", key=("id",), columns="id:int64,doc:json")
    assert rejects.num_rows == 0
    records, refused = changeling.encode(changes, target, drop=frozenset(FEATURES))
    if depth <= DEPTH_LIMIT or target == "debezium-json":
        assert (records.num_rows, refused.num_rows) == (ROWS, 0)
    else:
        assert records.num_rows == ROWS - 1
        assert refused["reason"].to_pylist() == [f"column 'doc': nested deeper than {DEPTH_LIMIT} levels"]
        assert [origin["record"] for origin in refused["origin"].to_pylist()] == [DEEP]
