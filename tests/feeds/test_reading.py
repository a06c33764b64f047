"""Feeds that are read without Spark: places, consumers, gaps, lines of JSON."""

import json
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from changeling.feeds import consumers, reading
from changeling.feeds.consumers import Consumers
from changeling.feeds.feed import Feed
from changeling.feeds.reading import FeedReader, Gap, Start, json_line, parse_start
from changeling.model.errors import ChangelingError, UsageError
from tests.feeds.topics import WrittenLake, feed

HOUR = timedelta(hours=1)


def places(reader: FeedReader, limit: int | None = None) -> list[tuple[int, int]]:
    return [(record.partition, record.offset) for record in reader.records(limit=limit)]


def in_two_partitions(lake: WrittenLake, published: Feed) -> None:
    """Partition 0 has offsets 0 to 2, partition 1 has 0 and 1; the first commit is an hour older than the second."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    lake.publish(published, [(1, "[2]", "{}"), (0, "[1]", "{}"), (0, "[3]", "{}")], at=at)
    lake.publish(published, [(0, "[1]", "{}"), (1, "[4]", "{}")], point=2, at=at + HOUR)


def test_records_come_by_partition_and_offset_from_any_place(tmp_path: Path) -> None:
    lake, published = WrittenLake(tmp_path), feed(partitions=2, retention=None)
    assert places(FeedReader(lake.topic(published))) == []
    in_two_partitions(lake, published)
    topic = lake.topic(published)
    assert places(FeedReader(topic)) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    assert places(FeedReader(topic, 1)) == [(0, 1), (0, 2), (1, 1)]
    assert places(FeedReader(topic, 7)) == []
    assert len(places(FeedReader(topic, parse_start("0001-01-01T00:00:00Z")))) == 5
    assert places(FeedReader(topic, parse_start("9999-12-31T23:59:59.999Z"))) == []
    assert places(FeedReader(topic, parse_start("2026-01-01T00:30:00+00:00"))) == [(0, 2), (1, 1)]
    assert places(FeedReader(topic, parse_start("2026-01-01T01:00:00.000001Z"))) == []
    assert places(FeedReader(topic), limit=2) == [(0, 0), (0, 1)]
    # Another feed of that name has nothing yet.
    assert places(FeedReader(lake.topic(feed(id="f2", partitions=2, retention=None)))) == []


def test_a_large_topic_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_AT_ONCE", 2)
    lake, published = WrittenLake(tmp_path), feed(partitions=2, retention=None)
    in_two_partitions(lake, published)
    parts = [part["offset"].to_pylist() for part in FeedReader(lake.topic(published)).parts()]
    assert parts == [[0, 1], [2], [0, 1]]


def test_a_consumer_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, published = WrittenLake(tmp_path), feed(partitions=2, retention=None)
    in_two_partitions(lake, published)
    stored = Consumers(lake.tables)

    def reader(name: str) -> FeedReader:
        return FeedReader(lake.topic(published), None, stored, name)

    assert places(reader("a"), limit=2) == [(0, 0), (0, 1)]
    assert places(reader("a"), limit=2) == [(0, 2), (1, 0)]
    # What fails before it is flushed comes again.
    with closing(cast("Generator[Any]", reader("a").parts())) as parts:
        assert next(parts)["offset"].to_pylist() == [1]
    assert places(reader("a")) == [(1, 1)]
    assert places(reader("a")) == []
    assert places(reader("b"), limit=1) == [(0, 0)]
    assert Consumers(lake.tables).places("a", "f1") == {0: 3, 1: 2}
    assert Consumers(lake.tables).places("a", "f2") == {}


def test_consumers_are_stored_by_several_processes_and_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "_MANY_ROWS", 10)
    lake = WrittenLake(tmp_path)

    def move(name: str) -> None:
        for offset in range(1, 7):
            Consumers(WrittenLake(tmp_path).tables).move(name, "f1", {0: offset, 1: offset * 2})

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(move, "abc"))
    assert [Consumers(lake.tables).places(name, "f1") for name in "abc"] == [{0: 6, 1: 12}] * 3
    table = lake.tables.load("consumers")
    assert table is not None
    assert table.format_version == 2
    assert table.scan().to_arrow().num_rows < 30


def test_what_has_expired_is_not_seen_and_missed_offsets_are_reported(tmp_path: Path) -> None:
    lake, published = WrittenLake(tmp_path), feed(partitions=2, retention=3600)
    now = datetime.now(UTC)
    stored = Consumers(lake.tables)
    stored.move("slow", "f1", {0: 1})
    lake.publish(published, [(0, "[1]", "{}"), (0, "[1]", "{}"), (1, "[2]", "{}")], at=now - 2 * HOUR)
    lake.publish(published, [(0, "[1]", "{}")], point=2, at=now)
    gaps: list[Gap] = []

    def reader(start: Start = None, consumer: str | None = None) -> FeedReader:
        gaps.clear()
        return FeedReader(lake.topic(published), start, stored, consumer, gaps.append)

    assert places(reader()) == [(0, 2)]
    assert gaps == []
    assert places(reader(0)) == [(0, 2)]
    assert gaps == [Gap(0, 0, 2), Gap(1, 0, 1)]
    assert str(gaps[0]) == "offsets 0 to 1 are gone from partition 0, past retention: not read"
    assert places(reader(now - 3 * HOUR)) == [(0, 2)]
    assert gaps == [Gap(0, 0, 2), Gap(1, 0, 1)]
    assert places(reader(consumer="slow")) == [(0, 2)]
    assert gaps == [Gap(0, 1, 2)]
    assert places(reader(consumer="slow")) == []
    assert gaps == []
    assert lake.topic(published).earliest() == [2, 1]


def test_a_consumer_learns_what_it_missed_since_it_began(tmp_path: Path) -> None:
    lake, published = WrittenLake(tmp_path), feed(partitions=2, retention=3600)
    now, stored, gaps = datetime.now(UTC), Consumers(lake.tables), list[Gap]()
    lake.publish(published, [(0, "[1]", "{}")], at=now)
    assert places(FeedReader(lake.topic(published), None, stored, "a")) == [(0, 0)]
    assert stored.places("a", "f1") == {0: 1, 1: 0}
    # The first record of the other partition expires before it is read.
    lake.publish(published, [(1, "[2]", "{}")], point=2, at=now - 2 * HOUR)
    lake.publish(published, [(1, "[2]", "{}")], point=3, at=now)
    assert places(FeedReader(lake.topic(published), None, stored, "a", gaps.append)) == [(1, 1)]
    assert gaps == [Gap(1, 0, 1)]


def test_following_gets_what_is_published_meanwhile_and_stops(tmp_path: Path) -> None:
    lake, published = WrittenLake(tmp_path), feed(retention=None)
    stop, stored = threading.Event(), Consumers(lake.tables)
    got: list[int] = []

    def follow() -> None:
        for record in FeedReader(lake.topic(published), None, stored, "a").records(follow=True, stop=stop):
            got.append(record.offset)
            if record.offset == 5:
                stop.set()

    thread = threading.Thread(target=follow)
    thread.start()
    for point in range(1, 4):
        lake.publish(published, [(0, "[1]", "{}"), (0, "[1]", "{}")], point=point)
        while len(got) < 2 * point:
            thread.join(0.02)
            assert thread.is_alive() or got[-1] == 5
    thread.join(30)
    assert not thread.is_alive()
    assert got == [0, 1, 2, 3, 4, 5]
    assert stored.places("a", "f1") == {0: 6}


def test_following_a_feed_that_is_dropped_fails(tmp_path: Path) -> None:
    lake, published = WrittenLake(tmp_path), feed(retention=None)
    lake.publish(published, [(0, "[1]", "{}")])
    records = FeedReader(lake.topic(published)).records(follow=True)
    assert next(records).offset == 0
    lake.publish(feed(id="f2", retention=None), [(0, "[1]", "{}")])
    with pytest.raises(ChangelingError, match="feed users_feed was dropped while it was read"):
        next(records)


@pytest.mark.parametrize("text", ["yesterday", "-1", "9" * 19, "2026-01-01", "2026-01-01T10:00:00"])
def test_a_wrong_place_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--from"):
        parse_start(text)


def test_lines_keep_every_digit_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    lake, published = WrittenLake(tmp_path), feed(retention=None)
    at = datetime(2026, 1, 2, 3, 4, 5, 120_000, tzinfo=UTC)
    value = '{"update": {"price": 150.00, "big": 12345678901234567890123456789}, "key":[1]}'
    headers = [[("a", b"x"), ("a", b"\xff"), ("b", None)], [], [], []]
    records = [(0, "[1]", value), (0, None, '{"resolved":[1,2]}'), (0, "[1]", None), (0, "plain", "no json")]
    lake.publish(published, records, at=at, headers=headers)
    lines = [json_line(published, record) for record in FeedReader(lake.topic(published)).records()]
    tail = b'"headers":[],"timestamp":"2026-01-02T03:04:05.120Z"}'
    assert lines == [
        b'{"feed":"users_feed","partition":0,"offset":0,"key":[1],'
        b'"value":{"update":{"price":150.00,"big":12345678901234567890123456789},"key":[1]},'
        b'"headers":[["a","x"],["a",{"base64":"/w=="}],["b",null]],"timestamp":"2026-01-02T03:04:05.120Z"}',
        b'{"feed":"users_feed","partition":0,"offset":1,"key":null,"value":{"resolved":[1,2]},' + tail,
        b'{"feed":"users_feed","partition":0,"offset":2,"key":[1],"value":null,' + tail,
        b'{"feed":"users_feed","partition":0,"offset":3,"key":"plain","value":"no json",' + tail,
    ]
    (row,) = FeedReader(lake.topic(published), 3).records()
    assert json.loads(json_line(feed(format="arcion-csv"), row._replace(value=b"1", key=None)))["value"] == "1"
