"""Statements about a log that grows; each name begins with its number in the list of statements."""

import itertools
import json
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeling.log import log_tables
from changeling.log.maintenance import Done
from changeling.pipelines.lakehouse import tables_of
from changeling.pipelines.loading import load
from tests.golden.test_golden import FOLDER
from tests.log.commands import run_once
from tests.log.lakes import Shop
from tests.log.lakes import log_only as shop
from tests.log.records import transferia

OLD, NEW = {"id": "int64", "n": "int32"}, {"id": "int64", "n": "int32", "note": "utf8"}
ROWS = (FOLDER / "dataworks" / "seed-update" / "input.jsonl").read_bytes().splitlines()
SOURCES = (
    {"name": "items", "type": "files", "path": "in/items/*", "format": "transferia"},
    {"name": "rows", "type": "files", "path": "in/rows/*", "format": "dataworks", "table": "shop.users", "key": ["id"]},
)


class Growing:
    """A pipeline that is run again and again; what its log held after each step."""

    def __init__(self, made: Shop) -> None:
        self.made = made
        self.states: dict[str, list[dict[str, Any]]] = {}
        self.schemas: dict[str, list[dict[str, Any]]] = {}
        self.upkeep: dict[str, Done] = {}

    def run(self, name: str) -> None:
        assert run_once(self.made) == 0
        self._note(name)

    def maintain(self, name: str) -> None:
        self.upkeep = {done.table: done for done in self.made.pipeline.maintain()}
        self._note(name)

    def number(self, version: int) -> int:
        """The number of a version of the items' schema. Sources register schemas at the same time, so either may be the first."""
        (found,) = (row["id"] for row in self.schemas["first"] if (row["source"], row["version"]) == ("items", version))
        return int(found)

    def _note(self, name: str) -> None:
        # With all timestamps: nothing of a row may change.
        self.states[name] = tables_of(load(self.made.file)).rows(log_tables.CHANGES).to_pylist()
        self.schemas[name] = tables_of(load(self.made.file)).rows(log_tables.SCHEMAS).sort_by("id").to_pylist()


@pytest.fixture(scope="module")
def grown(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Growing:
    made = shop(tmp_path_factory.mktemp("growing"), *SOURCES)
    growing = Growing(made)
    made.write("items/0", transferia(10, OLD), transferia(20, OLD), transferia(30, NEW))
    made.write("rows/0", *ROWS)
    growing.run("first")
    made.write("rows/1", *ROWS)
    growing.run("twice")
    made.write("items/1", transferia(25, OLD), transferia(35, OLD), transferia(40, NEW))
    growing.run("late")
    made.write("items/2", transferia(50, growing.number(2), values=3))
    growing.run("by number")
    growing.maintain("maintained")
    growing.run("again")
    return growing


def counted(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(map(repr, rows))


def test_003_23_the_log_only_grows_and_no_row_of_it_ever_changes(grown: Growing) -> None:
    states = list(grown.states.values())
    assert [len(rows) for rows in states] == [5, 7, 10, 11, 11, 11]
    for before, after in itertools.pairwise(states):
        assert counted(before) <= counted(after)
    assert (grown.upkeep["changes"].rewritten, grown.upkeep["changes"].files_after) == (5, 1)


def test_001_09_records_that_are_delivered_twice_are_both_kept_with_equal_position_and_key(grown: Growing) -> None:
    rows = [row for row in grown.states["twice"] if row["source"] == "rows"]
    first, second = (
        sorted(
            (
                {name: value for name, value in row.items() if name not in ("origin", "batch", "ingested_at")}
                for row in rows
                if row["origin"]["file"].endswith(f"/rows/{number}")
            ),
            key=lambda row: str(row["position"]),
        )
        for number in (0, 1)
    )
    assert first == second
    sequence = "161703505330000002"
    assert [(row["key"], row["position"]) for row in first] == [
        ('{"id":1}', f"{sequence}.010"),
        ('{"id":1}', f"{sequence}.011"),
    ]


def test_003_05_times_are_those_of_the_source_however_late_a_record_comes(grown: Growing) -> None:
    rows = [row for row in grown.states["late"] if row["source"] == "items"]
    found = {row["position"]: row["commit_time"] for row in rows}
    assert found == {f"02{number}": 1_700_000_000_000_000_000 + number for number in (10, 20, 25, 30, 35, 40)}


def test_003_14_a_schema_id_stands_for_the_schema_that_the_registry_has(grown: Growing) -> None:
    (named,) = (row for row in grown.states["by number"] if row["position"] == "0250")
    (carried,) = (row for row in grown.states["by number"] if row["position"] == "0240")
    assert (named["schema_id"], list(json.loads(named["after"]))) == (grown.number(2), ["id", "n", "note"])
    assert (carried["schema_id"], list(json.loads(carried["after"]))) == (grown.number(2), ["id", "n", "note"])
    assert named["key"] == '{"id":50}'


def test_003_15_and_003_17_ids_grow_and_a_late_record_with_the_old_schema_alters_nothing(grown: Growing) -> None:
    versions = [
        (row["id"], row["source"], row["version"], row["position"], row["status"], row["note"])
        for row in grown.schemas["late"]
        if row["origin"] == "carried"
    ]
    old, new = grown.number(1), grown.number(2)
    assert old < new
    assert versions == [(old, "items", 1, "0210", "accepted", None), (new, "items", 2, "0230", "accepted", "adds note")]
    assert grown.schemas["late"] == grown.schemas["first"] == grown.schemas["again"]
    used = {row["position"]: row["schema_id"] for row in grown.states["again"] if row["source"] == "items"}
    assert used == {"0210": old, "0220": old, "0225": old, "0230": new, "0235": old, "0240": new, "0250": new}
