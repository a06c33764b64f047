"""DataWorks' merge (seed 001): an update comes in two halves, which may be swapped, far apart, repeated, or of two keys."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.log.lakes import Shop, shop
from tests.replicas.seeds import Contents, Row, contents, now, records, source, then

COLUMNS = {"id": "int64", "name": "string", "balance": "decimal(10,2)"}
STORED = {**COLUMNS, "balance": "decimal128(10, 2)"}
TIME = 1_703_505_330_123
OLD, NEW = {"name": "Alice", "balance": None}, {"name": "Alicia", "balance": "10.00"}
ALICE: Row = {"name": "Alice"}
ALICIA: Row = {"name": "Alicia", "balance": Decimal("10.00")}


def record(sequence: int, op: str, before: str, after: str, **row: Any) -> str:
    carried = {"_sequence_id_": str(sequence), "_operation_type_": op, "_execute_time_": TIME + sequence}
    return json.dumps({**carried, "_before_image_": before, "_after_image_": after, **row})


def inserted(sequence: int, id: int, **row: Any) -> str:
    return record(sequence, "I", "N", "Y", id=id, **{**OLD, **row})


def first_half(sequence: int, id: int) -> str:
    return record(sequence, "U", "Y", "N", id=id, **OLD)


def second_half(sequence: int, id: int, **row: Any) -> str:
    return record(sequence, "U", "N", "Y", id=id, **{**NEW, **row})


SEED = [*records("dataworks/seed-insert"), *records("dataworks/seed-update")]
"""Row 1: both halves of its update come together. Their sequence ids are larger than all others."""
BATCHES: list[list[str]] = [
    [
        *SEED,
        *(inserted(id * 10 + 1, id) for id in range(2, 8)),
        first_half(22, 2),
        second_half(32, 3),
        # Key changes: 4 to 14 at once, 5 to 15 and 6 to 16 in two batches.
        *(first_half(42, 4), second_half(42, 14)),
        first_half(52, 5),
        second_half(62, 16),
        *(first_half(72, 7), second_half(72, 7), second_half(72, 7), inserted(71, 7), first_half(72, 7)),
        # As text, "10" sorts before "9".
        *(second_half(10, 8, name="ten"), inserted(9, 8, name="nine")),
    ],
    [
        second_half(22, 2),
        first_half(32, 3),
        second_half(52, 15),
        first_half(62, 6),
        *(inserted(71, 7), first_half(72, 7), second_half(72, 7)),
        second_half(100, 8, name="a hundred"),
    ],
    [*records("dataworks/seed-delete"), *SEED, second_half(11, 8, name="eleven")],
]
TEN: Row = {"id": 8, "name": "ten", "balance": Decimal("10.00")}
DONE: list[Row] = [{"id": id, **ALICIA} for id in (2, 3, 7, 14, 15, 16)]
STATES: list[list[Row]] = [
    # The end of the input is the end of every transaction: a first half by itself has taken its row away.
    [{"id": 1, **ALICIA}, {"id": 6, **ALICE}, *({"id": id, **ALICIA} for id in (3, 7, 14, 16)), TEN],
    [{"id": 1, **ALICIA}, *DONE, {**TEN, "name": "a hundred"}],
    [*DONE, {**TEN, "name": "a hundred"}],
]


class Rows:
    """The pipeline, and what the replica held after each run."""

    def __init__(self, made: Shop) -> None:
        self.made = made
        self.found: list[Contents] = []


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    users = source("rows", "dataworks", table="shop.users", key=["id"], columns=COLUMNS)
    rows = Rows(shop(tmp_path_factory.mktemp("dataworks"), users))
    for number, lines in enumerate(BATCHES):
        rows.made.write(f"rows/{number}", *lines)
        rows.made.pipeline.run(once=True)
        rows.found.append(now(rows.made, "shop.users"))
    return rows


@pytest.mark.parametrize("batch", range(3))
def test_001_09_and_001_14_to_001_17_halves_make_whole_updates_however_they_come(batch: int, rows: Rows) -> None:
    assert rows.found[batch] == contents(STORED, STATES[batch])


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [
        (9, [{"id": 8, "name": "nine"}]),
        (10, [TEN]),
        (42, [{"id": 2, **ALICIA}, {"id": 3, **ALICIA}, {"id": 14, **ALICIA}, {**TEN, "name": "eleven"}]),
        (1703505330000001, [{"id": 1, **ALICE}, *DONE, {**TEN, "name": "a hundred"}]),
    ],
)
def test_001_07_sequence_ids_order_the_states_as_numbers(sequence: int, expected: list[Row], rows: Rows) -> None:
    assert then(rows.made, "users", as_of_transaction=sequence) == contents(STORED, expected)


def test_001_08_full_data_and_the_increments_on_top_of_it_strictly_before_a_cut(rows: Rows, tmp_path: Path) -> None:
    base = tmp_path / "full.csv"
    base.write_text("id,name,balance\n8,full,1.00\n20,untouched,2.50\n")
    untouched = {"id": 20, "name": "untouched", "balance": Decimal("2.50")}
    # Sequence 11 commits at the cut.
    cut = datetime.fromtimestamp((TIME + 11) / 1000, UTC)
    assert then(rows.made, "users", base=str(base), before=cut) == contents(STORED, [TEN, untouched])
    assert then(rows.made, "users", base=str(base)) == contents(STORED, [*STATES[2], untouched])
