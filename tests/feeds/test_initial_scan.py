"""The initial scan while the table changes: each row once, its source value first, whatever is met first and wherever a run is cut off."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from changeling.feeds import initial_scan
from changeling.feeds.publish import FeedReport
from changeling.iceberg.failpoints import FailpointReached
from changeling.pipelines.listener import Listener
from tests.log.lakes import Shop
from tests.replicas.shops import bus, item

pytestmark = pytest.mark.usefixtures("spark")

START = [1_700_000_001_000, 0]
SCANNED = """ALTER TABLE users
    ADD CHANGEFEED j WITH (FORMAT = 'JSON', MODE = 'NEW_AND_OLD_IMAGES', INITIAL_SCAN = TRUE, VIRTUAL_TIMESTAMPS = TRUE,
        BARRIERS_INTERVAL = Interval('PT1S')),
    ADD CHANGEFEED d WITH (FORMAT = 'DEBEZIUM_JSON', MODE = 'NEW_AND_OLD_IMAGES', INITIAL_SCAN = TRUE)"""


def values(made: Shop, feed: str) -> list[Any]:
    return [json.loads(record.value or b"") for record in made.pipeline.read_feed(feed)]


def test_rows_that_change_during_the_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(initial_scan, "BUCKET_ROWS", 3)
    made = bus(tmp_path)
    made.write(
        "1.json",
        *(item(1, "insert", {"id": n, "name": "a", "n": n}, order=n) for n in range(1, 13)),
        item(1, "insert", {"id": 20, "name": "a", "n": 20}, order=20),
        item(1, "update", {"id": 27}, {"id": 20}, order=22),
    )
    made.pipeline.run(once=True)
    made.pipeline.sql(SCANNED)
    made.write(
        "2.json",
        # Late: the row has another key by now, which no change names any more.
        item(1, "update", {"id": 20, "name": "late"}, {"id": 20}, order=21),
        *(item(2, "update", {"id": n, "name": "b"}, {"id": n}, order=n) for n in range(1, 9)),
        *(item(3, "update", {"id": n, "name": "c"}, {"id": n}, order=n) for n in range(1, 9)),
        item(4, "insert", {"id": 99, "name": "new", "n": None}),
    )
    # A bucket, another one, then a third one with the point, of the first feed: each run continues from there.
    for place in ("feed.after@1", "feed.after@1", "feed.after@2"):
        monkeypatch.setenv("CHANGELING_FAILPOINT", place)
        with pytest.raises(FailpointReached):
            made.pipeline.run(once=True)
        monkeypatch.delenv("CHANGELING_FAILPOINT")
    made.pipeline.run(once=True)

    found = values(made, "j")
    barriers = [record for record in found if "resolved" in record]
    assert found[-1] == barriers[0] == {"resolved": [1_700_000_004_000, 4]}
    lives: dict[int, list[Any]] = {}
    for record in found[:-1]:
        (key,) = record.pop("key")
        lives.setdefault(key, []).append(record)
    for n in range(1, 13):
        a, b, c = ({"name": name, "n": n} for name in "abc")
        changes = [
            {"update": {}, "newImage": b, "oldImage": a, "ts": [1_700_000_002_000, 2]},
            {"update": {}, "newImage": c, "oldImage": b, "ts": [1_700_000_003_000, 3]},
        ]
        assert lives[n] == [{"update": {}, "newImage": a, "ts": START}, *(changes if n < 9 else [])]
    assert lives[99] == [{"update": {}, "newImage": {"name": "new", "n": None}, "ts": [1_700_000_004_000, 4]}]
    moved, late = ({"name": name, "n": 20} for name in ("a", "late"))
    assert lives[27] == [
        {"update": {}, "newImage": moved, "ts": START},
        {"update": {}, "newImage": late, "oldImage": moved, "ts": [START[0], 1]},
    ]
    # The scan continued after changes, and what changed before it came is no part of a snapshot.
    places = [place for place, record in enumerate(found) if record.get("ts") == START]
    assert max(places) > min(place for place, record in enumerate(found) if record.get("ts", START) > START)
    marks = {(one["payload"]["op"], json.dumps(one["payload"]["source"]["snapshot"])) for one in values(made, "d")}
    assert marks == {("r", "true"), ("c", "false"), ("u", "false")}
    for feed in ("j", "d"):
        assert not made.pipeline.verify_feed(feed).faults

    # From now on there is one record for each change.
    made.write("3.json", item(5, "truncate"), item(6, "insert", {"id": 1, "name": "z", "n": 0}))
    made.pipeline.run(once=True)
    assert len(values(made, "j")) == len(found) + 14 + 1 + 1


def test_a_truncate_during_the_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(initial_scan, "BUCKET_ROWS", 3)
    made = bus(tmp_path)
    made.write("1.json", *(item(1, "insert", {"id": n, "name": "a", "n": n}, order=n) for n in range(1, 13)))
    made.pipeline.run(once=True)
    made.pipeline.sql(SCANNED)
    made.write("2.json", item(2, "truncate"), item(3, "insert", {"id": 1, "name": "b", "n": 1}))
    monkeypatch.setenv("CHANGELING_FAILPOINT", "feed.after@2")
    with pytest.raises(FailpointReached):
        made.pipeline.run(once=True)
    monkeypatch.delenv("CHANGELING_FAILPOINT")
    made.pipeline.run(once=True)
    found = values(made, "j")
    assert len([record for record in found if record.get("ts") == START]) == 12
    assert len([record for record in found if "erase" in record]) == 12
    for feed in ("j", "d"):
        assert not made.pipeline.verify_feed(feed).faults


class Beside(Listener):
    """Changes the table when the first part of its scan is published, and stops the run with the last one."""

    def __init__(self, made: Shop, parts: int) -> None:
        self._made, self._parts, self.stop = made, parts, threading.Event()
        self.seen: list[tuple[str, bool]] = []
        self.warnings: list[str] = []

    def on_feed_published(self, report: FeedReport) -> None:
        if not self.seen:
            self._made.write("2.json", *(item(n, "update", {"id": 1, "name": f"v{n}"}, {"id": 1}) for n in (2, 3)))
        self.seen.append((report.feed, report.scanned))
        if sum(scanned for _, scanned in self.seen) == self._parts:
            self.stop.set()

    def on_warning(self, source: str, text: str) -> None:
        self.warnings.append(text)


def test_the_source_and_other_feeds_go_on_beside_a_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 004-26: what is new is read, merged and published between two parts of the scan."""
    monkeypatch.setattr(initial_scan, "BUCKET_ROWS", 1)
    made = bus(tmp_path, settle="1h")
    made.write("1.json", *(item(1, "insert", {"id": n, "name": "a", "n": n}, order=n) for n in range(1, 7)))
    made.pipeline.run(once=True)
    made.pipeline.sql(
        """ALTER TABLE users ADD CHANGEFEED long WITH (FORMAT = 'JSON', MODE = 'NEW_IMAGE', INITIAL_SCAN = TRUE),
        ADD CHANGEFEED other WITH (FORMAT = 'JSON', MODE = 'UPDATES')"""
    )
    beside = Beside(made, 6)
    made.pipeline.run(stop=beside.stop, listener=beside)
    first = beside.seen.index(("other", False))
    assert 0 < beside.seen[:first].count(("long", True)) < 6
    assert beside.warnings == []
    # The second one is not known to be all of its transaction.
    assert values(made, "other") == [{"key": [1], "update": {"name": "v2"}}]
    assert sorted(record["key"] for record in values(made, "long")) == [[1], [1], [2], [3], [4], [5], [6]]
    assert not made.pipeline.verify_feed("long").faults
