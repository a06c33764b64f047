"""A real PostgreSQL under load into a real Kafka, by runs that are killed: consumers get what the rows went through, each state once."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from changeling.feeds.verification import EQUAL, Received, verify_records
from changeling.pipelines.lakehouse import tables_of
from changeling.pipelines.loading import load
from tests.brokers.broker import Broker
from tests.feeds.audited_tables import Lives, audit, audited, under_load
from tests.feeds.kafka_feeds import received
from tests.log.lakes import Shop
from tests.postgres.server import Database
from tests.sources.captures import assert_equal, capture
from tests.sources.workloads import NAMES, TABLES

pytestmark = pytest.mark.usefixtures("spark")

ROWS = 110_000
"""So many that an initial scan has three parts."""
STAMPED = {"VIRTUAL_TIMESTAMPS": True, "BARRIERS_INTERVAL": "PT1S", "TOPIC_MIN_ACTIVE_PARTITIONS": 3}
JSON = {"FORMAT": "JSON", "MODE": "NEW_AND_OLD_IMAGES", "INITIAL_SCAN": True, **STAMPED}
EVENTS = {"FORMAT": "debezium-json", "MODE": "NEW_AND_OLD_IMAGES", "INITIAL_SCAN": True}
Declared = dict[str, tuple[str, str, dict[str, Any]]]
"""Feeds by their names: what they are copied to, their tables and options."""
FIRST: Declared = {
    "stamped": ("kafka", "keyed", JSON),
    "events": ("kafka", "keyed", EVENTS),
    "documents": ("kafka", "whole", {**EVENTS, "FORMAT": "xtdb"}),
    "altered": ("kafka", "shaped", {**JSON, "SCHEMA_CHANGES": True}),
    "filed": ("files", "keyed", {**JSON, "RETENTION_PERIOD": "P1D"}),
    "brief": ("table", "keyed", {**JSON, "RETENTION_PERIOD": "PT15S"}),
}
LATER: Declared = {"scanned": ("kafka", "big", JSON), "scanned_here": ("table", "big", JSON)}
"""Their table is there and full when they are declared."""
SCAN = ("scan.before@2", "scan.after")
ONCE = ("retention.before", "retention.after")
"""Reached by a run that comes to its end; the others by one that continues."""
STAGES = (
    *("feed.before", "feed.after", "kafka.sent", "kafka.committed", "files.planned", "files.staged", "files.written"),
    *("replica.after", "point.after", *ONCE),
)
LINES = (b" batch ", b"replicas: point ", b" feed ", b" feed ")
"""Of the log of a run: it is killed some time after one of them."""
ALTERED = (
    "ALTER TABLE shaped ADD COLUMN w int; UPDATE shaped SET w = 7 WHERE id % 50 = 0",
    "ALTER TABLE shaped RENAME COLUMN w TO x",
    "ALTER TABLE shaped DROP COLUMN x",
    "ALTER TABLE shaped ADD COLUMN w text DEFAULT 'given'; UPDATE shaped SET w = 'other' WHERE id % 50 = 1",
    "ALTER TABLE keyed ADD COLUMN extra int",
    "ALTER TABLE big ADD COLUMN extra int",
)
_SECONDS = 120
"""A run that does not come to its place in this time is killed where it is."""
_TRIES = 2


def declared(feeds: Declared, broker: Broker, prefix: str, folder: Path) -> list[dict[str, Any]]:
    topics = {
        "kafka": {"type": "kafka", "servers": broker.servers, "name": f"{prefix}.{{feed}}"},
        "files": {"type": "files", "path": str(folder / "out"), "file_bytes": 20_000, "file_time": "1s"},
    }
    made = []
    for name, (kind, table, options) in feeds.items():
        topic = {} if kind == "table" else {"topic": topics[kind]}
        made.append({"name": name, "table": f"public.{table}", "with": options, **topic})
    return made


def killed(made: Shop, chance: random.Random, place: str | None) -> bool:
    """A run that is killed: at a place, or at some time after a line of its log. Returns whether it came there."""
    environment, line = {**os.environ}, chance.choice(LINES)
    command = [sys.executable, "-m", "changeling", "run", made.file.name]
    if place is not None:
        environment["CHANGELING_FAILPOINT"], line = f"{place}=kill", b""
        command += ["--once"] * (place in ONCE)
    with (
        (made.folder / "said").open("wb") as said,
        subprocess.Popen(
            command, cwd=made.folder, env=environment, stdout=said, stderr=said, start_new_session=True
        ) as running,
    ):
        end = time.monotonic() + _SECONDS
        while line not in (made.folder / "said").read_bytes() and running.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        try:
            code = running.wait(_SECONDS if place else chance.uniform(0, 4))
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            return place is None
    assert code in (0, -signal.SIGKILL), (made.folder / "said").read_text()
    return code != 0


class Kills:
    """Kills runs of a pipeline, and counts where."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.met: dict[str, int] = defaultdict(int)

    def at(self, made: Shop, place: str | None) -> None:
        for _ in range(_TRIES):
            if killed(made, self._chance, place):
                self.met[place or "at any time"] += 1
                return


def in_kafka(made: Shop, broker: Broker, prefix: str, name: str) -> list[Received]:
    """The records of a feed, which keep what it promises, and make the replica."""
    (feed,) = (one for one in made.pipeline.feeds() if one.name == name)
    records = received(broker.servers, f"{prefix}.{name}", feed.partitions)
    found = verify_records(tables_of(load(made.file)), "shop", feed, records)
    assert (name, [str(fault) for fault in found.faults]) == (name, [])
    assert EQUAL in found.checks, found.not_checked
    copied: dict[int, list[Any]] = defaultdict(list)
    for partition, _, key, value, _ in records:
        copied[partition].append((key, value))
    published: dict[int, list[Any]] = defaultdict(list)
    for record in made.pipeline.read_feed(name):
        published[record.partition].append((record.key, record.value))
    assert copied == published
    return records


def of_ydb(record: Any) -> tuple[int, dict[str, Any] | None] | None:
    return None if "resolved" in record else (record["key"][0], record.get("newImage"))


def of_debezium(record: Any) -> tuple[int, dict[str, Any] | None]:
    after = record["after"]
    return (after or record["before"])["id"], after


def of_document(record: Any) -> tuple[int, dict[str, Any] | None]:
    after, before = (json.loads(record[name] or "null") for name in ("after", "before"))
    return (after or before)["_id"], after


def lives(records: Iterable[Received], read: Callable[[Any], Any], columns: Iterable[str]) -> Lives:
    """What the records tell of each row."""
    found: Lives = defaultdict(list)
    for _, _, _, value, _ in records:
        one = None if value is None else read(json.loads(value))
        if one is not None:
            key, row = one
            found[key].append(None if row is None else tuple(map(_plain, map(row.get, columns))))
    return dict(found)


def _plain(value: Any) -> Any:
    return value if value is None else str(value)


def assert_lived(found: Lives, audited: Lives) -> None:
    """Each row went through the last of its states, as far back as the feed goes, one after another and each once."""
    for key, states in audited.items():
        own = found.get(key, [])
        assert own == states[max(len(states) - len(own), 0) :], key
        assert own or states[-1] is None, key


def in_files(made: Shop, name: str) -> None:
    """The files of a feed have what was published, each record once."""
    copied: dict[int, list[Any]] = defaultdict(list)
    for file in sorted((made.folder / "out").glob("0*")):
        copied[int(file.name.partition("-")[0])] += file.read_bytes().splitlines()
    published: dict[int, list[Any]] = defaultdict(list)
    for record in made.pipeline.read_feed(name):
        published[record.partition].append(record.value)
    assert copied == published


def hostile(seed: int, folder: Path, broker: Broker, database: Database) -> dict[str, int]:
    """Kills runs at every stage while all tables change, one is scanned, some are snapshotted again, and columns come and go.

    Returns how often runs were killed where.
    """
    chance, prefix = random.Random(seed), f"killed{seed}"
    database.execute(*TABLES, *(f"CREATE TABLE {one} (id int PRIMARY KEY, v text)" for one in ("big", "shaped")))
    for table in ("keyed", "whole", "big"):
        audit(database, table, ["v"])
    database.execute(f"INSERT INTO big SELECT g, 'row ' || g FROM generate_series(1, {ROWS}) g")
    database.execute("INSERT INTO shaped SELECT g, 'row ' || g FROM generate_series(1, 2000) g")
    changes = (
        f"UPDATE big SET v = 'now {{0}}' WHERE id = {{0}} % {ROWS} + 1",
        f"DELETE FROM big WHERE id = {{0}} % {ROWS} + 1",
        "INSERT INTO big VALUES ({0}, 'new') ON CONFLICT DO NOTHING",
        "UPDATE shaped SET v = 'now {0}' WHERE id = {0} % 2000 + 1",
        "INSERT INTO shaped (id, v) VALUES ({0} % 3000, 'new') ON CONFLICT (id) DO UPDATE SET v = 'again {0}'",
        "DELETE FROM shaped WHERE id = {0} % 3000",
    )
    made = capture(folder, database, feeds=declared(FIRST, broker, prefix, folder))
    made.pipeline.run(once=True)
    kills, altered = Kills(chance), iter(ALTERED)
    stages = [*chance.sample(STAGES, len(STAGES)), None]
    with under_load(database.url, seed, *changes):
        for number, place in enumerate(stages):
            if number == len(stages) // 2:
                made = capture(folder, database, feeds=declared({**FIRST, **LATER}, broker, prefix, folder))
                for scanning in SCAN:
                    kills.at(made, scanning)
            if number % 4 == 1:
                made.pipeline.snapshot(["public.keyed", "public.shaped"])
            if (statement := next(altered, None)) is not None:
                database.execute(statement)
            kills.at(made, place)
    made.pipeline.run(once=True)
    assert_equal(made, database, *NAMES, "big", "shaped")
    assert made.rejects() == []
    records = {
        name: in_kafka(made, broker, prefix, name) for name, one in {**FIRST, **LATER}.items() if one[0] == "kafka"
    }
    in_files(made, "filed")
    for feed in made.pipeline.feeds():
        found = made.pipeline.verify_feed(feed.name)
        assert (feed.name, [str(fault) for fault in found.faults]) == (feed.name, [])
        assert EQUAL in found.checks or feed.name == "brief", (feed.name, found.not_checked)
    assert_lived(lives(records["stamped"], of_ydb, ["v"]), audited(database, "keyed"))
    assert_lived(lives(records["events"], of_debezium, ["v"]), audited(database, "keyed"))
    assert_lived(lives(records["documents"], of_document, ["v"]), audited(database, "whole"))
    assert_lived(lives(records["scanned"], of_ydb, ["v"]), audited(database, "big"))
    made.pipeline.remove()
    assert set(kills.met) >= {*STAGES, *SCAN}, "some stages were never met"
    return kills.met


@pytest.mark.soak
def test_feeds_of_runs_that_are_killed(
    tmp_path: Path, broker: Broker, database: Database, record_property: Callable[[str, object], None]
) -> None:
    seed = random.SystemRandom().randrange(10**6)
    record_property("seed", seed)
    record_property("kills", dict(hostile(seed, tmp_path, broker, database)))
