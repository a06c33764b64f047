"""A real PostgreSQL under load into a real Kafka, by runs that are killed: consumers get what the rows went through, each state once."""

import json
import os
import random
import signal
import subprocess
import sys
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
FIRST = {"stamped": ("keyed", JSON), "events": ("keyed", EVENTS), "documents": ("whole", {**EVENTS, "FORMAT": "xtdb"})}
LATER = {"scanned": ("big", JSON)}
"""Its table is there and full when it is declared."""
PLACES = ("kafka.sent", "kafka.committed", "feed.before", "feed.after", "replica.after", "point.after")
LINES = (b" batch ", b"replicas: point ", b" feed ", b" feed ")
"""Of the log of a run: it is killed some time after one of them."""
KILLS = 18
_SECONDS = 60
"""A run that does not come to its place in this time is killed where it is."""


def declared(feeds: dict[str, tuple[str, dict[str, Any]]], broker: Broker, prefix: str) -> list[dict[str, Any]]:
    topic = {"type": "kafka", "servers": broker.servers, "name": f"{prefix}.{{feed}}"}
    return [
        {"name": name, "table": f"public.{table}", "with": options, "topic": topic}
        for name, (table, options) in feeds.items()
    ]


def killed(made: Shop, chance: random.Random, place: str | None) -> bool:
    """A run that is killed: at a place, or at some time after a line of its log. Returns whether it came there."""
    environment, line = {**os.environ}, chance.choice(LINES)
    if place is not None:
        environment["CHANGELING_FAILPOINT"], line = f"{place}=kill", LINES[0]
    with subprocess.Popen(
        [sys.executable, "-m", "changeling", "run", made.file.name],
        cwd=made.folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as running:
        assert running.stderr is not None
        said = b""
        while line not in said and (more := running.stderr.readline()):
            said += more
        assert line in said or running.wait() == -signal.SIGKILL, said
        try:
            running.wait(_SECONDS if place else chance.uniform(0, 4))
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            return place is None
    return True


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


def hostile(seed: int, kills: int, folder: Path, broker: Broker, database: Database) -> dict[str, int]:
    """Kills runs while all tables change, one is scanned, two are snapshotted again, and columns are added.

    Returns how often runs were killed where.
    """
    chance, prefix = random.Random(seed), f"killed{seed}"
    database.execute(*TABLES, "CREATE TABLE big (id int PRIMARY KEY, v text)")
    for table in ("keyed", "big"):
        audit(database, table, ["v"])
    database.execute(f"INSERT INTO big SELECT g, 'row ' || g FROM generate_series(1, {ROWS}) g")
    changes = (
        f"UPDATE big SET v = 'now {{0}}' WHERE id = {{0}} % {ROWS} + 1",
        f"DELETE FROM big WHERE id = {{0}} % {ROWS} + 1",
        "INSERT INTO big VALUES ({0}, 'new') ON CONFLICT DO NOTHING",
    )
    met: dict[str, int] = defaultdict(int)
    made = capture(folder, database, feeds=declared(FIRST, broker, prefix))
    places = ([*PLACES, None, None, None] * kills)[:kills]
    chance.shuffle(places)
    with under_load(database.url, seed, *changes):
        for number, place in enumerate(places):
            if number == kills // 4:
                made = capture(folder, database, feeds=declared({**FIRST, **LATER}, broker, prefix))
            if number in (kills // 2, kills * 3 // 4):
                made.pipeline.snapshot(["public.keyed", "public.big"])
            if number == kills * 2 // 3:
                database.execute(*(f"ALTER TABLE {table} ADD COLUMN extra int" for table in ("keyed", "big")))
            if killed(made, chance, place and f"{place}@{chance.randint(1, 3)}"):
                met[place or "at any time"] += 1
    made.pipeline.run(once=True)
    assert_equal(made, database, *NAMES, "big")
    assert made.rejects() == []
    all_feeds = {name: in_kafka(made, broker, prefix, name) for name in (*FIRST, *LATER)}
    assert_lived(lives(all_feeds["stamped"], of_ydb, ["v"]), audited(database, "keyed"))
    assert_lived(lives(all_feeds["events"], of_debezium, ["v"]), audited(database, "keyed"))
    assert_lived(lives(all_feeds["scanned"], of_ydb, ["v"]), audited(database, "big"))
    made.pipeline.remove()
    return met


@pytest.mark.soak
def test_feeds_of_runs_that_are_killed(
    tmp_path: Path, broker: Broker, database: Database, record_property: Callable[[str, object], None]
) -> None:
    seed = random.SystemRandom().randrange(10**6)
    record_property("seed", seed)
    record_property("kills", hostile(seed, KILLS, tmp_path, broker, database))
