"""What a feed's Kafka topic is called, and which settings its client takes: no broker is asked."""

import pytest

from changeling.feeds.feed import Feed
from changeling.feeds.kafka_settings import librdkafka_settings
from changeling.feeds.kafka_topic import KafkaTopicSettings, topic_name
from changeling.model.errors import UsageError
from changeling.model.table import TableName

ORDERS = TableName("shop", "public", "orders")
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def named(template: str, table: TableName = ORDERS, prefix: str = "cdc.") -> str:
    feed = Feed(name="f1", id="1", table=table, format="xtdb", mode="NEW_AND_OLD_IMAGES")
    return topic_name(feed, KafkaTopicSettings("any:9092", template, prefix))


def test_the_name_of_a_topic_is_a_template() -> None:
    assert named("{prefix}{table}") == "cdc.orders"
    assert named("{schema}-{table}.{feed}") == "public-orders.f1"
    assert named("fixed") == "fixed"


@pytest.mark.parametrize(
    ("template", "table", "reason"),
    [
        ("{tabel}", TableName(None, None, "a"), "has an unknown placeholder 'tabel'; did you mean 'table'?"),
        ("{}", TableName(None, None, "a"), "has an unknown placeholder ''"),
        ("{table", TableName(None, None, "a"), "has a brace without its pair"),
        ("{schema}.{table}", TableName(None, None, "a"), "needs a schema, and the table a has none"),
        ("{table}", TableName(None, None, "two words"), "gives 'two words': names have letters"),
        ("{table}", TableName(None, None, "a" * 230), "at most 229 of them"),
        ("..", TableName(None, None, "a"), "gives '..'"),
    ],
)
def test_a_template_that_gives_no_name_is_refused(template: str, table: TableName, reason: str) -> None:
    with pytest.raises(UsageError) as refused:
        named(template, table)
    assert str(refused.value).startswith("feed 'f1': the name of its Kafka topic")
    assert reason in str(refused.value)


def test_settings_of_java_clients_are_translated() -> None:
    assert librdkafka_settings(
        {
            "compression.type": "zstd",
            "max.request.size": 5_000_000,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": rf"""{PLAIN} required username="al ice" password="a\"b;c\\=d" ;""",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "ca.pem",
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": "me.p12",
            "ssl.keystore.password": "secret",
            "ssl.endpoint.identification.algorithm": "",
        },
        "feed 'f'",
    ) == {
        "compression.type": "zstd",
        "message.max.bytes": "5000000",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "al ice",
        "sasl.password": 'a"b;c\\=d',
        "ssl.ca.location": "ca.pem",
        "ssl.keystore.location": "me.p12",
        "ssl.keystore.password": "secret",
        "ssl.endpoint.identification.algorithm": "none",
    }
    scram = "x.ScramLoginModule required username=a password='b c';"
    assert librdkafka_settings({"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": scram}, "feed 'f'") == {
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "a",
        "sasl.password": "b c",
    }
    pem = {"ssl.keystore.type": "PEM", "ssl.keystore.location": "me.pem", "ssl.key.password": "x"}
    assert librdkafka_settings(pem, "feed 'f'") == {
        "ssl.certificate.location": "me.pem",
        "ssl.key.location": "me.pem",
        "ssl.key.password": "x",
    }


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            {"sasl.mechansim": "hush-hush"},
            "there is no Kafka setting 'sasl.mechansim' here; did you mean 'sasl.mechanism'?",
        ),
        ({"bootstrap.servers": "hush-hush"}, "cannot be set: `servers` says it"),
        ({"acks": "hush-hush"}, "cannot be set: every record is sent exactly once"),
        ({"kafka.acks": "hush-hush"}, "without 'kafka.' in front"),
        ({"sasl.mechanism": "hush-hush"}, "can be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": "hush-hush"}, "must be as PLAIN has it"),
        (
            {
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": "x.ScramLoginModule required username=a password=hush-hush;",
            },
            "….PlainLoginModule required",
        ),
        (
            {"ssl.truststore.location": "hush-hush"},
            "a trust store of type JKS cannot be read here: set ssl.truststore.type to PEM",
        ),
        (
            {"ssl.keystore.location": "hush-hush"},
            "a key store of type JKS cannot be read here: set ssl.keystore.type to PKCS12 or PEM",
        ),
        ({"ssl.keystore.type": "PKCS12", "ssl.keystore.location": "hush-hush"}, "ssl.keystore.password"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(UsageError) as refused:
        librdkafka_settings(settings, "feed 'f'")
    assert str(refused.value).startswith("feed 'f': ")
    assert reason in str(refused.value)
    assert "hush-hush" not in str(refused.value)
