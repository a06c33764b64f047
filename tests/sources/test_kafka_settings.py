import pytest
from pyspark.sql import SparkSession

from changeling.model.errors import UsageError
from changeling.sources.kafka_settings import checked, checked_topics
from tests.sources.kafka_reading import kafka_source


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("bootstrap.servers", "`servers` says it"),
        ("group.id", "no consumer group is used"),
        ("group.instance.id", "no consumer group is used"),
        ("group.protocol", "no consumer group is used"),
        ("auto.offset.reset", "`start` says where it begins"),
        ("enable.auto.commit", "nothing is committed"),
        ("auto.commit.interval.ms", "nothing is committed"),
        ("key.deserializer", "read as bytes"),
        ("value.deserializer", "read as bytes"),
        ("interceptor.classes", "may change or drop records"),
        ("allow.auto.create.topics", "never creates a topic"),
        ("Group.Id", "no consumer group is used"),
        ("isolation.level", "can only be 'read_committed'"),
        ("kafka.security.protocol", "without 'kafka.' in front"),
    ],
)
def test_settings_that_would_change_what_is_read_are_refused(name: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        checked({name: "hush-hush"}, "bus")
    assert str(refused.value).startswith("source 'bus': ")
    assert name in str(refused.value)
    assert why in str(refused.value)
    assert "hush-hush" not in str(refused.value)


def test_other_settings_are_taken_as_text() -> None:
    given: dict[str, str | int | float | bool] = {
        "isolation.level": "READ_COMMITTED",
        "max.poll.records": 10,
        "check.crcs": False,
        "x": "True",
    }
    assert checked(given, "bus") == {
        "isolation.level": "READ_COMMITTED",
        "max.poll.records": "10",
        "check.crcs": "false",
        "x": "True",
    }


@pytest.mark.parametrize("topics", [[], ["a", "b c"], [""], ["a" * 250], ["a/b"]])
def test_topics_that_cannot_be_are_refused(topics: list[str]) -> None:
    with pytest.raises(UsageError, match="source 'bus'"):
        checked_topics(topics, "bus")


def test_a_setting_that_kafka_does_not_know_is_reported(spark: SparkSession) -> None:
    source = kafka_source(spark, "localhost:9092", "a", settings={"sasl.mechansim": "PLAIN", "client.id": "me"})
    assert source.warnings() == ["Kafka has no setting 'sasl.mechansim'; did you mean 'sasl.mechanism'?"]


def test_a_batch_without_records_is_refused(spark: SparkSession) -> None:
    with pytest.raises(UsageError, match="one record at least, not 0"):
        kafka_source(spark, "localhost:9092", "a", batch_records=0)
