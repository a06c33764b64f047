"""Columns and tables whose names Iceberg cannot have: nothing stops, and nothing of a row is lost."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeling.log import log_tables
from tests.log.commands import printed, run_once
from tests.log.lakes import Shop, event, shop
from tests.replicas.shops import bus, item, replica, replicas, then

ODD = ["", "_pos", "_file", "_deleted", "__row_operation", " ", "a\0b", "long" * 500, "${env:HOME}", "a.b", "a_x2Eb"]
STORED = ["_", "__pos", "__file", "__deleted", "___row_operation", *ODD[5:-1], "_a_x2Eb"]


def run(made: Shop, name: str, *records: str) -> None:
    made.write(f"{name}.json", *records)
    made.pipeline.run(once=True)


def stored(row: dict[str, Any]) -> dict[str, Any]:
    """A row under the names that its columns have in the replica."""
    names = dict(zip(ODD, STORED, strict=True))
    return {names.get(name, name): value for name, value in row.items()}


def unnamed(value: Any) -> dict[str, Any]:
    """A column without a name."""
    return {"": value}


def test_columns_of_a_schema_may_have_any_name(spark: SparkSession, tmp_path: Path) -> None:
    made = bus(tmp_path, tables=[{"name": "users", "mode": "history"}])
    columns = {"id": "int64", **dict.fromkeys(ODD, "utf8")}
    old: dict[str, Any] = {"id": 1, **{name: f"old {place}" for place, name in enumerate(ODD)}}
    other = {**old, "id": 2}
    key = {name: old[name] for name in ("id", "")}
    run(made, "a", *(item(row["id"], "insert", row, columns=columns, key=("id", "")) for row in (old, other)))
    assert replica(made) == [stored(old), stored(other)]
    change = {**key, "_pos": "new", " ": None, "a_x2Eb": "new"}
    run(made, "b", item(3, "update", change, key, columns=columns, key=("id", "")))
    new = {**old, **change}
    assert replica(made) == [stored(new), stored(other)]
    assert then(made, point=1) == [stored(old), stored(other)]
    assert then(made, as_of_transaction=1) == [stored(old)]
    states = [{name: row[name] for name in stored(old)} for row in replica(made, "public__users__history")]
    assert states == [stored(new), stored(old), stored(other)]
    gone = {name: other[name] for name in ("id", "")}
    run(made, "c", item(4, "delete", None, gone, columns=columns, key=("id", "")))
    assert replica(made) == [stored(new)]
    assert [moment.changed for moment in made.pipeline.history("users", json.dumps(key))][1:] == [
        ["_pos", " ", "a_x2Eb"]
    ]
    assert made.rows(log_tables.QUARANTINE) == []


def test_values_without_a_name_have_a_column(spark: SparkSession, tmp_path: Path) -> None:
    made = shop(tmp_path)
    run(made, "a", event(1, **unnamed(5)), event(2))
    assert replica(made, "users") == [{"_id": "id-1", "n": 1, "_": 5}, {"_id": "id-2", "n": 2, "_": None}]
    run(made, "b", event(3, **unnamed("text")))
    assert [row["_"] for row in replica(made, "users")] == ["5", None, '"text"']
    # A column that really is called so has the name.
    run(made, "c", event(4, **unnamed(6), _=7))
    assert replica(made, "users") == [
        {"_id": "id-1", "n": 1, "__": "5", "_": None},
        {"_id": "id-2", "n": 2, "__": None, "_": None},
        {"_id": "id-3", "n": 3, "__": '"text"', "_": None},
        {"_id": "id-4", "n": 4, "__": "6", "_": 7},
    ]


def test_tables_of_odd_names_lie_apart(spark: SparkSession, tmp_path: Path) -> None:
    made = shop(tmp_path)
    names = ["", "a\0b", "a_b", "a/b", "a_2Fb", "a!2Fb", "${env:HOME}"]
    run(made, "a", *(event(number, table=name) for number, name in enumerate(names)))
    run(made, "b", *(event(number + 10, table=name, _id=f"id-{number}") for number, name in enumerate(names)))
    stored = ["mydb__", "a\u2400b", *names[2:]]
    assert replicas(made) == sorted(stored)
    found = {name: [(row["_id"], row["n"]) for row in replica(made, name)] for name in stored}
    assert found == {name: [(f"id-{number}", number + 10)] for number, name in enumerate(stored)}
    assert len([*(tmp_path / "lake" / "shop_replica").iterdir()]) == len(names)


def test_names_and_values_do_not_look_like_what_the_program_says(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forged = "users\nchangeling: all is well\x1b[2J\u2028\u202eend"
    shown = r"users\nchangeling: all is well\x1b[2J\u2028\u202eend"
    columns = {"id": "int64", forged: "utf8"}
    made = bus(tmp_path, tables=[{"name": "*", "mode": "history"}])
    name: dict[str, Any] = {"table": forged, "columns": columns}
    made.write("a.json", item(1, "insert", {"id": 1, forged: forged}, **name), "not\x07 JSON")
    made.write("b.json", item(2, "update", {"id": 1, forged: "x"}, {"id": 1}, **name))
    assert run_once(made) == 3
    ran = capsys.readouterr()
    table = f'"{forged}"'
    texts = {
        "run": ran.out + ran.err,
        "status": printed(made, "status"),
        "replica": printed(made, "replica", table),
        "history": printed(made, "history", table, "--key", '{"id": 1}'),
        "rejects": printed(made, "rejects"),
    }
    for verb, text in texts.items():
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]", text), verb
        assert "\nchangeling" not in text, verb
    for verb in ("run", "status", "replica", "history"):
        assert shown in texts[verb], verb
    assert [len(texts[verb].splitlines()) for verb in ("replica", "rejects")] == [2, 2]
    assert r"not\x07 JSON" in texts["rejects"]
