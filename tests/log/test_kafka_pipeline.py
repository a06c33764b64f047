"""Topics of a real broker into the log: XTDB's topics of one database are one source, and nothing is lost or doubled."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from changeling.iceberg.failpoints import FailpointReached
from changeling.log import log_tables
from tests.brokers.broker import Broker
from tests.brokers.fixtures import ALICE
from tests.brokers.topics import Sent, Topics
from tests.log.lakes import Shop, event
from tests.log.lakes import log_only as shop

SEED = Path(__file__).parents[1] / "golden" / "xtdb" / "seed-transaction" / "input.jsonl"
FAILPOINTS = ("plan.after", "read.after", "rejects.after", "changes.after")


def bus(folder: Path, broker: Broker, prefix: str, **more: Any) -> Shop:
    source = {"name": "bus", "type": "kafka", "servers": broker.servers, "topics": [f"{prefix}*"], "format": "xtdb"}
    return shop(folder, {**source, **more})


def ids(made: Shop) -> list[tuple[str, int]]:
    """The transaction of each change and its place in it, by position."""
    rows = sorted(made.log(), key=lambda row: str(row["position"]))
    return [(row["transaction"]["id"], row["transaction"]["order"]) for row in rows]


def filled(topics: Topics, prefix: str) -> None:
    """Three topics of two partitions, with a record that is none."""
    for table in ("users", "orders", "items"):
        topics.make(f"{prefix}{table}", 2)
        for number in range(10):
            topics.send(f"{prefix}{table}", event(number, table=table).encode(), partition=number % 2)
    topics.send(f"{prefix}users", b"broken")


def test_002_01_and_002_16_topics_by_pattern_are_one_source_with_one_order(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topics, prefix = Topics(broker), f"xtdb.{uuid4().hex}."
    events = [line for line in SEED.read_bytes().splitlines() if line.strip()]
    tables = [json.loads(text)["source"]["table"] for text in events]
    assert len(set(tables)) > 1
    for table in set(tables):
        topics.make(f"{prefix}{table}")
    sent = [
        Sent(f"{prefix}{table}", 0, -1, text, b"user-1", (("h", b"v"),))
        for table, text in zip(tables, events, strict=True)
    ]
    # Topics are read in no order of their own.
    places = topics.send_all(reversed(sent))
    made = bus(tmp_path, broker, prefix)
    (totals,) = made.pipeline.run(once=True)
    assert (totals.read, totals.accepted, totals.rejected) == (len(events), len(events), 0)
    carried = [json.loads(text)["transaction"] for text in events]
    assert ids(made) == [(one["id"], one["data_collection_order"]) for one in carried]
    found = sorted((row["origin"]["topic"], row["origin"]["partition"], row["origin"]["offset"]) for row in made.log())
    assert found == sorted((place.topic, place.partition, place.offset) for place in places)
    assert {row["source"] for row in made.log()} == {"bus"}


def failed(made: Shop, point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as environment:
        environment.setenv("CHANGELING_FAILPOINT", point)
        with pytest.raises(FailpointReached):
            made.pipeline.run(once=True)


def arrived_once(made: Shop, count: int) -> None:
    origins = [tuple(row["origin"].values()) for row in made.log()]
    assert len(origins) == len(set(origins)) == count
    assert [row["raw"] for row in made.rows(log_tables.REJECTS)] == [b"broken"]


def test_failures_at_every_point_one_after_another_are_made_good(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run makes good what the one before left, and fails a little later."""
    topics, prefix = Topics(broker), f"{uuid4().hex}."
    filled(topics, prefix)
    made = bus(tmp_path, broker, prefix, batch_records=12)
    # The second time: there is a batch before it whose state must not be lost.
    failed(made, f"{FAILPOINTS[0]}@2", monkeypatch)
    for point in FAILPOINTS[1:]:
        failed(made, point, monkeypatch)
    topics.send(f"{prefix}users", event(99).encode())
    made.pipeline.run(once=True)
    arrived_once(made, 31)
    assert made.pipeline.run(once=True)[0].read == 0


@pytest.mark.soak
@pytest.mark.parametrize("point", FAILPOINTS)
def test_a_failure_is_made_good(
    point: str, spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics, prefix = Topics(broker), f"{uuid4().hex}."
    filled(topics, prefix)
    made = bus(tmp_path, broker, prefix, batch_records=12)
    failed(made, f"{point}@{1 if 'rejects' in point else 2}", monkeypatch)
    topics.send(f"{prefix}users", event(99).encode())
    made.pipeline.run(once=True)
    arrived_once(made, 31)
    assert made.pipeline.run(once=True)[0].read == 0


# A killed process is the same for every source: runs on files are killed in each run of the tests.
@pytest.mark.soak
def test_a_killed_run_goes_on(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topics, prefix = Topics(broker), f"{uuid4().hex}."
    filled(topics, prefix)
    made = bus(tmp_path, broker, prefix, batch_records=12)
    environment = {**os.environ, "CHANGELING_FAILPOINT": "changes.before@2=kill"}
    call = [sys.executable, "-m", "changeling", "run", str(made.file), "--once"]
    done = subprocess.run(call, env=environment, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    made.pipeline.run(once=True)
    arrived_once(made, 30)


def test_places_of_arrival_differ_over_topics(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topics, prefix = Topics(broker), f"{uuid4().hex}."
    for name in ("a", "b"):
        topics.make(f"{prefix}{name}")
        topics.send(f"{prefix}{name}", b'{"key":[1],"update":{"from":"%b"}}' % name.encode())
    made = bus(tmp_path, broker, prefix, format="ydb-json", table="users", key=["id"])
    made.pipeline.run(once=True)
    rows = made.log()
    assert [row["arrived"] for row in rows] == [True, True]
    assert len({row["position"] for row in rows}) == 2


def test_a_password_reaches_neither_output_nor_tables(
    spark: SparkSession, guarded_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{ALICE.name}" password="wrong-word";'
    monkeypatch.setenv("LOGIN", login)
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "${LOGIN}"}
    made = bus(tmp_path, guarded_broker, "x.", kafka=settings)
    yaml = made.file.read_text().replace(guarded_broker.servers, guarded_broker.password_servers)
    made.file.write_text(yaml)
    call = [sys.executable, "-m", "changeling", "run", str(made.file), "--once"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    everything = (
        done.stdout
        + done.stderr
        + "".join(
            path.read_bytes().decode(errors="replace")
            for path in tmp_path.rglob("*")
            if path.is_file() and path != made.file
        )
    )
    assert "wrong-word" not in everything
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 3, done.stderr
