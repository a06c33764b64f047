"""Arcion's three modes end to end into files, CSV and JSON: headers, cursors and counts, over restarts and runs that are cut off."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from changeling.iceberg.failpoints import FailpointReached
from tests.log.lakes import shop
from tests.replicas.shops import SOURCE, item

pytestmark = pytest.mark.usefixtures("spark")

FORMS = ("csv", "json")
MODES = ("snapshot", "realtime", "full")
KINDS = ("insertCount", "updateCount", "deleteCount", "replaceCount")


def feed(form: str, mode: str) -> dict[str, Any]:
    images = "UPDATES" if mode == "realtime" else "NEW_AND_OLD_IMAGES"
    given = {"FORMAT": f"arcion-{form}", "MODE": images, "INITIAL_SCAN": mode != "realtime"}
    topic = {"type": "files", "path": f"out/{form}_{mode}", "file_bytes": 400}
    return {"name": f"{form}_{mode}", "table": "users", "with": given, "options": {"mode": mode}, "topic": topic}


def files(folder: Path, feed: str) -> list[str]:
    return [path.read_text() for path in sorted((folder / "out" / feed).iterdir()) if path.is_file()]


def rows(folder: Path, form: str, mode: str) -> list[dict[str, Any]]:
    """The records of all files, in order; every file of CSV begins with the same names."""
    texts = files(folder, f"{form}_{mode}")
    if form == "json":
        return [json.loads(line) for text in texts for line in text.splitlines()]
    tables = [list(csv.reader(io.StringIO(text))) for text in texts]
    assert len({tuple(table[0]) for table in tables}) == 1
    return [dict(zip(table[0], row, strict=True)) for table in tables for row in table[1:]]


def counted(row: dict[str, Any]) -> int:
    found = json.loads(row["operationcount"])
    return sum(found[kind] for kind in KINDS)


def test_arcion_s_modes_into_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = shop(tmp_path, SOURCE)
    made.write(
        "1.json", *(item(1, "insert", {"id": number, "name": "a", "n": number}, order=number) for number in (1, 2, 3))
    )
    made.pipeline.run(once=True)
    made = shop(tmp_path, SOURCE, feeds=[feed(form, mode) for form in FORMS for mode in MODES])
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
    made.pipeline.run(once=True)

    changes = ["U", "D", *"IIIIII"]
    for form in FORMS:
        assert [row["id"] if form == "csv" else row["after"]["id"] for row in rows(tmp_path, form, "snapshot")] == [
            "1",
            "2",
            "3",
        ]
        for mode, expected in (("realtime", changes), ("full", [*"III", *changes])):
            found = rows(tmp_path, form, mode)
            assert [row.get("opType", row.get("optype")) for row in found] == expected
            assert list(map(counted, found)) == list(range(1, len(expected) + 1))
            places = [json.loads(row["cursor"])["position"] for row in found[-len(changes) :]]
            assert places == sorted(places)
            assert len(files(tmp_path, f"{form}_{mode}")) > 2
    for one in made.pipeline.feeds():
        assert not made.pipeline.verify_feed(one.name).faults, one.name
