"""The validator of feeds: it accepts what is right, and finds every fault that is planted."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import changeling
from changeling.feeds.feed import Feed
from changeling.feeds.rebuilt_table import RebuiltTable, stored_rows
from changeling.feeds.record_checks import BARRIERS, IMAGES, OFFSETS, ONCE, ORDER, PARTITIONS, READABLE, SAME_BARRIERS
from changeling.feeds.topic import ScanState
from changeling.feeds.verification import EQUAL, VerifiedFeed, verify_records, verify_topic
from changeling.formats import registry
from changeling.model import arrow_layouts, json_text, position
from changeling.model.change import Change, Transaction
from changeling.model.operation import Image, Operation
from changeling.model.table import Column, TableSchema
from changeling.replicas.shape import ReplicaColumn, Shape
from tests.feeds.topics import PIPELINE, USERS, WrittenLake, feed

SHAPE = Shape(
    (
        ReplicaColumn("1", "id", "int64"),
        ReplicaColumn("2", "name", "string"),
        ReplicaColumn("3", "price", "decimal(10,2)"),
        ReplicaColumn("4", "born", "date"),
    ),
    ("1",),
)
Published = tuple[int, str | None, str | None]


def change(key: int, stamp: int, partition: int | None = None, **record: Any) -> Published:
    """A record of a row; even keys are in partition 0."""
    text = json.dumps({**record, "key": [key], "ts": [1000 + stamp, stamp]})
    return key % 2 if partition is None else partition, f"[{key}]", text


def barrier(partition: int, stamp: int) -> Published:
    return partition, None, json.dumps({"resolved": [1000 + stamp, stamp]})


def born(day: str) -> str:
    return f"{day}T00:00:00.000000Z"


FIRST: list[Published] = [
    change(1, 1, update={"name": "a", "price": "1.5", "born": born("2001-02-03")}),
    change(2, 1, update={"name": "b"}),
    change(1, 2, update={"price": "2.25"}),
    change(3, 2, update={"name": "c"}),
    barrier(0, 2),
    barrier(1, 2),
]
SECOND: list[Published] = [
    change(2, 3, erase={}),
    change(1, 4, update={}),
    change(1, 4, update={}),
    change(3, 4, update={"name": "d"}),
    change(3, 5, update={"name": None}),
    barrier(0, 5),
    barrier(1, 5),
]
THIRD: list[Published] = [change(4, 6, update={"name": "e", "price": "0.10"})]


def row(number: int, name: str | None, price: str | None = None, day: str | None = None) -> dict[str, Any]:
    return {
        "id": number,
        "name": name,
        "price": None if price is None else Decimal(price),
        "born": None if day is None else date.fromisoformat(day),
    }


STATES = {
    1: [row(1, "a", "2.25", "2001-02-03"), row(2, "b"), row(3, "c")],
    2: [row(1, "a", "2.25", "2001-02-03"), row(3, None)],
    3: [row(1, "a", "2.25", "2001-02-03"), row(3, None), row(4, "e", "0.10")],
    4: [],
}
"""The replica is ahead of the feed: it is compared at the feed's points."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> WrittenLake:
    made = WrittenLake(tmp_path_factory.mktemp("lake"))
    made.replicate(SHAPE, STATES)
    return made


def stamped(name: str, **given: Any) -> Feed:
    more = {"partitions": 2, "virtual_timestamps": True, "barriers_interval": 1, "retention": None, **given}
    return feed(name=name, id=name, **more)


def published(lake: WrittenLake, of: Feed, *points: Sequence[Published]) -> VerifiedFeed:
    for number, records in enumerate(points, 1):
        lake.publish(of, records, point=number)
    return verify_topic(lake.tables, PIPELINE, of)


def test_a_feed_without_faults_is_compared_at_every_barrier_and_at_its_point(lake: WrittenLake) -> None:
    found = published(lake, stamped("right"), FIRST, SECOND, THIRD)
    assert found.faults == []
    assert (found.records, found.barriers, found.compared) == (14, 2, [1, 2, 3])
    assert list(found.not_checked) == [IMAGES]
    assert EQUAL in found.checks


def test_what_a_consumer_got_elsewhere_is_verified_as_well(lake: WrittenLake) -> None:
    of = stamped("elsewhere")
    published(lake, of, FIRST, SECOND, THIRD)
    got: dict[int, list[Any]] = {0: [], 1: []}
    for partition, key, value in [*FIRST, *SECOND, *THIRD]:
        # Kafka's offsets have gaps where transactions end, and where one was taken back, here the first.
        offset = 3 + len(got[partition]) * 2
        got[partition].append((partition, offset, key and key.encode(), value and value.encode(), ()))
    found = verify_records(lake.tables, PIPELINE, of, [*got[1], *got[0]])
    assert (found.faults, found.compared) == ([], [1, 2, 3])
    without = [record for record in got[1] if b"2.25" not in record[3]]
    found = verify_records(lake.tables, PIPELINE, of, [*without, *got[0]])
    assert str(found.faults[0]) == ('at point 1: the row [1]: price is "1.50" in the records and "2.25" in the replica')
    assert {fault.check for fault in found.faults} == {EQUAL}


def test_a_dropped_record_is_a_gap(lake: WrittenLake) -> None:
    of = stamped("dropped")
    lake.publish(of, FIRST, lost=2)
    assert [str(one) for one in verify_topic(lake.tables, PIPELINE, of).checks[OFFSETS]] == [
        "1@2: offset 1 is missing before it"
    ]
    of = stamped("cut")
    lake.publish(of, FIRST, lost=4)
    assert [str(one) for one in verify_topic(lake.tables, PIPELINE, of).checks[OFFSETS]] == [
        "0@0: offset 1 is missing after it"
    ]


def swapped(records: list[Published], one: int, other: int) -> list[Published]:
    made = list(records)
    made[one], made[other] = made[other], made[one]
    return made


FAULTS: dict[str, tuple[str, str, Callable[[], list[list[Published]]]]] = {
    "a doubled record": (ONCE, "1@2", lambda: [[*FIRST[:3], FIRST[2], *FIRST[3:]]]),
    "two swapped records of a key": (ORDER, "1@1", lambda: [swapped(FIRST, 0, 2)]),
    "a record below a barrier": (BARRIERS, "1@4", lambda: [FIRST, [change(3, 2, update={"name": "d"})]]),
    "a record at a barrier": (BARRIERS, "0@2", lambda: [FIRST, [change(6, 2, update={"name": "d"})]]),
    "two swapped across a barrier": (BARRIERS, "1@3", lambda: [swapped(FIRST, 3, 5)]),
    "a key in two partitions": (PARTITIONS, "1@0", lambda: [[*FIRST[1:2], change(2, 2, 1, update={})]]),
    "a barrier in one partition": (
        SAME_BARRIERS,
        "partition 1 has none where partition 0 has the barrier [1002,2]",
        lambda: [FIRST[:-1]],
    ),
    "no record at all": (READABLE, "0@0", lambda: [[(0, "[1]", "{")]]),
    "a wrong value": (EQUAL, "at point 1", lambda: [[*FIRST[:2], change(1, 2, update={"price": "2.26"}), *FIRST[3:]]]),
    "a dropped record that nothing counts": (EQUAL, "at point 1", lambda: [[*FIRST[:2], *FIRST[3:]]]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(lake: WrittenLake, fault: str) -> None:
    check, where, records = FAULTS[fault]
    found = published(lake, stamped(fault), *records())
    assert str(found.checks[check][0]).startswith(where)


def test_old_images_are_what_came_before(lake: WrittenLake) -> None:
    def images(name: str) -> Feed:
        return stamped(f"images {name}", mode="NEW_AND_OLD_IMAGES")

    def image(key: int, new: dict[str, Any] | None, old: dict[str, Any] | None) -> Published:
        shown = {name: value for name, value in (("newImage", new), ("oldImage", old)) if value is not None}
        return key % 2, f"[{key}]", json.dumps({"erase" if new is None else "update": {}, **shown, "key": [key]})

    a, b, c = ({"name": name, "price": "1.5", "born": None} for name in "abc")
    right = [image(1, a, None), image(1, b, a), image(1, None, b), image(1, c, None)]
    assert published(lake, images("right"), right).checks[IMAGES] == []
    planted = {
        "1@1": [right[0], right[2]],
        "1@2": [*right[:2], right[1]],
        "1@3": [*right[:3], right[1]],
        "1@0": right[1:],
    }
    for where, records in planted.items():
        found = published(lake, images(where), records)
        assert str(found.checks[IMAGES][0]).startswith(where)


def test_a_table_that_cannot_be_rebuilt_says_why(lake: WrittenLake) -> None:
    of = {
        "mode KEYS_ONLY does not show the rows": feed(mode="KEYS_ONLY", retention=None),
        "the first records have expired": feed(id="f2", name="late", retention=3600),
        "the initial scan is not complete": feed(id="f3", name="scan", initial_scan=True, retention=None),
        "the feed has no initial scan, and its table was not empty when it began": feed(
            id="f4", name="later", start=1, retention=None
        ),
    }
    for why, one in of.items():
        if one.name == "late":
            lake.publish(one, [(0, "[1]", '{"update":{},"key":[1]}')], at=datetime.now(UTC) - timedelta(hours=2))
        lake.publish(one, [(0, "[1]", '{"update":{},"key":[1]}')], scan=ScanState(4, 2))
        found = verify_topic(lake.tables, PIPELINE, one)
        assert (found.faults, found.not_checked[EQUAL]) == ([], why)


def test_columns_are_followed_while_the_table_is_altered() -> None:
    """One is renamed, one is dropped and comes again as another column."""
    before = Shape(
        (ReplicaColumn("1", "id", "int64"), ReplicaColumn("2", "n", "int32"), ReplicaColumn("3", "x", "string")), ("1",)
    )
    after = Shape(
        (ReplicaColumn("1", "id", "int64"), ReplicaColumn("2", "m", "int64"), ReplicaColumn("4", "x", "date")), ("1",)
    )
    table = RebuiltTable("ydb-json", [before, after])

    def write(key: int, image: str, shape: Shape) -> None:
        written = Change(op=Operation.UPSERT, key=f'{{"id":{key}}}', after=image, after_image=Image.PARTIAL)
        table.apply(written, str(key), shape)

    write(1, '{"n":1,"x":"old"}', before)
    write(2, '{"n":2,"x":"old"}', before)
    write(2, f'{{"m":3,"x":"{born("2001-02-03")}"}}', after)
    assert table.rows(before) == {(b"1",): (b"1", b"1", b'"old"'), (b"2",): (b"2", b"3", b'"old"')}
    assert table.rows(after) == {(b"1",): (b"1", b"1", b"null"), (b"2",): (b"2", b"3", b'"2001-02-03"')}


EVERY_TYPE = {
    "id": ("int64", "1", 1),
    "name": ("string", '"a"', "a"),
    "price": ("decimal(10,2)", '"1.50"', Decimal("1.50")),
    "born": ("date", '"2001-02-03"', date(2001, 2, 3)),
    "seen": ("timestamp", '"2001-02-03T04:05:06.123"', datetime(2001, 2, 3, 4, 5, 6, 123_000)),
    "at": ("timestamptz", '"2001-02-03T04:05:06Z"', datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC)),
    "ok": ("bool", "true", True),
    "doc": ("json", '{"a":1.50}', '{"a":1.50}'),
    "raw": ("bytes", '"AQI="', b"\x01\x02"),
    "f": ("float64", "0.1", 0.1),
}


def history() -> pa.RecordBatch:
    """The life of two rows; one is deleted in the end, the other has a NULL."""
    columns = tuple(Column(name, kind) for name, (kind, _, _) in EVERY_TYPE.items())
    schema = TableSchema(columns, ("id",), USERS).to_json()

    def image(key: int, **given: str) -> str:
        texts = {name: text for name, (_, text, _) in EVERY_TYPE.items()} | {"id": str(key)} | given
        return json_text.join(texts.items()).decode()

    lives = [
        (Operation.INSERT, 1, None, image(1)),
        (Operation.INSERT, 2, None, image(2)),
        (Operation.UPDATE, 1, image(1), image(1, name="null")),
        (Operation.DELETE, 2, image(2), None),
    ]
    changes = [
        Change(
            op=op,
            table=USERS,
            key=json_text.join([("id", str(key))]),
            before=before,
            after=after,
            before_image=Image.NONE if before is None else Image.FULL,
            after_image=Image.NONE if after is None else Image.FULL,
            position=position.encode(1000 + number, number),
            commit_time=(1000 + number) * 1_000_000,
            transaction=Transaction(str(number), 0),
            schema=schema,
        )
        for number, (op, key, before, after) in enumerate(lives)
    ]
    return arrow_layouts.changes_batch(changes, pa.nulls(len(changes), arrow_layouts.ORIGIN), "pg", "canonical")


@pytest.fixture(scope="module")
def every_type(tmp_path_factory: pytest.TempPathFactory) -> WrittenLake:
    made = WrittenLake(tmp_path_factory.mktemp("types"))
    columns = (ReplicaColumn(name, name, kind) for name, (kind, _, _) in EVERY_TYPE.items())
    stored = {name: value for name, (_, _, value) in EVERY_TYPE.items()} | {"name": None}
    made.replicate(Shape(tuple(columns), ("id",)), {1: [stored]})
    return made


@pytest.mark.parametrize("dialect", registry.names())
def test_every_dialect_makes_the_table_again(every_type: WrittenLake, dialect: str) -> None:
    shown = {"mode": "NEW_AND_OLD_IMAGES"} if dialect in ("ydb-json", "ydb-debezium") else {}
    encoded, rejects = changeling.encode(history(), dialect, drop="all", **shown)
    assert rejects.num_rows == 0
    of = stamped(dialect, format=dialect, mode="NEW_AND_OLD_IMAGES", partitions=1)
    texts = ((row["key"], row["value"]) for row in encoded.to_pylist())
    every_type.publish(of, [(0, key and key.decode(), value and value.decode()) for key, value in texts])
    found = verify_topic(every_type.tables, PIPELINE, of)
    assert (found.faults, found.compared) == ([], [1])


@pytest.mark.parametrize("stored", ["1.50", "1.5"])
def test_numbers_that_the_replica_stores_as_text_are_compared_as_numbers(stored: str) -> None:
    """As earlier versions stored them, and as a rebuild spells them; the column is in no schema, as in records without one."""
    shape = Shape((ReplicaColumn("1", "id", "int64"), ReplicaColumn("+price", "price", "decimal")), ("1",))
    table = RebuiltTable("ydb-json", [shape])
    record = '{"key":[1],"update":{},"newImage":{"price":".15e1"}}'
    changes, rejects = changeling.decode([record], "ydb-json", table="users", key="id")
    assert rejects.num_rows == 0
    (batch,) = changes.to_batches()
    (found,) = arrow_layouts.changes(batch)
    table.apply(found, "[1]", shape)
    assert table.rows(shape) == stored_rows(pa.table({"id": [1], "price": [stored]}), shape)
