"""Changes that share a position, and equal rows of snapshots.

The content of changes distinguishes repetitions from later changes, which are taken in the order of arrival. The marks of a
snapshot distinguish attempts at it.
"""

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


FIRST, LAST = "first_in_data_collection", "last_in_data_collection"


def change(op: str, row: dict[str, Any], table: str, scn: int = 9, **source: Any) -> str:
    """An event of Oracle; all of one SCN have one position, unless `source` has more."""
    carried = {"connector": "oracle", "db": "D", "schema": "S", "table": table, "ts_ms": scn, "scn": str(scn)}
    before, after = (row if op == "d" else None), (None if op in "dt" else row)
    return json.dumps({"before": before, "after": after, "source": {**carried, **source}, "op": op, "ts_ms": 1})


def named(op: str, value: str | None, number: int = 1, table: str = "T", **source: Any) -> str:
    return change(op, {"ID": number, "N": value}, table, **source)


def names(made: Shop, table: str = "T") -> dict[int, Any]:
    found = made.pipeline.current(f"S.{table}")
    assert found is not None
    return {row["ID"]: row["N"] for row in found[0].to_pylist()}


def ties(made: Shop, table: str) -> int:
    (row,) = (row for row in made.pipeline.status() if row["kind"] == "table" and row["name"] == f"D.S.{table}")
    return int(row["ties"])


def lives(made: Shop, table: str) -> list[tuple[Any, ...]]:
    """Every state that the history has."""
    held = tables_of(load(made.file)).in_namespace("shop_replica").load(f"S__{table}__history")
    assert held is not None
    found = held.scan().to_arrow().to_pylist()
    names = ("N", "op", "valid_from_position", "valid_to_position", "is_current")
    return sorted((tuple(row[name] for name in names) for row in found), key=repr)


def row(value: str, mark: str = "true", table: str = "log", position: int = 154) -> str:
    """A row of MySQL's snapshot of a table without a key."""
    place = {"file": "mysql-bin.000003", "pos": position, "row": 0, "ts_ms": 1}
    source = {"connector": "mysql", "db": "inv", "table": table, "snapshot": mark, **place}
    return json.dumps({"before": None, "after": {"msg": value}, "source": source, "op": "r"})


def rows(values: str, marks: tuple[str, ...], table: str, position: int = 154) -> list[str]:
    return [row(value, mark, table, position) for value, mark in zip(values, marks, strict=True)]


def other_rows(values: str, **source: Any) -> list[str]:
    """Rows of another connector's snapshot, without marks."""
    carried = {"db": "inv", "snapshot": "true", "ts_ms": 1, "table": "log", **source}
    events = [{"before": None, "after": {"msg": value}, "source": carried, "op": "r"} for value in values]
    return [json.dumps(event) for event in events]


def streamed(op: str, value: str, table: str, position: int) -> str:
    """A change after a snapshot."""
    event = json.loads(row(value, "false", table, position))
    before, after = (event["after"] if op == "d" else None), (None if op in "dt" else event["after"])
    return json.dumps({**event, "before": before, "after": after, "op": op})


def messages(made: Shop, table: str) -> str:
    found = made.pipeline.current(f"inv.{table}")
    assert found is not None
    return "".join(sorted(row["msg"] for row in found[0].to_pylist()))


@pytest.fixture(scope="module")
def tied(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """Three runs. Row 1 of `T` has all of its changes in the first, that of `SPLIT` one a run; the others are repetitions.

    `EMPTIED` is truncated between two changes of one position in the first run, `HALVED` in the second. Of the tables without a key, each run has a part of a snapshot, or another attempt at it.
    """
    folder = tmp_path_factory.mktemp("ties")
    made = shop(
        folder, SOURCE, KEYLESS, tables=[{"name": f"S.{name}", "mode": "history"} for name in ("SPLIT", "EMPTIED")]
    )
    three = [named("c", "a"), named("u", "b"), named("u", "c")]
    emptied = [named("c", "a", 1, "EMPTIED"), named("t", None, 1, "EMPTIED"), named("c", "b", 2, "EMPTIED")]
    redo = {"commit_scn": "9", "rs_id": "0x000004.00000010.0010"}
    made.write(
        "1.json",
        named("c", "early", 2, "SPLIT", scn=8),
        *three,
        named("c", "a", table="SPLIT"),
        *(named("u", value, 2) for value in ("b", "a", "b")),
        # The other fields of the record order them, whatever the arrival.
        *(named("u", value, 3, **redo, ssn=ssn) for value, ssn in (("c", 3), ("a", 1), ("b", 2))),
        named("d", "x", 4),
        named("c", "back", 4),
        *emptied,
        named("c", "a", 1, "HALVED"),
    )
    made.write(
        "../log/1.json",
        *(row(value) for value in "aab"),
        *other_rows("ppq", connector="postgresql", lsn=7),
        *other_rows("sst", connector="sqlserver", commit_lsn="00:00:0a"),
        *rows("aabz", (FIRST, "true", "true", "true"), "cut"),
        *rows("aa", ("first", "true"), "moved"),
        *rows("aab", (FIRST, "true", LAST), "retaken"),
        *rows("aaba", ("first", "true", "true", "last"), "tailed"),
        streamed("c", "c", "retaken", 160),
        streamed("d", "a", "retaken", 170),
        *(streamed(op, value, "emptied", 180) for op, value in ("ca", "cb", "t-", "cc", "cd", "dc")),
    )
    made.pipeline.run(once=True)
    made.write(
        "2.json",
        *three,
        named("u", "b", table="SPLIT"),
        named("u", None, 3, **redo, ssn=2),
        *emptied,
        named("u", "c", 2, "EMPTIED"),
        named("t", None, 1, "HALVED"),
        named("c", "b", 2, "HALVED"),
    )
    made.write(
        "../log/2.json",
        row("c", table="cut"),
        *rows("aaabc", (FIRST, "true", "true", "true", LAST), "cut"),
        *rows("aab", ("first", "true", "last"), "moved", 200),
        *other_rows("p", connector="postgresql", lsn=7),
        # What came between the two snapshots is in the second.
        *rows("abc", (FIRST, "true", LAST), "retaken", 200),
        streamed("c", "d", "retaken", 210),
        # The end of a snapshot is delivered again.
        *rows("ba", ("true", "last"), "tailed"),
        streamed("c", "d", "tailed", 300),
        *(streamed(op, value, "emptied", 180) for op, value in ("ca", "t-", "ce")),
    )
    made.pipeline.run(once=True)
    made.write(
        "3.json",
        named("u", "c", table="SPLIT"),
        named("c", "a", table="SPLIT"),
        named("u", "late", 2, "SPLIT", scn=8),
        named("u", "b", 2),
        named("c", "a", 1, "HALVED"),
        named("c", "d", 3, "EMPTIED"),
        named("c", "e", 3, "HALVED"),
    )
    made.write(
        "../log/3.json",
        streamed("d", "a", "moved", 300),
        *rows("a", ("last",), "tailed"),
        streamed("c", "late", "retaken", 190),
        # A third snapshot that is not complete yet.
        *rows("dx", (FIRST, "true"), "retaken", 400),
        streamed("c", "e", "retaken", 410),
    )
    made.pipeline.run(once=True)
    return made


def test_different_content_at_one_position_is_a_later_change_and_equal_content_a_repetition(tied: Shop) -> None:
    assert names(tied) == {1: "c", 2: "a", 3: "c", 4: "back"}
    assert names(tied, "SPLIT") == {1: "c", 2: "late"}


def test_a_truncate_takes_its_place_among_the_changes_of_its_position(tied: Shop) -> None:
    assert names(tied, "EMPTIED") == {2: "c", 3: "d"}
    assert names(tied, "HALVED") == {2: "b", 3: "e"}
    assert messages(tied, "emptied") == "de"
    at = "019.019"
    assert lives(tied, "EMPTIED") == [
        ("a", "insert", at, at, False),
        ("b", "insert", at, at, False),
        ("c", "update", at, None, True),
        ("d", "insert", at, None, True),
    ]
    moments = list(tied.pipeline.history("S.EMPTIED", '{"ID": 1}'))
    assert [(moment.row["op"][0].as_py(), (moment.after or {}).get("N")) for moment in moments] == [
        ("insert", b'"a"'),
        ("truncate", None),
    ]


def test_what_looks_like_a_repetition_among_others_is_counted(tied: Shop) -> None:
    assert [ties(tied, table) for table in ("T", "SPLIT", "EMPTIED", "HALVED")] == [2, 1, 0, 1]
    source = tied.pipeline.status()[0]
    assert (source["name"], source["ties"]) == ("bus", 4)


def test_equal_rows_of_a_snapshot_without_keys_all_count(tied: Shop) -> None:
    """Without marks, one that is delivered again counts again."""
    assert messages(tied, "log") == "aabpppqsst"


def test_a_later_attempt_at_a_snapshot_takes_the_place_of_the_earlier(tied: Shop) -> None:
    assert messages(tied, "cut") == "aaabc"
    assert messages(tied, "moved") == "ab"
    assert messages(tied, "retaken") == "abcde"
    assert messages(tied, "tailed") == "aaabd"


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


def test_readers_of_the_log_get_changes_of_one_position_as_they_arrived(tied: Shop) -> None:
    images = tied.pipeline.changes("S.SPLIT")["after"].to_pylist()
    assert [json.loads(image)["N"] for image in images] == ["early", "late", "a", "b", "c", "a"]


def test_a_state_of_then_and_a_rebuild_are_the_same(tied: Shop) -> None:
    then = "1970-01-01T00:00:00.009Z"
    for table, column, expected in (("S.SPLIT", "N", ["c", "late"]), ("inv.moved", "msg", ["a", "b"])):
        for found in (tied.pipeline.rows(table, as_of=then), tied.pipeline.replica(table, as_of=then).toArrow()):
            assert sorted(found.column(column).to_pylist()) == expected
    counted, before = ties(tied, "SPLIT"), lives(tied, "SPLIT")
    tied.pipeline.rebuild("S.SPLIT")
    assert (names(tied, "SPLIT"), lives(tied, "SPLIT"), ties(tied, "SPLIT")) == ({1: "c", 2: "late"}, before, counted)
    emptied = names(tied, "EMPTIED"), names(tied, "HALVED"), lives(tied, "EMPTIED")
    for table in ("S.EMPTIED", "S.HALVED"):
        found = tied.pipeline.rows(table, as_of=then), tied.pipeline.replica(table, as_of=then).toArrow()
        assert [sorted(rows.column("N").to_pylist()) for rows in found] == [sorted(names(tied, table[2:]).values())] * 2
        tied.pipeline.rebuild(table)
    assert (names(tied, "EMPTIED"), names(tied, "HALVED"), lives(tied, "EMPTIED")) == emptied
    for table, letters in (
        ("moved", "ab"),
        ("retaken", "abcde"),
        ("cut", "aaabc"),
        ("emptied", "de"),
        ("tailed", "aaabd"),
    ):
        tied.pipeline.rebuild(f"inv.{table}")
        assert messages(tied, table) == letters
    states = [tied.pipeline.replica("inv.retaken", point=number).toArrow() for number in (1, 2, 3)]
    assert ["".join(sorted(found.column("msg").to_pylist())) for found in states] == ["abc", "abcd", "abcde"]


def test_a_truncate_that_is_all_there_is_leaves_the_table_its_key(spark: SparkSession, tmp_path: Path) -> None:
    """Delivered again in a batch of its own, of a table whose schema nobody declares."""
    made = shop(tmp_path, SOURCE)
    again = change("t", {}, "T", scn=1)
    made.write("1.json", again, named("c", "a", scn=2), named("u", "b", scn=3))
    made.pipeline.run(once=True)
    made.write("2.json", again)
    made.pipeline.run(once=True)
    found = made.pipeline.current("S.T")
    assert found is not None
    assert found[0].to_pylist() == [{"ID": 1, "N": "b"}]
