"""Many tables at once, some of them with new columns: a merge that ends anywhere amid their commits is made good."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeling.iceberg.failpoints import FailpointReached
from changeling.pipelines.lakehouse import tables_of
from changeling.pipelines.loading import load
from changeling.replicas.points import points_of
from changeling.replicas.replica_reader import replicas as all_replicas
from tests.log.lakes import SMALL, Shop
from tests.replicas.shops import USERS, bus, item, replica

TABLES = [f"t{number:02}" for number in range(50)]
WIDER = {**USERS, "more": "utf8"}
END = ("replica.before@3", "replica.after@20", "replica.after@9", "point.before@1")
"""Where merges end: each continues where the one before it ended, with the tables that it did not commit."""

Row = dict[str, Any]


def changes(start: int, names: list[str], make: Callable[[int, str], str]) -> list[str]:
    return [make(start + place, name) for place, name in enumerate(names)]


def inserted(number: int, name: str) -> str:
    return item(number, "insert", {"id": 1, "name": name, "n": number}, table=name)


def updated(number: int, name: str) -> str:
    """Every third table gets a column."""
    if number % 3:
        return item(number, "update", {"id": 1, "name": name, "n": number}, {"id": 1}, table=name)
    row = {"id": 2, "name": name, "n": number, "more": "x"}
    return item(number, "insert", row, table=name, columns=WIDER)


def expected(start: int) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for place, name in enumerate(TABLES):
        number = start + place
        if number % 3:
            found[f"public__{name}"] = [{"id": 1, "name": name, "n": number}]
        else:
            first = {"id": 1, "name": name, "n": 1 + place, "more": None}
            found[f"public__{name}"] = [first, {"id": 2, "name": name, "n": number, "more": "x"}]
    return found


def begun(folder: Path) -> Shop:
    made = bus(folder, spark=SMALL)
    made.write("a.json", *changes(1, TABLES, inserted))
    made.pipeline.run(once=True)
    made.write("b.json", *changes(101, TABLES, updated))
    return made


def failed(made: Shop, place: str) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CHANGELING_FAILPOINT", place)
        with pytest.raises(FailpointReached):
            made.pipeline.run(once=True)


def killed(made: Shop, place: str) -> None:
    command = [sys.executable, "-m", "changeling", "run", str(made.file), "--once"]
    environment = {**os.environ, "CHANGELING_FAILPOINT": f"{place}=kill"}
    assert subprocess.run(command, env=environment, capture_output=True, check=False).returncode == -signal.SIGKILL


def check(made: Shop) -> None:
    """Tables, their states and the points agree; what did not change is not in the row of a point."""
    made.write("c.json", item(201, "insert", {"id": 9, "name": "nine", "n": 201}, table="t05"))
    made.pipeline.run(once=True)
    tables = tables_of(load(made.file))
    known = {one.name: one for one in all_replicas(tables, "shop")}
    assert {name: one.state.applied for name, one in known.items()} == {
        f"public__{name}": 3 if name == "t05" else 2 for name in TABLES
    }
    whole = expected(101)
    whole["public__t05"].append({"id": 9, "name": "nine", "n": 201})
    assert {name: replica(made, name) for name in known} == whole
    points = points_of(tables)
    assert points.last.tables == {name: one.snapshot for name, one in known.items()}
    assert [(point.number, point.last_whole_row) for point in points.all()] == [(1, None), (2, 1), (3, None)]


@pytest.mark.parametrize("end", [failed, pytest.param(killed, marks=pytest.mark.soak)])
def test_a_merge_of_fifty_tables_that_ends_amid_their_commits_is_made_good(
    end: Callable[[Shop, str], None], spark: SparkSession, tmp_path: Path
) -> None:
    made = begun(tmp_path)
    for place in END:
        end(made, place)
    check(made)
