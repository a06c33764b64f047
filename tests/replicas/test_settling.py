"""A transaction without an end mark is waited for by looks at its source: a slow run shows no part of one."""

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
    first = merge.step(end=False)
    assert (first is not None and first.point.complete, shown(made)) == (True, ["id-1", "id-4"])
    # The third event comes, and the run has no time to look.
    made.write("2.json", event(2))
    made.write("3.json", part(2))
    passes(110)
    assert merge.step(end=False) is None
    # Nor does it know more while its source is out of reach.
    with monkeypatch.context() as broken:
        broken.setattr(FilesSource, "next", unreadable)
        with pytest.raises(ChangelingError):
            ingest.step()
    assert merge.step(end=False) is None
    # Another run begins, and takes one of two batches that wait.
    ingest, merge = started(made)
    assert ingest.step() is not None
    report = merge.step(end=False)
    assert (report is None or report.point.complete, shown(made)) == (True, ["id-1", "id-2", "id-4"])
    # All of it is there: whether that is all is still to be waited for.
    assert ingest.step() is not None
    assert merge.step(end=False) is None
    passes(99)
    assert (ingest.step(), merge.step(end=False)) == (None, None)
    passes(1)
    assert merge.step(end=False) is None
    assert ingest.step() is None
    whole = merge.step(end=False)
    assert whole is not None
    assert (whole.point.complete, shown(made)) == (False, ["id-1", "id-2", "id-4", "id-5-0", "id-5-1", "id-5-2"])
    assert merge.step(end=False) is None


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
    report = merge.step(end=False)
    assert report is not None
    assert (report.point.complete, shown(made)) == (False, ["id-1", "id-2", "id-4", "id-6"])
    passes(110)
    assert (ingest.step(), merge.step(end=False)) == (None, None)


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
    assert merge.step(end=False) is not None
    assert shown(made) == ["id-1", "id-4"]
    log.progress = now
    assert merge.step(end=False) is not None
    assert shown(made) == ["id-1", "id-4", "id-5-0", "id-5-1", "id-5-2"]
