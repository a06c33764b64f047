"""Transactions while a pipeline runs, XTDB's over two tables (seed 002) and DataWorks' of two halves (seed 001): whole or not at all."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeling.log import log_tables
from changeling.log.ingest import BatchReport
from changeling.model.errors import UsageError
from changeling.pipelines.listener import Listener
from changeling.replicas.merge import MergeReport
from tests.log.lakes import Shop, shop
from tests.replicas.seeds import now, records, source, then

WAIT = 60
JANE, BACK, OLD_ORDER = records("xtdb/seed-transaction")
CREATE, UPDATE, DELETE = (records(f"xtdb/seed-{case}")[0] for case in ("create", "update", "delete"))


def first_order() -> str:
    """The order that 12350 deletes comes to be, in a transaction before all others."""
    record = json.loads(OLD_ORDER.replace("12350", "12344"))
    record |= {"op": "c", "before": None, "after": record["before"]}
    record["transaction"]["data_collection_order"] = 0
    return json.dumps(record)


class Watch(Listener):
    """Signals when a run has read what exists and has merged what it may."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._read = self._rested = 0
        self.points: list[int] = []

    def on_batch_done(self, report: BatchReport) -> None:
        with self._changed:
            self._read += report.outcome.read
            self._rested = 0

    def on_merge_done(self, report: MergeReport) -> None:
        with self._changed:
            self.points.append(report.point.number)
            self._changed.notify_all()

    def on_wait(self, seconds: float) -> None:
        with self._changed:
            self._rested += 1
            self._changed.notify_all()

    def rest(self, read: int) -> None:
        """Waits until so many records are in the log and there is nothing to do but to wait."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._read >= read and self._rested, WAIT)

    def point(self, number: int) -> None:
        """Waits for a point."""
        with self._changed:
            assert self._changed.wait_for(lambda: number in self.points, WAIT)


@contextmanager
def running(made: Shop) -> Iterator[Watch]:
    """The pipeline runs meanwhile."""
    watch, stop, failed = Watch(), threading.Event(), []

    def run() -> None:
        try:
            made.pipeline.run(stop=stop, listener=watch)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield watch
    finally:
        stop.set()
        thread.join(WAIT)
    assert not failed, failed


def seen(made: Shop) -> dict[str, list[Any]]:
    """What of 12350 shows: the users with their last login, and the orders."""
    users = [(row["_id"], row.get("last_login")) for row in now(made, "users").rows]
    return {"users": users, "orders": [row["_id"] for row in now(made, "orders").rows]}


NONE: dict[str, list[Any]] = {"users": [], "orders": ["order-old-1"]}
WHOLE: dict[str, list[Any]] = {"users": [("user-123", "2023-12-25T18:00:00Z"), ("user-999", None)], "orders": []}


def settling(folder: Path, settle: str, **more: Any) -> Shop:
    columns = {"_id": "string", "last_login": "string"}
    return shop(folder, settle=settle, tables=[{"name": "users", "columns": columns}], **more)


def published(made: Shop) -> list[tuple[str, list[str]]]:
    """The tables and the transactions of what feeds have published."""
    events = [
        (feed.table.name, json.loads(record.value or b"")["transaction"]["id"])
        for feed in made.pipeline.feeds()
        for record in made.pipeline.read_feed(feed.name)
    ]
    return [(table, [number for name, number in events if name == table]) for table in ("orders", "users")]


def test_002_37_half_a_transaction_is_seen_in_no_table_and_a_later_one_shows_it_whole(
    spark: SparkSession, tmp_path: Path
) -> None:
    shown = {"FORMAT": "xtdb", "MODE": "NEW_AND_OLD_IMAGES"}
    feeds = [{"name": f"{table}_feed", "table": table, "with": shown} for table in ("users", "orders")]
    made = settling(tmp_path, "1h", feeds=feeds)
    made.write("0.json", first_order(), CREATE, UPDATE, DELETE)
    with running(made) as watch:
        watch.rest(4)
        # It is not known yet whether 12347 has ended; 12346 has.
        assert [row["_id"] for row in now(made, "users").rows] == ["user-123"]
        made.write("1.json", JANE, OLD_ORDER)
        watch.rest(6)
        assert seen(made) == NONE
        with pytest.raises(UsageError, match="transaction 12350 of source drop is not complete yet"):
            then(made, "users", as_of_transaction=12350)
        made.write("2.json", BACK)
        watch.rest(7)
        # XTDB's events do not count one another: the rest may not be all.
        assert seen(made) == NONE
        assert published(made) == [("orders", ["12344"]), ("users", ["12345", "12346", "12347"])]
        made.write("3.json", CREATE.replace("12345", "12351").replace("user-123", "user-1"))
        watch.rest(8)
        assert seen(made) == WHOLE
        assert published(made) == [
            ("orders", ["12344", "12350"]),
            ("users", ["12345", "12346", "12347", "12350", "12350"]),
        ]
        assert len(watch.points) == 3
    points = made.table(log_tables.POINTS).sort_by("point").to_pylist()
    assert [(point["sources"][0]["transaction"], point["complete"]) for point in points] == [
        ("12346", True),
        ("12347", True),
        ("12350", True),
    ]
    # A reader of several tables gets them at one point.
    for number, orders in ((2, ["order-old-1"]), (3, [])):
        assert [row["_id"] for row in then(made, "orders", point=number).rows] == orders
    assert then(made, "users", point=2).rows == []


def test_002_37_a_transaction_with_nothing_after_it_is_seen_whole_when_it_has_settled(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = settling(tmp_path, "5s")
    made.write("0.json", first_order(), CREATE, UPDATE, DELETE)
    made.pipeline.run(once=True)
    assert seen(made) == NONE
    made.write("1.json", JANE, BACK, OLD_ORDER)
    with running(made) as watch:
        watch.rest(3)
        assert seen(made) == NONE
        watch.point(2)
        assert seen(made) == WHOLE
    points = made.table(log_tables.POINTS).sort_by("point").to_pylist()
    assert [(point["sources"][0]["transaction"], point["complete"]) for point in points] == [
        ("12347", True),
        ("12350", False),
    ]


def test_001_16_half_an_update_is_not_seen_and_the_other_half_completes_it(spark: SparkSession, tmp_path: Path) -> None:
    made = shop(tmp_path, source("rows", "dataworks", table="shop.users", key=["id"]), settle="1h")
    first, second = records("dataworks/seed-update")
    made.write("rows/0", *records("dataworks/seed-insert"), first)
    with running(made) as watch:
        watch.rest(2)
        assert [row["name"] for row in now(made, "users").rows] == ["Alice"]
        made.write("rows/1", second)
        watch.point(2)
        assert [row["name"] for row in now(made, "users").rows] == ["Alicia"]
