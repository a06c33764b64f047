"""Arcion's three modes end to end into files on S3, CSV and JSON: whole records, headers, cursors and counts, over runs that are cut off."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import boto3
import pytest

from changeling.iceberg.failpoints import FailpointReached
from changeling.model.position import encode
from tests.files.conftest import bucket, s3_endpoint
from tests.log.lakes import shop
from tests.replicas.shops import SOURCE, USERS, item

__all__ = ["bucket", "s3_endpoint"]
pytestmark = pytest.mark.usefixtures("spark")

FORMS = ("csv", "json")
MODES = ("snapshot", "realtime", "full")
KINDS = ("insertCount", "updateCount", "deleteCount", "replaceCount")
SUFFIXES = ("_NEW", "_OLD", "_EXISTS")
METADATA = ["opType", "cursor", "operationcount"]
STEP = 1_700_000_000_000
Cells = dict[str, tuple[str, str, str]]
"""Of each column what is new, what was old, and which of them exist."""
NOT_THERE = ("null", "null", "0")


def feed(form: str, mode: str, bucket: str, name: str = "", **options: Any) -> dict[str, Any]:
    images = "UPDATES" if mode == "realtime" else "NEW_AND_OLD_IMAGES"
    given = {"FORMAT": f"arcion-{form}", "MODE": images, "INITIAL_SCAN": mode != "realtime"}
    name = name or f"{form}_{mode}"
    topic = {"type": "files", "path": f"s3://{bucket}/out/{name}", "file_bytes": 400}
    return {"name": name, "table": "users", "with": given, "options": {"mode": mode, **options}, "topic": topic}


def files(feed: str) -> list[str]:
    """What the objects of a feed contain, in the order of their names."""
    client = boto3.client("s3")
    try:
        found = client.list_objects_v2(Bucket="lake", Prefix=f"out/{feed}/0").get("Contents", [])
        return [client.get_object(Bucket="lake", Key=one["Key"])["Body"].read().decode() for one in found]
    finally:
        client.close()


def header(columns: list[str], mode: str) -> list[str]:
    return columns if mode == "snapshot" else [f"{name}{end}" for name in columns for end in SUFFIXES] + METADATA


def in_csv(feed: str, mode: str, columns: list[list[str]]) -> list[Any]:
    """The rows of all files; each begins with a header, and these are the columns that files have, in order."""
    tables = [list(csv.reader(io.StringIO(text))) for text in files(feed)]
    headers = [table[0] for table in tables]
    assert [list(one) for one in dict.fromkeys(map(tuple, headers))] == [header(one, mode) for one in columns]
    found = [dict(zip(table[0], row, strict=True)) for table in tables for row in table[1:]]
    return [row if mode == "snapshot" else _record(row, _cells_of_csv(row)) for row in found]


def _cells_of_csv(row: dict[str, str]) -> Cells:
    names = [name.removesuffix("_NEW") for name in row if name.endswith("_NEW")]
    assert "null" not in row.values(), "CSV has it in capitals"
    own = {name: "null" if value == "NULL" else value for name, value in row.items()}
    return {name: (own[f"{name}_NEW"], own[f"{name}_OLD"], own[f"{name}_EXISTS"]) for name in names}


def in_json(feed: str) -> list[Any]:
    rows = [json.loads(line) for text in files(feed) for line in text.splitlines()]
    for row in rows:
        assert list(row) == ["tableName", "opType", "cursor", "before", "after", "exists", "operationcount"]
        assert list(row["before"]) == list(row["after"]) == list(row["exists"])
        assert row["tableName"] == {
            "namespace": {"catalog": None, "schema": "public", "hash": -977422806},
            "name": "users",
            "hash": -123756321,
        }
    return [
        _record(row, {name: (row["after"][name], row["before"][name], row["exists"][name]) for name in row["exists"]})
        for row in rows
    ]


def _record(row: dict[str, Any], cells: Cells) -> tuple[str, Cells, int, list[int]]:
    """The operation, the cells, the second of the commit, and how many of each operation there were."""
    cursor, counts = json.loads(row["cursor"]), json.loads(row["operationcount"])
    # Each transaction of the test commits a second after the one before, and is the next one of the feed's source.
    second = (cursor["timestamp"] - STEP) // 1000
    assert (cursor["log"], cursor["position"]) == ("bus", encode(cursor["timestamp"], second - 1))
    return row["opType"], cells, second, [counts[kind] for kind in KINDS]


def written(id: str, name: str, n: str) -> Cells:
    return {"id": (id, "null", "1"), "name": (name, "null", "1"), "n": (n, "null", "1")}


SCANNED = [("I", written(str(n), "a", str(n)), 1) for n in (1, 2, 3)]
ADDED: list[tuple[str, Cells, int]] = [("I", written(str(n), "c", "null"), 4) for n in range(10, 16)]
WIDER: list[tuple[str, Cells, int]] = [("I", {**written("20", "d", "null"), "extra": ("e", "null", "1")}, 5)]
REALTIME: list[tuple[str, Cells, int]] = [
    ("U", {"id": ("1", "1", "3"), "name": ("b", "null", "1"), "n": NOT_THERE}, 2),
    ("D", {"id": ("null", "2", "2"), "name": NOT_THERE, "n": NOT_THERE}, 3),
    *ADDED,
    *WIDER,
]
FULL: list[tuple[str, Cells, int]] = [
    *SCANNED,
    ("U", {"id": ("1", "1", "3"), "name": ("b", "a", "3"), "n": ("1", "1", "3")}, 2),
    ("D", {"id": ("null", "2", "2"), "name": ("null", "a", "2"), "n": ("null", "2", "2")}, 3),
    *ADDED,
    *WIDER,
]


def counted(records: list[tuple[str, Cells, int]]) -> list[Any]:
    """The records with the counts of all up to each of them."""
    counts, found = [0, 0, 0, 0], []
    for op, cells, second in records:
        counts["IUD".index(op)] += 1
        found.append((op, cells, second, [*counts]))
    return found


def test_arcion_s_modes_into_files(tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = shop(tmp_path, SOURCE)
    made.write(
        "1.json", *(item(1, "insert", {"id": number, "name": "a", "n": number}, order=number) for number in (1, 2, 3))
    )
    made.pipeline.run(once=True)
    feeds = [feed(form, mode, bucket) for form in FORMS for mode in MODES]
    feeds.append(feed("csv", "full", bucket, "bare", include_header=False))
    made = shop(tmp_path, SOURCE, feeds=feeds)
    made.pipeline.run(once=True)
    made.write("2.json", item(2, "update", {"id": 1, "name": "b"}, {"id": 1}), item(3, "delete", None, {"id": 2}))
    for place in ("files.planned", "files.staged", "files.written", "feed.after@2"):
        monkeypatch.setenv("CHANGELING_FAILPOINT", place)
        with pytest.raises(FailpointReached):
            made.pipeline.run(once=True)
        monkeypatch.delenv("CHANGELING_FAILPOINT")
    made.pipeline.run(once=True)
    made.write(
        "3.json", *(item(4, "insert", {"id": number, "name": "c", "n": None}, order=number) for number in range(10, 16))
    )
    made.pipeline.run(once=True)
    wide = {"id": 20, "name": "d", "n": None, "extra": "e"}
    made.write("4.json", item(5, "insert", wide, columns={**USERS, "extra": "utf8"}))
    made.pipeline.run(once=True)
    made.pipeline.run(once=True)

    narrow, wider = [*USERS], [*USERS, "extra"]
    assert in_csv("csv_snapshot", "snapshot", [narrow]) == [
        {"id": str(number), "name": "a", "n": str(number)} for number in (1, 2, 3)
    ]
    assert in_json("json_snapshot") == counted(SCANNED)
    for mode, expected in (("realtime", REALTIME), ("full", FULL)):
        assert in_csv(f"csv_{mode}", mode, [narrow, wider]) == counted(expected)
        assert in_json(f"json_{mode}") == counted(expected)
        assert len(files(f"csv_{mode}")) > 2
    # Without a header, the same rows; a file ends where the columns change all the same.
    headed, bare = ([text.splitlines() for text in files(name)] for name in ("csv_full", "bare"))
    assert [line for lines in bare for line in lines] == [line for _, *lines in headed for line in lines]
    assert len(bare[-1]) == 1
    for one in made.pipeline.feeds():
        assert not made.pipeline.verify_feed(one.name).faults, one.name
