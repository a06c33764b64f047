"""A transaction without an end mark is waited for by looks at its source: a slow run shows no part of one."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeling.log import ingest as ingesting
from changeling.log.change_log import Log
from changeling.log.ingest import Ingest
from changeling.model.errors import ChangelingError
from changeling.pipelines.lakehouse import lake_of
from changeling.pipelines.loading import load
from changeling.pipelines.log_follower import merge_of
from changeling.pipelines.source_ingest import ingest_of
from changeling.replicas import pending_changes
from changeling.replicas.merge import Merge
from changeling.sources.files import FilesSource
from tests.log.lakes import Shop, event, message, shop
from tests.replicas.shops import replica

SOURCE = {"name": "drop", "type": "files", "path": "in/*.json", "format": "xtdb", "batch_files": 1}


def part(order: int, number: int = 5) -> str:
    """One of the events of a transaction."""
    changed = {f'"_id": "id-{number}"': f'"_id": "id-{number}-{order}"'}
    text = event(number).replace('"data_collection_order": 0', f'"data_collection_order": {order}')
    for old, new in changed.items():
        text = text.replace(old.replace('"', '\\"'), new.replace('"', '\\"'))
    return text


class Clock(datetime):
    """Stands still until it is moved."""

    moment = datetime(2030, 1, 1, tzinfo=UTC)

    @classmethod
    def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
        return cls.moment


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Moves the clock by so many seconds."""
    monkeypatch.setattr(Clock, "moment", datetime(2030, 1, 1, tzinfo=UTC))
    for module in (ingesting, pending_changes):
        monkeypatch.setattr(module, "datetime", Clock)
    return lambda seconds: setattr(Clock, "moment", Clock.moment + timedelta(seconds=seconds))


def started(made: Shop) -> tuple[Ingest, Merge]:
    """As a process that begins has them."""
    loaded = load(made.file)
    log = Log(lake_of(loaded))
    return ingest_of(loaded, log, loaded.definition.sources[0]), merge_of(loaded, log)


def shown(made: Shop) -> list[str]:
    return [row["_id"] for row in replica(made, "users")]


def unreadable(self: FilesSource) -> str | None:
    raise ChangelingError("no such place")


def test_no_part_of_a_transaction_is_shown_because_a_run_is_slow(
    spark: SparkSession, tmp_path: Path, passes: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = shop(tmp_path, SOURCE, settle="100s")
    made.write("0.json", event(1))
    made.pipeline.run(once=True)
    made.write("1.json", event(4), part(0), part(1))
    ingest, merge = started(made)
    assert ingest.step() is not None
    first = merge.step(drain=False)
    assert (first is not None and first.point.complete, shown(made)) == (True, ["id-1", "id-4"])
    # The third event comes, and the run has no time to look.
    made.write("2.json", event(2))
    made.write("3.json", part(2))
    passes(110)
    assert merge.step(drain=False) is None
    # Nor does it know more while its source is out of reach.
    with monkeypatch.context() as broken:
        broken.setattr(FilesSource, "plan_next", unreadable)
        with pytest.raises(ChangelingError):
            ingest.step()
    assert merge.step(drain=False) is None
    # Another run begins, and takes one of two batches that wait.
    ingest, merge = started(made)
    assert ingest.step() is not None
    report = merge.step(drain=False)
    assert (report is None or report.point.complete, shown(made)) == (True, ["id-1", "id-2", "id-4"])
    # All of it is there: whether that is all is still to be waited for.
    assert ingest.step() is not None
    assert merge.step(drain=False) is None
    passes(99)
    assert (ingest.step(), merge.step(drain=False)) == (None, None)
    passes(1)
    assert merge.step(drain=False) is None
    assert ingest.step() is None
    whole = merge.step(drain=False)
    assert whole is not None
    assert (whole.point.complete, shown(made)) == (False, ["id-1", "id-2", "id-4", "id-5-0", "id-5-1", "id-5-2"])
    assert merge.step(drain=False) is None


def test_a_part_of_a_transaction_that_comes_late_is_not_waited_for(
    spark: SparkSession, tmp_path: Path, passes: Callable[[int], None]
) -> None:
    made = shop(tmp_path, {**SOURCE, "carrier": "kcat"}, settle="100s")
    made.write("0.json", *(message({"topic": "a", "key": None, "value": event(n).encode()}, n) for n in (1, 6)))
    made.pipeline.run(once=True)
    # Another topic is behind, and it is not known whether the last one is all of its transaction.
    made.write("1.json", *(message({"topic": "b", "key": None, "value": event(n).encode()}, n) for n in (2, 4)))
    ingest, merge = started(made)
    assert ingest.step() is not None
    report = merge.step(drain=False)
    assert report is not None
    assert (report.point.complete, shown(made)) == (False, ["id-1", "id-2", "id-4", "id-6"])
    passes(110)
    assert (ingest.step(), merge.step(drain=False)) == (None, None)


def test_what_comes_in_during_a_merge_is_for_the_next_one(spark: SparkSession, tmp_path: Path) -> None:
    made = shop(tmp_path, {**SOURCE, "carrier": "kcat"}, settle="100s")
    files = [[event(1)], [event(4), part(0), part(1)], [part(2), event(6)]]
    for number, records in enumerate(files):
        texts = [
            message({"topic": "a", "key": None, "value": text.encode()}, 10 * number + place)
            for place, text in enumerate(records)
        ]
        made.write(f"{number}.json", *texts)
        if number == 0:
            made.pipeline.run(once=True)
    loaded = load(made.file)
    log = Log(lake_of(loaded))
    ingest, merge = ingest_of(loaded, log, loaded.definition.sources[0]), merge_of(loaded, log)
    assert ingest.step() is not None
    # The merge begins here, and the next batch is there before it looks at the log.
    known = log.progress
    assert ingest.step() is not None
    now, log.progress = log.progress, known
    assert merge.step(drain=False) is not None
    assert shown(made) == ["id-1", "id-4"]
    log.progress = now
    assert merge.step(drain=False) is not None
    assert shown(made) == ["id-1", "id-4", "id-5-0", "id-5-1", "id-5-2"]


@pytest.mark.parametrize("path", ["in/*.json", "in"])
def test_a_folder_that_is_gone_was_not_looked_at(
    spark: SparkSession, tmp_path: Path, passes: Callable[[int], None], path: str
) -> None:
    made = shop(tmp_path, {**SOURCE, "path": path}, settle="100s")
    made.write("0.json", event(1))
    made.pipeline.run(once=True)
    made.write("1.json", part(0))
    ingest, merge = started(made)
    assert ingest.step() is not None
    assert merge.step(drain=False) is None
    (tmp_path / "in").rename(tmp_path / "away")
    passes(110)
    assert (ingest.step(), merge.step(drain=False)) == (None, None)
    assert [warning for warning in ingest.source.warnings() if "the folder is gone" in warning]
    (tmp_path / "away").rename(tmp_path / "in")
    made.write("2.json", part(1), event(6))
    assert ingest.step() is not None
    report = merge.step(drain=False)
    assert report is not None
    assert (report.point.complete, shown(made)) == (True, ["id-1", "id-5-0", "id-5-1"])


def row_event(number: int, place: int, position: int, *, connector: str = "postgresql", ts_ms: int = 1) -> str:
    """An event of Debezium's: the row `number`, as the event `place` of the transaction `number // 10`."""
    where: dict[str, Any] = {"lsn": position}
    if connector == "mysql":
        where = {"file": "mysql-bin.000003", "pos": position}
    source = {"connector": connector, "db": "shop", "schema": "public", "table": "items", "ts_ms": ts_ms, **where}
    transaction = {"id": str(number // 10), "total_order": place, "data_collection_order": place}
    value = {"before": None, "after": {"id": number}, "source": source, "op": "c", "transaction": transaction}
    return json.dumps(value)


def mark(status: str, number: int, count: int | None = None, ts_ms: int = 1) -> str:
    return json.dumps(
        {"status": status, "id": str(number), "ts_ms": ts_ms, "event_count": count, "data_collections": None}
    )


DEBEZIUM = {**SOURCE, "format": "debezium-json", "key": ["id"]}


@pytest.mark.parametrize("connector", ["postgresql", "mysql"])
def test_control_records_without_a_position_say_nothing_of_the_order_of_rows(
    spark: SparkSession, tmp_path: Path, passes: Callable[[int], None], connector: str
) -> None:
    """They only have their place of arrival, which may be before or behind all positions of the source."""
    made = shop(tmp_path, DEBEZIUM, settle="100s")
    made.write("0.json", mark("BEGIN", 1), row_event(10, 1, 500, connector=connector), mark("END", 1, 1))
    for number in range(1, 13):
        made.write(f"{number:02d}.json", json.dumps({"ts_ms": 2}))
    made.pipeline.run(once=True)
    made.write("13.json", mark("BEGIN", 2), *(row_event(20 + n, n, 600 + n, connector=connector) for n in (1, 2)))
    ingest, merge = started(made)
    assert ingest.step() is not None
    # Nothing of it is shown, and nothing of it is late.
    first = merge.step(drain=False)
    assert first is None or not first.tables
    made.write("14.json", row_event(23, 3, 603, connector=connector), mark("END", 2, 3))
    assert ingest.step() is not None
    report = merge.step(drain=False)
    assert report is not None
    assert sorted(row["id"] for row in made.pipeline.rows("items").to_pylist()) == [10, 21, 22, 23]
    assert report.point.complete
    assert [(one.changes, one.late) for one in report.tables] == [(3, 0)]


def test_states_before_a_control_record_are_those_of_the_rows_before_it(spark: SparkSession, tmp_path: Path) -> None:
    made = shop(tmp_path, DEBEZIUM)
    made.write(
        "0.json",
        row_event(10, 1, 24001001, ts_ms=1_000),
        json.dumps({"ts_ms": 3_000}),
        mark("BEGIN", 2),
        row_event(20, 1, 24002001, ts_ms=3_000),
        mark("END", 2, 1),
    )
    made.pipeline.run(once=True)
    for time, expected in (("1970-01-01T00:00:02Z", [10]), ("1970-01-01T00:00:03Z", [10, 20])):
        assert [row["id"] for row in made.pipeline.rows("items", as_of=time).to_pylist()] == expected
    for number, expected in (("1", [10]), ("2", [10, 20])):
        assert [row["id"] for row in made.pipeline.rows("items", as_of_transaction=number).to_pylist()] == expected


@pytest.mark.parametrize("connector", ["postgresql", "mysql"])
def test_states_of_batches_with_control_records_in_between(spark: SparkSession, tmp_path: Path, connector: str) -> None:
    """A control record's time is that of the server's clock: it says nothing of the rows of its batch."""
    made = shop(tmp_path, DEBEZIUM)
    for number in (1, 2, 3):
        made.write(
            f"{number}.json",
            row_event(10 * number, 1, 100 * number, connector=connector, ts_ms=1_000 * number),
            json.dumps({"ts_ms": 1_000 * number + 500}),
            mark("BEGIN", number + 1, ts_ms=1_000 * (number + 1)),
        )
        (totals,) = made.pipeline.run(once=True)
        assert totals.late == 0
    for number in (1, 2, 3):
        state = made.pipeline.rows("items", as_of=f"1970-01-01T00:00:0{number}Z").to_pylist()
        assert sorted(row["id"] for row in state) == [10 * one for one in range(1, number + 1)]


def test_a_transaction_is_waited_for_until_all_is_there_that_its_mark_counts(
    spark: SparkSession, tmp_path: Path, passes: Callable[[int], None]
) -> None:
    """Marks are in a topic of their own, and may be read before what they count."""
    made = shop(tmp_path, DEBEZIUM, settle="100s")

    def shown_items() -> list[int]:
        return sorted(row["id"] for row in made.pipeline.rows("items").to_pylist())

    made.write("0.json", row_event(10, 1, 500), mark("END", 1, 1))
    made.pipeline.run(once=True)
    # One event twice, and a later transaction that is complete.
    twice = [row_event(22, 2, 602)] * 2
    made.write("1.json", row_event(21, 1, 601), *twice, mark("END", 2, 3), row_event(30, 1, 650), mark("END", 3, 1))
    ingest, merge = started(made)
    assert ingest.step() is not None
    assert merge.step(drain=False) is None
    made.write("2.json", row_event(23, 3, 603))
    assert ingest.step() is not None
    whole = merge.step(drain=False)
    assert whole is not None
    assert (whole.point.complete, shown_items()) == (True, [10, 21, 22, 23, 30])
    # What does not come is waited for once: it may be of a table that nobody reads.
    made.write("3.json", row_event(41, 1, 701), mark("END", 4, 2))
    assert ingest.step() is not None
    assert merge.step(drain=False) is None
    passes(100)
    assert ingest.step() is None
    part_of_it = merge.step(drain=False)
    assert part_of_it is not None
    assert (part_of_it.point.complete, shown_items()) == (False, [10, 21, 22, 23, 30, 41])
    made.write("4.json", row_event(51, 1, 801), mark("END", 5, 2))
    assert ingest.step() is not None
    at_once = merge.step(drain=False)
    assert at_once is not None
    assert (at_once.point.complete, shown_items()) == (True, [10, 21, 22, 23, 30, 41, 51])


def test_no_state_has_a_part_of_a_transaction_that_a_run_ended_in(spark: SparkSession, tmp_path: Path) -> None:
    """MySQL's times are those of statements: they differ within a transaction."""
    made = shop(tmp_path, DEBEZIUM)
    made.write("1.json", row_event(10, 1, 500, ts_ms=1_000))
    made.pipeline.run(once=True)
    made.write("2.json", row_event(21, 1, 601, ts_ms=2_000))
    made.pipeline.run(once=True)
    made.write("3.json", row_event(22, 2, 602, ts_ms=3_000), mark("END", 2, 2))
    made.pipeline.run(once=True)
    for time, expected in (("01", [10]), ("02.5", [10]), ("03", [10, 21, 22])):
        state = made.pipeline.rows("items", as_of=f"1970-01-01T00:00:{time}Z").to_pylist()
        assert sorted(row["id"] for row in state) == expected
