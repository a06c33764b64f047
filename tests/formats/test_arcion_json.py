"""arcion-json beyond its golden cases: presence, rejects, hashes, counts, images on request, changes of other dialects."""

import json
from pathlib import Path
from typing import Any

import pytest

import changeling
from changeling.conformance.cases import batch
from changeling.envelope.scalar_cells import SCALARS
from changeling.formats.arcion import cursor, table_name
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
COUNTS = '{"insertCount":1,"updateCount":0,"deleteCount":0,"replaceCount":0}'


def record(**members: Any) -> dict[str, Any]:
    """An update of one column `c` with the given members in place of the usual ones."""
    cells = {"before": {"c": "old"}, "after": {"c": "new"}, "exists": {"c": "3"}}
    head = {"tableName": REGION, "opType": "U", "cursor": json.dumps(CURSOR, separators=(",", ":"))}
    return {**head, **cells, "operationcount": COUNTS, **members}


def decoded(*records: Any, **options: Any) -> list[dict[str, Any]]:
    changes, rejects = changeling.decode([json.dumps(found) for found in records], "arcion-json", **options)
    assert rejects.to_pylist() == []
    return [json.loads(line) for batch in changes.to_batches() for line in lines(batch)]


def reason(found: Any, **options: Any) -> str:
    changes, rejects = changeling.decode([json.dumps(found)], "arcion-json", **options)
    assert (changes.num_rows, rejects.num_rows) == (0, 1)
    return str(rejects["reason"][0].as_py())


def rewritten(*records: Any, read: dict[str, Any] | None = None, **options: Any) -> list[dict[str, Any]]:
    changes, _ = changeling.decode([json.dumps(found) for found in records], "arcion-json", **(read or {}))
    written, rejects = changeling.encode(changes, "arcion-json", **options)
    assert rejects.to_pylist() == []
    return [json.loads(value) for value in written["value"].to_pylist()]


@pytest.mark.parametrize(("exists", "before", "after"), [(0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 1, 1)])
@pytest.mark.parametrize("spelling", [str, int])
@pytest.mark.parametrize("value", ["x", "null"])
def test_000_30_31_and_32_exists_decides_what_is_there(
    exists: int, before: bool, after: bool, spelling: type, value: str
) -> None:
    """The golden case `exists` has the whole changes."""
    cells = {"before": {"c": value if before else "null"}, "after": {"c": value if after else "null"}}
    given = record(exists={"c": spelling(exists)}, **cells)
    (found,) = decoded(given)
    image = {"c": None if value == "null" else value}
    assert (found["before"], found["after"]) == (image if before else None, image if after else None)
    assert rewritten(given) == [given]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (record(opType="X"), "unknown opType 'X': Arcion has I, U and D"),
        (record(opType=1), "opType: Expected `str`, got `int`"),
        (record(exists={"c": "4"}), "exists of column 'c' is '4': it must be 0, 1, 2 or 3"),
        (record(exists={"c": -1}), "exists of column 'c' is -1: it must be 0, 1, 2 or 3"),
        (record(exists={"c": "3", "d": "1"}), "column 'd' is missing from after, where exists says it is"),
        (record(exists={"c": "3", "d": "2"}), "column 'd' is missing from before, where exists says it is"),
        (record(before={"c": "1", "e": "null"}), "column 'e' is in before, but not in exists"),
        (record(opType="D"), "a delete with c in after: exists may be 0 or 2 only"),
        (record(cursor="7461"), "cursor is not a JSON object in a string: Expected `object`, got `int`"),
        (record(cursor=None), "cursor is not a JSON object in a string: Expected `object`, got `null`"),
        (record(cursor='{"timestamp":"noon"}'), "cursor: timestamp is 'noon', which is not an integer"),
        (record(tableName={"namespace": None}), "tableName: Object missing required field `name`"),
        ({"opType": "I", "cursor": "{}"}, "not a record of Arcion: it has no 'exists'"),
        ({"tableName": REGION, "cursor": "{}"}, "not a record of Arcion: it has no 'opType'"),
        ({"r_regionkey": "0"}, "a bare row names no table; say which with --table"),
    ],
)
def test_000_23_wrong_records_are_rejected_with_the_reason(given: Any, why: str) -> None:
    assert reason(given) == why


def test_a_record_without_its_key_column_is_rejected() -> None:
    assert reason(record(), key="id") == "the record lacks key column 'id': no image shows it"


def test_an_update_may_show_its_key_on_either_side() -> None:
    given = record(exists={"c": "1", "id": "2"}, before={"c": "null", "id": "7"}, after={"c": "x", "id": "null"})
    moved = record(exists={"c": "0", "id": "3"}, before={"c": "null", "id": "7"}, after={"c": "null", "id": "8"})
    assert [(found["key"], found["before_image"]) for found in decoded(given, moved, key="id")] == [
        ({"id": "7"}, "key"),
        ({"id": "8"}, "key"),
    ]
    assert [found["before_image"] for found in decoded(given, key="c")] == ["partial"]


@pytest.mark.parametrize(
    ("given", "position"),
    [
        ({"log": "log-bin.000010", "position": 7461, "logSeqNum": 1}, "0210.047461.011"),
        ({"log": "log-bin.000010", "position": "7461", "log Seq Num": "2"}, "0210.047461.012"),
        ({"log": "log-bin.000010", "position": "101234567890"}, "0210.12101234567890.010"),
        ({"dscId": 5, "mutId": 12, "partNu m": 1}, "015.0212.011"),
        ({"dscI": "5", "mutId": "12"}, "015.0212.010"),
        ({"log": "pg", "position": "0512350.012"}, "0512350.012"),
        ({"log": "pg1", "position": "101234567890", "changeling": {}}, "101234567890"),
        ({"log": "redo", "position": 7}, "010.010"),
        ({"dscId": 5}, "010.010"),
        ({}, "010.010"),
    ],
)
def test_000_26_and_27_positions_of_every_cursor(given: dict[str, Any], position: str) -> None:
    (found,) = decoded(record(cursor=json.dumps(given)))
    assert (found["position"], found["commit_time"]) == (position, None)


def test_000_29_the_lag_is_extraction_less_query_time() -> None:
    commit = cursor.commit_time(SCALARS, cursor.read(SCALARS, json.dumps(json.dumps(CURSOR)).encode()), None)
    extracted = cursor.extraction_time(json.dumps({"cursor": json.dumps(CURSOR)}))
    assert commit is not None
    assert extracted is not None
    assert extracted - commit == 1_088_000_000
    assert cursor.extraction_time('{"cursor":"{}"}') is None


@pytest.mark.parametrize(
    ("table", "space", "name"),
    [
        (TableName("tpch_scale_0_01", "default_schema", "nation"), -27122659, -1893420405),
        (TableName(None, "io_blitzz", "region"), 696406511, -821029210),
        (TableName(None, "tpch_scale_0_01", "region"), -1732472540, 1193131537),
    ],
)
def test_000_22_hashes_of_the_published_names(table: TableName, space: int, name: int) -> None:
    found = {"catalog": table.catalog, "schema": table.schema, "hash": space}
    assert json.loads(table_name.write(table)) == {"namespace": found, "name": table.name, "hash": name}


def test_a_tombstone_comes_back_as_one() -> None:
    changes, _ = changeling.decode([{"value": None, "key": '{"id":"1"}', "topic": "t"}], "arcion-json")
    records, rejects = changeling.encode(changes, "arcion-json", keyed=True)
    assert rejects.to_pylist() == []
    assert (records["value"].to_pylist(), records["key"].to_pylist()) == ([None], [b'{"id":"1"}'])


def test_values_are_typed_where_columns_are_known() -> None:
    cells = {"n": "7", "at": "2022-07-11 05:21:43.5", "j": '{"a":1.50}', "l": '["x","null"]', "b": "AQI="}
    given = record(opType="I", exists=dict.fromkeys(cells, "1"), before=dict.fromkeys(cells, "null"), after=cells)
    columns = "n:int32,at:timestamp,j:json,l:array<string>,b:bytes"
    changes, _ = changeling.decode([json.dumps(given)], "arcion-json", columns=columns)
    (line,) = lines(typed(changes.to_batches()[0])[0])
    expected = {"n": 7, "at": "2022-07-11T05:21:43.500", "j": {"a": 1.5}, "l": ["x", "null"], "b": "AQI="}
    assert json.loads(line)["after"] == expected


def written(*changes: Change, **options: Any) -> list[dict[str, Any]]:
    records, rejects = changeling.encode(batch(changes, source="shop"), "arcion-json", **options)
    assert rejects.to_pylist() == []
    return [json.loads(value) for value in records["value"].to_pylist()]


def test_000_20_25_and_40_a_change_of_another_dialect_written_whole() -> None:
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
    texts = {"id": "101", "ok": "true", "price": "1.50", "tags": '["a","b"]', "note": "null"}
    (found,) = written(given)
    cursor_text = found.pop("cursor")
    assert found == {
        "tableName": REGION,
        "opType": "U",
        "before": dict.fromkeys(texts, "null"),
        "after": texts,
        "exists": dict.fromkeys(texts, "1"),
        "operationcount": '{"insertCount":0,"updateCount":1,"deleteCount":0,"replaceCount":0}',
    }
    assert json.loads(cursor_text) == {
        "extractorId": 0,
        "timestamp": 1657516903000,
        "extractionTimestamp": 1657516903000,
        "log": "shop",
        "position": "0512350.012",
        "v": 2,
        "changeling": {
            "op": "upsert",
            "key": ["id"],
            "after_image": "partial",
            "time_ns": 1657516903000000001,
            "transaction": {"id": "12350", "order": 2, "total": None, "complete": None},
        },
    }
    (back,) = decoded({**found, "cursor": cursor_text})
    assert {**back, "meta": None} == {
        "source": "arcion-json",
        "table": {"catalog": None, "schema": "io_blitzz", "name": "region"},
        "op": "upsert",
        "key": {"id": "101"},
        "before": None,
        "after": {**texts, "note": None},
        "before_image": "none",
        "after_image": "partial",
        "encoding": "arcion-json",
        "position": "0512350.012",
        "commit_time": "2022-07-11T05:21:43.000000001Z",
        "transaction": {"id": "12350", "order": 2, "total": None},
        "schema_id": None,
        "origin": {"ordinal": 0, "record": 0},
        "meta": None,
    }


def test_events_of_xtdb_come_back_exactly() -> None:
    """Every field of every event of seed 002, without any option; values as text, since Arcion has nothing else."""
    files = sorted((GOLDEN / "xtdb").glob("seed-*/input.jsonl"))
    events = [line for file in files for line in file.read_text().splitlines()]
    changes, _ = changeling.decode(events, "xtdb")
    records, rejects = changeling.encode(changes, "arcion-json")
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


def unwrapped(text: str, like: Any) -> Any:
    """The value that a cell holds as text, where the change has no text there."""
    return text if isinstance(like, str) else exact(text)


def test_000_33_counts_run_on_through_inserts_updates_deletes_and_replaces() -> None:
    ops = [Operation.INSERT, Operation.READ, Operation.INSERT, Operation.UPDATE, Operation.DELETE, Operation.REPLACE]
    made = written(*(Change(op=op, key='{"id":1}') for op in ops))
    assert [found["opType"] for found in made] == ["I", "I", "I", "U", "D", "I"]
    assert made[4]["operationcount"] == '{"insertCount":3,"updateCount":1,"deleteCount":1,"replaceCount":0}'
    assert made[5]["operationcount"] == '{"insertCount":3,"updateCount":1,"deleteCount":1,"replaceCount":1}'


@pytest.mark.parametrize(
    ("options", "exists"),
    [
        ({}, "333"),
        ({"before_image": "ALL", "after_image": "ALL"}, "333"),
        ({"before_image": "KEY"}, "311"),
        ({"after_image": "UPDATED"}, "223"),
        ({"before_image": "KEY", "after_image": "UPDATED"}, "201"),
    ],
)
def test_000_35_and_38_images_as_asked_for(options: dict[str, str], exists: str) -> None:
    before, after = {"id": "1", "a": "x", "b": "y"}, {"id": "1", "a": "x", "b": "z"}
    given = record(before=before, after=after, exists=dict.fromkeys(before, "3"))
    bits = dict(zip(before, exists, strict=True))
    shown = {
        "before": {name: before[name] if bits[name] in "23" else "null" for name in before},
        "after": {name: after[name] if bits[name] in "13" else "null" for name in after},
    }
    assert rewritten(given, read={"key": "id"}, **options) == [{**given, **shown, "exists": bits}]


@pytest.mark.parametrize(
    ("options", "feature", "after"),
    [
        ({"before_image": "ALL"}, "before", '{"id":"1"}'),
        ({"after_image": "ALL"}, "after", '{"id":"1"}'),
        ({}, "null-text", '{"v":"null"}'),
        ({}, "null-text", '{"v":"\\u006eull"}'),
    ],
)
def test_what_cannot_be_written_is_refused_by_name(options: Any, feature: str, after: str) -> None:
    given = Change(op=Operation.UPDATE, after=after, after_image=Image.PARTIAL)
    _, rejects = changeling.encode(batch([given]), "arcion-json", **options)
    assert rejects["feature"].to_pylist() == [feature]
    (found,) = written(given, drop=feature, **options)
    assert (found["after"], found["exists"]) == (json.loads(after), dict.fromkeys(json.loads(after), "1"))


def test_a_key_is_never_written_as_null() -> None:
    """Where the user lets such text go, a change whose key holds it is left out: as NULL it would be another row."""
    given = Change(op=Operation.DELETE, key='{"id":"null"}')
    _, rejects = changeling.encode(batch([given]), "arcion-json")
    assert rejects["feature"].to_pylist() == ["null-text"]
    assert written(given, drop="null-text") == []
