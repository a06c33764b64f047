import re

import pytest
from pyspark.sql import SparkSession

from changeling.model.errors import ChangelingError
from changeling.sources.kafka_plan import KafkaPlan
from changeling.spark.errors import SPARK_ERRORS, translate_error
from tests.brokers.broker import Broker
from tests.brokers.topics import Topics
from tests.sources.kafka_reading import drain, kafka_source, read, read_all


@pytest.fixture(scope="module")
def topics(broker: Broker) -> Topics:
    return Topics(broker)


def test_records_deleted_before_they_were_read_stop_the_source(
    spark: SparkSession, broker: Broker, topics: Topics
) -> None:
    topics.make("expired.stop", 2)
    topics.send("expired.stop", b"1", b"2", partition=1)
    source = kafka_source(spark, broker.servers, "expired.stop")
    drain(source)
    topics.send("expired.stop", b"3", b"4", b"5", partition=1)
    topics.cut("expired.stop", 1, 4)
    lost = "source 'bus': topic 'expired.stop' partition 1: offsets 2 to 3 were deleted before they were read"
    with pytest.raises(ChangelingError, match=re.escape(lost) + r".*set on_gap to 'skip'.*retention\.ms"):
        source.plan_next()


def test_records_deleted_before_they_were_read_are_left_out_where_that_is_wanted(
    spark: SparkSession, broker: Broker, topics: Topics
) -> None:
    topics.make("expired.skip")
    topics.send("expired.skip", b"1")
    source = kafka_source(spark, broker.servers, "expired.skip", on_gap="skip")
    plans = drain(source)
    sent = topics.send("expired.skip", b"2", b"3", b"4")
    topics.cut("expired.skip", 0, 3)
    plan = source.plan_next()
    assert plan == source.plan_next()
    assert plan is not None
    (warning,) = source.warnings()
    assert warning.startswith("topic 'expired.skip' partition 0: offsets 1 to 2 were deleted before they were read")
    assert read(spark, source, plan) == sent[2:]
    later = kafka_source(spark, broker.servers, "expired.skip", on_gap="fail")
    for made in [*plans, plan]:
        later.remember(made)
    assert later.plan_next() is None
    assert later.warnings() == []


def test_a_plan_whose_offsets_are_gone_is_broken_and_its_reading_fails(
    spark: SparkSession, broker: Broker, topics: Topics
) -> None:
    topics.make("broken")
    topics.send("broken", b"1", b"2", b"3")
    source = kafka_source(spark, broker.servers, "broken")
    plan = source.plan_next()
    assert plan is not None
    assert source.broken(plan) is None
    topics.cut("broken", 0, 2)
    reason = "topic 'broken' partition 0: offsets 0 to 1 were deleted before they were read, it begins at 2"
    assert source.broken(plan) == reason
    with pytest.raises(SPARK_ERRORS) as failure:
        read(spark, source, plan)
    assert "OffsetOutOfRange" in str(translate_error(failure.value))
    with pytest.raises(ChangelingError, match=re.escape(reason)):
        source.plan_next()


def test_a_broken_plan_is_recreated_with_what_is_left_where_that_is_wanted(
    spark: SparkSession, broker: Broker, topics: Topics
) -> None:
    topics.make("mended", 2)
    sent = topics.send("mended", b"1", b"2", b"3") + topics.send("mended", b"4", partition=1)
    source = kafka_source(spark, broker.servers, "mended", on_gap="skip")
    plan = source.plan_next()
    assert plan is not None
    topics.cut("mended", 0, 2)
    assert source.broken(plan) is not None
    assert read_all(spark, source, drain(source)) == sent[2:]
    assert len(source.warnings()) == 1


def test_a_topic_that_was_recreated_is_distinguished_from_the_former_one(
    spark: SparkSession, broker: Broker, topics: Topics
) -> None:
    topics.make("recreated")
    topics.send("recreated", b"old 1", b"old 2")
    plans = drain(kafka_source(spark, broker.servers, "recreated"))
    topics.delete("recreated")
    topics.make("recreated")
    sent = topics.send("recreated", b"new 1", b"new 2", b"new 3")
    strict = kafka_source(spark, broker.servers, "recreated")
    strict.remember(plans[0])
    with pytest.raises(ChangelingError, match="topic 'recreated' was deleted and recreated"):
        strict.plan_next()
    assert "recreated" in (strict.broken(plans[0]) or "")
    source = kafka_source(spark, broker.servers, "recreated", on_gap="skip", batch_records=2)
    source.remember(plans[0])
    plans += drain(source)
    assert read_all(spark, source, plans[1:]) == sent
    assert len(source.warnings()) == 1
    assert [KafkaPlan.parse(plan).ordinals() for plan in plans] == [
        {"recreated": 0},
        {"recreated": 1},
        {"recreated": 1},
    ]
    assert source.input(spark, plans[0]).topics is None
    assert source.input(spark, plans[1]).topics == {"recreated": 1}


def test_nothing_that_was_fetched_ahead_from_a_former_topic_is_taken_for_the_new_one(
    spark: SparkSession, broker: Broker, topics: Topics
) -> None:
    topics.make("ahead")
    old = topics.send("ahead", b"old 1", b"old 2", b"old 3", b"old 4")
    source = kafka_source(spark, broker.servers, "ahead", on_gap="skip", batch_records=2)
    plan = source.plan_next()
    assert plan is not None
    assert read(spark, source, plan) == old[:2]
    source.remember(plan)
    topics.delete("ahead")
    topics.make("ahead")
    new = topics.send("ahead", b"new 1", b"new 2", b"new 3", b"new 4")
    assert read_all(spark, source, drain(source)) == new


def test_a_topic_that_is_gone_stops_the_source_unless_it_is_no_longer_wanted(
    spark: SparkSession, broker: Broker, topics: Topics
) -> None:
    for name in ("gone.a", "gone.b"):
        topics.make(name)
        topics.send(name, b"1")
    (plan,) = drain(kafka_source(spark, broker.servers, "gone.*"))
    topics.delete("gone.a")
    sources = [
        kafka_source(spark, broker.servers, "gone.*"),
        kafka_source(spark, broker.servers, "gone.*", on_gap="skip"),
        kafka_source(spark, broker.servers, "gone.b"),
    ]
    for source in sources:
        source.remember(plan)
    with pytest.raises(ChangelingError, match=r"topic 'gone\.a' is gone, it was to be read from offset 1 in"):
        sources[0].plan_next()
    assert [source.plan_next() for source in sources[1:]] == [None, None]
    assert [len(source.warnings()) for source in sources[1:]] == [1, 0]
