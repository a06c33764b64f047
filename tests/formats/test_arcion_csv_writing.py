"""Writing arcion-csv: changes of other dialects, snapshots on request, images as asked for, what is refused."""

import csv
import io
import json
from typing import Any

import pytest

import changeling
from changeling.conformance.cases import CASES, ROW, SCHEMA, batch
from changeling.formats.framing import HEADER
from changeling.model.change import Change, Transaction
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName
from tests.formats.test_arcion_csv import COUNTS, TWO, decoded, realtime, rewritten


def written(*changes: Change, **options: Any) -> tuple[list[str], list[str | None]]:
    """Rows, and the header that goes with each."""
    made, rejects = changeling.encode(batch(changes, source="shop"), "arcion-csv", **options)
    assert rejects.to_pylist() == []
    headers = [
        found[0]["value"].decode() if found is not None and found[0]["name"] == HEADER else None
        for found in made["headers"].to_pylist()
    ]
    return [value.decode() for value in made["value"].to_pylist()], headers


def refused(change: Change, **options: Any) -> str:
    _, rejects = changeling.encode(batch([change]), "arcion-csv", **options)
    (feature,) = rejects["feature"].to_pylist()
    return str(feature)


def test_000_15_a_csv_reader_and_a_json_reader_understand_the_output() -> None:
    rows, headers = written(*(CASES[name] for name in ("insert", "update with both images", "delete with before")))
    found = list(csv.DictReader(io.StringIO("\n".join([headers[0] or "", *rows]))))
    names = [column.name for column in SCHEMA.columns]
    assert [row["opType"] for row in found] == ["I", "U", "D"]
    assert [json.loads(row["operationcount"])["deleteCount"] for row in found] == [0, 0, 1]
    assert json.loads(found[0]["cursor"])["changeling"] == {"key": ["_id"]}
    assert json.loads(found[0]["doc_NEW"]) == json.loads(ROW)["doc"]
    assert list(found[0]) == [f"{name}_{part}" for name in names for part in ("NEW", "OLD", "EXISTS")] + [
        "opType",
        "cursor",
        "operationcount",
    ]


def test_000_04_06_and_14_a_change_of_another_dialect_written_whole() -> None:
    given_change = Change(
        op=Operation.UPSERT,
        table=TableName(None, "io_blitzz", "region"),
        key='{"id":101}',
        after='{"ok":true,"note":null,"text":"NULL"}',
        after_image=Image.PARTIAL,
        position="0512350.012",
        commit_time=1_657_516_903_000_000_001,
        transaction=Transaction("12350", 2),
    )
    (row,), (header,) = written(given_change)
    cursor = {
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
    quoted = json.dumps(cursor, separators=(",", ":")).replace('"', '""')
    counts = COUNTS.replace('insertCount"":1', 'insertCount"":0').replace('updateCount"":0', 'updateCount"":1')
    assert row == f'101,NULL,1,true,NULL,1,NULL,NULL,1,"NULL",NULL,1,U,"{quoted}",{counts}'
    assert header == (
        "id_NEW,id_OLD,id_EXISTS,ok_NEW,ok_OLD,ok_EXISTS,note_NEW,note_OLD,note_EXISTS,text_NEW,text_OLD,text_EXISTS,"
        "opType,cursor,operationcount"
    )
    (back,) = decoded(row, header_row=header, table="io_blitzz.region")
    assert {**back, "meta": None} == {
        "source": "arcion-csv",
        "table": {"catalog": None, "schema": "io_blitzz", "name": "region"},
        "op": "upsert",
        "key": {"id": "101"},
        "before": None,
        "after": {"id": "101", "ok": "true", "note": None, "text": "NULL"},
        "before_image": "none",
        "after_image": "partial",
        "encoding": "arcion-csv",
        "position": "0512350.012",
        "commit_time": "2022-07-11T05:21:43.000000001Z",
        "transaction": {"id": "12350", "order": 2, "total": None},
        "schema_id": None,
        "origin": {"ordinal": 0, "record": 0},
        "meta": None,
    }
    assert written(given_change, include_header="false") == ([row], [None])


def test_000_02_a_snapshot_is_written_with_one_field_a_column() -> None:
    row = Change(op=Operation.INSERT, key='{"id":1}', after='{"name":"a, \\"b\\"\\nc","id":1,"x":null}')
    row.after_image = Image.FULL
    assert written(row, mode="snapshot") == (['"a, ""b""\nc",1,NULL'], ["name,id,x"])
    short = Change(op=Operation.READ, key='{"_id":"1"}', after='{"name":"x"}', after_image=Image.FULL)
    short.schema = SCHEMA.to_json()
    (text,), (header,) = written(short, mode="snapshot")
    assert dict(zip((header or "").split(","), text.split(","), strict=True)) == {
        **dict.fromkeys((column.name for column in SCHEMA.columns), "NULL"),
        "_id": "1",
        "name": "x",
    }


@pytest.mark.parametrize(
    ("case", "features", "rows"),
    [
        ("update without before", ["update"], 1),
        ("upsert", ["upsert"], 1),
        ("replace", ["replace"], 1),
        ("update with both images", ["update", "before"], 1),
        ("partial update", ["update", "partial"], 0),
        ("key alone", ["upsert", "keys-only"], 0),
        ("delete with before", ["delete"], 0),
        ("transaction", ["commit_time", "transaction", "position"], 1),
    ],
)
def test_what_a_snapshot_cannot_hold_is_refused_by_name(case: str, features: list[str], rows: int) -> None:
    dropped: list[str] = []
    for feature in features:
        assert refused(CASES[case], mode="snapshot", drop=",".join(dropped)) == feature
        dropped.append(feature)
    assert len(written(CASES[case], mode="snapshot", drop=",".join(dropped))[0]) == rows


def test_a_realtime_row_becomes_a_snapshot_row_and_back() -> None:
    row = realtime("1,NULL,1,x,NULL,1", "I")
    assert rewritten(row, read=TWO, mode="snapshot", drop="position,commit_time") == ["1,x"]
    (made,) = rewritten("1,x", read={"mode": "snapshot", **TWO}, mode="realtime")
    (found,) = decoded(made, **TWO)
    assert (found["op"], found["after"], found["after_image"]) == ("read", {"id": "1", "name": "x"}, "full")


def test_a_null_that_would_be_an_empty_line_is_refused() -> None:
    row = Change(op=Operation.READ, after='{"a":null}', after_image=Image.FULL)
    assert refused(row, mode="snapshot", null_text="") == "null"
    assert written(row, mode="snapshot", null_text="", drop="null") == ([], [])
    row.after = '{"a":""}'
    assert written(row, mode="snapshot")[0] == ['""']


def test_a_change_without_any_column_is_refused() -> None:
    nothing = Change(op=Operation.UPDATE, table=TableName(None, None, "t"), position="011")
    assert refused(nothing) == "keys-only"
    assert written(nothing, drop="keys-only") == ([], [])


@pytest.mark.parametrize(
    ("options", "cells"),
    [
        ({}, "1,1,3,x,x,3,z,y,3"),
        ({"before_image": "KEY"}, "1,1,3,x,NULL,1,z,NULL,1"),
        ({"after_image": "UPDATED"}, "NULL,1,2,NULL,x,2,z,y,3"),
        ({"before_image": "KEY", "after_image": "UPDATED"}, "NULL,1,2,NULL,NULL,0,z,NULL,1"),
    ],
)
def test_000_17_images_as_asked_for(options: dict[str, str], cells: str) -> None:
    read = {"columns": "id:int64,a:string,b:string", "key": "id"}
    assert rewritten(realtime("1,1,3,x,x,3,z,y,3"), read=read, **options) == [realtime(cells)]


def test_columns_of_a_known_schema_keep_the_header_the_same_for_partial_changes() -> None:
    partial, whole = CASES["partial update"], CASES["insert"]
    _, headers = written(partial, whole)
    assert headers[0] == headers[1]
