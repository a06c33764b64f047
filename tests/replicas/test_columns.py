"""Columns of replicas: types by schema or by values, changes on the fly, names that are anything."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeling.model.errors import ChangelingError
from tests.log.lakes import Shop, event, shop
from tests.log.records import debezium
from tests.replicas.shops import bus, item, replica, replicas, then

XTDB = {"name": "drop", "type": "files", "path": "in/*.json", "format": "xtdb"}


def run(made: Shop, name: str, *records: str) -> None:
    made.write(f"{name}.json", *records)
    made.pipeline.run(once=True)


def test_columns_without_a_schema_have_the_types_that_their_values_need(spark: SparkSession, tmp_path: Path) -> None:
    made = shop(tmp_path)
    # The odd value comes behind what a sample looks at.
    plain = [event(number) for number in range(1500)]
    run(made, "a", *plain, event(1500, n="text"), event(1501, more=True))
    rows = {row["_id"]: row for row in replica(made, "users")}
    assert len(rows) == 1502
    assert rows["id-7"] == {"_id": "id-7", "n": "7", "more": None}
    assert rows["id-1500"] == {"_id": "id-1500", "n": '"text"', "more": None}
    assert rows["id-1501"] == {"_id": "id-1501", "n": "1501", "more": True}
    run(made, "b", event(1502, price=1), event(1503, table="other", price=2))
    run(made, "c", event(1504, price=1.50), event(1505, table="other", price="x"), event(1506, more="yes"))
    rows = {row["_id"]: row for row in replica(made, "users")}
    assert [rows[f"id-{number}"]["price"] for number in (7, 1502, 1504)] == [None, Decimal("1.0"), Decimal("1.5")]
    assert [rows[f"id-{number}"]["more"] for number in (1501, 1506)] == ["true", '"yes"']
    assert [(row["_id"], row["price"]) for row in replica(made, "other")] == [("id-1503", "2"), ("id-1505", '"x"')]
    found = made.pipeline.current("users")
    assert found is not None
    assert [(column.name, column.type) for column in found[1].columns] == [
        ("_id", "string"),
        ("n", "json"),
        ("more", "json"),
        ("price", "decimal(20,1)"),
    ]


def test_a_column_that_is_dropped_and_comes_again_is_another_one(spark: SparkSession, tmp_path: Path) -> None:
    made = bus(tmp_path)
    wide, narrow = {"id": "int64", "c": "utf8"}, {"id": "int64"}
    again = {"id": "int64", "c": "int32"}
    run(made, "a", *(item(number, "insert", {"id": number, "c": "x"}, columns=wide) for number in (1, 2)))
    run(made, "b", item(3, "update", {"id": 1}, {"id": 1}, columns=narrow))
    assert replica(made) == [{"id": 1}, {"id": 2}]
    run(made, "c", item(4, "insert", {"id": 3, "c": 5}, columns=again))
    assert replica(made) == [{"id": 1, "c": None}, {"id": 2, "c": None}, {"id": 3, "c": 5}]
    assert then(made, as_of_transaction=2) == [{"id": 1, "c": "x"}, {"id": 2, "c": "x"}]
    assert then(made, as_of_transaction=3) == [{"id": 1}, {"id": 2}]
    made.pipeline.rebuild("users")
    assert replica(made) == [{"id": 1, "c": None}, {"id": 2, "c": None}, {"id": 3, "c": 5}]


def test_an_older_schema_that_comes_late_leaves_stored_values_alone(spark: SparkSession, tmp_path: Path) -> None:
    made = bus(tmp_path, tables=[{"name": "users", "mode": "history"}])
    old, new = {"id": "int64", "a": "utf8"}, {"id": "int64", "a": "utf8", "n": "utf8"}
    run(made, "a", item(600, "insert", {"id": 5, "a": "1", "n": "2"}, columns=new))
    run(made, "b", item(200, "insert", {"id": 2, "a": "q"}, columns=old))
    rows = [{"id": 2, "a": "q", "n": None}, {"id": 5, "a": "1", "n": "2"}]
    assert replica(made) == rows
    assert [{name: row[name] for name in rows[0]} for row in replica(made, "public__users__history")] == rows
    # It shows that `a` is another column than the first one of that name.
    run(made, "c", item(400, "update", {"id": 2}, {"id": 2}, columns={"id": "int64"}))
    rows[0]["a"] = None
    assert replica(made) == rows
    assert then(made, as_of_transaction=200) == [{"id": 2, "a": "q"}]
    made.pipeline.rebuild("users")
    assert replica(made) == rows


def test_a_column_that_goes_and_comes_back_in_one_batch_is_there(spark: SparkSession, tmp_path: Path) -> None:
    made = bus(tmp_path)
    old, new = {"id": "int64", "a": "utf8"}, {"id": "int64", "a": "utf8", "n": "utf8"}
    first = item(100, "insert", {"id": 1, "a": "1", "n": "N"}, columns=new)
    second = item(200, "insert", {"id": 2, "a": "q"}, columns=old)
    third = item(300, "insert", {"id": 3, "a": "q", "n": "M"}, columns=new)
    run(made, "a", first, second, third)
    rows = [{"id": 1, "a": "1", "n": None}, {"id": 2, "a": "q", "n": None}, {"id": 3, "a": "q", "n": "M"}]
    assert replica(made) == rows
    run(made, "b", item(400, "insert", {"id": 4, "a": "r", "n": "O"}, columns=new))
    assert replica(made) == [*rows, {"id": 4, "a": "r", "n": "O"}]


def test_a_name_that_a_renamed_column_had_is_that_of_another_one(spark: SparkSession, tmp_path: Path) -> None:
    made = bus(tmp_path)
    run(made, "a", item(1, "insert", {"id": 1, "a": "x"}, columns={"id": "int64", "a": "utf8"}))
    run(
        made,
        "b",
        item(2, "insert", {"id": 2, "b": "y"}, columns={"id": "int64", "b": "utf8"}),
        item(3, "insert", {"id": 3, "b": "z", "a": "new"}, columns={"id": "int64", "b": "utf8", "a": "utf8"}),
    )
    assert replica(made) == [
        {"id": 1, "b": "x", "a": None},
        {"id": 2, "b": "y", "a": None},
        {"id": 3, "b": "z", "a": "new"},
    ]
    assert then(made, point=1) == [{"id": 1, "a": "x"}]


def test_a_type_that_does_not_go_with_the_one_before_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    made = bus(tmp_path)
    run(made, "a", item(1, "insert", {"id": 1, "v": 7}, columns={"id": "int64", "v": "int32"}))
    for number in (2, 3):
        text = item(number, "insert", {"id": number, "v": "x"}, columns={"id": "int64", "v": "utf8"})
        run(
            made,
            str(number),
            text,
            item(number, "insert", {"id": number, "a": 1}, table="other", columns={"id": "int64", "a": "int32"}),
        )
    assert replica(made) == [{"id": 1, "v": 7}]
    assert [row["id"] for row in replica(made, "public__other")] == [2, 3]
    assert ["column v was int32 and is string" in row["reason"] for row in made.rejects()] == [True, True]


def test_a_type_that_iceberg_cannot_widen_in_place_is_widened_all_the_same(spark: SparkSession, tmp_path: Path) -> None:
    made = bus(tmp_path, tables=[{"name": "users", "mode": "history"}])
    run(made, "a", item(1, "insert", {"id": 1, "n": 5}, columns={"id": "int64", "n": "int64"}))
    wider = {"id": "int64", "n": "decimal"}
    run(made, "b", item(2, "update", {"id": 1, "n": "5.50"}, {"id": 1}, columns=wider))
    run(made, "c", item(3, "insert", {"id": 2, "n": "12345678901234567890.5"}, columns=wider))
    assert replica(made) == [{"id": 1, "n": "5.50"}, {"id": 2, "n": "12345678901234567890.5"}]
    history = [(row["id"], row["n"], row["is_current"]) for row in replica(made, "public__users__history")]
    assert sorted(history) == [(1, "5", False), (1, "5.50", True), (2, "12345678901234567890.5", True)]


@pytest.mark.parametrize("policy", ["ignore", "fail"])
def test_a_column_that_no_schema_mentions_is_passed_over_or_stops_the_run(
    policy: str, spark: SparkSession, tmp_path: Path
) -> None:
    rule = {"name": "users", "columns": {"_id": "string", "n": "int64"}, "schema": policy}
    made = shop(tmp_path, tables=[rule])
    if policy == "fail":
        with pytest.raises(ChangelingError, match="users has columns that its schema does not declare \\(extra\\)"):
            run(made, "a", event(1, extra=1))
        return
    run(made, "a", event(1, extra=1))
    assert replica(made, "users") == [{"_id": "id-1", "n": 1}]


def test_names_are_anything(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "some" / "where"
    folder.mkdir(parents=True)
    made = shop(folder / "lake of one")
    names: list[str] = [
        "a/../../x",
        "we`ird",
        "ta'ble",
        'quo"te',
        "select",
        "Users",
        "users",
        "ünder.score",
        "long" * 75,
    ]
    odd = {"Id": 1, "id": 2, "a.b": 3, "back`tick": 4, "quo'te": 5, "select": 6, "c0": 7, "effect": 8, "ü": 9}
    run(made, "a", *(event(number, table=name, **odd) for number, name in enumerate(names)))
    run(made, "b", *(event(number + 10, table=name, **odd, more=1) for number, name in enumerate(names)))
    assert replicas(made) == sorted(names)
    for number, name in enumerate(names):
        rows = [{"_id": f"id-{one}", "n": one, **odd, "more": 1 if one > 9 else None} for one in (number, number + 10)]
        assert replica(made, name) == sorted(rows, key=repr), name
    for spelled in ('"a/../../x"', '"quo""te"'):
        assert made.pipeline.current(spelled) is not None
    inside = folder / "lake of one" / "lake"
    assert {path.resolve().is_relative_to(inside) for path in tmp_path.rglob("*.parquet")} == {True}
    assert [*tmp_path.rglob("x*")] == [*inside.rglob("x*")]


def test_tables_of_one_name_have_their_catalogs_in_front(spark: SparkSession, tmp_path: Path) -> None:
    source = {"name": "bus", "type": "files", "path": "in/*.json", "format": "debezium-json", "key": ["id"]}
    made = shop(tmp_path, source, tables=[{"name": "users", "mode": "history"}])
    other = json.loads(debezium(2))
    other["payload"]["source"]["db"] = "mall"
    run(made, "a", debezium(1), json.dumps(other))
    assert replicas(made) == [
        "mall__public__users",
        "mall__public__users__history",
        "shop__public__users",
        "shop__public__users__history",
    ]
    assert [row["id"] for row in replica(made, "mall__public__users")] == [2]


def test_keys_are_equal_by_type_whatever_their_spelling(spark: SparkSession, tmp_path: Path) -> None:
    source: dict[str, Any] = {**XTDB, "columns": {"_id": "decimal(10,2)", "n": "int64"}, "key": ["_id"]}
    made = shop(tmp_path, source)
    run(made, "a", event(1, _id="1.50"), event(2, _id="2"), event(3, _id="1.5"))
    run(made, "b", event(4, _id="2.00"), event(5, _id="x"))
    assert [(str(row["_id"]), row["n"]) for row in replica(made, "users")] == [("1.50", 3), ("2.00", 4)]
    (table,) = [row for row in made.pipeline.status() if row["kind"] == "table"]
    assert table["aside"] == 1


def test_the_key_of_a_rule_is_the_key_of_documents(spark: SparkSession, tmp_path: Path) -> None:
    rules = [{"name": "users", "key": ["id"], "columns": {"id": "int64", "n": "int64"}}]
    made = shop(tmp_path, {**XTDB, "key": ["_id"]}, tables=rules)
    run(made, "a", event(1, id=5), event(2, id=6), event(3, "notes"), event(4, id=5))
    assert [(row["id"], row["n"]) for row in replica(made, "users")] == [(5, 4), (6, 2)]
    assert [row["_id"] for row in replica(made, "notes")] == ["id-3"]
    assert [row["aside"] for row in made.pipeline.status() if row["kind"] == "table"] == [0, 0]
