import time

import pytest
from pyspark.sql import SparkSession

from changeling.model.errors import ChangelingError
from tests.brokers.broker import Broker, User
from tests.brokers.fixtures import ALICE
from tests.brokers.topics import Sent, Topics
from tests.sources.kafka_reading import drain, kafka_source, read_all

IMPATIENT = {"default.api.timeout.ms": "2000", "request.timeout.ms": "1000"}


@pytest.fixture(scope="module")
def sent(guarded_broker: Broker) -> list[Sent]:
    topics = Topics(guarded_broker)
    topics.make("guarded")
    return topics.send("guarded", b"1", b"2")


def by_password(user: User) -> dict[str, str]:
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": user.jaas()}


def by_certificate(broker: Broker) -> dict[str, str]:
    assert broker.certificate is not None
    return {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(broker.certificate.trusted),
    }


def test_a_user_logs_in_to_plan_and_to_read(spark: SparkSession, guarded_broker: Broker, sent: list[Sent]) -> None:
    source = kafka_source(spark, guarded_broker.password_servers, "guarded", settings=by_password(ALICE))
    assert read_all(spark, source, drain(source)) == sent
    assert source.warnings() == []


def test_tls_with_a_certificate_of_its_own_is_read(
    spark: SparkSession, guarded_broker: Broker, sent: list[Sent]
) -> None:
    source = kafka_source(spark, guarded_broker.tls_servers, "guarded", settings=by_certificate(guarded_broker))
    assert read_all(spark, source, drain(source)) == sent


@pytest.mark.parametrize(
    ("listener", "settings", "reason"),
    [
        ("password_servers", by_password(User("alice", "hush-hush")), "the login was refused"),
        ("password_servers", by_password(User("hush-hush", "x")), "the login was refused"),
        ("tls_servers", {"security.protocol": "SSL"}, "the TLS handshake failed"),
        ("tls_servers", {"security.protocol": "SSL", "ssl.truststore.location": "/hush-hush"}, "does not exist"),
        ("servers", {"security.protocol": "hush-hush"}, "check security.protocol"),
        ("password_servers", {**by_password(ALICE), "sasl.jaas.config": "hush-hush"}, "sasl.jaas.config"),
        ("password_servers", IMPATIENT, "there was no answer in time"),
    ],
)
def test_a_refusal_is_reported_soon_and_keeps_secrets(
    spark: SparkSession,
    guarded_broker: Broker,
    capfd: pytest.CaptureFixture[str],
    listener: str,
    settings: dict[str, str],
    reason: str,
) -> None:
    address = getattr(guarded_broker, listener)
    source = kafka_source(spark, address, "guarded", settings=settings)
    begun = time.monotonic()
    with pytest.raises(ChangelingError) as refused:
        source.plan_next()
    assert time.monotonic() - begun < 20
    assert str(refused.value).startswith(f"source 'bus': Kafka at {address}: ")
    assert reason in str(refused.value)
    assert "hush-hush" not in str(refused.value)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("servers", "reason"),
    [
        ("127.0.0.1:1", "there was no answer in time"),
        ("no.such.host.invalid:9092", "there is no such address"),
        ("host-without-port", "there is no such address"),
    ],
)
def test_servers_that_are_not_there_are_reported_soon(spark: SparkSession, servers: str, reason: str) -> None:
    begun = time.monotonic()
    with pytest.raises(ChangelingError, match=f"^source 'bus': Kafka at {servers}: {reason}"):
        kafka_source(spark, servers, "any").plan_next()
    assert time.monotonic() - begun < 20
