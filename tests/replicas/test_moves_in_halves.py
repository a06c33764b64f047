"""A key change that appears as delete, tombstone and create with the placeholder: the row keeps the value that was not sent.

Each table has the same history in another split of batches, once with the key that Debezium's header names, and once with
positions that continue with the number of the change in its transaction.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeling.model.errors import UsageError
from changeling.model.position import encode
from tests.log.lakes import Shop, shop
from tests.replicas.shops import points, quarantine_entries, replica, replicas, then

SOURCE = {"name": "pg", "type": "files", "path": "in/*.json", "format": "debezium-json", "carrier": "kcat"}
UNKNOWN = "__debezium_unavailable_value"
Row = dict[str, Any]


def message(table: str, number: int, op: str, row: Row, *, old: Row | None = None, count: int | None = None) -> str:
    """One event as `kcat -J` prints it, at log position `number`; second `number` is its time, `count` its place in transaction 7."""
    more: Row = {}
    source: Row = {"connector": "postgresql", "name": "shop", "db": "shop", "schema": "public", "table": table}
    source |= {"ts_ms": 1_700_000_000_000 + number * 1000, "sequence": json.dumps([None, str(number)]), "lsn": number}
    if table == "counted":
        count = number * 2 + (op == "c")
    if count is not None:
        position = encode(0, number, count) if table == "counted" else encode(0, number)
        source |= {"connector": "changeling", "position": position}
        more = {"transaction": {"id": "7", "total_order": count, "data_collection_order": count}}
    images = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    headers: Row = {} if old is None else {"headers": ["__debezium.oldkey", json.dumps(old)]}
    return json.dumps(
        {
            "topic": f"shop.public.{table}",
            "partition": 0,
            "offset": number * 4 + "rcud".index(op),
            **headers,
            "key": json.dumps({"id": row["id"]}),
            "payload": json.dumps({**images, "source": source, "op": op, **more}),
        }
    )


def tombstone(table: str, number: int, id: int) -> str:
    topic = {"topic": f"shop.public.{table}", "partition": 0, "offset": number * 4 + 3}
    return json.dumps({**topic, "key": json.dumps({"id": id}), "payload": None})


def life(table: str, named: bool = False) -> list[str]:
    """A row is created as 1, changed, moved to 2 and to 3; in addition 8 moves to 9 in the statement that moves 1."""
    first, second = ({"id": 1}, {"id": 2}) if named else (None, None)
    return [
        message(table, 1, "r", {"id": 1, "n": 1, "doc": "long"}),
        message(table, 2, "c", {"id": 8, "n": 8, "doc": "eight"}),
        message(table, 3, "u", {"id": 1, "n": 2, "doc": "longer"}),
        message(table, 4, "d", {"id": 8, "n": None, "doc": None}),
        message(table, 4, "c", {"id": 9, "n": 9, "doc": UNKNOWN}, old={"id": 8} if named else None),
        message(table, 5, "d", {"id": 1, "n": None, "doc": None}),
        message(table, 5, "c", {"id": 2, "n": 3, "doc": UNKNOWN}, old=first),
        message(table, 6, "d", {"id": 2, "n": None, "doc": None}),
        message(table, 6, "c", {"id": 3, "n": 4, "doc": UNKNOWN}, old=second),
    ]


SPLITS = {
    "on_top": (0, 0, 0, 1, 1, 1, 1, 2, 2),
    "cut": (0, 0, 0, 0, 1, 0, 1, 1, 2),
    "create_first": (0, 0, 0, 1, 0, 1, 0, 2, 1),
    "late": (0, 0, 2, 0, 0, 0, 0, 1, 1),
    "named": (2, 0, 1, 2, 0, 1, 2, 0, 1),
    "counted": (0, 0, 0, 0, 1, 0, 1, 1, 2),
}
STATES = {
    1: [(1, 1, "long")],
    2: [(1, 1, "long"), (8, 8, "eight")],
    3: [(1, 2, "longer"), (8, 8, "eight")],
    4: [(1, 2, "longer"), (9, 9, "eight")],
    5: [(2, 3, "longer"), (9, 9, "eight")],
    6: [(3, 4, "longer"), (9, 9, "eight")],
}
"""Of every table, behind every position."""


def cells(rows: list[Row]) -> list[tuple[Any, ...]]:
    return sorted((row["id"], row["n"], row["doc"]) for row in rows)


@dataclass(frozen=True)
class Moves:
    """The pipeline, and what the tables held before the last run."""

    made: Shop
    stale: dict[str, int]


@pytest.fixture(scope="module")
def moves(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Moves:
    folder = tmp_path_factory.mktemp("moves")
    made = shop(folder, SOURCE, tables=[{"name": "cut", "mode": "history"}])
    stale: dict[str, int] = {}
    for batch in range(3):
        lines = []
        for table, split in SPLITS.items():
            record = zip(life(table, table == "named"), split, strict=True)
            lines += [line for line, wanted in record if wanted == batch]
        made.write(f"{batch}.json", *lines, tombstone("on_top", batch, batch))
        made.pipeline.run(once=True)
        stale[str(batch)] = len(quarantine_entries(made))
    return Moves(made, stale)


@pytest.mark.parametrize("table", SPLITS)
def test_a_row_that_moves_takes_along_what_was_not_sent(moves: Moves, table: str) -> None:
    assert cells(replica(moves.made, f"public__{table}")) == STATES[6]


def test_what_is_known_in_the_end_is_not_stale(moves: Moves) -> None:
    # Creates that came before their deletes were stale until those came.
    assert moves.stale["0"] > 0
    assert quarantine_entries(moves.made) == []


@pytest.mark.parametrize("table", ["cut", "create_first"])
def test_states_of_every_moment_have_it(moves: Moves, table: str) -> None:
    moments = {number: f"2023-11-14T22:13:{20 + number}Z" for number in (3, 4, 5)}
    found = {number: cells(then(moves.made, f"public.{table}", as_of=moment)) for number, moment in moments.items()}
    assert found == {number: STATES[number] for number in moments}


def test_the_history_of_rows_has_it(moves: Moves) -> None:
    rows = replica(moves.made, "public__cut__history")
    found = {
        number: cells(
            [row for row in rows if row["valid_from_position"] <= f"010.01{number}" < (row["valid_to_position"] or "~")]
        )
        for number in STATES
    }
    assert found == STATES


@pytest.mark.parametrize("table", ["on_top", "create_first", "named", "counted"])
def test_the_life_of_a_row_follows_it(moves: Moves, table: str) -> None:
    lives = {
        key: [
            (moment.row["op"][0].as_py(), (moment.before or {}).get("doc"), (moment.after or {}).get("doc"))
            for moment in moves.made.pipeline.history(f"public.{table}", json.dumps({"id": key}))
        ]
        for key in (1, 2, 3)
    }
    long, longer = b'"long"', b'"longer"'
    assert lives == {
        1: [("read", None, long), ("update", long, longer), ("delete", longer, None)],
        2: [("insert", longer, longer), ("delete", longer, None)],
        3: [("insert", longer, longer)],
    }


def test_a_tombstone_makes_no_table(moves: Moves) -> None:
    with pytest.raises(UsageError) as refused:
        moves.made.pipeline.history("shop.public.on_to", '{"id": 1}')
    assert str(refused.value) == "the log has no table shop.public.on_to; did you mean 'shop.public.on_top'?"
    assert cells(then(moves.made, "on_top")) == STATES[6]


def test_a_rebuild_gives_the_same(moves: Moves) -> None:
    moves.made.pipeline.rebuild("public.create_first")
    assert cells(replica(moves.made, "public__create_first")) == STATES[6]


def test_where_it_cannot_be_known_the_row_is_stale(spark: SparkSession, tmp_path: Path) -> None:
    made = shop(tmp_path, SOURCE)
    made.write(
        "a.json",
        message("t", 1, "r", {"id": 1, "n": 1, "doc": "one"}),
        message("t", 1, "r", {"id": 2, "n": 2, "doc": "two"}),
        # Two deletes of one position, and nothing that shows which of them it was; a delete of another position.
        message("t", 3, "d", {"id": 1, "n": None, "doc": None}),
        message("t", 3, "d", {"id": 2, "n": None, "doc": None}),
        message("t", 3, "c", {"id": 5, "n": 5, "doc": UNKNOWN}),
        message("t", 4, "c", {"id": 6, "n": 6, "doc": UNKNOWN}),
        message("t", 4, "c", {"id": 7, "n": 7, "doc": UNKNOWN}, old={"id": 70}),
    )
    made.pipeline.run(once=True)
    assert cells(replica(made, "public__t")) == [(5, 5, None), (6, 6, None), (7, 7, None)]
    assert [(key, column) for _, key, column, _ in quarantine_entries(made)] == [
        ('{"id":5}', None),
        ('{"id":6}', None),
        ('{"id":7}', None),
    ]
    made.write("b.json", message("t", 9, "u", {"id": 6, "n": 6, "doc": "whole"}))
    made.pipeline.run(once=True)
    assert cells(replica(made, "public__t")) == [(5, 5, None), (6, 6, "whole"), (7, 7, None)]
    assert [key for _, key, _, _ in quarantine_entries(made)] == ['{"id":5}', '{"id":7}']
    assert len(points(made)) == 2
    # On top of stored rows: two origins are stored, one of them stale; two are not.
    made.write(
        "c.json",
        message("t", 10, "c", {"id": 16, "n": 16, "doc": UNKNOWN}, old={"id": 6}),
        message("t", 10, "c", {"id": 17, "n": 17, "doc": UNKNOWN}, old={"id": 70}),
        message("t", 11, "c", {"id": 15, "n": 15, "doc": UNKNOWN}, old={"id": 5}),
        message("t", 12, "d", {"id": 71, "n": None, "doc": None}),
        message("t", 12, "c", {"id": 18, "n": 18, "doc": UNKNOWN}),
    )
    made.pipeline.run(once=True)
    expected = [(7, 7, None), (15, 15, None), (16, 16, "whole"), (17, 17, None), (18, 18, None)]
    marks = [(f'{{"id":{key}}}', None) for key in (15, 17, 18, 7)]
    (status,) = (row for row in made.pipeline.status() if row["kind"] == "table")
    assert cells(replica(made, "public__t")) == expected
    assert ([(key, column) for _, key, column, _ in quarantine_entries(made)], status["stale"]) == (marks, 4)
    made.pipeline.rebuild("public.t")
    assert cells(replica(made, "public__t")) == expected
    assert [(key, column) for _, key, column, _ in quarantine_entries(made)] == marks


LATE_HALVES = {
    "deleted": ([message("deleted", 5, "d", {"id": 7})], [(2, None)]),
    "created": ([message("created", 5, "c", {"id": 3, "doc": UNKNOWN})], [(2, None), (3, None), (7, "seven")]),
    "moved_on": ([message("moved_on", 5, "d", {"id": 7})], [(5, None)]),
    "numbered": ([message("numbered", 5, "d", {"id": 7}, count=4)], [(2, "seven")]),
    "taken": ([message("taken", 5, "c", {"id": 3, "doc": UNKNOWN}, count=4)], [(2, None), (3, "one"), (7, "seven")]),
}
"""What comes late, by table, and its rows then: with it, other deletes belong to other creates."""


def test_a_late_half_of_a_move_changes_where_others_came_from(spark: SparkSession, tmp_path: Path) -> None:
    histories = [{"name": table, "mode": "history"} for table in LATE_HALVES if table != "created"]
    made = shop(tmp_path, SOURCE, tables=histories)
    for table in LATE_HALVES:
        first, second = (3, 5) if table in ("numbered", "taken") else (None, None)
        made.write(
            f"{table}.json",
            message(table, 1, "c", {"id": 1, "doc": "one"}, count=first and 1),
            message(table, 2, "c", {"id": 7, "doc": "seven"}, count=first and 2),
            message(table, 5, "d", {"id": 1}, count=first),
            message(table, 5, "c", {"id": 2, "doc": UNKNOWN}, count=second),
        )
    made.write(
        "later.json",
        message("moved_on", 6, "d", {"id": 2}),
        message("moved_on", 6, "c", {"id": 4, "doc": UNKNOWN}),
        message("moved_on", 7, "d", {"id": 4}),
        message("moved_on", 7, "c", {"id": 5, "doc": UNKNOWN}),
    )
    made.pipeline.run(once=True)
    made.write("late.json", *(line for lines, _ in LATE_HALVES.values() for line in lines))
    made.pipeline.run(once=True)
    merged = {name: replica(made, name) for name in replicas(made)}, quarantine_entries(made)
    found = {table: [(row["id"], row["doc"]) for row in merged[0][f"public__{table}"]] for table in LATE_HALVES}
    assert found == {table: rows for table, (_, rows) in LATE_HALVES.items()}
    for table in LATE_HALVES:
        made.pipeline.rebuild(f"public.{table}")
    assert ({name: replica(made, name) for name in replicas(made)}, quarantine_entries(made)) == merged
