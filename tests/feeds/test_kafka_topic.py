import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from changeling.feeds import kafka_sender
from changeling.feeds.kafka_cluster import Interrupted
from changeling.feeds.kafka_topic import Copied
from changeling.iceberg.failpoints import FailpointReached
from changeling.model.errors import ChangelingError, UsageError
from tests.brokers.broker import Broker, User
from tests.brokers.fixtures import ALICE
from tests.brokers.topics import Topics
from tests.feeds.kafka_feeds import KafkaFeed, Row, consumed, rows

ROOT = Path(__file__).parents[2]
HOUR = timedelta(hours=1)
ODD = [
    Row(None, b"no key"),
    Row(b"", b""),
    Row(b"tombstone", None),
    Row(b"\xff\x00", b"\x00\xfe", (("a", b"1"), ("a", None), ("é", b""))),
    Row(b"plain", b"x" * 5_000),
]


@pytest.fixture(autouse=True)
def _no_failpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHANGELING_FAILPOINT", raising=False)


@pytest.fixture
def short_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_sender, "TRANSACTION_RECORDS", 7)


def configuration(broker: Broker, topic: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": broker.servers, "log_level": 0})
    found = admin.describe_configs([resource])[resource].result(10)
    return {name: entry.value for name, entry in found.items()}


def test_every_record_is_copied_once_and_in_order(tmp_path: Path, broker: Broker, short_transactions: None) -> None:
    feed = KafkaFeed(tmp_path, "once", 3)
    writer = feed.writer(broker.servers)
    assert writer.step() is None
    feed.append({0: rows(range(20)), 2: ODD})
    assert writer.step() == Copied("once", 25, [])
    assert writer.step() is None
    feed.append({0: rows(range(20, 30)), 1: rows(range(3))})
    assert feed.writer(broker.servers).step() == Copied("once", 13, [])
    assert consumed(broker.servers, "once", 3) == {0: rows(range(30)), 1: rows(range(3)), 2: ODD}
    found = configuration(broker, "once")
    assert {
        name: found[name] for name in ("retention.ms", "segment.ms", "message.timestamp.type", "cleanup.policy")
    } == {
        "retention.ms": "86400000",
        "segment.ms": "21600000",
        "message.timestamp.type": "LogAppendTime",
        "cleanup.policy": "delete",
    }
    assert configuration(broker, "once.changeling-progress")["cleanup.policy"] == "compact"


@pytest.mark.parametrize("point", ["kafka.sent@4", "kafka.committed"])
def test_a_process_that_is_killed_sends_nothing_twice(tmp_path: Path, broker: Broker, point: str) -> None:
    topic = point.replace("@", "-")
    feed = KafkaFeed(tmp_path, topic, 2)
    feed.append({0: rows(range(50)), 1: rows(range(5))})
    killed = subprocess.run(
        [sys.executable, "-m", "tests.feeds.kafka_feeds", str(tmp_path), topic, "2", broker.servers],
        cwd=ROOT,
        env={**os.environ, "CHANGELING_FAILPOINT": f"{point}=kill"},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    feed.writer(broker.servers).step()
    feed.append({1: rows(range(5, 9))})
    assert feed.writer(broker.servers).step() == Copied(topic, 4, [])
    assert consumed(broker.servers, topic, 2) == {0: rows(range(50)), 1: rows(range(9))}


@pytest.mark.parametrize("point", ["kafka.sent", "kafka.committed"])
def test_a_step_that_failed_goes_on(
    tmp_path: Path, broker: Broker, short_transactions: None, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    topic = f"failed-{point}"
    feed = KafkaFeed(tmp_path, topic)
    writer = feed.writer(broker.servers)
    feed.append({0: rows(range(30))})
    for passed in (1, 4):
        monkeypatch.setenv("CHANGELING_FAILPOINT", f"{point}@{passed}")
        with pytest.raises(FailpointReached):
            writer.step()
    monkeypatch.delenv("CHANGELING_FAILPOINT")
    writer.step()
    assert consumed(broker.servers, topic) == {0: rows(range(30))}


def test_what_may_not_have_arrived_is_asked_for_and_sent_again(
    tmp_path: Path, broker: Broker, short_transactions: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection breaks before one transaction is committed, and after another: the client does not learn which."""
    passed: list[str] = []

    def broken(point: str) -> None:
        passed.append(point)
        if (point, passed.count(point)) in (("kafka.sent", 3), ("kafka.committed", 4)):
            raise Interrupted("the connection broke")

    monkeypatch.setattr(kafka_sender, "reach", broken)
    feed = KafkaFeed(tmp_path, "half_sent")
    feed.append({0: rows(range(40))})
    assert feed.writer(broker.servers).step() == Copied("half_sent", 40, [])
    assert consumed(broker.servers, "half_sent") == {0: rows(range(40))}


def test_a_transaction_ends_when_its_time_is_up(
    tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_sender, "_TRANSACTION_SECONDS", 0)
    monkeypatch.setattr(kafka_sender, "_RECORDS_BETWEEN_LOOKS", 4)
    feed = KafkaFeed(tmp_path, "slow")
    feed.append({0: rows(range(10))})
    assert feed.writer(broker.servers).step() == Copied("slow", 10, [])
    assert consumed(broker.servers, "slow") == {0: rows(range(10))}
    (progress,) = consumed(broker.servers, "slow.changeling-progress").values()
    assert [json.loads(record.value or b"")["next"] for record in progress] == [0, 4, 8, 10]
    assert {record.key for record in progress} == {b"id-of-slow/0"}


def test_of_two_writers_the_older_one_is_fenced(tmp_path: Path, broker: Broker) -> None:
    feed = KafkaFeed(tmp_path, "doubles")
    older, newer = feed.writer(broker.servers), feed.writer(broker.servers)
    feed.append({0: rows(range(4_000))})
    assert older.step() == Copied("doubles", 4_000, [])
    assert newer.step() is None
    feed.append({0: rows(range(4_000, 4_003))})
    with pytest.raises(ChangelingError, match=r"^feed 'orders': Kafka at .* another process copies to the same topic"):
        older.step()
    assert newer.step() == Copied("doubles", 3, [])
    assert older.step() is None
    feed.append({0: rows(range(4_003, 4_006))})
    assert older.step() == Copied("doubles", 3, [])
    with pytest.raises(ChangelingError, match="another process"):
        newer.step()
    assert consumed(broker.servers, "doubles") == {0: rows(range(4_006))}


def test_a_topic_of_others_is_refused_and_left_as_it_is(tmp_path: Path, broker: Broker) -> None:
    topics = Topics(broker)
    topics.make("wide", 2)
    topics.make("filled")
    topics.send("filled", b"theirs")
    with pytest.raises(UsageError, match="'wide' has 2 partitions, the feed has 1: choose another name"):
        KafkaFeed(tmp_path / "wide", "wide").writer(broker.servers).step()
    before = configuration(broker, "filled")
    with pytest.raises(UsageError, match="'filled' has records that are not this feed's"):
        KafkaFeed(tmp_path / "filled", "filled").writer(broker.servers).step()
    assert configuration(broker, "filled") == before
    assert consumed(broker.servers, "filled") == {0: [Row(None, b"theirs")]}

    feed = KafkaFeed(tmp_path / "owner", "owned")
    owner = feed.writer(broker.servers)
    owner.step()
    with pytest.raises(UsageError, match="'owned' belongs to another feed, 'orders' with the id id-of-owned"):
        KafkaFeed(tmp_path / "other", "owned", id="another").writer(broker.servers).step()
    feed.append({0: rows(range(3))})
    assert owner.step() == Copied("owned", 3, [])


def test_an_empty_topic_that_agrees_is_taken_and_one_that_was_deleted_is_not(tmp_path: Path, broker: Broker) -> None:
    topics = Topics(broker)
    topics.make("prepared", 2)
    feed = KafkaFeed(tmp_path, "prepared", 2, retention=None)
    feed.append({1: rows(range(3))})
    assert feed.writer(broker.servers).step() == Copied("prepared", 3, [])
    found = configuration(broker, "prepared")
    assert (found["retention.ms"], found["message.timestamp.type"]) == ("-1", "LogAppendTime")
    topics.delete("prepared")
    gone = r"'prepared' was deleted .* delete 'prepared\.changeling-progress' as well"
    with pytest.raises(UsageError, match=gone):
        feed.writer(broker.servers).step()
    topics.make("prepared", 2)
    with pytest.raises(UsageError, match=gone):
        feed.writer(broker.servers).step()
    topics.delete("prepared")
    topics.delete("prepared.changeling-progress")
    assert feed.writer(broker.servers).step() == Copied("prepared", 3, [])


def test_an_altered_retention_is_applied(tmp_path: Path, broker: Broker) -> None:
    for seconds in (86_400, 3_600, 30 * 86_400):
        KafkaFeed(tmp_path, "kept", retention=seconds).writer(broker.servers).step()
        found = configuration(broker, "kept")
        quarter = min(seconds * 250, 7 * 86_400_000)
        assert (found["retention.ms"], found["segment.ms"]) == (str(seconds * 1000), str(quarter))


def test_expired_records_are_copied_and_deleted_ones_are_reported(tmp_path: Path, broker: Broker) -> None:
    feed = KafkaFeed(tmp_path, "gaps", 2, retention=3_600)
    writer = feed.writer(broker.servers)
    feed.append({0: rows(range(10)), 1: rows(range(4))}, at=datetime.now(UTC) - 2 * HOUR)
    assert writer.step() == Copied("gaps", 14, [])
    feed.append({0: rows(range(10, 20)), 1: rows(range(4, 8))}, at=datetime.now(UTC) - 2 * HOUR)
    feed.delete("offset < 13")
    sentence = (
        "partition {}: the records from offset {} to {} were deleted from the feed's table before they were copied "
    )
    lost = [f"{sentence.format(*gap)}to the Kafka topic 'gaps'" for gap in ((0, 10, 12), (1, 4, 7))]
    assert writer.step() == Copied("gaps", 7, lost)
    feed.append({0: rows(range(20, 30))})
    feed.delete("offset < 30")
    assert feed.writer(broker.servers).step() == Copied(
        "gaps", 0, [sentence.format(0, 20, 29) + "to the Kafka topic 'gaps'"]
    )
    feed.append({0: rows(range(30, 32))})
    assert feed.writer(broker.servers).step() == Copied("gaps", 2, [])
    assert consumed(broker.servers, "gaps", 2) == {
        0: rows([*range(10), *range(13, 20), *range(30, 32)]),
        1: rows(range(4)),
    }


def test_a_table_that_is_older_than_the_copy_is_refused(tmp_path: Path, broker: Broker) -> None:
    feed = KafkaFeed(tmp_path / "present", "restored")
    feed.append({0: rows(range(9))})
    feed.writer(broker.servers).step()
    older = KafkaFeed(tmp_path / "past", "restored")
    older.append({0: rows(range(5))})
    with pytest.raises(ChangelingError, match=r"9 records of partition 0 were copied .* the feed's table has only 5"):
        older.writer(broker.servers).step()


def test_a_record_that_is_too_large_is_named_as_such(tmp_path: Path, broker: Broker) -> None:
    feed = KafkaFeed(tmp_path, "too_large")
    feed.append({0: [Row(b"k", b"x" * 2_000_000)]})
    writer = feed.writer(broker.servers)
    with pytest.raises(ChangelingError, match=r"a record is larger than the topic allows: raise max.message.bytes"):
        writer.step()
    assert consumed(broker.servers, "too_large") == {}


def by_password(user: User) -> dict[str, str]:
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": user.jaas()}


def by_certificate(broker: Broker) -> dict[str, str]:
    assert broker.certificate is not None
    store = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(broker.certificate.trusted)}
    return {"security.protocol": "SSL", **store}


@pytest.fixture
def guarded_feed(tmp_path: Path) -> KafkaFeed:
    feed = KafkaFeed(tmp_path, tmp_path.name)
    feed.append({0: rows(range(3))})
    return feed


def test_a_user_logs_in(guarded_feed: KafkaFeed, guarded_broker: Broker) -> None:
    writer = guarded_feed.writer(guarded_broker.password_servers, client=by_password(ALICE))
    writer.step()
    assert consumed(guarded_broker.servers, writer.name) == {0: rows(range(3))}


def test_tls_with_a_certificate_of_its_own_is_used(guarded_feed: KafkaFeed, guarded_broker: Broker) -> None:
    writer = guarded_feed.writer(guarded_broker.tls_servers, client=by_certificate(guarded_broker))
    writer.step()
    assert consumed(guarded_broker.servers, writer.name) == {0: rows(range(3))}


@pytest.mark.parametrize(
    ("listener", "client", "reason"),
    [
        ("password_servers", by_password(User("alice", "hush-hush")), "the login was refused"),
        ("tls_servers", {"security.protocol": "SSL"}, "the TLS handshake failed"),
        (
            "tls_servers",
            {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": "/hush-hush"},
            "the client settings cannot be used: check ssl.truststore.location",
        ),
        ("servers", {"security.protocol": "hush-hush"}, "check security.protocol"),
    ],
)
def test_a_refusal_keeps_secrets(
    guarded_feed: KafkaFeed,
    guarded_broker: Broker,
    capfd: pytest.CaptureFixture[str],
    listener: str,
    client: dict[str, Any],
    reason: str,
) -> None:
    address = getattr(guarded_broker, listener)
    with pytest.raises(ChangelingError) as refused:
        guarded_feed.writer(address, client=client).step()
    assert str(refused.value).startswith(f"feed 'orders': Kafka at {address}: ")
    assert reason in str(refused.value)
    assert "hush-hush" not in str(refused.value)
    assert capfd.readouterr().err == ""
