"""XTDB's tables at each transaction of its document (seed 002), whatever the order of arrival and whatever the clocks say."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.log.commands import printed_objects
from tests.log.lakes import Shop, shop
from tests.replicas.seeds import UTC as MOMENT
from tests.replicas.seeds import Contents, Row, contents, now, records, stored, then

DECLARED = {
    "users": {
        "_id": "string",
        "name": "string",
        "email": "string",
        "created_at": "timestamptz",
        "age": "int32",
        "is_active": "bool",
        "balance": "decimal(10,2)",
        "uuid": "uuid",
        "last_updated": "timestamptz",
        "last_login": "timestamptz",
    },
    "products": {
        "_id": "string",
        "name": "string",
        "category": "string",
        "price": "decimal(10,2)",
        "created_at": "timestamptz",
        "tags": "array<string>",
    },
    "orders": {
        "_id": "string",
        "customer_id": "string",
        "order_date": "timestamptz",
        "delivery_period": "duration",
        "processing_duration": "duration",
        "total_amount": "decimal(12,2)",
        "metadata": "json",
        "valid_interval": "interval",
        "items": "json",
        "total": "decimal(10,2)",
        "status": "string",
    },
}
STORED = {
    **dict.fromkeys(("string", "uuid", "duration", "interval", "json"), "string"),
    "int32": "int32",
    "bool": "bool",
    "timestamptz": MOMENT,
    "array<string>": "list<element: string>",
    "decimal(10,2)": "decimal128(10, 2)",
    "decimal(12,2)": "decimal128(12, 2)",
}


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


CREATED: Row = {
    "_id": "user-123",
    "name": "John Doe",
    "email": "john@example.com",
    "created_at": moment("2023-12-25T10:15:30.123Z"),
    "age": 30,
    "is_active": True,
    "balance": Decimal("999.95"),
    "uuid": "550e8400-e29b-41d4-a716-446655440000",
}
PATCHED: Row = {
    **CREATED,
    "email": "john.doe@example.com",
    "age": 31,
    "last_updated": moment("2023-12-26T14:30:15.456Z"),
}
BACK: Row = {
    **{name: value for name, value in PATCHED.items() if name not in ("created_at", "uuid")},
    "last_login": moment("2023-12-25T18:00:00Z"),
}
"""What 12350 contains of the same user: a document without created_at and uuid."""
JANE: Row = {"_id": "user-999", "name": "Jane Smith", "email": "jane@example.com"}
ORDER: Row = {
    "_id": "order-456",
    "customer_id": "user-123",
    "order_date": moment("2023-12-25T15:30:00Z"),
    "delivery_period": "P3D",
    "processing_duration": "PT2H30M",
    "total_amount": Decimal("1234.56"),
    "metadata": '{"tags":["urgent","priority"],"notes":"Rush delivery","coordinates":[40.7128,-74.0060],"binary_data":"AQID/w=="}',
    "valid_interval": '{"months":6,"days":15,"nanos":0}',
    "items": '[{"product_id":"prod-1","quantity":2,"price":"25.50"},{"product_id":"prod-2","quantity":1,"price":"199.99"}]',
}
WIDGET: Row = {
    "_id": "prod-789",
    "name": "Premium Widget",
    "category": "electronics",
    "price": Decimal("299.99"),
    "created_at": moment("2023-12-25T16:45:00Z"),
    "tags": ["featured", "bestseller"],
}
PART: Row = {"_id": "prod-1", "name": "Part", "price": Decimal("25.50")}
STATES: dict[int, dict[str, list[Row]]] = {
    12344: {"users": [], "orders": [], "products": []},
    12345: {"users": [CREATED], "orders": [], "products": []},
    12346: {"users": [PATCHED], "orders": [], "products": []},
    12347: {"users": [], "orders": [], "products": []},
    12348: {"users": [], "orders": [ORDER], "products": []},
    12349: {"users": [], "orders": [ORDER], "products": [WIDGET]},
    12350: {"users": [BACK, JANE], "orders": [ORDER], "products": [WIDGET]},
    12351: {"users": [BACK, JANE], "orders": [ORDER], "products": [PART, WIDGET]},
}
"""All tables after each transaction. The first one is of another table, the last one is not the document's own."""


def event(number: int, order: int, table: str, op: str, **document: Any) -> str:
    """An event in addition to those of the document, as they are."""
    (known,) = records("xtdb/seed-sql-insert")
    record = json.loads(known.replace("12349", str(number)))
    record["source"]["table"], record["op"], record["after"] = table, op, json.dumps(document)
    record["before"] = json.dumps({**document, "value": None}) if op == "u" else None
    record["transaction"]["data_collection_order"] = order
    return json.dumps(record)


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    rules: list[Row] = [{"name": name, "columns": columns} for name, columns in DECLARED.items()]
    rules[0]["mode"] = "history"
    made = shop(tmp_path_factory.mktemp("xtdb"), tables=rules)
    cases = ("create", "update", "delete", "complex-types", "sql-insert")
    create, update, delete, order, product = (records(f"xtdb/seed-{case}")[0] for case in cases)
    jane, back, old_order = records("xtdb/seed-transaction")
    twice = [event(12344, place, "counters", op, _id="c", value=place) for place, op in enumerate("cuu")]
    made.write("0.json", back, product, create, twice[2])
    made.pipeline.run(once=True)
    made.write(
        "1.json",
        delete,
        old_order,
        order,
        twice[0],
        event(12351, 0, "products", "c", _id="prod-1", name="Part", price="25.50"),
    )
    made.pipeline.run(once=True)
    made.write("2.json", twice[1], update, jane, create)
    made.pipeline.run(once=True)
    return made


def expected(table: str, rows: list[Row]) -> Contents:
    return contents({name: STORED[kind] for name, kind in DECLARED[table].items()}, rows)


@pytest.mark.parametrize(
    ("number", "table"),
    [
        *((number, "users") for number in (12344, 12345, 12346, 12347, 12350)),
        *((number, "orders") for number in (12347, 12348, 12350)),
        *((number, "products") for number in (12348, 12349)),
    ],
)
def test_002_23_and_002_36_tables_at_each_transaction_are_the_documents(number: int, table: str, made: Shop) -> None:
    assert then(made, table, as_of_transaction=number) == expected(table, STATES[number][table])


@pytest.mark.parametrize("table", DECLARED)
def test_002_17_002_19_and_002_26_to_002_32_the_tables_after_all_events_with_their_types(
    table: str, made: Shop
) -> None:
    # created_at and uuid of user-123 are NULL: the last document does not have them.
    assert now(made, table) == expected(table, STATES[12351][table])


def test_002_14_a_decimal_column_takes_a_number_and_a_text_exactly(made: Shop) -> None:
    found = {row["_id"]: row["price"] for row in printed_objects(made, "replica", "products")}
    assert found == {"prod-1": "25.50", "prod-789": "299.99"}


def test_002_24_the_later_of_several_changes_in_one_transaction_wins(made: Shop) -> None:
    assert now(made, "counters") == contents({"_id": "string", "value": "int64"}, [{"_id": "c", "value": 2}])


@pytest.mark.parametrize(
    ("time", "number"),
    [
        ("2023-12-25T11:55:30.122Z", 12344),
        ("2023-12-25T20:20:00+01:00", 12345),
        ("2023-12-26T12:50:15.456Z", 12346),
        ("2023-12-27T12:50:15.789Z", 12351),
    ],
)
def test_as_of_a_moment_ends_before_the_first_transaction_that_is_later(time: str, number: int, made: Shop) -> None:
    # By their own clocks, 12348 to 12350 come before 12346: no state of the database had them and not 12346.
    assert then(made, "users", as_of=time) == expected("users", STATES[number]["users"])
    if number == 12345:
        assert then(made, "products", as_of=time) == expected("products", [])


@pytest.mark.parametrize(("table", "rows"), [("users", [BACK]), ("products", [WIDGET]), ("orders", [])])
def test_a_point_is_one_state_of_all_tables(table: str, rows: list[Row], made: Shop) -> None:
    # 12348 and 12350's other events came later: no table has them there, whatever their positions.
    assert then(made, table, point=1) == expected(table, rows)


def test_the_history_of_users_has_every_state_with_what_began_and_ended_it(made: Shop) -> None:
    times = {
        "0512345.010": moment("2023-12-25T11:55:30.123Z"),
        "0512346.010": moment("2023-12-26T12:50:15.456Z"),
        "0512347.010": moment("2023-12-27T12:50:15.789Z"),
        **dict.fromkeys(("0512350.010", "0512350.011"), moment("2023-12-25T19:20:00Z")),
    }
    lives: list[tuple[Row, str, str, str | None]] = [
        (CREATED, "insert", "0512345.010", "0512346.010"),
        (PATCHED, "update", "0512346.010", "0512347.010"),
        (BACK, "update", "0512350.011", None),
        (JANE, "insert", "0512350.010", None),
    ]
    beside = {"valid_from": MOMENT, "valid_to": MOMENT, "is_current": "bool", "op": "string"}
    positions = {"valid_from_position": "string", "valid_to_position": "string"}
    rows = [
        {
            **row,
            "valid_from": times[start],
            "valid_to": None if end is None else times[end],
            "is_current": end is None,
            "op": op,
            "valid_from_position": start,
            "valid_to_position": end,
        }
        for row, op, start, end in lives
    ]
    columns = {**expected("users", []).columns, **beside, **positions}
    assert stored(made, "users__history") == contents(columns, rows)
