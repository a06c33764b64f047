"""arcion-native beyond its golden cases: NULL in both spellings, rejects, changes of other dialects."""

import json
from pathlib import Path
from typing import Any

import pytest

import changeling
from changeling.conformance.cases import batch
from changeling.formats.arcion_native import completeness
from changeling.formats.encoding import typed
from changeling.model.change import Change, Transaction
from changeling.model.line import lines
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName

GOLDEN = Path(__file__).parents[1] / "golden"
REGION = {
    "namespace": {"catalog": None, "schema": "io_blitzz", "hash": 696406511},
    "name": "region",
    "hash": -821029210,
}
CURSOR = {"timestamp": 1657516903000, "extractionTimestamp": 1657516904088, "log": "bin.000010", "position": 7461}
IMAGES = ("key", "before", "after")


def record(**members: Any) -> dict[str, Any]:
    """An update of one row with the given members in place of the usual ones."""
    images = {"before": {"id": "1", "c": "old"}, "after": {"id": "1", "c": "new"}}
    return {"tableName": REGION, "opType": "U", "cursor": CURSOR, **images, **members}


def decoded(*records: Any, **options: Any) -> list[dict[str, Any]]:
    changes, rejects = changeling.decode([json.dumps(found) for found in records], "arcion-native", **options)
    assert rejects.to_pylist() == []
    return [json.loads(line) for part in changes.to_batches() for line in lines(part)]


def reason(found: Any, **options: Any) -> str:
    changes, rejects = changeling.decode([json.dumps(found)], "arcion-native", **options)
    assert (changes.num_rows, rejects.num_rows) == (0, 1)
    return str(rejects["reason"][0].as_py())


def rewritten(*records: Any, **options: Any) -> list[Any]:
    changes, _ = changeling.decode([json.dumps(found) for found in records], "arcion-native", **options)
    made, rejects = changeling.encode(changes, "arcion-native")
    assert rejects.to_pylist() == []
    return [json.loads(value) for value in made["value"].to_pylist()]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (record(opType="X"), "unknown opType 'X': Arcion has I, U and D"),
        (record(opType=1), "opType: Expected `str`, got `int`"),
        (record(before="x"), "before: Expected `object`, got `str`"),
        (record(opType="D"), "a delete with id, c in after: it must be null"),
        (record(exists={"id": "3"}), "a record with `exists` is one of Arcion's JSON files: read it as arcion-json"),
        (record(cursor=None), "cursor is not a JSON object in a string: Expected `object`, got `null`"),
        (record(cursor={"timestamp": "noon"}), "cursor: timestamp is 'noon', which is not an integer"),
        (record(tableName={"namespace": None}), "tableName: Object missing required field `name`"),
        ({"opType": "I", "after": {"id": "1"}}, "not a record of Arcion: it has no 'cursor'"),
        ({"tableName": REGION, "cursor": {}}, "not a record of Arcion: it has no 'opType'"),
        ({}, "not a record of Arcion: it has no 'opType'"),
        ({"r_regionkey": "0"}, "a bare row names no table; say which with --table"),
    ],
)
def test_wrong_records_are_rejected_with_the_reason(given: Any, why: str) -> None:
    assert reason(given) == why


def test_a_record_without_its_key_column_is_rejected() -> None:
    assert reason(record(), key="k") == "the record lacks key column 'k': no image shows it"


def test_null_and_the_text_null_are_both_read_as_null_and_come_back_as_they_were() -> None:
    given = record(after={"id": "1", "c": None}), record(after={"id": "1", "c": "null"})
    assert [found["after"] for found in decoded(*given)] == [{"id": "1", "c": None}] * 2
    assert rewritten(*given) == [*given]


@pytest.mark.parametrize(
    ("op", "before", "after", "key", "columns", "images"),
    [
        ("insert", "", "ab", "", "", ("none", "full")),
        ("insert", "", "ab", "a", "abc", ("none", "full")),
        ("delete", "ab", "", "", "", ("full", "none")),
        ("delete", "a", "", "a", "", ("key", "none")),
        ("delete", "ab", "", "a", "", ("full", "none")),
        ("delete", "ab", "", "a", "abc", ("partial", "none")),
        ("update", "abc", "abc", "", "", ("full", "full")),
        ("update", "a", "b", "", "", ("key", "partial")),
        ("update", "a", "a", "a", "", ("key", "partial")),
        ("update", "a", "a", "a", "a", ("full", "full")),
        ("update", "abc", "b", "a", "", ("full", "partial")),
        ("update", "", "ab", "a", "", ("none", "partial")),
        ("update", "a", "abc", "a", "abc", ("key", "full")),
        ("update", "", "", "a", "", ("none", "none")),
    ],
)
def test_how_complete_images_are(
    op: str, before: str, after: str, key: str, columns: str, images: tuple[str, str]
) -> None:
    assert completeness(Operation(op), set(before), set(after), tuple(key), set(columns)) == images


def test_values_are_typed_where_columns_are_known() -> None:
    cells = {"n": "-9223372036854775808", "at": "2022-07-11 05:21:43.5", "j": '{"a":1.50}', "b": "AQI=", "f": "1e-300"}
    columns = "n:int64,at:timestamp,j:json,b:bytes,f:float64"
    given = [json.dumps(record(opType="I", before=None, after=cells))]
    changes, _ = changeling.decode(given, "arcion-native", columns=columns)
    (line,) = lines(typed(changes.to_batches()[0])[0])
    assert json.loads(line)["after"] == {
        "n": -9223372036854775808,
        "at": "2022-07-11T05:21:43.500",
        "j": {"a": 1.5},
        "b": "AQI=",
        "f": 1e-300,
    }


def test_a_change_of_another_dialect_written_whole() -> None:
    given = Change(
        op=Operation.UPSERT,
        table=TableName(None, "io_blitzz", "region"),
        key='{"id":101}',
        after='{"ok":true,"price":1.50,"tags":["a", "b"],"note":null}',
        after_image=Image.PARTIAL,
        position="0512350.012",
        commit_time=1_657_516_903_000_000_001,
        transaction=Transaction("12350", 2),
    )
    made, rejects = changeling.encode(batch([given], source="shop"), "arcion-native")
    assert rejects.to_pylist() == []
    (found,) = map(json.loads, made["value"].to_pylist())
    assert made["key"].to_pylist() == [b'{"id":"101"}']
    assert found == {
        "tableName": REGION,
        "opType": "U",
        "cursor": {
            "extractorId": 0,
            "timestamp": 1657516903000,
            "extractionTimestamp": 1657516903000,
            "log": "shop",
            "position": "0512350.012",
            "v": 2,
            "changeling": {
                "op": "upsert",
                "key": ["id"],
                "before_image": "none",
                "after_image": "partial",
                "time_ns": 1657516903000000001,
                "transaction": {"id": "12350", "order": 2, "total": None, "complete": None},
            },
        },
        "before": None,
        "after": {"id": "101", "ok": "true", "price": "1.50", "tags": '["a","b"]', "note": None},
    }
    (back,) = decoded(found)
    assert {**back, "meta": None} == {
        "source": "arcion-native",
        "table": {"catalog": None, "schema": "io_blitzz", "name": "region"},
        "op": "upsert",
        "key": {"id": "101"},
        "before": None,
        "after": found["after"],
        "before_image": "none",
        "after_image": "partial",
        "encoding": "arcion-native",
        "position": "0512350.012",
        "commit_time": "2022-07-11T05:21:43.000000001Z",
        "transaction": {"id": "12350", "order": 2, "total": None},
        "schema_id": None,
        "origin": {"ordinal": 0, "record": 0},
        "meta": None,
    }
    assert rewritten(found) == [found]


def test_events_of_xtdb_come_back_exactly() -> None:
    """Every field of every event of seed 002, without any option; values as text, since Arcion has nothing else."""
    files = sorted((GOLDEN / "xtdb").glob("seed-*/input.jsonl"))
    events = [line for file in files for line in file.read_text().splitlines()]
    changes, _ = changeling.decode(events, "xtdb")
    records, rejects = changeling.encode(changes, "arcion-native")
    assert (len(events), rejects.to_pylist()) == (8, [])
    given = [exact(line) for part in changes.to_batches() for line in lines(part)]
    found = decoded(*map(json.loads, records["value"].to_pylist()))
    fields = ("table", "op", "before_image", "after_image", "position", "commit_time", "transaction", *IMAGES)
    for one, other in zip(given, found, strict=True):
        for name in IMAGES:
            other[name] = other[name] and {c: unwrapped(text, one[name][c]) for c, text in other[name].items()}
        assert {name: other[name] for name in fields} == {name: one[name] for name in fields}


def exact(text: str | bytes) -> Any:
    return json.loads(text, parse_float=str, parse_constant=str)


def unwrapped(text: str | None, like: Any) -> Any:
    """The value that a cell holds as text, where the change has no text there."""
    return text if text is None or isinstance(like, str) else exact(text)


@pytest.mark.parametrize("after", ['{"v":"null"}', '{"v":"\\u006eull"}'])
def test_the_text_null_is_refused_by_name(after: str) -> None:
    given = Change(op=Operation.INSERT, after=after, after_image=Image.FULL)
    _, rejects = changeling.encode(batch([given]), "arcion-native")
    assert rejects["feature"].to_pylist() == ["null-text"]
    made, _ = changeling.encode(batch([given]), "arcion-native", drop="null-text")
    assert json.loads(made["value"][0].as_py())["after"] == {"v": "null"}


def test_other_messages_are_refused() -> None:
    _, rejects = changeling.encode(batch([Change(op=Operation.MESSAGE)]), "arcion-native")
    assert rejects["feature"].to_pylist() == ["message"]
