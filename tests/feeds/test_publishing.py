"""Feeds of a pipeline that runs: what a source sends comes out as records of the feed, once, in order, and complete."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from changeling.feeds.topic import namespace_of
from changeling.iceberg.failpoints import FailpointReached
from changeling.model.errors import UsageError
from changeling.pipelines.lakehouse import tables_of
from changeling.pipelines.loading import load
from tests.log.lakes import Shop
from tests.replicas.shops import bus, item, replica

pytestmark = pytest.mark.usefixtures("spark")


def records(made: Shop, feed: str) -> list[Any]:
    """The values of a feed, parsed, in order of partition and offset."""
    found = list(made.pipeline.read_feed(feed))
    assert [one.offset for one in found if one.partition == 0] == list(range(sum(one.partition == 0 for one in found)))
    return [None if one.value is None else json.loads(one.value) for one in found]


def topics(made: Shop) -> list[str]:
    """The topics that the lake has."""
    tables = tables_of(load(made.file))
    return [name for _, name in tables.catalog().list_tables(namespace_of("shop"))]


def verified(made: Shop, *feeds: str) -> None:
    for feed in feeds:
        found = made.pipeline.verify_feed(feed)
        assert not found.faults, (feed, found.faults)


def without_stamps(values: list[Any]) -> list[Any]:
    return [{name: part for name, part in value.items() if name != "ts"} for value in values]


def rows_of(made: Shop, feed: str) -> list[dict[str, Any]]:
    """The records of a feed without its barriers."""
    return [record for record in records(made, feed) if "resolved" not in record]


def test_changes_behind_the_point_of_creation_are_published_once_in_order_and_complete(tmp_path: Path) -> None:
    made = bus(tmp_path)
    made.write(
        "1.json", item(1, "insert", {"id": 1, "name": "a", "n": 1}), item(2, "insert", {"id": 2, "name": "b", "n": 2})
    )
    made.pipeline.run(once=True)
    made.pipeline.sql(
        """
        ALTER TABLE public.users ADD CHANGEFEED ups WITH (FORMAT = 'JSON', MODE = 'UPDATES', VIRTUAL_TIMESTAMPS = TRUE),
            ADD CHANGEFEED both WITH (FORMAT = 'JSON', MODE = 'NEW_AND_OLD_IMAGES', INITIAL_SCAN = TRUE,
                                      BARRIERS_INTERVAL = Interval('PT1S'), VIRTUAL_TIMESTAMPS = TRUE),
            ADD CHANGEFEED deb WITH (FORMAT = 'DEBEZIUM_JSON', MODE = 'NEW_AND_OLD_IMAGES', INITIAL_SCAN = TRUE)
        """
    )
    made.write(
        "2.json",
        item(3, "update", {"id": 1, "name": "z", "n": 1}),
        item(4, "insert", {"id": 3, "name": "c", "n": None}),
        item(5, "delete", None, {"id": 2}),
        item(6, "update", {"id": 7, "name": "c", "n": 4}, {"id": 3}),
    )
    made.pipeline.run(once=True)
    assert records(made, "ups") == [
        {"key": [1], "update": {"name": "z"}, "ts": [1_700_000_003_000, 1]},
        {"key": [3], "update": {"name": "c", "n": None}, "ts": [1_700_000_004_000, 2]},
        {"key": [2], "erase": {}, "ts": [1_700_000_005_000, 3]},
        {"key": [3], "erase": {}, "ts": [1_700_000_006_000, 4]},
        {"key": [7], "update": {"name": "c", "n": 4}, "ts": [1_700_000_006_000, 4]},
    ]
    assert records(made, "both") == [
        {"key": [1], "update": {}, "newImage": {"name": "a", "n": 1}, "ts": [1_700_000_002_000, 0]},
        {"key": [2], "update": {}, "newImage": {"name": "b", "n": 2}, "ts": [1_700_000_002_000, 0]},
        {
            "key": [1],
            "update": {},
            "newImage": {"name": "z", "n": 1},
            "oldImage": {"name": "a", "n": 1},
            "ts": [1_700_000_003_000, 1],
        },
        {"key": [3], "update": {}, "newImage": {"name": "c", "n": None}, "ts": [1_700_000_004_000, 2]},
        {"key": [2], "erase": {}, "oldImage": {"name": "b", "n": 2}, "ts": [1_700_000_005_000, 3]},
        {"key": [3], "erase": {}, "oldImage": {"name": "c", "n": None}, "ts": [1_700_000_006_000, 4]},
        {"key": [7], "update": {}, "newImage": {"name": "c", "n": 4}, "ts": [1_700_000_006_000, 4]},
        {"resolved": [1_700_000_006_000, 4]},
    ]
    found = [value["payload"] for value in records(made, "deb")]
    assert [one["op"] for one in found] == ["r", "r", "u", "c", "d", "d", "c"]
    assert {(one["source"]["step"], one["source"]["txId"]) for one in found[2:]} == {
        tuple(value["ts"]) for value in records(made, "ups")
    }
    verified(made, "ups", "both", "deb")

    # Nothing is published twice, and what comes late is compared with what was published.
    made.write(
        "3.json",
        item(2, "update", {"id": 1, "name": "never seen", "n": 0}, order=1),
        item(4, "insert", {"id": 9, "name": "late", "n": 9}, order=1),
        item(8, "update", {"id": 7, "name": "d", "n": 4}),
    )
    made.pipeline.run(once=True)
    assert records(made, "both")[8:] == [
        {"key": [9], "update": {}, "newImage": {"name": "late", "n": 9}, "ts": [1_700_000_006_000, 5]},
        {
            "key": [7],
            "update": {},
            "newImage": {"name": "d", "n": 4},
            "oldImage": {"name": "c", "n": 4},
            "ts": [1_700_000_008_000, 6],
        },
        {"resolved": [1_700_000_008_000, 6]},
    ]
    made.write("4.json", item(9, "truncate"), item(10, "insert", {"id": 1, "name": "again", "n": 1}))
    made.pipeline.run(once=True)
    assert without_stamps(records(made, "ups"))[7:] == [
        {"key": [1], "erase": {}},
        {"key": [7], "erase": {}},
        {"key": [9], "erase": {}},
        {"key": [1], "update": {"name": "again", "n": 1}},
    ]
    verified(made, "ups", "both", "deb")
    assert [row["id"] for row in replica(made)] == [1]

    # Records that are delivered once more change neither the replica nor a row of a feed.
    before = {name: rows_of(made, name) for name in ("ups", "both", "deb")}
    made.write("5.json", *(made.folder / "in" / "2.json").read_bytes().splitlines())
    made.pipeline.run(once=True)
    assert {name: rows_of(made, name) for name in ("ups", "both", "deb")} == before
    assert [row["id"] for row in replica(made)] == [1]


def test_a_feed_of_a_table_that_nobody_has_seen_waits_for_it(tmp_path: Path) -> None:
    made = bus(
        tmp_path, feeds=[{"name": "early", "table": "public.users", "with": {"FORMAT": "JSON", "MODE": "UPDATES"}}]
    )
    made.write("1.json", item(1, "insert", {"id": 5, "name": "x", "n": 0}, table="others"))
    made.pipeline.run(once=True)
    assert [feed.status for feed in made.pipeline.feeds()] == ["pending"]
    made.write("2.json", item(2, "insert", {"id": 1, "name": "a", "n": 1}))
    made.pipeline.run(once=True)
    assert without_stamps(records(made, "early")) == [{"key": [1], "update": {"name": "a", "n": 1}}]
    verified(made, "early")


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Shop, str], None]:
    def run(made: Shop, point: str) -> None:
        monkeypatch.setenv("CHANGELING_FAILPOINT", point)
        with pytest.raises(FailpointReached):
            made.pipeline.run(once=True)
        monkeypatch.delenv("CHANGELING_FAILPOINT")

    return run


def test_a_feed_that_is_cut_off_anywhere_publishes_each_change_once(
    tmp_path: Path, interrupted: Callable[[Shop, str], None]
) -> None:
    made = bus(tmp_path)
    made.write("1.json", *(item(1, "insert", {"id": number, "name": "a", "n": number}) for number in range(3)))
    made.pipeline.run(once=True)
    made.pipeline.sql(
        "ALTER TABLE users ADD CHANGEFEED f WITH (FORMAT='JSON', MODE='NEW_IMAGE', INITIAL_SCAN=TRUE, VIRTUAL_TIMESTAMPS=TRUE)"
    )
    for number, point in enumerate(("feed.before@1", "feed.after@1", "feed.before@2", "feed.after@2"), 2):
        made.write(f"{number}.json", item(number, "update", {"id": number % 3, "name": f"v{number}", "n": number}))
        interrupted(made, point) if number < 4 else made.pipeline.run(once=True)
    made.pipeline.run(once=True)
    verified(made, "f")
    assert len(records(made, "f")) == 3 + 4


def test_dropped_feeds_and_tables_go_and_do_not_come_back(tmp_path: Path) -> None:
    made = bus(tmp_path)
    made.write("1.json", item(1, "insert", {"id": 1, "name": "a", "n": 1}))
    made.pipeline.run(once=True)
    made.pipeline.sql("ALTER TABLE users ADD CHANGEFEED f WITH (FORMAT='JSON', MODE='KEYS_ONLY')")
    made.write("2.json", item(2, "update", {"id": 1, "name": "b", "n": 1}))
    made.pipeline.run(once=True)
    assert records(made, "f") == [{"key": [1], "update": {}}]
    made.pipeline.sql("ALTER TABLE users ALTER CHANGEFEED f DISABLE")
    made.write("3.json", item(3, "update", {"id": 1, "name": "c", "n": 1}))
    made.pipeline.run(once=True)
    assert records(made, "f") == [{"key": [1], "update": {}}]
    assert topics(made) == ["f"]
    # A dropped feed is gone with its topic; another one of its name starts from the beginning.
    made.pipeline.sql("ALTER TABLE users DROP CHANGEFEED f")
    with pytest.raises(UsageError, match="there is no feed 'f'"):
        records(made, "f")
    made.pipeline.run(once=True)
    assert topics(made) == []
    made.pipeline.sql("ALTER TABLE users ADD CHANGEFEED f WITH (FORMAT='JSON', MODE='NEW_IMAGE', INITIAL_SCAN=TRUE)")
    made.pipeline.run(once=True)
    assert records(made, "f") == [{"key": [1], "update": {}, "newImage": {"name": "c", "n": 1}}]
    made.pipeline.sql("DROP TABLE users")
    made.write("4.json", item(4, "update", {"id": 1, "name": "d", "n": 1}))
    made.pipeline.run(once=True)
    assert list(made.pipeline.feeds()) == []
    assert topics(made) == []
    with pytest.raises(UsageError, match="there is no feed"):
        records(made, "f")
    assert made.pipeline.current("users") is None
