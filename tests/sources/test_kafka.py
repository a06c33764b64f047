import msgspec
import pytest
from pyspark.sql import SparkSession

from changeling.sources.kafka_plan import KafkaPlan
from tests.brokers.broker import Broker
from tests.brokers.topics import Sent, Topics
from tests.sources.kafka_reading import drain, kafka_source, read, read_all


@pytest.fixture(scope="module")
def topics(broker: Broker) -> Topics:
    return Topics(broker)


def ranges(plan: str) -> dict[str, dict[str, list[int]]]:
    found: dict[str, dict[str, list[int]]] = msgspec.json.decode(plan)["ranges"]
    return found


def varied(topic: str, partition: int, count: int) -> list[Sent]:
    """Records with and without keys, values and headers."""
    kinds = [
        Sent(topic, partition, -1, b'{"a": 1.50}', b"key", (("one", b"1"), ("one", None), ("zwei", b"\xff\x00"))),
        Sent(topic, partition, -1, None, b"tombstone"),
        Sent(topic, partition, -1, b"\x00\xfe", None),
        Sent(topic, partition, -1, b"", b"", (("empty", b""),)),
        Sent(topic, partition, -1, None, None),
    ]
    return [kinds[place % len(kinds)] for place in range(count)]


def test_records_come_whole_in_bounded_batches_and_over_a_restart(
    spark: SparkSession, broker: Broker, topics: Topics
) -> None:
    topics.make("whole.a", 2)
    topics.make("whole.b")
    sent = topics.send_all(varied("whole.a", 0, 11) + varied("whole.a", 1, 3) + varied("whole.b", 0, 6))
    first = kafka_source(spark, broker.servers, "whole.a", "whole.b", batch_records=7)
    plans = []
    for _ in range(2):
        plan = first.plan_next()
        assert plan is not None
        assert plan == first.plan_next()
        first.remember(plan)
        plans.append(plan)
    second = kafka_source(spark, broker.servers, "whole.a", "whole.b", batch_records=7)
    for plan in plans:
        second.remember(plan)
    plans += drain(second)
    assert [second.plan_size(plan).records for plan in plans] == [7, 7, 6]
    assert ranges(plans[0]) == {"whole.a": {"0": [0, 3], "1": [0, 2]}, "whole.b": {"0": [0, 2]}}
    assert read_all(spark, second, plans) == sorted(sent)
    assert read_all(spark, first, plans) == sorted(sent)
    assert second.plan_next() is None
    assert second.warnings() == []
    assert all(second.broken(plan) is None for plan in plans)


def test_a_partition_is_split_into_tasks_and_every_record_comes_once(
    spark: SparkSession, broker: Broker, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The session of the tests has one core: a split needs more.
    monkeypatch.setattr(type(spark.sparkContext), "defaultParallelism", 2)
    topics.make("large")
    sent = topics.send("large", *(str(place).encode() for place in range(25_000)))
    source = kafka_source(spark, broker.servers, "large", batch_records=100_000)
    (plan,) = drain(source)
    given = source.input(spark, plan)
    assert given.frame.rdd.getNumPartitions() == 2
    assert given.topics is None
    assert read(spark, source, plan) == sent


def test_topics_and_partitions_that_appear_later_are_read_from_their_beginning(
    spark: SparkSession, broker: Broker, topics: Topics
) -> None:
    for name in ("late.m", "__late.m", "other.m"):
        topics.make(name)
        topics.send(name, b"first")
    source = kafka_source(spark, broker.servers, "late.?", "*late.m", start="latest")
    (begin,) = drain(source)
    assert ranges(begin) == {"late.m": {"0": [1, 1]}}
    assert read(spark, source, begin) == []
    topics.make("late.a", 2)
    topics.widen("late.m", 2)
    sent = topics.send("late.a", b"x", partition=1) + topics.send("late.m", b"y", partition=1)
    (plan,) = drain(source)
    assert read(spark, source, plan) == sent
    assert KafkaPlan.parse(plan).ordinals() == {"late.m": 0, "late.a": 1}
    assert source.input(spark, plan).topics == {"late.m": 0, "late.a": 1}
    topics.make("late.b")
    sent = topics.send("late.b", b"z")
    (plan,) = drain(source)
    assert read(spark, source, plan) == sent
    assert KafkaPlan.parse(plan).ordinals() == {"late.m": 0, "late.a": 1, "late.b": 2}


def test_latest_is_where_the_first_plan_was_made_also_for_a_later_run(
    spark: SparkSession, broker: Broker, topics: Topics
) -> None:
    topics.make("since")
    topics.send("since", b"old")
    (plan,) = drain(kafka_source(spark, broker.servers, "since", start="latest"))
    sent = topics.send("since", b"new")
    later = kafka_source(spark, broker.servers, "since", start="latest")
    later.remember(plan)
    assert read_all(spark, later, drain(later)) == sent


def test_a_topic_that_is_not_there_yet_is_reported_once_and_read_when_it_is(
    spark: SparkSession, broker: Broker, topics: Topics
) -> None:
    source = kafka_source(spark, broker.servers, "awaited")
    assert source.plan_next() is None
    assert source.plan_next() is None
    assert source.warnings() == ["there is no topic 'awaited' yet"]
    assert source.warnings() == []
    topics.make("awaited")
    sent = topics.send("awaited", b"x")
    assert read_all(spark, source, drain(source)) == sent


def test_what_was_aborted_is_not_read_and_what_is_open_not_before_it_is_committed(
    spark: SparkSession, broker: Broker, topics: Topics
) -> None:
    topics.make("deals")
    source = kafka_source(spark, broker.servers, "deals", batch_records=4)
    aborted = topics.transaction("aborted")
    for value in (b"1", b"2", b"3"):
        aborted.send(Sent("deals", 0, -1, value))
    aborted.abort()
    plain = topics.send("deals", b"plain")
    opened = topics.transaction("open")
    opened.send(Sent("deals", 0, -1, b"open"))
    opened.flush()
    topics.send("deals", b"behind the open one")
    first = drain(source)
    assert read_all(spark, source, first) == plain
    assert source.plan_next() is None
    committed = opened.commit()
    second = drain(source)
    assert [record.value for record in read_all(spark, source, second)] == [b"open", b"behind the open one"]
    assert read_all(spark, source, second)[0] == committed[0]
    assert read_all(spark, source, first) == plain


def test_a_batch_of_marks_alone_is_empty_and_comes_once(spark: SparkSession, broker: Broker, topics: Topics) -> None:
    topics.make("marks")
    for name in ("one", "two"):
        taken_back = topics.transaction(name)
        taken_back.send(Sent("marks", 0, -1, b"never"))
        taken_back.abort()
    source = kafka_source(spark, broker.servers, "marks", batch_records=2)
    plans = drain(source)
    assert [source.plan_size(plan).records for plan in plans] == [2, 2]
    assert read_all(spark, source, plans) == []
    assert source.plan_next() is None


def test_a_source_that_stops_at_present_leaves_what_comes_later(
    spark: SparkSession, broker: Broker, topics: Topics
) -> None:
    topics.make("present.a")
    sent = topics.send("present.a", b"1", b"2", b"3")
    source = kafka_source(spark, broker.servers, "present.*", batch_records=2)
    source.stop_at_present()
    topics.send("present.a", b"4")
    topics.make("present.b")
    topics.send("present.b", b"5")
    assert read_all(spark, source, drain(source)) == sent


def test_a_plan_of_nothing_has_no_records(spark: SparkSession, broker: Broker) -> None:
    source = kafka_source(spark, broker.servers, "anything")
    plan = source.nothing()
    assert read(spark, source, plan) == []
    assert source.plan_size(plan).records == 0
    assert source.broken(plan) is None
