"""Changes that share a position: what they say tells repetitions from later changes, which are taken in the order of arrival."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeling.pipelines.lakehouse import tables_of
from changeling.pipelines.loading import load
from tests.log.lakes import Shop, shop

SOURCE = {"name": "bus", "type": "files", "path": "in/*.json", "format": "debezium-json", "key": ["ID"]}
KEYLESS = {"name": "log", "type": "files", "path": "log/*.json", "format": "debezium-json"}


def change(op: str, row: dict[str, Any], table: str, scn: int = 9, **source: Any) -> str:
    """An event of Oracle; all of one SCN have one position, unless `source` tells more."""
    told = {"connector": "oracle", "db": "D", "schema": "S", "table": table, "ts_ms": scn, "scn": str(scn)}
    before, after = (row, None) if op == "d" else (None, row)
    return json.dumps({"before": before, "after": after, "source": {**told, **source}, "op": op, "ts_ms": 1})


def named(op: str, value: str | None, table: str = "T", **source: Any) -> str:
    return change(op, {"ID": 1, "N": value}, table, **source)


def names(made: Shop, table: str = "T") -> list[Any]:
    found = made.pipeline.current(f"S.{table}")
    assert found is not None
    return sorted(row["N"] for row in found[0].to_pylist())


def ties(made: Shop, table: str) -> int:
    (row,) = (row for row in made.pipeline.status() if row["kind"] == "table" and row["name"] == f"D.S.{table}")
    return int(row["ties"])


def lives(made: Shop, table: str) -> list[tuple[Any, ...]]:
    """Every state that the history has."""
    held = tables_of(load(made.file)).beside("shop_replica").load(f"S__{table}__history")
    assert held is not None
    found = held.scan().to_arrow().to_pylist()
    names = ("N", "op", "valid_from_position", "valid_to_position", "is_current")
    return sorted((tuple(row[name] for name in names) for row in found), key=repr)


@pytest.fixture(scope="module")
def tied(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """Three runs. `T` has all of its changes in the first, `SPLIT` one a run; all other changes of the two are repetitions."""
    made = shop(tmp_path_factory.mktemp("ties"), SOURCE, tables=[{"name": "S.SPLIT", "mode": "history"}])
    three = [named("c", "a"), named("u", "b"), named("u", "c")]
    redo = {"commit_scn": "9", "rs_id": "0x000004.00000010.0010"}
    made.write(
        "1.json",
        change("c", {"ID": 2, "N": "early"}, "SPLIT", scn=8),
        *three,
        named("c", "a", "SPLIT"),
        *(named(op, value, "BAB") for op, value in (("u", "b"), ("u", "a"), ("u", "b"))),
        # What the record tells besides orders them, whatever the arrival.
        *(named("u", value, "REDO", **redo, ssn=ssn) for value, ssn in (("c", 3), ("a", 1), ("b", 2))),
        named("d", "x", "GONE"),
        named("c", "back", "GONE"),
    )
    made.pipeline.run(once=True)
    made.write("2.json", *three, named("u", "b", "SPLIT"), named("u", None, "REDO", **redo, ssn=2))
    made.pipeline.run(once=True)
    made.write(
        "3.json",
        named("u", "c", "SPLIT"),
        named("c", "a", "SPLIT"),
        change("u", {"ID": 2, "N": "late"}, "SPLIT", scn=8),
        named("u", "b", "BAB"),
    )
    made.pipeline.run(once=True)
    return made


def test_different_content_at_one_position_is_a_later_change_and_equal_content_a_repetition(tied: Shop) -> None:
    assert names(tied) == ["c"]
    assert names(tied, "SPLIT") == ["c", "late"]
    assert names(tied, "REDO") == ["c"]
    assert names(tied, "GONE") == ["back"]


def test_what_looks_like_a_repetition_among_others_is_counted(tied: Shop) -> None:
    assert names(tied, "BAB") == ["a"]
    assert [ties(tied, table) for table in ("T", "SPLIT", "BAB", "REDO", "GONE")] == [3, 1, 2, 0, 0]
    source = tied.pipeline.status()[0]
    assert (source["kind"], source["ties"]) == ("source", 6)


def test_a_state_of_then_and_a_rebuild_are_the_same(tied: Shop) -> None:
    for table, expected in (("T", ["c"]), ("SPLIT", ["c", "late"]), ("BAB", ["a"]), ("GONE", ["back"])):
        rows = tied.pipeline.replica(f"S.{table}", as_of="1970-01-01T00:00:00.009Z").toArrow().to_pylist()
        assert sorted(row["N"] for row in rows) == expected, table
    counted = ties(tied, "SPLIT")
    before = lives(tied, "SPLIT")
    tied.pipeline.rebuild("S.SPLIT")
    assert names(tied, "SPLIT") == ["c", "late"]
    assert lives(tied, "SPLIT") == before
    assert ties(tied, "SPLIT") == counted


def test_history_has_every_state_in_the_order_of_arrival(tied: Shop) -> None:
    moments = list(tied.pipeline.history("S.SPLIT", '{"ID": 1}'))
    assert [(moment.row["op"][0].as_py(), (moment.after or {}).get("N")) for moment in moments] == [
        ("insert", b'"a"'),
        ("update", b'"b"'),
        ("update", b'"c"'),
    ]
    at = "019.019"
    assert lives(tied, "SPLIT") == [
        ("a", "insert", at, at, False),
        ("b", "update", at, at, False),
        ("c", "update", at, None, True),
        ("early", "insert", "018.018", "018.018", False),
        ("late", "update", "018.018", None, True),
    ]


def row(value: str, mark: Any = "true", table: str = "log", position: int = 154, **more: Any) -> str:
    """A row of MySQL's snapshot of a table without a key."""
    source = {
        **{"connector": "mysql", "db": "inv", "table": table, "snapshot": mark, "file": "mysql-bin.000003"},
        **{"pos": position, "row": 0, "ts_ms": 1},
    }
    event = {"before": None, "after": {"msg": value}, "source": source, "op": "r"}
    return json.dumps({**event, **more})


def messages(made: Shop, table: str = "log") -> list[str]:
    found = made.pipeline.current(f"inv.{table}")
    assert found is not None
    return sorted(row["msg"] for row in found[0].to_pylist())


def write(made: Shop, name: str, *lines: str) -> None:
    made.write(f"../log/{name}", *lines)
    made.pipeline.run(once=True)


@pytest.fixture(scope="module")
def unkeyed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """Snapshots of tables without a key, in several runs."""
    made = shop(tmp_path_factory.mktemp("unkeyed"), KEYLESS)
    (made.folder / "log").mkdir()
    deleted = {"before": {"msg": "a"}, "after": None, "op": "d"}
    first, last = "first_in_data_collection", "last_in_data_collection"
    write(
        made,
        "1.json",
        *(row(value) for value in "aab"),
        *(row(value, mark, "cut") for value, mark in zip("aab", (first, "true", "true"), strict=True)),
        row("a", "first", "moved"),
        row("a", table="moved"),
        row("only", last, "one"),
    )
    write(
        made,
        "2.json",
        row("c", table="cut"),
        *(row(value, mark, "cut") for value, mark in zip("aaabc", (first, "true", "true", "true", last), strict=True)),
        *(row(value, mark, "moved", 200) for value, mark in zip("aab", ("first", "true", "last"), strict=True)),
        row("a", "false", "moved", 300, **deleted),
        row("only", last, "one"),
    )
    return made


def test_equal_rows_of_a_snapshot_without_keys_all_count(unkeyed: Shop) -> None:
    assert messages(unkeyed) == ["a", "a", "b"]


def test_a_later_attempt_at_a_snapshot_takes_the_place_of_the_earlier(unkeyed: Shop) -> None:
    assert messages(unkeyed, "cut") == ["a", "a", "a", "b", "c"]
    assert messages(unkeyed, "moved") == ["a", "b"]
    assert messages(unkeyed, "one") == ["only"]


def test_states_and_rebuilds_of_tables_without_keys_are_the_same(unkeyed: Shop) -> None:
    for table, expected in (("log", "aab"), ("cut", "aaabc"), ("moved", "ab")):
        rows = unkeyed.pipeline.replica(f"inv.{table}", as_of="1970-01-01T00:00:00.001Z").toArrow().to_pylist()
        assert sorted(row["msg"] for row in rows) == list(expected), table
        unkeyed.pipeline.rebuild(f"inv.{table}")
        assert messages(unkeyed, table) == list(expected), table


def test_without_marks_a_row_that_is_delivered_again_counts_again(spark: SparkSession, tmp_path: Path) -> None:
    made = shop(tmp_path, KEYLESS)
    sources = [
        {"connector": "postgresql", "lsn": 7},
        {"connector": "sqlserver", "commit_lsn": "00:00:0a"},
    ]
    place = {"db": "inv", "snapshot": "true", "ts_ms": 1}
    rows = [
        json.dumps(
            {"before": None, "after": {"msg": value}, "source": {**place, **source, "table": f"t{number}"}, "op": "r"}
        )
        for number, source in enumerate(sources)
        for value in "aab"
    ]
    write(made, "1.json", *rows)
    assert [messages(made, f"t{number}") for number in range(2)] == [["a", "a", "b"]] * 2
    write(made, "2.json", rows[0])
    assert [messages(made, f"t{number}") for number in range(2)] == [["a", "a", "a", "b"], ["a", "a", "b"]]
