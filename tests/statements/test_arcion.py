"""Arcion's statements, one a test; each name begins with its number in the list of statements."""

import json

import changeling
from tests.statements.reading import converted, decoded

REGION = "arcion-json/realtime-region"
NATION = "arcion-json/snapshot-nation"
CSV = "arcion-csv/seed-realtime-region"


def test_000_05_full_mode_has_the_realtime_layout() -> None:
    assert [line["op"] for line in decoded("arcion-csv/seed-full-mode-without-key")] == ["insert", "update", "delete"]
    assert [line["op"] for line in decoded(REGION, mode="full")] == ["insert", "update", "delete"]


def test_000_06_one_row_is_one_operation_and_000_12_the_metadata_is_kept() -> None:
    lines = decoded(CSV)
    assert [line["op"] for line in lines] == ["insert", "update", "delete"]
    assert all(json.loads(line["meta"]["cursor"])["v"] == 2 for line in lines)
    counts = [json.loads(line["meta"]["operationcount"]) for line in lines]
    assert [(each["insertCount"], each["updateCount"], each["deleteCount"]) for each in counts] == [
        (6, 0, 0),
        (6, 1, 0),
        (6, 1, 1),
    ]


FOUR = {"neither": ("null", "null", 0), "new": ("a", "null", 1), "old": ("null", "b", 2), "both": ("null", "c", 3)}
"""After, before and `exists` of a column for each of its values; the last one was set to NULL."""


def test_000_08_000_10_000_11_000_30_and_000_32_exists_shows_the_images_of_each_column() -> None:
    record = {
        "tableName": {"namespace": {"catalog": None, "schema": "s", "hash": 1}, "name": "t", "hash": 2},
        "opType": "U",
        "cursor": "{}",
        "before": {name: before for name, (_, before, _) in FOUR.items()},
        "after": {name: after for name, (after, _, _) in FOUR.items()},
        "exists": {name: str(exists) for name, (_, _, exists) in FOUR.items()},
        "operationcount": "{}",
    }
    fields = [part for after, before, exists in FOUR.values() for part in (after, before, str(exists))]
    row = ",".join(part.replace("null", "NULL") for part in fields) + ",U,{},{}"
    columns = dict.fromkeys(FOUR, "string")
    for given, form in ((json.dumps(record), "arcion-json"), (row, "arcion-csv")):
        changes, rejects = changeling.decode([given], form, columns=columns, table="t")
        assert rejects.to_pylist() == []
        assert json.loads(changes["after"][0].as_py()) == {"new": "a", "both": None}
        assert json.loads(changes["before"][0].as_py()) == {"old": "b", "both": "c"}


def test_000_16_to_000_18_the_csv_samples() -> None:
    insert, update, delete = decoded(CSV)
    row = {"r_comment": "India", "r_name": "India", "r_regionkey": "10"}
    assert (insert["before"], insert["after"]) == (None, row)
    assert (update["before"], update["after"]) == ({"r_regionkey": "10"}, {"r_comment": "USA"})
    assert (delete["key"], delete["after"]) == ({"r_regionkey": "10"}, None)


def test_000_21_table_names_and_000_27_000_28_order_and_time() -> None:
    assert [line["table"] for line in decoded(REGION)] == [
        {"catalog": None, "schema": "io_blitzz", "name": "region"}
    ] * 3
    table = {"catalog": "tpch_scale_0_01", "schema": "default_schema", "name": "nation"}
    assert [line["table"] for line in decoded(NATION)] == [table] * 3
    for case in (REGION, NATION):
        positions = [line["position"] for line in decoded(case)]
        assert positions == sorted(set(positions))
    assert decoded(NATION)[0]["commit_time"] == "2022-07-11T05:21:43Z"


def test_000_24_and_000_25_the_cursor_of_another_dialect() -> None:
    (record,) = converted("xtdb/seed-create", "arcion-json")
    cursor = json.loads(record["cursor"])
    assert (cursor["timestamp"], cursor["extractionTimestamp"]) == (1703505330123, 1703505330123)
    assert (cursor["log"], cursor["position"]) == ("xtdb", "0512345.010")


def test_000_31_exists_is_printed_as_text() -> None:
    (record,) = converted("xtdb/seed-create", "arcion-json")
    assert set(record["exists"].values()) == {"1"}


def test_000_34_to_000_39_the_json_samples() -> None:
    shapes = {
        NATION: [("insert", "none", "full"), ("update", "full", "full"), ("delete", "full", "none")],
        REGION: [("insert", "none", "full"), ("update", "key", "partial"), ("delete", "key", "none")],
    }
    for case, expected in shapes.items():
        assert [(line["op"], line["before_image"], line["after_image"]) for line in decoded(case)] == expected
