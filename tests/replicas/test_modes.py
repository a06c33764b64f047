"""What a replica keeps: rows as they are, every state of them, or every change; and states that begin with a full load."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from changeling.iceberg import measured_scan
from changeling.model.errors import UsageError
from changeling.pipelines.time_travel import AskedState
from tests.log.lakes import Shop, shop
from tests.replicas.shops import bus, item, moment, points, quarantine_entries, replica, replicas, then

ANN, BOB = {"id": 1, "name": "Ann", "n": 1}, {"id": 2, "name": "Bob", "n": 2}


def run(made: Shop, name: str, *records: str) -> None:
    made.write(f"{name}.json", *records)
    made.pipeline.run(once=True)


def test_every_change_as_a_row_of_a_typed_table(spark: SparkSession, tmp_path: Path) -> None:
    made = bus(tmp_path, tables=[{"name": "users", "mode": "append", "typed": True}])
    run(made, "a", item(2, "insert", ANN), item(3, "update", {"id": 1, "n": 5}, {"id": 1}))
    run(made, "b", item(1, "insert", BOB), item(4, "delete", None, {"id": 1}))
    rows = [{name: row[name] for name in ("id", "name", "n", "op", "image", "position")} for row in replica(made)]
    assert rows == [
        {"id": 1, "name": "Ann", "n": 1, "op": "insert", "image": "full", "position": "012.010"},
        {"id": 1, "name": None, "n": 5, "op": "update", "image": "partial", "position": "013.010"},
        {"id": 1, "name": None, "n": None, "op": "delete", "image": "key", "position": "014.010"},
        {"id": 2, "name": "Bob", "n": 2, "op": "insert", "image": "full", "position": "011.010"},
    ]
    assert then(made) == [BOB]
    assert then(made, as_of=moment(3)) == [{**ANN, "n": 5}, BOB]


def test_raw_changes_alone_still_have_states(spark: SparkSession, tmp_path: Path) -> None:
    made = bus(tmp_path, tables=[{"name": "*", "mode": "append"}])
    run(made, "a", item(1, "insert", ANN), item(2, "insert", BOB))
    run(made, "b", item(3, "delete", None, {"id": 1}))
    assert replicas(made) == []
    assert then(made) == [BOB]
    assert then(made, as_of=moment(2)) == [ANN, BOB]
    assert then(made, as_of_transaction=1) == [ANN]


def test_a_table_that_was_kept_in_another_mode_meanwhile_is_made_again(spark: SparkSession, tmp_path: Path) -> None:
    made = bus(tmp_path)
    run(made, "a", item(1, "insert", ANN), item(2, "update", {"id": 1, "n": 2}, {"id": 1}))
    bus(tmp_path, tables=[{"name": "users", "mode": "append"}])
    run(made, "b", item(4, "update", {"id": 1, "n": 4}, {"id": 1}))
    assert made.pipeline.current("users") is None
    assert then(made) == [{**ANN, "n": 4}]
    bus(tmp_path)
    run(made, "c", item(5, "update", {"id": 1, "name": "Anna"}, {"id": 1}))
    assert replica(made) == [{"id": 1, "name": "Anna", "n": 4}]
    assert then(made, as_of_transaction=4) == [{**ANN, "n": 4}]
    assert then(made, as_of_transaction=1) == [ANN]


def test_a_late_change_splits_the_time_of_a_state(spark: SparkSession, tmp_path: Path) -> None:
    made = bus(tmp_path, tables=[{"name": "users", "mode": "history"}])
    run(made, "a", item(1, "insert", ANN), item(5, "update", {"id": 1, "n": 5}, {"id": 1}))
    run(made, "b", item(3, "update", {"id": 1, "name": "Anna"}, {"id": 1}), item(9, "delete", None, {"id": 1}))
    history = [
        (row["name"], row["n"], row["op"], row["valid_from_position"], row["valid_to_position"], row["is_current"])
        for row in sorted(replica(made, "public__users__history"), key=lambda row: row["valid_from_position"])
    ]
    assert history == [
        ("Ann", 1, "insert", "011.010", "013.010", False),
        ("Anna", 1, "update", "013.010", "015.010", False),
        ("Anna", 5, "update", "015.010", "019.010", False),
    ]
    assert replica(made) == []


def test_a_late_truncate_ends_states_that_a_later_one_had_ended(spark: SparkSession, tmp_path: Path) -> None:
    """It comes together with a truncate that is not late."""
    made = bus(tmp_path, tables=[{"name": "users", "mode": "history"}])
    run(made, "a", item(1, "insert", ANN), item(5, "insert", BOB), item(6, "truncate"))
    run(made, "b", item(3, "truncate"), item(8, "insert", BOB), item(9, "truncate"))
    names = ("name", "valid_from_position", "valid_to_position")
    history = [tuple(row[name] for name in names) for row in replica(made, "public__users__history")]
    assert sorted(history) == [
        ("Ann", "011.010", "013.010"),
        ("Bob", "015.010", "016.010"),
        ("Bob", "018.010", "019.010"),
    ]


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_a_full_load_and_the_log_on_top_of_it(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    source: dict[str, Any] = {
        "name": "dw",
        "type": "files",
        "path": "in/*.json",
        "format": "dataworks",
        "table": "orders",
        "key": ["id"],
    }
    source["columns"] = {"id": "int64", "price": "decimal(10,2)", "note": "string"}
    made = shop(tmp_path, source)
    base = [("1", "10.50", "a"), ("2", "20.00", None), ("3", "30.00", "c")]
    place = str(_base(tmp_path, kind, base))

    def record(sequence: int, op: str, before: str, after: str, **row: Any) -> str:
        time = 1_700_000_000_000 + sequence * 1000
        carried = {"_sequence_id_": str(sequence), "_operation_type_": op, "_execute_time_": time}
        return json.dumps({**carried, "_before_image_": before, "_after_image_": after, **row})

    made.write(
        "a.json",
        record(10, "U", "N", "Y", id=4, price="11.25", note="moved"),
        record(9, "D", "Y", "N", id=2, price="20.00", note=None),
        record(10, "U", "Y", "N", id=1, price="10.50", note="a"),
        record(11, "I", "N", "Y", id=5, price="5.00", note="late"),
    )
    made.pipeline.run(once=True)
    rows = made.pipeline.replica("orders", base=place, before=moment(11)).toArrow().to_pylist()
    assert sorted((row["id"], str(row["price"]), row["note"]) for row in rows) == [
        (3, "30.00", "c"),
        (4, "11.25", "moved"),
    ]
    assert sorted(row["id"] for row in made.pipeline.replica("orders", base=place).collect()) == [3, 4, 5]


def _base(folder: Path, kind: str, rows: list[tuple[Any, ...]]) -> Path:
    path = folder / f"base.{kind}"
    names = ("id", "price", "note")
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows]), path)
    elif kind == "csv":
        lines = [",".join("" if value is None else value for value in row) for row in rows]
        path.write_text("\n".join([",".join(names), *lines]) + "\n")
    else:
        path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    return path


def test_states_at_points_and_after_transactions_are_those_of_all_tables(spark: SparkSession, tmp_path: Path) -> None:
    made = bus(tmp_path)
    other: dict[str, Any] = {"table": "orders", "columns": {"id": "int64", "user": "int64"}}
    run(made, "a", item(1, "insert", ANN), item(1, "insert", {"id": 1, "user": 1}, order=1, **other))
    run(made, "b", item(2, "insert", BOB), item(2, "insert", {"id": 2, "user": 2}, order=1, **other))
    run(made, "c", item(3, "truncate"), item(3, "delete", None, {"id": 1}, order=1, **other))
    assert [point["tables"] for point in points(made)] == [["public__orders", "public__users"]] * 3
    for number, users, orders in ((1, [1], [1]), (2, [1, 2], [1, 2]), (3, [], [2])):
        whens: list[dict[str, Any]] = [{"point": number}, {"as_of_transaction": number}, {"as_of": moment(number)}]
        for when in whens:
            assert [row["id"] for row in then(made, "users", **when)] == users
            assert [row["id"] for row in then(made, "orders", **when)] == orders
    for ask in (made.pipeline.replica, made.pipeline.rows):
        with pytest.raises(UsageError, match="has no transaction 7; the last one in the replicas is 3"):
            ask("users", as_of_transaction=7)
        with pytest.raises(UsageError, match=r"there is no table public\.user; did you mean 'public\.users'"):
            ask("public.user")
        with pytest.raises(UsageError, match="write the offset as well"):
            ask("users", as_of="2023-11-14T22:13:20")
    program = "import sys; from changeling.cli import main; code = main(); assert 'pyspark' not in sys.modules; sys.exit(code)"
    call = [sys.executable, "-c", program, "replica", "users", "--as-of", moment(2), "--json"]
    done = subprocess.run([*call, "--pipeline", str(made.file)], capture_output=True, text=True, check=True)
    assert ([json.loads(line) for line in done.stdout.splitlines()], done.stderr) == ([ANN, BOB], "")


def test_what_is_too_large_for_the_process_is_folded_on_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bus(tmp_path)
    run(made, "a", item(1, "insert", ANN))
    reasons: list[str] = []

    def asked() -> tuple[pa.Schema, list[dict[str, Any]]]:
        rows = made.pipeline.read("users", AskedState(as_of_transaction=1), on_spark=reasons.append).rows
        return rows.schema, rows.to_pylist()

    found = asked()
    assert found[1] == [ANN]
    assert reasons == []
    monkeypatch.setattr(measured_scan, "MAX_BYTES", 100)
    assert asked() == found
    assert reasons == ["0.0 MB have to be read"]


def test_values_that_do_not_fit_are_quarantined_until_their_row_is_written_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = bus(tmp_path)
    big = 2**40
    run(made, "a", item(1, "insert", {**ANN, "n": big}), item(2, "insert", {**BOB, "n": big}))
    assert quarantine_entries(made) == [("users", '{"id":1}', "n", str(big)), ("users", '{"id":2}', "n", str(big))]
    assert replica(made) == [{**ANN, "n": None}, {**BOB, "n": None}]
    run(made, "b", item(3, "update", {"id": 1, "name": "Anna"}, {"id": 1}), item(4, "delete", None, {"id": 2}))
    assert quarantine_entries(made) == [("users", '{"id":1}', "n", str(big))]
    (table,) = [row for row in made.pipeline.status() if row["kind"] == "table"]
    assert {name: table[name] for name in ("applied", "late", "stale", "aside")} == {
        "applied": 4,
        "late": 0,
        "stale": 0,
        "aside": 1,
    }
    run(made, "c", item(5, "update", {"id": 1, "n": 7}, {"id": 1}))
    assert quarantine_entries(made) == []
    assert replica(made) == [{"id": 1, "name": "Anna", "n": 7}]
    # It stays with its row where that gets another key; what was at that key before is gone.
    run(made, "d", item(6, "insert", {**BOB, "n": big}), item(7, "update", {"id": 1, "n": big + 1}, {"id": 1}))
    run(made, "e", item(8, "delete", None, {"id": 1}), item(9, "update", {"id": 1, "name": "Bo"}, {"id": 2}))
    assert quarantine_entries(made) == [("users", '{"id":1}', "n", str(big))]
    assert replica(made) == [{"id": 1, "name": "Bo", "n": None}]


def test_a_table_without_a_key_needs_the_whole_row_before(spark: SparkSession, tmp_path: Path) -> None:
    made = bus(tmp_path)
    bag: dict[str, Any] = {"table": "bag", "columns": {"a": "int64", "b": "utf8"}, "key": ()}
    run(made, "a", *(item(number, "insert", {"a": 1, "b": "x"}, **bag) for number in (1, 2, 3)))
    run(made, "b", item(4, "delete", None, {"a": 1, "b": "x"}, **bag), item(5, "delete", None, {"a": 1}, **bag))
    assert replica(made, "public__bag") == [{"a": 1, "b": "x"}] * 2
    assert [entry[2:] for entry in quarantine_entries(made)] == [(None, '{"a":1}')]


def test_rows_that_were_only_touched_are_stale_and_keep_their_values(spark: SparkSession, tmp_path: Path) -> None:
    source = {
        "name": "ydb",
        "type": "files",
        "path": "in/*.json",
        "format": "ydb-json",
        "table": "users",
        "key": ["id"],
    }
    made = shop(tmp_path, {**source, "columns": {"id": "uint64", "n": "int32"}})
    run(made, "a", *(json.dumps({"update": {"n": n}, "key": [n], "ts": [n, 1]}) for n in (1, 2)))
    shop(tmp_path, {**source, "columns": {"id": "uint64", "n": "int32"}, "options": {"mode": "KEYS_ONLY"}})
    run(made, "b", *(json.dumps({"update": {}, "key": [n], "ts": [n + 8, 1]}) for n in (1, 9)))
    assert [(int(row["id"]), row["n"]) for row in replica(made, "users")] == [(1, 1), (2, 2)]
    assert [(key, value) for _, key, _, value in quarantine_entries(made)] == [('{"id":1}', None), ('{"id":9}', None)]
    (table,) = [row for row in made.pipeline.status() if row["kind"] == "table"]
    assert (table["stale"], table["aside"]) == (2, 0)
