"""A run that is watched from outside: its log, its metrics, its lag, and its pipeline file that changes meanwhile."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.request import urlopen
from uuid import uuid4

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from changeling.pipelines.lag import Lag, Reading, lag_of
from changeling.pipelines.loading import load
from changeling.sources.kafka_plan import KafkaPlan, SeenTopic, Span
from tests.brokers.broker import Broker
from tests.brokers.topics import Topics
from tests.log.commands import printed, printed_objects
from tests.log.lakes import SMALL, Shop, event, shop

PATIENCE = 240.0
FEED = {"name": "users_feed", "table": "users", "with": {"FORMAT": "JSON", "MODE": "NEW_IMAGE"}}


class Watched:
    """A run whose events are collected as they happen."""

    def __init__(self, made: Shop) -> None:
        self._file = made.folder / "events.jsonl"
        call = [sys.executable, "-m", "changeling", "run", str(made.file), "--json", "-v", "--metrics", "0"]
        with self._file.open("wb") as events:
            self.process = subprocess.Popen(call, stdout=events, stderr=subprocess.PIPE, text=True)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._file.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def wait_for(self, event: str, count: int = 1) -> dict[str, Any]:
        """The event of that name, when it has happened for the `count`-th time."""
        end = time.monotonic() + PATIENCE
        while len(found := [one for one in self.events if one["event"] == event]) < count:
            assert time.monotonic() < end, self.events
            assert self.process.poll() is None, self.events
            time.sleep(0.05)
        return found[count - 1]


def rewrite(made: Shop, change: Callable[[dict[str, Any]], object]) -> None:
    settings = yaml.safe_load(made.file.read_text())
    change(settings)
    made.file.write_text(yaml.safe_dump(settings, sort_keys=False))


def age(made: Shop, file: str, seconds: int) -> None:
    moment = time.time() - seconds
    os.utime(made.folder / "in" / file, (moment, moment))


@pytest.mark.services
def test_a_run_that_is_watched(tmp_path: Path) -> None:
    made = shop(tmp_path, spark=SMALL)
    made.write("a.json", event(1), event(2), "broken")
    run = Watched(made)
    try:
        run.wait_for("waiting")
        began = run.events
        assert [(one["event"], one["level"]) for one in began] == [
            *[("metrics", "info"), ("preparing", "info"), ("preparing", "info")],
            *[("reading", "debug"), ("batch", "warning"), ("schema", "info")],
            *[("merging", "debug"), ("merge", "info"), ("waiting", "debug")],
        ]
        times = [datetime.fromisoformat(one.pop("time")) for one in began]
        assert times == sorted(times)
        batch = began[4]
        assert batch.pop("seconds") > 0
        assert batch.pop("text").startswith("drop batch 1: 3 records, 2 changes, 1 rejected in ")
        counts = {"read": 3, "accepted": 2, "rejected": 1, "changes": 2, "late": 0}
        assert batch == {
            "level": "warning",
            "event": "batch",
            "pipeline": "shop",
            "source": "drop",
            "batch": 1,
            **counts,
        }
        metrics = scraped(began[0]["address"])
        assert metrics["changeling_records_total", "drop"] == 3
        assert metrics["changeling_rejected_records_total", "drop"] == 1
        assert metrics["changeling_changes_total", "drop", "mydb.users"] == 2
        # The last transaction has no end mark, and is merged when it has settled.
        assert metrics["changeling_merged_changes_total", "drop", "mydb.users"] in (1, 2)
        assert metrics["changeling_batch_seconds_count", "drop"] == 1
        assert metrics["changeling_source_backlog_files", "drop"] == 0
        assert metrics["changeling_source_lag_seconds", "drop"] == 0
        assert ("changeling_replica_lag_seconds", "drop") in metrics
        assert metrics["changeling_point",] in (1, 2)
        assert [name for name in metrics if "failing" in name[0]] == []
        with urlopen(f"{began[0]['address']}/readyz", timeout=10) as ready:
            assert json.load(ready) == {"status": "ready", "failing": {}}

        rewrite(made, lambda settings: settings.update(feeds=[FEED], warehouse="./elsewhere"))
        reloaded = run.wait_for("reloaded")
        left = ["warehouse (a run begins with it: stop it and run again)"]
        assert (reloaded["level"], reloaded["taken"], reloaded["left"]) == ("warning", ["feed users_feed (new)"], left)
        rewrite(made, lambda settings: settings.update(warehouse="./lake", sources=[]))
        refused = run.wait_for("reloaded", 2)
        assert refused["taken"] == []
        assert refused["left"] == [f"{made.file}:3: sources: must not be empty"]
        other = {"name": "other", "type": "files", "path": "in2/*.json", "format": "xtdb"}
        drop = {"name": "drop", "type": "files", "path": "in/*.json", "format": "xtdb"}
        rewrite(made, lambda settings: settings.update(sources=[drop, other]))
        assert run.wait_for("reloaded", 3)["taken"] == ["source other (new)"]
        made.write("../in2/b.json", event(3))
        made.write("c.json", event(4))
        assert run.wait_for("feed")["feed"] == "users_feed"
        while {one["source"] for one in run.events if one["event"] == "batch"} != {"drop", "other"}:
            time.sleep(0.05)
        run.wait_for("waiting", 2)
        sources = {row["name"]: row for row in printed_objects(made, "status") if row["kind"] == "source"}
        assert [(row["running"], row["read"], row["behind_files"]) for row in sources.values()] == [
            *[(True, 4, 0), (True, 1, 0)],
        ]
        assert scraped(began[0]["address"])["changeling_feed_records_total", "users_feed"] == 1
        run.process.send_signal(signal.SIGTERM)
        _, errors = run.process.communicate(timeout=60)
        assert (run.process.returncode, errors) == (3, "")
    finally:
        run.process.kill()
        run.process.communicate()
    assert [(one["event"], one.get("source"), one.get("read")) for one in run.events[-3:]] == [
        *[("stopping", None, None), ("total", "drop", 4), ("total", "other", 1)],
    ]

    made.write("d.json", event(5))
    age(made, "d.json", 7200)
    (row, *_) = printed_objects(made, "status")
    size = (made.folder / "in" / "d.json").stat().st_size
    assert (row["running"], row["behind_files"], row["behind_bytes"]) == (False, 1, size)
    assert 7200 <= row["behind_seconds"] < 7300
    shown = printed(made, "status").splitlines()
    (line,) = [line for line in shown if line.startswith("drop ") and "file" in line]
    assert line.split()[:7] == ["drop", "2.0", "h", "1", "file,", str(size), "bytes"]


def scraped(address: str) -> dict[tuple[str, ...], float]:
    """The metrics by name and labels, without that of the pipeline."""
    with urlopen(f"{address}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return {
        (sample.name, *(value for label, value in sorted(sample.labels.items()) if label not in ("pipeline", "le"))): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_backlog_of_topics(broker: Broker, tmp_path: Path) -> None:
    topics, prefix = Topics(broker), f"lag.{uuid4().hex}."
    read = topics.make(f"{prefix}users", 2)
    topics.send(read, b"1", b"2", b"3")
    topics.send(read, b"4", partition=1)
    topics.send(topics.make(f"{prefix}orders"), b"5")
    source = {"name": "bus", "type": "kafka", "servers": broker.servers, "topics": [f"{prefix}*"], "format": "xtdb"}
    loaded = load(shop(tmp_path, {**source, "kafka": {"max.poll.records": 10}}).file)
    (declared,) = loaded.definition.sources

    def lag(*plans: KafkaPlan) -> Lag:
        return lag_of(loaded, declared, Reading([plan.text() for plan in plans], None, running=False))

    began = lag()
    assert (began.records, began.error) == (5, None)
    assert began.seconds is not None
    assert 0 <= began.seconds < PATIENCE
    seen = (SeenTopic(f"{prefix}orders"), SeenTopic(read))
    first = KafkaPlan(seen, {read: {0: Span(0, 2), 1: Span(0, 1)}, f"{prefix}orders": {0: Span(0, 1)}})
    assert lag(first).records == 1
    assert lag(first, KafkaPlan(seen, {read: {0: Span(2, 3)}})) == Lag(0.0, records=0)
