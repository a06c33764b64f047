"""Transferia's events (seed 003): mutable and immutable tables of one source, schemas that grow, the source's own clock."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeling.log import log_tables
from changeling.pipelines.lakehouse import tables_of
from changeling.pipelines.loading import load
from tests.log.commands import printed_objects
from tests.log.lakes import Shop, shop
from tests.replicas.seeds import UTC as MOMENT
from tests.replicas.seeds import Contents, Row, contents, now, source, stored, then

TABLES = ("orders", "raw", "listed")
"""The same changes, in the modes merge, append, and append with a typed table."""
OLD = {"id": ("int64", "pg:bigint"), "note": ("utf8", "pg:text"), "total": ("double", "pg:numeric(10,2)")}
NEW = {**OLD, "city": ("utf8", "pg:text")}
BEFORE = {"id": "int64", "note": "string", "total": "decimal128(10, 2)"}
AFTER = {**BEFORE, "city": "string"}
START = datetime(2022, 4, 6, 19, 25, 50, tzinfo=UTC)


def time(number: int) -> datetime:
    """When the source's clock said that an operation was committed."""
    return START + timedelta(seconds=number)


def event(number: int, kind: str, values: list[Any], schema: dict[str, tuple[str, str]], **more: Any) -> list[str]:
    """An event of each table. Its ID is unique: the tables share one sequence of them."""
    columns = [
        {"name": name, "type": type, "key": name == "id", "original_type": original}
        for name, (type, original) in schema.items()
    ]
    nanos = int(time(number).timestamp()) * 1_000_000_000
    return [
        json.dumps(
            {
                "ID": number * 10 + place,
                "CommitTime": nanos,
                "Kind": kind,
                "Table": f"public.{table}",
                "Values": values,
                "TableSchema": columns,
                **more,
            }
        )
        for place, table in enumerate(TABLES)
    ]


BATCHES = [
    [*event(1, "INSERT", [1, "a", 12.5], OLD), *event(2, "INSERT", [2, "b", None], OLD)],
    [
        *event(4, "UPDATE", [1, "c", 13.25], OLD, OldValues=[1, "a", 12.5]),
        *event(6, "INSERT", [3, "d", 1, "Oslo"], NEW),
    ],
    # What the source did before comes late, by the old schema; the last change moves its row to another key.
    [
        *event(5, "DELETE", [1, "c", 13.25], OLD),
        *event(3, "UPDATE", [2, "late", 7], OLD),
        *event(7, "DDL", ["ALTER TABLE orders ADD COLUMN x int"], {"query": ("utf8", "")}),
        *event(8, "UPDATE", [30, "e", 2.5, "Oslo"], NEW, OldValues=[3, "d", 1, "Oslo"]),
    ],
]
A, B = {"id": 1, "note": "a", "total": Decimal("12.50")}, {"id": 2, "note": "b"}
C, LATE = {"id": 1, "note": "c", "total": Decimal("13.25")}, {"id": 2, "note": "late", "total": Decimal("7.00")}
D = {"id": 3, "note": "d", "total": Decimal("1.00"), "city": "Oslo"}
E = {"id": 30, "note": "e", "total": Decimal("2.50"), "city": "Oslo"}
SOURCE: dict[int, list[Row]] = {2: [A, B], 4: [C, LATE], 6: [LATE, D], 8: [LATE, E]}
"""What the tables of the source held after its operations."""


class Stores:
    """The pipeline, and what the mutable replica held after each run."""

    def __init__(self, made: Shop) -> None:
        self.made = made
        self.found: list[Contents] = []


@pytest.fixture(scope="module")
def stores(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Stores:
    rules = [{"name": "public.raw", "mode": "append"}, {"name": "public.listed", "mode": "append", "typed": True}]
    stores = Stores(shop(tmp_path_factory.mktemp("transferia"), source("bus", "transferia"), tables=rules))
    for number, lines in enumerate(BATCHES):
        stores.made.write(f"bus/{number}", *lines)
        stores.made.pipeline.run(once=True)
        stores.found.append(now(stores.made, "public.orders"))
    return stores


def test_003_16_a_column_is_added_and_003_17_a_late_record_with_the_old_schema_does_not_take_it_away(
    stores: Stores,
) -> None:
    assert stores.found == [
        contents(BEFORE, [A, B]),
        contents(AFTER, [B, C, D]),
        contents(AFTER, SOURCE[8]),
    ]


@pytest.mark.parametrize(
    ("number", "table"), [(4, "orders"), (6, "orders"), (2, "raw"), (4, "raw"), (8, "raw"), (6, "listed")]
)
def test_003_05_and_003_25_as_of_a_time_is_the_source_at_that_time(number: int, table: str, stores: Stores) -> None:
    moment = time(number) if number != 6 else time(number) + timedelta(milliseconds=999)
    columns = BEFORE if number < 6 else AFTER
    assert then(stores.made, f"public.{table}", as_of=moment) == contents(columns, SOURCE[number])


def test_003_25_an_append_table_shows_its_rows_on_the_command_line(stores: Stores) -> None:
    shown = [{**row, "total": str(row["total"])} for row in contents(AFTER, SOURCE[8]).rows]
    assert sorted(printed_objects(stores.made, "replica", "public.raw"), key=repr) == shown


def test_003_20_mutable_and_immutable_tables_of_one_source(stores: Stores) -> None:
    assert set(tables_of(load(stores.made.file)).in_namespace("shop_replica").names()) == {
        "public__listed",
        "public__orders",
    }
    kept = [row["table"]["name"] for row in stores.made.log() if row["op"] != "ddl"]
    assert {name: kept.count(name) for name in TABLES} == dict.fromkeys(TABLES, 7)


def test_003_24_an_insert_only_table_holds_typed_rows_and_shows_what_was_not_applied(stores: Stores) -> None:
    beside = {"op": "string", "image": "string", "position": "string", "commit_time": MOMENT}
    rows = [
        {**row, "op": op, "image": "full", "position": f"02{number}2", "commit_time": time(number)}
        for number, op, row in (
            *((1, "insert", A), (2, "insert", B), (3, "update", LATE), (4, "update", C)),
            *((5, "delete", C), (6, "insert", D), (8, "update", E)),
        )
    ]
    assert stored(stores.made, "public__listed") == contents({**AFTER, **beside}, rows)


def test_003_23_what_was_kept_stays_as_it_is(stores: Stores) -> None:
    # Late changes and schemas changed the replica of `orders`; in the log they stand where they came in.
    rows = [row for row in stores.made.rows(log_tables.CHANGES) if row["table"]["name"] == "raw"]
    assert sorted((row["batch"], row["position"]) for row in rows) == [
        (batch, f"02{number}1")
        for batch, numbers in ((1, (1, 2)), (2, (4, 6)), (3, (3, 5, 7, 8)))
        for number in numbers
    ]
