"""A lake with everything in it: a replica whose rows were replaced, a history, a feed, rejects."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.log.lakes import Shop
from tests.replicas.shops import bus, item

FEED = {
    "name": "ups",
    "table": "public.users",
    "topic": {"type": "table"},
    "with": {"FORMAT": "JSON", "MODE": "UPDATES"},
}
TABLES = [{"name": "public.orders", "mode": "history"}]
FIRST = [
    item(1, "insert", {"id": 1, "name": "Ann", "n": 1}),
    item(2, "insert", {"id": 2, "name": "Bob", "n": 2}),
    item(3, "insert", {"id": 1, "name": "first", "n": 1}, table="orders"),
    '{"no": "item"}',
]
SECOND = [
    item(4, "update", {"id": 1, "name": "Anna", "n": 10}, {"id": 1}),
    item(5, "delete", None, {"id": 2}),
    item(6, "insert", {"id": 3, "name": "Cid", "n": None}),
    item(7, "update", {"id": 1, "name": "second", "n": 2}, {"id": 1}, table="orders"),
]
USERS = [{"id": 1, "name": "Anna", "n": 10}, {"id": 3, "name": "Cid", "n": None}]


def filled(folder: Path) -> Shop:
    """The lake after two runs."""
    made = bus(folder, feeds=[FEED], tables=TABLES)
    made.write("1.json", *FIRST)
    made.pipeline.run(once=True)
    made.write("2.json", *SECOND)
    made.pipeline.run(once=True)
    return made


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """One lake for the tests of a module: they only read it."""
    return filled(tmp_path_factory.mktemp("lake"))
