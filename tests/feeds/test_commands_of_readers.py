"""`feed read`, `verify --feed` and `status` as a user calls them, without Spark."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from changeling import Pipeline
from changeling.cli.main import main
from changeling.feeds.feed import Feed
from changeling.feeds.topic import ScanState
from changeling.replicas.shape import ReplicaColumn, Shape
from tests.feeds.topics import WrittenLake

PIPELINE = """
name: shop
warehouse: ./lake
sources:
  - {name: pg, type: files, path: "./in/*.json", format: ydb-json, table: public.users, key: [id]}
"""
SHAPE = Shape((ReplicaColumn("1", "id", "int64"), ReplicaColumn("2", "n", "int64")), ("1",))


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[WrittenLake, Feed]:
    """A folder with a pipeline whose table has a replica at point 3, and a feed that is at point 2."""
    (tmp_path / "shop.yaml").write_text(PIPELINE)
    monkeypatch.chdir(tmp_path)
    lake = WrittenLake(tmp_path)
    lake.replicate(SHAPE, {1: [], 2: [{"id": 1, "n": 10}], 3: [{"id": 1, "n": 11}]})
    made = (
        Pipeline.load(tmp_path / "shop.yaml")
        .feeds()
        .create("users_feed", "public.users", {"FORMAT": "JSON", "MODE": "UPDATES", "INITIAL_SCAN": True})
    )
    lake.publish(made, [(0, "[1]", '{"update":{"n":10},"key":[1]}')], point=2, scan=ScanState(4, 4))
    return lake, made


def lines(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_feed_is_read_verified_and_shown(shop: tuple[WrittenLake, Feed], capsys: pytest.CaptureFixture[str]) -> None:
    lake, made = shop
    (line,) = lines(capsys, "feed", "read", "users_feed", "--consumer", "c")
    assert {**line, "timestamp": ""} == {
        "feed": "users_feed",
        "partition": 0,
        "offset": 0,
        "key": [1],
        "value": {"update": {"n": 10}, "key": [1]},
        "headers": [],
        "timestamp": "",
    }
    assert lines(capsys, "feed", "read", "users_feed", "--consumer", "c") == []
    assert main(["feed", "read", "users_feed"]) == 0
    assert '{"update":{"n":10},"key":[1]}' in capsys.readouterr().out
    assert main(["feed", "read", "user_feed"]) == 2
    assert "did you mean 'users_feed'?" in capsys.readouterr().err

    (row,) = [row for row in lines(capsys, "status") if row["kind"] == "feed"]
    assert row.pop("lag_seconds") > 0
    assert row == {
        "kind": "feed",
        "name": "users_feed",
        "source": "pg",
        "table": "public.users",
        "format": "ydb-json",
        "mode": "UPDATES",
        "topic": "table",
        "status": "enabled",
        "point": 2,
        "published": 1,
        "applied": 1,
        "rejected": 0,
        "late": 0,
        "lag_points": 1,
        "rate": None,
        "barrier": None,
        "scanned": 1.0,
        "read": None,
        "accepted": None,
        "stale": None,
        "last_error": None,
    }
    assert main(["status"]) == 0
    assert "users_feed" in capsys.readouterr().out

    assert lines(capsys, "verify", "--feed", "users_feed") == []
    lake.publish(made, [(0, "[1]", '{"update":{"n":12},"key":[1]}')], point=3, scan=ScanState(4, 4))
    assert lines(capsys, "verify", "--feed", "users_feed", code=5) == [
        {
            "feed": "users_feed",
            "check": "the table made of the records is the replica",
            "partition": None,
            "offset": None,
            "why": "at point 3: the row [1]: n is 12 in the records and 11 in the replica",
        }
    ]
    assert main(["verify", "--feed", "users_feed"]) == 5
    shown = capsys.readouterr().out
    assert "✓ offsets count without gaps" in shown
    assert "✗ the table made of the records is the replica" in shown


def test_following_ends_with_a_signal_and_keeps_its_place(shop: tuple[WrittenLake, Feed], tmp_path: Path) -> None:
    lake, made = shop
    command = [
        sys.executable,
        "-m",
        "changeling",
        "feed",
        "read",
        "users_feed",
        "--follow",
        "--consumer",
        "c",
        "--json",
    ]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, env={**os.environ}) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["offset"] == 0
        lake.publish(made, [(0, "[1]", '{"update":{"n":11},"key":[1]}')], point=3)
        assert json.loads(process.stdout.readline())["offset"] == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    records = list(Pipeline.load(tmp_path / "shop.yaml").read_feed("users_feed", consumer="c"))
    assert records == []
