"""A merge that fails is finished by the same process before anything newer, as by a process that is started again."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeling.iceberg.failpoints import FailpointReached
from changeling.log.change_log import Log
from changeling.pipelines.lakehouse import lake_of
from changeling.pipelines.loading import load
from changeling.pipelines.log_follower import merge_of
from changeling.pipelines.source_ingest import ingest_of
from tests.log.lakes import Shop
from tests.replicas.shops import bus, item, points, quarantine_entries, replica, replicas

OTHER: dict[str, Any] = {"table": "other", "columns": {"id": "int64", "n": "int32"}}
FAILURES = ["quarantine.after@1", "replica.before@2", "replica.after@1", "point.before@1", "point.after@1"]


def both(number: int) -> list[str]:
    """One new row of each table, and a value that does not fit."""
    return [
        item(number, "insert", {"id": number, "name": f"v{number}", "n": number}),
        item(number, "insert", {"id": number, "n": number if number % 2 else 2**40}, order=1, **OTHER),
    ]


def tables(made: Shop) -> dict[str, Any]:
    return {**{name: replica(made, name) for name in replicas(made)}, "asides": quarantine_entries(made)}


def test_a_merge_that_fails_is_finished_before_anything_newer(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bus(tmp_path)
    made.write("a.json", *both(1))
    made.pipeline.run(once=True)
    loaded = load(made.file)
    log = Log(lake_of(loaded))
    ingest, merge = ingest_of(loaded, log, loaded.definition.sources[0]), merge_of(loaded, log)

    def moved(number: int) -> None:
        made.write(f"b{number:02d}.json", *both(number))
        assert ingest.step() is not None

    number = 1
    for failure in FAILURES:
        moved(number + 1)
        monkeypatch.setenv("CHANGELING_FAILPOINT", failure)
        with pytest.raises(FailpointReached):
            merge.step(drain=True)
        monkeypatch.delenv("CHANGELING_FAILPOINT")
        number += 2
        moved(number)
        while merge.step(drain=True) is not None:
            pass
        found = tables(made)
        assert sorted(row["id"] for row in found["public__users"]) == list(range(1, number + 1)), failure
        assert sorted(row["id"] for row in found["public__other"]) == list(range(1, number + 1)), failure
        assert len(found["asides"]) == number // 2, failure
    assert [point["point"] for point in points(made)] == list(range(1, len(points(made)) + 1))
    before = tables(made)
    assert (made.pipeline.rebuild("users"), made.pipeline.rebuild("other")) == (number, number)
    assert tables(made) == before
    staged = tmp_path / "lake" / "shop" / "points" / "staged"
    last = points(made)[-1]["point"]
    going_on = staged / f"point-{last + 1}-x" / "0.parquet"
    going_on.parent.mkdir()
    going_on.touch()
    left = [path for path in staged.rglob("*") if path.is_file() and path != going_on]
    assert left
    (done,) = [one for one in made.pipeline.maintain() if one.table == "points, staged"]
    assert (done.files_before, done.files_after, done.orphans_removed) == (len(left) + 1, 1, len(left))
    assert [*staged.iterdir()] == [going_on.parent]
