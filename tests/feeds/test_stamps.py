"""Every feed of a source shows the same stamps, whichever points it publishes together and whenever it begins."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from changeling.iceberg.failpoints import FailpointReached
from changeling.pipelines.lakehouse import lake_of
from changeling.pipelines.loading import load
from changeling.replicas.maintenance import maintain
from tests.log.lakes import Shop
from tests.replicas.shops import bus, item

pytestmark = pytest.mark.usefixtures("spark")

STAMPED = "FORMAT = 'JSON', MODE = 'UPDATES', VIRTUAL_TIMESTAMPS = TRUE, BARRIERS_INTERVAL = Interval('PT1S')"
STEP = 1_700_000_000_000


def cut_off(made: Shop, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("CHANGELING_FAILPOINT", place)
        with pytest.raises(FailpointReached):
            made.pipeline.run(once=True)


def records(made: Shop, feed: str) -> list[Any]:
    """The values of a feed without its barriers."""
    values = [json.loads(record.value or b"") for record in made.pipeline.read_feed(feed)]
    return [value for value in values if "resolved" not in value]


def insert(number: int, key: int, time: int | None = None) -> str:
    return item(number, "insert", {"id": key, "name": "a", "n": number}, time=time)


def test_a_feed_that_publishes_two_points_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = bus(tmp_path)
    made.write("1.json", insert(1, 1))
    made.pipeline.run(once=True)
    made.pipeline.sql(f"ALTER TABLE users ADD CHANGEFEED a WITH ({STAMPED}), ADD CHANGEFEED b WITH ({STAMPED})")
    # The second feed is cut off at both points; then the first of them is no longer kept.
    made.write("2.json", insert(10, 10), insert(12, 12))
    cut_off(made, "feed.before@2", monkeypatch)
    # Three are late for whoever has published the first point.
    made.write("3.json", *(insert(number, number) for number in (9, 11)), insert(13, 13))
    cut_off(made, "feed.before@2", monkeypatch)
    maintain(lake_of(load(made.file)), timedelta(days=1), timedelta(0), needed={1, 3})
    made.pipeline.run(once=True)
    made.write("4.json", insert(14, 14, time=13))
    made.pipeline.run(once=True)

    own = {10: (10, 1), 12: (12, 2), 13: (13, 4), 14: (13, 5)}
    for feed in ("a", "b"):
        stamps = {record["key"][0]: record["ts"] for record in records(made, feed)}
        assert sorted(stamps) == [9, 10, 11, 12, 13, 14]
        assert {key: stamps[key] for key in own} == {
            key: [STEP + second * 1000, number] for key, (second, number) in own.items()
        }
        assert not made.pipeline.verify_feed(feed).faults


def test_a_feed_that_begins_where_another_one_has_yet_to_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = bus(tmp_path)
    made.write("1.json", insert(1, 1))
    made.pipeline.run(once=True)
    made.pipeline.sql(f"ALTER TABLE users ADD CHANGEFEED b WITH ({STAMPED})")
    made.write("2.json", insert(2, 2), insert(3, 3))
    cut_off(made, "point.after", monkeypatch)
    made.pipeline.sql(f"ALTER TABLE users ADD CHANGEFEED a WITH ({STAMPED}, INITIAL_SCAN = TRUE)")
    made.pipeline.run(once=True)
    # In the millisecond of the last one.
    made.write("3.json", insert(4, 4, time=3))
    made.pipeline.run(once=True)
    last = [STEP + 3000, 3]
    assert {record["key"][0]: record["ts"] for record in records(made, "b")} == {
        2: [STEP + 2000, 1],
        3: [STEP + 3000, 2],
        4: last,
    }
    assert [record["ts"] for record in records(made, "a")] == [[STEP + 3000, 2]] * 3 + [last]
    for feed in ("a", "b"):
        assert not made.pipeline.verify_feed(feed).faults
    # A point with changes of another table alone is nothing that they lack.
    made.write("4.json", item(5, "insert", {"id": 1, "name": "a", "n": 1}, table="others"))
    made.pipeline.run(once=True)
    feeds = [row for row in made.pipeline.status() if row["kind"] == "feed"]
    assert [(row["name"], row["lag_points"], row["lag_seconds"]) for row in feeds] == [("a", 0, 0.0), ("b", 0, 0.0)]
