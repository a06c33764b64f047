"""What must not happen: found by somebody who tried to break it."""

import json
import os
import shutil
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from changeling.iceberg.failpoints import FailpointReached
from changeling.log import log_tables
from changeling.model.errors import ChangelingError, UsageError
from changeling.pipelines.pipeline import Pipeline
from tests.brokers.broker import Broker
from tests.brokers.topics import Topics
from tests.log.lakes import Shop, event
from tests.log.lakes import log_only as shop
from tests.log.test_running import numbers, run

YDB = {"name": "drop", "type": "files", "path": "in/*.json", "format": "ydb-json", "table": "users", "key": ["id"]}


def source_of(made: Shop) -> dict[str, object]:
    return next(row for row in made.pipeline.status() if row["kind"] == "source")


@pytest.mark.parametrize("point", ["plan.after", "rejects.after", "changes.before"])
def test_a_replay_does_not_swallow_a_batch_that_was_cut_off(
    point: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = shop(tmp_path)
    made.write("a.json", event(1), "garbage")
    run(made)
    made.write("b.json", event(2), event(3), "bad2")
    monkeypatch.setenv("CHANGELING_FAILPOINT", point)
    with pytest.raises(FailpointReached):
        run(made)
    monkeypatch.delenv("CHANGELING_FAILPOINT")
    assert made.pipeline.replay() == {"drop": (0, 2)}
    run(made)
    assert numbers(made) == [1, 2, 3]
    assert sorted(row["raw"] for row in made.rows(log_tables.REJECTS)) == [b"bad2", b"garbage"]
    reported = source_of(made)
    assert (reported["read"], reported["accepted"], reported["rejected"]) == (5, 3, 2)


def test_a_copied_or_moved_warehouse_is_refused_and_the_original_stays(spark: SparkSession, tmp_path: Path) -> None:
    made = shop(tmp_path / "here")
    made.write("a.json", event(1))
    run(made)
    shutil.copytree(tmp_path / "here", tmp_path / "copy")
    copy = Shop(tmp_path / "copy")
    reported = (
        f"the warehouse {tmp_path}/copy/lake was moved or copied: its catalog has the paths of {tmp_path}/here/lake. Move it "
        "back there, or let `changeling relocate` correct the paths"
    )
    for call in (copy.pipeline.status, copy.pipeline.remove, copy.pipeline.maintain, lambda: run(copy)):
        with pytest.raises(ChangelingError) as refused:
            call()
        assert str(refused.value) == reported
    assert numbers(made) == [1]


def test_a_warehouse_is_the_same_by_every_way_to_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = shop(tmp_path / "here" / "pipelines", warehouse="../lake")
    (tmp_path / "link").symlink_to(tmp_path / "here")
    monkeypatch.chdir(made.folder)
    ways = ["shop.yaml", "../pipelines/shop.yaml", f"{tmp_path}/link/pipelines/shop.yaml"]
    for number, way in enumerate(ways, start=1):
        made.write(f"{number}.json", event(number))
        Pipeline.load(way).run(once=True)
        reported = [row["read"] for row in Pipeline.load(way).status() if row["kind"] == "source"]
        assert reported == [number]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "link"]
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == ["lake", "pipelines"]


def test_a_warehouse_that_readers_cannot_open_is_refused(tmp_path: Path) -> None:
    made = shop(tmp_path, warehouse="./la#ke")
    with pytest.raises(UsageError, match="has a '#' in it"):
        made.pipeline.status()


def test_a_topic_that_was_recreated_has_rejects_of_its_own(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topics, name = Topics(broker), f"{uuid4().hex}"
    source = {"name": "bus", "type": "kafka", "servers": broker.servers, "topics": [name], "format": "ydb-json"}
    source |= {"table": "users", "on_gap": "skip"}
    made = shop(tmp_path, {**source, "key": ["id"]})
    for value in (b"garbage", b'{"key":[1,2],"update":{"a":1}}'):
        topics.make(name)
        topics.send(name, value)
        run(made)
        topics.delete(name)
    topics.make(name)
    shop(tmp_path, {**source, "key": ["id", "kind"]})
    assert made.pipeline.replay() == {"bus": (1, 1)}
    assert [row["raw"] for row in made.rows(log_tables.REJECTS)] == [b"garbage"]
    assert source_of(made)["rejected"] == 1


def test_odd_entries_of_a_folder_are_passed_over_and_reported(spark: SparkSession, tmp_path: Path) -> None:
    made = shop(tmp_path)
    made.write("good.json", event(1))
    (tmp_path / "in" / "gone.json").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "in" / "pipe.json")
    Path(os.fsdecode(os.fsencode(tmp_path / "in") + b"/x\xff.json")).write_text(event(2))
    reported = run(made)
    assert len(reported) == 3
    assert all(line.endswith(": it is skipped") for line in reported)
    assert numbers(made) == [1]


def test_a_file_that_keeps_growing_does_not_hold_up_the_others(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = shop(tmp_path)
    growing = made.write("a.json", event(1))
    made.write("b.json", event(2))
    from changeling.sources.files import FilesSource

    planned = FilesSource.plan_next

    def grown(source: FilesSource) -> str | None:
        plan = planned(source)
        with growing.open("a") as file:
            file.write(event(3) + "\n")
        return plan

    monkeypatch.setattr(FilesSource, "plan_next", grown)
    run(made)
    assert numbers(made) == [2]
    monkeypatch.undo()
    run(made)
    assert set(numbers(made)) == {1, 2, 3}


def test_another_type_of_source_under_the_same_name_is_refused(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    made = shop(tmp_path, YDB)
    made.write("a.json", '{"key":[1],"update":{}}')
    run(made)
    kafka = {"name": "drop", "type": "kafka", "servers": broker.servers, "topics": ["x"], "format": "ydb-json"}
    shop(tmp_path, {**kafka, "table": "users", "key": ["id"]})
    with pytest.raises(
        ChangelingError, match="batch 1 was planned by a source of another type; give this one another name"
    ):
        run(made)


def test_an_error_is_reported_of_its_own_source_alone(spark: SparkSession, tmp_path: Path) -> None:
    bad = {**YDB, "name": "bad", "path": "bad/*.json", "on_error": "fail"}
    made = shop(tmp_path, YDB, bad)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.json").write_text("garbage\n")
    with pytest.raises(ChangelingError):
        run(made)
    errors = {row["name"]: row["last_error"] for row in made.pipeline.status() if row["kind"] == "source"}
    assert errors["drop"] is None
    assert errors["bad"].startswith("source bad: ")


def test_what_came_from_the_environment_is_not_in_errors_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "s3cr3tvalue")
    (tmp_path / "wh_s3cr3tvalue").write_text("a file")
    made = shop(tmp_path, warehouse="./wh_${SECRET}/lake")
    with pytest.raises(ChangelingError) as refused:
        made.pipeline.run(once=True)
    assert "s3cr3tvalue" not in str(refused.value)
    assert json.dumps(str(refused.value)).endswith('Not a directory"')
