"""A warehouse that was moved is whole again after `relocate`, however often that is interrupted; so is one of an earlier version."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

import changeling.spark
from changeling.cli.main import main
from changeling.iceberg import avro_files
from changeling.iceberg.failpoints import FailpointReached
from changeling.iceberg.relocation import _Move
from changeling.log.log_tables import POINTS
from changeling.model.errors import ChangelingError
from changeling.pipelines.lakehouse import catalog_of, relocate, tables_of
from changeling.pipelines.loading import load
from changeling.replicas.points import points_of
from tests.lake.stored import USERS, VERSIONS, unpacked
from tests.log.lakes import Shop
from tests.replicas.shops import item, replica

PAGE = Path(__file__).parents[2] / "docs" / "reading-the-lake.md"
TABLES = {
    "shop": {"asides", "batches", "changes", "feeds", "points", "rejects", "schemas", "stamps"},
    "shop_feeds": {"ups"},
    "shop_replica": {"public__users", "public__orders", "public__orders__history"},
}


def everything(made: Shop) -> dict[str, list[Any]]:
    """The rows of every table in every snapshot that it still has, and its tags and branches."""
    catalog = load_catalog("lake", **catalog_of(load(made.file)).pyiceberg)
    found: dict[str, list[Any]] = {}
    for namespace, names in TABLES.items():
        for name in sorted(names):
            table = catalog.load_table((namespace, name))
            scans = [table.scan(snapshot_id=one.snapshot_id).to_arrow().to_pylist() for one in table.snapshots()]
            found[f"{namespace}.{name}"] = [*scans, table.metadata.refs]
    catalog.close()
    return found


def interrupted(made: Shop, place: str) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CHANGELING_FAILPOINT", place)
        with pytest.raises(FailpointReached):
            relocate(load(made.file))
    with pytest.raises(ChangelingError, match="let `changeling relocate` correct the paths"):
        made.pipeline.status()


def assert_the_newest_point_is_found(made: Shop, session: SparkSession) -> None:
    """By the statement of the documentation, and by whoever reads with the package."""
    (newest,) = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    stored = points_of(tables_of(load(made.file)))
    assert {row["name"]: row["snapshot"] for row in session.sql(newest).collect()} == stored.last.tables
    assert set(stored.last.tables) == TABLES["shop_replica"]
    # Of an earlier version all rows are whole; the last one has the one table that changed.
    assert [point.last_whole_row for point in stored.all()] == [None, None, None, 3]
    assert [len(row["tables"]) for row in sorted(made.rows(POINTS), key=lambda row: int(row["point"]))] == [3, 3, 3, 1]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_lake_of_an_earlier_version_is_moved_read_and_continued(
    spark: SparkSession, tmp_path: Path, version: str
) -> None:
    made = unpacked(version, tmp_path / "first")
    done = relocate(load(made.file))
    assert (done.from_places, done.tables) == (["/tmp/changeling-stored-lake/lake"], 12)
    before = everything(made)
    # Moved again, into a folder inside of the former one; the former one is gone.
    second = Shop(tmp_path / "first" / "lake" / "a 'b' é")
    shutil.copytree(made.folder, tmp_path / "copy")
    shutil.rmtree(made.folder)
    shutil.move(tmp_path / "copy", second.folder)
    interrupted(second, "relocate.file@20")
    interrupted(second, "relocate.before")
    assert relocate(load(second.file)).from_places == [str(made.folder / "lake")]
    assert relocate(load(second.file)).from_places == []
    assert everything(second) == before
    # The merge that was interrupted before is finished, and what follows continues.
    second.write("4.json", item(10, "delete", None, {"id": 1}), item(11, "insert", {"id": 5, "name": "Eve", "n": 5}))
    second.pipeline.run(once=True)
    names = ("id", "name", "n")
    users = [{name: row[name] for name in names} for row in replica(second)]
    assert users == [
        {"id": 3, "name": "Cid", "n": 3},
        {"id": 4, "name": "Dee", "n": 4},
        {"id": 5, "name": "Eve", "n": 5},
    ]
    lake = changeling.spark.session(second.file)
    assert [
        row.asDict()
        for row in lake.sql("SELECT id, name, n FROM lake.shop_replica.public__users ORDER BY id").collect()
    ] == users
    then = second.pipeline.rows("public.users", point=2)
    assert sorted(then.select(names).to_pylist(), key=lambda row: row["id"]) == USERS
    assert not second.pipeline.verify_feed("ups").faults
    assert [record.value for record in second.pipeline.read_feed("ups")][-2:] == [
        b'{"key":[1],"erase":{}}',
        b'{"key":[5],"update":{"name":"Eve","n":5}}',
    ]
    assert_the_newest_point_is_found(second, lake)
    assert second.pipeline.maintain()
    assert_the_newest_point_is_found(second, lake)
    assert [row["id"] for row in second.pipeline.rows("public.users", point=1).to_pylist()] == [1, 2]


def test_the_command_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = unpacked(VERSIONS[-1], tmp_path / "here")
    call = ["relocate", "--pipeline", str(made.file)]
    assert main(["replica", "public.users", "--pipeline", str(made.file)]) == 1
    assert "let `changeling relocate` correct the paths" in capsys.readouterr().err
    assert main(call) == 0
    printed = capsys.readouterr().out
    assert re.fullmatch(
        r"12 tables, \d+ files corrected; the warehouse was /tmp/changeling-stored-lake/lake\n", printed
    ), printed
    assert main(call) == 0
    assert capsys.readouterr().out == "nothing to do: the tables are where the catalog says\n"
    assert main(["replica", "public.users", "--json", "--point", "2", "--pipeline", str(made.file)]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == USERS
    # One file is missing: nothing is changed, and the message says which.
    torn = unpacked(VERSIONS[-1], tmp_path / "torn")
    (missing, *_) = sorted((torn.folder / "lake" / "shop" / "asides" / "metadata").glob("*.metadata.json"))
    missing.unlink()
    assert main(["relocate", "--pipeline", str(torn.file)]) == 1
    assert (
        f"does not have the file that the catalog names as /tmp/changeling-stored-lake/lake/shop/asides/metadata/{missing.name}"
        in capsys.readouterr().err
    )
    torn.file.write_text(torn.file.read_text() + "catalog: {type: rest, uri: 'http://127.0.0.1:1'}\n")
    assert main(["relocate", "--pipeline", str(torn.file)]) == 2
    assert "a local folder with the embedded catalog" in capsys.readouterr().err


def test_only_paths_in_the_former_place_move() -> None:
    move = _Move(["/a/lake"], '/a/lake/new "x"')
    assert move.path("/a/lake/shop/t/data/1.parquet") == '/a/lake/new "x"/shop/t/data/1.parquet'
    assert move.path("file:/a/lake/shop/t") == 'file:/a/lake/new "x"/shop/t'
    for stays in ("/a/lakeside/1", "/b/a/lake/1", "s3://a/lake/1", '/a/lake/new "x"/shop/1'):
        assert move.path(stays) == stays
    text = rb'{"n":1.50,"at":"/a/lake/t","in":"{\"plan\":\"file:///a/lake/p.json\"}","other":"see /a/lake/t","a":"/a/lake"}'
    moved = (
        rb'{"n":1.50,"at":"/a/lake/new \"x\"/t","in":"{\"plan\":\"file:///a/lake/new \\\"x\\\"/p.json\"}",'
        rb'"other":"see /a/lake/t","a":"/a/lake"}'
    )
    assert move.json(text) == moved
    assert move.json(moved) == moved


@pytest.mark.parametrize("version", VERSIONS)
def test_avro_files_keep_what_is_not_changed(tmp_path: Path, version: str) -> None:
    """Written again without a change, no file changes a second time, and each has the records that it had."""
    made = unpacked(version, tmp_path)
    files = list(made.folder.rglob("*.avro"))
    assert files
    for file in files:
        records: list[list[Any]] = [[], []]
        again = avro_files.changed(file.read_bytes(), records[0].append)
        assert avro_files.changed(again, records[1].append) == again
        assert records[0] == records[1] != []
