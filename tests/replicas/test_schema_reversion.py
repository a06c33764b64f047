"""A column that goes and comes again is another one, however the changes come in: in one batch, one by one, or late."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.log.lakes import Shop
from tests.replicas.shops import Columns, bus, item, replica, then

NARROW: Columns = {"id": "int64", "a": "utf8"}
WIDE: Columns = {**NARROW, "n": "utf8"}
WIDER: Columns = {**WIDE, "z": "utf8"}
Change = tuple[int, str, dict[str, Any], Columns]
BACK_AND_FORTH: list[Change] = [
    (100, "insert", {"id": 1, "a": "q", "n": "N"}, WIDE),
    (200, "insert", {"id": 2, "a": "q"}, NARROW),
    (300, "insert", {"id": 3, "a": "q", "n": "M"}, WIDE),
    (400, "update", {"id": 1, "a": "x"}, NARROW),
    (500, "insert", {"id": 4, "a": "q", "n": "O"}, WIDE),
]
BACK_AND_ON: list[Change] = [*BACK_AND_FORTH[:3], (400, "insert", {"id": 4, "a": "q", "n": "P", "z": "Z"}, WIDER)]
ARRIVALS: dict[str, list[list[int]]] = {
    "at_once": [[0, 1, 2, 3, 4]],
    "one_by_one": [[0], [1], [2], [3], [4]],
    "first_late": [[1, 2, 3, 4], [0]],
    "between_late": [[0, 2], [4], [1, 3]],
    "back_late": [[4], [3], [2], [1], [0]],
}
"""Which changes come in which run."""


def encoded(change: Change, table: str) -> str:
    number, kind, row, columns = change
    return item(number, kind, row, {"id": row["id"]} if kind == "update" else None, table=table, columns=columns)


@pytest.fixture(scope="module")
def lives(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    rules = [{"name": "forth_at_log", "mode": "append"}, {"name": "forth_*", "mode": "history"}]
    made = bus(tmp_path_factory.mktemp("turns"), tables=rules)
    side_by_side = [
        item(number, "insert", {"id": number, "a": "q", "n": "N"} if wide else {"id": number, "a": "q"},
             table="mixed", columns=WIDE if wide else NARROW)
        for number in range(60) for wide in [number % 2 == 0]
    ]  # fmt: skip
    for step in range(5):
        records = [*side_by_side, *(encoded(change, "forth_at_log") for change in BACK_AND_FORTH)] if step == 0 else []
        for arrival, runs in ARRIVALS.items():
            for place in runs[step] if step < len(runs) else ():
                records.append(encoded(BACK_AND_FORTH[place], f"forth_{arrival}"))
                records += [encoded(BACK_AND_ON[place], f"on_{arrival}")] if place < 4 else []
        made.write(f"{step}.json", *records)
        made.pipeline.run(once=True)
    return made


@pytest.mark.parametrize("arrival", ARRIVALS)
def test_values_from_before_do_not_come_back(arrival: str, lives: Shop) -> None:
    table = f"public__forth_{arrival}"
    now = [
        {"id": 1, "a": "x", "n": None},
        {"id": 2, "a": "q", "n": None},
        {"id": 3, "a": "q", "n": None},
        {"id": 4, "a": "q", "n": "O"},
    ]
    assert replica(lives, table) == now
    ended = {"id": 1, "a": "q", "n": None}
    states = [{name: row[name] for name in WIDE} for row in replica(lives, f"{table}__history")]
    assert states == sorted([ended, *now], key=repr)


@pytest.mark.parametrize("arrival", [*ARRIVALS, "at_log"])
def test_states_between_have_the_columns_of_their_time(arrival: str, lives: Shop) -> None:
    first, second = {"id": 1, "a": "q", "n": None}, {"id": 2, "a": "q", "n": None}
    table = f"public.forth_{arrival}"
    assert then(lives, table, as_of_transaction=100) == [{**first, "n": "N"}]
    assert then(lives, table, as_of_transaction=300) == [first, second, {"id": 3, "a": "q", "n": "M"}]
    assert then(lives, table, as_of_transaction=400) == [
        {"id": 1, "a": "x"},
        {"id": 2, "a": "q"},
        {"id": 3, "a": "q"},
    ]


@pytest.mark.parametrize("arrival", ARRIVALS)
def test_values_of_a_column_that_is_back_stay(arrival: str, lives: Shop) -> None:
    assert replica(lives, f"public__on_{arrival}") == [
        {"id": 1, "a": "q", "n": None, "z": None},
        {"id": 2, "a": "q", "n": None, "z": None},
        {"id": 3, "a": "q", "n": "M", "z": None},
        {"id": 4, "a": "q", "n": "P", "z": "Z"},
    ]


def test_records_of_two_schemas_side_by_side_lose_nothing(lives: Shop) -> None:
    rows = {row["id"]: row.get("n") for row in then(lives, "mixed", as_of_transaction=58)}
    assert rows == {number: "N" if number % 2 == 0 else None for number in range(59)}


def test_a_replica_that_is_made_again_is_the_same(lives: Shop) -> None:
    for arrival in ("at_once", "between_late"):
        before = replica(lives, f"public__forth_{arrival}")
        lives.pipeline.rebuild(f"forth_{arrival}")
        assert replica(lives, f"public__forth_{arrival}") == before
