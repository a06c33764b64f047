"""Feeds with FORMAT xtdb: the documents of seed 002 come out as the seed prints them, and other tables as events of that kind."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.log.lakes import Shop, shop
from tests.replicas.shops import SOURCE, item

pytestmark = pytest.mark.usefixtures("spark")

GOLDEN = Path(__file__).parent.parent / "golden" / "xtdb"
LIFE = ("seed-create", "seed-update", "seed-delete", "seed-complex-types", "seed-sql-insert")
WITH = {"FORMAT": "xtdb", "MODE": "NEW_AND_OLD_IMAGES"}


def printed(name: str) -> list[str]:
    return (GOLDEN / name / "input.jsonl").read_text().splitlines()


def events(made: Shop, feed: str) -> list[Any]:
    return [json.loads(record.value or b"") for record in made.pipeline.read_feed(feed)]


def born(event: Any) -> str:
    """The document that an event changes is created, some transactions earlier."""
    earlier = {"tx_id": 12340, "ts_ms": 1703500000000, "system_time": 1703500000000}
    number = event["transaction"]["data_collection_order"]
    place = {"id": "12340", "total_order": 12340, "data_collection_order": number}
    made = {"before": None, "after": event["before"], "source": {**event["source"], **earlier}, "op": "c"}
    return json.dumps({**made, "ts_ms": 1703500000000, "transaction": place})


def test_the_documents_of_the_seed_and_the_rows_of_another_source(tmp_path: Path) -> None:
    files = {"type": "files", "format": "xtdb"}
    feeds = [
        {"name": f"{source}_{table}", "source": source, "table": table, "with": WITH}
        for source, table in (
            ("life", "users"),
            ("life", "orders"),
            ("life", "products"),
            ("tx", "users"),
            ("tx", "orders"),
        )
    ]
    for feed in feeds:
        feed["options"] = {"name": "xtdb-node-1"}
    feeds += [
        {"name": f"bus_{table}", "source": "bus", "table": f"public.{table}", "with": WITH, "options": {"db": "shop"}}
        for table in ("users", "others")
    ]
    made = shop(
        tmp_path,
        {**files, "name": "life", "path": "in/life/*.json"},
        {**files, "name": "tx", "path": "in/tx/*.json"},
        {**SOURCE, "path": "in/bus/*.json"},
        feeds=feeds,
    )
    life = [line for name in LIFE for line in printed(name)]
    transaction = printed("seed-transaction")
    before = [born(event) for event in map(json.loads, transaction) if event["before"] is not None]
    made.write("life/1.json", *life)
    made.write("tx/1.json", *before, *transaction)
    # Of two changes in one transaction the later one counts, whichever comes first.
    made.write(
        "bus/1.json",
        item(901, "delete", None, {"id": 1}),
        item(700, "update", {"id": 1, "name": "b", "n": 1}, order=2),
        item(700, "insert", {"id": 5, "name": "x", "n": 0}, table="others", order=1),
        item(700, "insert", {"id": 1, "name": "a", "n": 1}),
    )
    made.pipeline.run(once=True)

    given = [("life", json.loads(line)) for line in life] + [("tx", json.loads(line)) for line in before + transaction]
    for source, table in (
        ("life", "users"),
        ("life", "orders"),
        ("life", "products"),
        ("tx", "users"),
        ("tx", "orders"),
    ):
        expected = [event for name, event in given if name == source and event["source"]["table"] == table]
        assert events(made, f"{source}_{table}") == expected
    keys = [record.key for record in made.pipeline.read_feed("life_users")]
    assert keys == [b"user-123"] * 3

    def event(number: int, order: int, op: str, old: Any, new: Any, table: str = "users") -> Any:
        time = 1_700_000_000_000 + (700 if number == 1 else 901) * 1000
        source = {"version": "3.0.0", "connector": "xtdb-cdc", "name": "xtdb", "ts_ms": time, "snapshot": None}
        source |= {"db": "shop", "table": table, "tx_id": number, "system_time": time}
        place = {"id": str(number), "total_order": number, "data_collection_order": order}
        found = {
            name: None if row is None else {"_id": row["id"], **row} for name, row in (("before", old), ("after", new))
        }
        return {**found, "source": source, "op": op, "ts_ms": time, "transaction": place}

    def documents(feed: str) -> list[Any]:
        return [
            {**one, **{name: one[name] and json.loads(one[name]) for name in ("before", "after")}}
            for one in events(made, feed)
        ]

    first, second = {"id": 1, "name": "a", "n": 1}, {"id": 1, "name": "b", "n": 1}
    assert documents("bus_users") == [
        event(1, 0, "c", None, first),
        event(1, 2, "u", first, second),
        event(2, 0, "d", second, None),
    ]
    assert documents("bus_others") == [event(1, 1, "c", None, {"id": 5, "name": "x", "n": 0}, "others")]
    for one in made.pipeline.feeds():
        assert not made.pipeline.verify_feed(one.name).faults, one.name
