"""XTDB's statements, one a test; each name begins with its number in the list of statements."""

import json

from tests.statements.reading import converted, decoded


def test_002_02_to_002_04_create_update_and_delete() -> None:
    shapes = []
    for case in ("seed-create", "seed-update", "seed-delete"):
        (line,) = decoded(f"xtdb/{case}")
        shapes.append((line["op"], line["before_image"], line["after_image"]))
    assert shapes == [("insert", "none", "full"), ("update", "full", "full"), ("delete", "full", "none")]


def test_002_05_documents_are_written_as_text_and_002_09_live_changes_are_no_snapshot() -> None:
    made = converted("arcion-json/snapshot-nation", "xtdb", {"key": "n_nationkey"})
    assert json.loads(made[0]["after"])["n_name"] == "Testing name"
    assert [record["source"]["snapshot"] for record in made] == [None] * 3


def test_002_06_names_and_002_10_the_table() -> None:
    (line,) = decoded("xtdb/seed-create")
    assert line["key"] == {"_id": "user-123"}
    assert {"created_at", "is_active"} <= line["after"].keys()
    assert (line["table"]["catalog"], line["table"]["name"]) == ("mydb", "users")


def test_002_08_one_time_in_three_places() -> None:
    (line,) = decoded("xtdb/seed-create")
    assert line["commit_time"] == "2023-12-25T11:55:30.123Z"
    (record, *_) = converted("arcion-json/snapshot-nation", "xtdb", {"key": "n_nationkey"})
    assert record["ts_ms"] == record["source"]["ts_ms"] == record["source"]["system_time"] == 1657516903000


def test_002_11_002_15_and_002_25_transactions() -> None:
    lines = decoded("xtdb/seed-transaction")
    assert [line["transaction"] for line in lines] == [
        {"id": "12350", "order": order, "total": 12350} for order in (0, 1, 2)
    ]
    positions = [line["position"] for line in lines]
    assert positions == sorted(set(positions))


def test_002_12_and_002_13_complex_documents_and_sql() -> None:
    (order,) = decoded("xtdb/seed-complex-types")
    assert order["after"]["valid_interval"] == {"months": 6, "days": 15, "nanos": 0}
    (product,) = decoded("xtdb/seed-sql-insert")
    assert (product["op"], product["table"]["name"]) == ("insert", "products")
