"""A merge that fails anywhere and is done again ends with the same replicas as one that nothing disturbed."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeling.iceberg.failpoints import FAILPOINTS, FailpointReached
from changeling.replicas import merge
from tests.log.lakes import SMALL, Shop
from tests.replicas.shops import bus, item, points, quarantine_entries, replica, replicas

MERGING = [point for point in FAILPOINTS if point.startswith(("quarantine", "replica", "point"))]
# One after the other, each from where the one before it failed: two tables more are done where `replica.after` is met again.
WALK = [f"{point}@1" for point in MERGING]
WALK.insert(WALK.index("replica.after@1") + 1, "replica.after@2")
REBUILDING = ("replica.before", "replica.after", "point.before", "point.after")
BAG: dict[str, Any] = {"table": "bag", "columns": {"a": "int64"}, "key": ()}
KEYED: dict[str, Any] = {"table": "odd", "columns": {"id": "int64", "n": "int32"}}
FIRST = [
    item(1, "insert", {"id": 1, "name": "Ann", "n": 1}),
    item(1, "insert", {"id": 2, "name": "Bob", "n": 2}, order=1),
    item(2, "insert", {"a": 7}, **BAG),
    item(3, "insert", {"a": 7}, **BAG),
    item(4, "insert", {"id": 1, "n": 2**40}, **KEYED),
    item(5, "insert", {"id": 2, "n": 2**41}, **KEYED),
]
SECOND = [
    item(6, "update", {"id": 3}, {"id": 1}),
    item(7, "delete", None, {"a": 7}, **BAG),
    item(8, "insert", {"id": 3, "n": 2**42}, **KEYED),
    item(8, "update", {"id": 1, "n": 5}, {"id": 1}, order=1, **KEYED),
    item(
        9,
        "insert",
        {"id": 4, "name": "Dan", "n": 4, "more": "x"},
        columns={"id": "int64", "name": "utf8", "n": "int32", "more": "utf8"},
    ),
    item(3, "update", {"id": 2, "name": "Bo"}, {"id": 2}, order=5),
]


def begun(folder: Path) -> Shop:
    """A pipeline whose replicas are at a first point, with more to come."""
    made = bus(folder, tables=[{"name": "users", "mode": "history"}], spark=SMALL)
    made.write("a.json", *FIRST)
    made.pipeline.run(once=True)
    made.write("b.json", *SECOND)
    return made


def tables(made: Shop) -> dict[str, Any]:
    found: dict[str, Any] = {name: replica(made, name) for name in replicas(made)}
    return {**found, "asides": quarantine_entries(made), "points": points(made)}


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    made = begun(tmp_path_factory.mktemp("undisturbed"))
    made.pipeline.run(once=True)
    found = tables(made)
    assert found["public__users"] == [
        {"id": 2, "name": "Bo", "n": 2, "more": None},
        {"id": 3, "name": "Ann", "n": 1, "more": None},
        {"id": 4, "name": "Dan", "n": 4, "more": "x"},
    ]
    assert found["public__bag"] == [{"a": 7}]
    assert found["public__odd"] == [{"id": 1, "n": 5}, {"id": 2, "n": None}, {"id": 3, "n": None}]
    assert found["asides"] == [("odd", '{"id":2}', "n", str(2**41)), ("odd", '{"id":3}', "n", str(2**42))]
    assert len(found["public__users__history"]) == 5
    assert [point["point"] for point in found["points"]] == [1, 2]
    return found


@pytest.fixture(autouse=True)
def _no_failpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHANGELING_FAILPOINT", raising=False)
    # One table after another: so the place of a failure says what was committed before it.
    monkeypatch.setattr(merge, "COMMITS", 1)


def failed(made: Shop, point: str, monkeypatch: pytest.MonkeyPatch, action: Callable[[Shop], object]) -> None:
    with monkeypatch.context() as environment:
        environment.setenv("CHANGELING_FAILPOINT", point)
        with pytest.raises(FailpointReached):
            action(made)


def run(made: Shop) -> None:
    made.pipeline.run(once=True)


def rebuild(made: Shop) -> int:
    return made.pipeline.rebuild("users")


def test_merges_that_fail_at_every_point_are_made_good_and_rebuilds_change_nothing_or_all(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: dict[str, Any]
) -> None:
    """Each run makes good what the one before left, and fails a little later."""
    made = begun(tmp_path / "lake")
    before = {name: replica(made, name) for name in replicas(made)}
    for point in WALK:
        failed(made, point, monkeypatch, run)
        if point == "replica.before@1":
            # A table gets its new columns together with its rows.
            assert {name: replica(made, name) for name in replicas(made)} == before
    run(made)
    assert tables(made) == undisturbed
    for point in REBUILDING:
        failed(made, point, monkeypatch, rebuild)
        assert {**tables(made), "points": None} == {**undisturbed, "points": None}, point
        run(made)
    assert rebuild(made) == 3
    assert {**tables(made), "points": None} == {**undisturbed, "points": None}


def test_a_merge_that_fails_amid_its_tables_and_again_is_made_good(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: dict[str, Any]
) -> None:
    made = begun(tmp_path / "lake")
    failed(made, "quarantine.after@1", monkeypatch, run)
    failed(made, "replica.after@1", monkeypatch, run)
    run(made)
    assert tables(made) == undisturbed


@pytest.mark.soak
@pytest.mark.parametrize("point", [f"{point}@1" for point in MERGING] + ["replica.after@3"])
def test_a_merge_that_fails_is_made_good(
    point: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: dict[str, Any]
) -> None:
    made = begun(tmp_path / "lake")
    failed(made, point, monkeypatch, run)
    run(made)
    assert tables(made) == undisturbed


@pytest.mark.parametrize(
    "point",
    ["replica.after", *(pytest.param(one, marks=pytest.mark.soak) for one in MERGING if one != "replica.after")],
)
def test_a_merge_that_is_killed_is_made_good(
    point: str, spark: SparkSession, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    made = begun(tmp_path / "lake")
    command = [sys.executable, "-m", "changeling", "run", str(made.file), "--once"]
    environment = {**os.environ, "CHANGELING_FAILPOINT": f"{point}@1=kill"}
    assert subprocess.run(command, env=environment, capture_output=True, check=False).returncode == -signal.SIGKILL
    made.pipeline.run(once=True)
    assert tables(made) == undisturbed


@pytest.mark.soak
@pytest.mark.parametrize("point", REBUILDING)
def test_a_rebuild_that_fails_changes_nothing_or_all(
    point: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: dict[str, Any]
) -> None:
    made = begun(tmp_path / "lake")
    run(made)
    failed(made, point, monkeypatch, rebuild)
    assert {**tables(made), "points": None} == {**undisturbed, "points": None}
    run(made)
    assert rebuild(made) == 3
    assert {**tables(made), "points": None} == {**undisturbed, "points": None}
