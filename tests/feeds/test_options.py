"""The options of changefeeds: defaults, what each takes, and which combinations are refused."""

from typing import Any

import msgspec
import pytest

from changeling.feeds.feed import Feed
from changeling.feeds.option_values import READERS, Interval
from changeling.feeds.options import DeclaredTopic, OptionError, altered, check_table, new_feed
from changeling.formats import registry
from changeling.model.errors import UsageError
from changeling.model.table import TableName
from changeling.replicas.shape import ReplicaColumn, Shape

USERS = TableName(None, "public", "users")
JSON = {"FORMAT": "JSON", "MODE": "UPDATES"}
HOUR, DAY = 3_600, 86_400


def feed(
    *, options: dict[str, Any] | None = None, topic: Any = "table", partitions: int | None = None, **given: Any
) -> Feed:
    return new_feed("f", USERS, {**JSON, **given}, options=options, topic=DeclaredTopic(topic, partitions))


def test_the_defaults() -> None:
    assert new_feed("f", USERS, {"format": "json", "Mode": "updates"}) == Feed(
        name="f",
        id="",
        source=None,
        table=USERS,
        format="ydb-json",
        mode="UPDATES",
        virtual_timestamps=False,
        barriers_interval=None,
        schema_changes=False,
        user_sids=False,
        initial_scan=False,
        retention=DAY,
        partitions=1,
        aws_region=None,
        options={},
        topic="table",
        status="pending",
        start=None,
        created_at="",
        in_file=False,
        disabled_by=None,
    )
    assert feed(topic="files").retention is None
    assert feed(topic="files", RETENTION_PERIOD="P1D").retention == DAY


def test_every_option() -> None:
    made = feed(
        VIRTUAL_TIMESTAMPS=True,
        RESOLVED_TIMESTAMPS=Interval("PT10S"),
        SCHEMA_CHANGES="true",
        USER_SIDS=True,
        TRACE_IDS=False,
        INITIAL_SCAN=True,
        RETENTION_PERIOD="P30D",
        TOPIC_MIN_ACTIVE_PARTITIONS=4,
        TOPIC_MAX_ACTIVE_PARTITIONS="4",
        TOPIC_AUTO_PARTITIONING="disabled",
        SINK_TYPE="local",
    )
    expected = {
        "virtual_timestamps": True,
        "barriers_interval": 10,
        "schema_changes": True,
        "user_sids": True,
        "initial_scan": True,
        "retention": 30 * DAY,
        "partitions": 4,
    }
    assert made == msgspec.structs.replace(feed(), **expected)
    assert feed(FORMAT="DYNAMODB_STREAMS_JSON", AWS_REGION="eu").aws_region == "eu"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT1H", HOUR),
        (Interval("P1DT1H1M1S"), DAY + HOUR + 61),
        ("P2W", 14 * DAY),
        ("10s", 10),
        ("2 h", 2 * HOUR),
        ("30d", 30 * DAY),
        ("PT0.5H", HOUR // 2),
        ("5000ms", 5),
    ],
)
def test_durations(text: Any, seconds: int) -> None:
    assert feed(RETENTION_PERIOD=text).retention == seconds
    assert feed(BARRIERS_INTERVAL=text).barriers_interval == seconds


@pytest.mark.parametrize(
    ("given", "option", "problem"),
    [
        ({"MOD": "UPDATES"}, "MOD", "there is no option 'MOD'; did you mean 'MODE'?"),
        (
            {"MODE": "UPDATE"},
            "MODE",
            "MODE: there is no mode 'UPDATE'; did you mean 'UPDATES'?",
        ),
        ({"MODE": 5}, "MODE", "MODE: must be a text, not 5"),
        ({"FORMAT": "JSN"}, "FORMAT", "FORMAT: there is no format 'JSN'; did you mean 'JSON'?"),
        ({"FORMAT": Interval("PT1H")}, "FORMAT", "FORMAT: must be a text, not Interval('PT1H')"),
        (
            {"FORMAT": "xtdb"},
            "MODE",
            "MODE = 'UPDATES': records of xtdb need NEW_AND_OLD_IMAGES",
        ),
        (
            {"FORMAT": "debezium-json"},
            "MODE",
            "MODE = 'UPDATES': records of debezium-json need NEW_IMAGE or NEW_AND_OLD_IMAGES",
        ),
        (
            {"FORMAT": "arcion-json", "MODE": "NEW_IMAGE"},
            "MODE",
            "MODE = 'NEW_IMAGE': records of arcion-json need UPDATES or NEW_AND_OLD_IMAGES",
        ),
        ({"VIRTUAL_TIMESTAMPS": 1}, "VIRTUAL_TIMESTAMPS", "VIRTUAL_TIMESTAMPS: must be TRUE or FALSE, not 1"),
        (
            {"FORMAT": "DEBEZIUM_JSON", "VIRTUAL_TIMESTAMPS": True},
            "VIRTUAL_TIMESTAMPS",
            "VIRTUAL_TIMESTAMPS: records of ydb-debezium have no place for it; FORMAT = 'JSON' has",
        ),
        (
            {"FORMAT": "DEBEZIUM_JSON", "BARRIERS_INTERVAL": "PT1S"},
            "BARRIERS_INTERVAL",
            "BARRIERS_INTERVAL: records of ydb-debezium have no place for it; FORMAT = 'JSON' has",
        ),
        (
            {"FORMAT": "DYNAMODB_STREAMS_JSON", "SCHEMA_CHANGES": True},
            "SCHEMA_CHANGES",
            "SCHEMA_CHANGES: records of ydb-dynamodb have no place for it; FORMAT = 'JSON' has",
        ),
        (
            {"FORMAT": "arcion-csv", "USER_SIDS": True},
            "USER_SIDS",
            "USER_SIDS: records of arcion-csv have no place for it; YDB's formats have",
        ),
        (
            {"AWS_REGION": "eu"},
            "AWS_REGION",
            "AWS_REGION: records of ydb-json have no place for it; FORMAT = 'DYNAMODB_STREAMS_JSON' has",
        ),
        (
            {"BARRIERS_INTERVAL": "PT1S", "RESOLVED_TIMESTAMPS": "PT1S"},
            "RESOLVED_TIMESTAMPS",
            "BARRIERS_INTERVAL and RESOLVED_TIMESTAMPS are the same option: give one",
        ),
        ({"mode": "UPDATES"}, "mode", "MODE is given twice"),
        ({"BARRIERS_INTERVAL": "PT0S"}, "BARRIERS_INTERVAL", "BARRIERS_INTERVAL: 'PT0S' must be longer than nothing"),
        ({"BARRIERS_INTERVAL": "-PT1S"}, "BARRIERS_INTERVAL", "BARRIERS_INTERVAL: '-PT1S' must be longer than nothing"),
        (
            {"BARRIERS_INTERVAL": "P36526D"},
            "BARRIERS_INTERVAL",
            "BARRIERS_INTERVAL: 'P36526D' is longer than 100 years",
        ),
        (
            {"BARRIERS_INTERVAL": f"P{'9' * 40}D"},
            "BARRIERS_INTERVAL",
            f"BARRIERS_INTERVAL: must be a duration such as 'PT1H', not 'P{'9' * 40}D'",
        ),
        (
            {"TOPIC_MIN_ACTIVE_PARTITIONS": "1" * 5000},
            "TOPIC_MIN_ACTIVE_PARTITIONS",
            f"TOPIC_MIN_ACTIVE_PARTITIONS: must be a whole number, 1 or more, not '{'1' * 5000}'",
        ),
        ({"BARRIERS_INTERVAL": "PT1.5S"}, "BARRIERS_INTERVAL", "BARRIERS_INTERVAL: 'PT1.5S' must be whole seconds"),
        ({"RETENTION_PERIOD": "P32D"}, "RETENTION_PERIOD", "RETENTION_PERIOD: records are kept for 30 days at most"),
        (
            {"RETENTION_PERIOD": "P1M"},
            "RETENTION_PERIOD",
            "RETENTION_PERIOD: 'P1M' has years or months, which have no fixed length: write days, as in 'P30D'",
        ),
        (
            {"RETENTION_PERIOD": "1 day"},
            "RETENTION_PERIOD",
            "RETENTION_PERIOD: '1 day' is not an ISO-8601 duration such as PT2H30M",
        ),
        (
            {"RETENTION_PERIOD": 3600},
            "RETENTION_PERIOD",
            "RETENTION_PERIOD: must be a duration such as 'PT1H', not 3600",
        ),
        (
            {"TOPIC_MIN_ACTIVE_PARTITIONS": 0},
            "TOPIC_MIN_ACTIVE_PARTITIONS",
            "TOPIC_MIN_ACTIVE_PARTITIONS: must be a whole number, 1 or more, not 0",
        ),
        (
            {"TOPIC_MIN_ACTIVE_PARTITIONS": True},
            "TOPIC_MIN_ACTIVE_PARTITIONS",
            "TOPIC_MIN_ACTIVE_PARTITIONS: must be a whole number, 1 or more, not TRUE",
        ),
        (
            {"TOPIC_MIN_ACTIVE_PARTITIONS": 10_001},
            "TOPIC_MIN_ACTIVE_PARTITIONS",
            "10,001 partitions are too many: at most 10,000",
        ),
        (
            {"TOPIC_MIN_ACTIVE_PARTITIONS": 3, "TOPIC_MAX_ACTIVE_PARTITIONS": 2},
            "TOPIC_MAX_ACTIVE_PARTITIONS",
            "TOPIC_MAX_ACTIVE_PARTITIONS is 2, below the 3 partitions of the topic",
        ),
        (
            {"TOPIC_AUTO_PARTITIONING": "ENABLED"},
            "TOPIC_AUTO_PARTITIONING",
            "TOPIC_AUTO_PARTITIONING: the number of partitions is fixed for a feed's life, so that a row stays in its "
            "partition; give TOPIC_MIN_ACTIVE_PARTITIONS",
        ),
        (
            {"TOPIC_AUTO_PARTITIONING": "yes"},
            "TOPIC_AUTO_PARTITIONING",
            "TOPIC_AUTO_PARTITIONING: must be 'ENABLED' or 'DISABLED', not 'yes'",
        ),
        ({"TRACE_IDS": True}, "TRACE_IDS", "TRACE_IDS: changes have no trace ids: no source gives them"),
        (
            {"SINK_TYPE": "kafka"},
            "SINK_TYPE",
            "SINK_TYPE: there is no sink 'kafka': it is 'local'; other topics are declared in the pipeline file",
        ),
    ],
)
def test_what_is_refused(given: dict[str, Any], option: str, problem: str) -> None:
    with pytest.raises(OptionError) as caught:
        feed(**given)
    assert (caught.value.option, str(caught.value)) == (option, problem)


@pytest.mark.parametrize("missing", ["FORMAT", "MODE"])
def test_format_and_mode_are_required(missing: str) -> None:
    with pytest.raises(OptionError) as caught:
        new_feed("f", USERS, {name: value for name, value in JSON.items() if name != missing})
    assert str(caught.value) == f"{missing} is missing: a feed needs FORMAT and MODE"


@pytest.mark.parametrize("name", ["", "1f", "a-b", "a.b", "é", "f" * 64])
def test_names_of_feeds_become_names_of_tables(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name of a feed"):
        new_feed(name, USERS, JSON)


@pytest.mark.parametrize("name", registry.names())
def test_every_format_can_be_published_in_the_mode_with_both_images(name: str) -> None:
    assert feed(FORMAT=name.upper(), MODE="NEW_AND_OLD_IMAGES").format == name


def test_the_topic_and_an_option_may_both_say_the_partitions() -> None:
    assert feed(partitions=3).partitions == 3
    assert feed(partitions=3, TOPIC_MIN_ACTIVE_PARTITIONS=3).partitions == 3
    with pytest.raises(OptionError) as caught:
        feed(partitions=3, TOPIC_MIN_ACTIVE_PARTITIONS=2)
    assert str(caught.value) == ("TOPIC_MIN_ACTIVE_PARTITIONS is 2, but the topic has 3 partitions: give one of them")


@pytest.mark.parametrize(
    ("given", "options", "problem"),
    [
        ({}, {"mode": "UPDATES"}, "mode is not an option of the format here: write MODE"),
        (
            {"FORMAT": "DYNAMODB_STREAMS_JSON"},
            {"region": "eu"},
            "region is not an option of the format here: write AWS_REGION",
        ),
        ({}, {"feed": "g"}, "feed is not an option of feeds: it follows from the topic"),
        ({"FORMAT": "arcion-csv"}, {"keyed": "false"}, "keyed is not an option of feeds: it follows from the topic"),
        (
            {"FORMAT": "arcion-csv"},
            {"include_heder": "true"},
            "writing arcion-csv has no option 'include_heder'; did you mean 'include_header'?",
        ),
        (
            {"FORMAT": "arcion-csv"},
            {"after_image": "ALL"},
            "after_image: ALL needs MODE = 'NEW_AND_OLD_IMAGES', not 'UPDATES'",
        ),
        (
            {"FORMAT": "arcion-json"},
            {"mode": "full"},
            "mode: full begins with the rows of the table: it needs INITIAL_SCAN = TRUE",
        ),
    ],
)
def test_options_of_formats_that_are_refused(given: dict[str, Any], options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        feed(options=options, **given)
    assert str(caught.value) == problem


def test_options_of_formats() -> None:
    options = {"mode": "snapshot", "include_header": "false"}
    assert feed(FORMAT="arcion-csv", INITIAL_SCAN=True, options=options).options == options
    with pytest.raises(UsageError, match="proto"):
        feed(FORMAT="transferia", MODE="NEW_IMAGE", options={"serialization": "proto"})


def test_what_can_be_set() -> None:
    there = feed(BARRIERS_INTERVAL="PT1S")
    changed = altered(there, {"RETENTION_PERIOD": "P2D", "resolved_timestamps": "PT5S"})
    assert changed == msgspec.structs.replace(there, retention=2 * DAY, barriers_interval=5)
    for name in set(READERS) - {"RETENTION_PERIOD", "BARRIERS_INTERVAL", "AWS_REGION"}:
        with pytest.raises(OptionError) as caught:
            altered(there, {name: "whatever"})
        assert str(caught.value) == (
            f"{name} is fixed for a feed's life: add another feed; RETENTION_PERIOD, BARRIERS_INTERVAL, AWS_REGION can be set"
        )
    with pytest.raises(OptionError, match="AWS_REGION: records of ydb-json"):
        altered(there, {"AWS_REGION": "eu"})
    with pytest.raises(OptionError, match="30 days at most"):
        altered(there, {"RETENTION_PERIOD": "31d"})


def shape(*types: str) -> Shape:
    columns = tuple(ReplicaColumn(f"c{place}@1", f"c{place}", kind) for place, kind in enumerate(types))
    return Shape((*columns, ReplicaColumn("v@1", "v", "string")), tuple(column.id for column in columns))


@pytest.mark.parametrize(
    ("given", "of", "mode", "behind", "problem"),
    [
        ({}, shape("int64"), "append", False, "has the mode append, and therefore no rows: feeds need the mode merge or history"),
        ({}, shape("int64"), "typed", False, "has the mode append, and therefore no rows: feeds need the mode merge or history"),
        ({}, shape(), "merge", False, "has no key: its changes cannot be sharded by row; declare one under `tables`"),
        (
            {},
            shape("int64"),
            "merge",
            True,
            "has a replica that missed changes: run `changeling replica --rebuild` for it first",
        ),
        (
            {"FORMAT": "DYNAMODB_STREAMS_JSON"},
            shape("string", "string", "string"),
            "merge",
            False,
            "has a key of 3 columns: a document table (DynamoDB) has one or two",
        ),
        (
            {"FORMAT": "xtdb", "MODE": "NEW_AND_OLD_IMAGES"},
            shape("int64", "int64"),
            "merge",
            False,
            "has a key of 2 columns: records of xtdb have a key of one",
        ),
        (
            {"TOPIC_MIN_ACTIVE_PARTITIONS": 2},
            shape("string", "int64"),
            "merge",
            False,
            "has the key column 'c0' of type string first: in YDB's formats, TOPIC_MIN_ACTIVE_PARTITIONS = 2 needs an integer there",
        ),
    ],
)  # fmt: skip
def test_tables_that_cannot_have_a_feed(
    given: dict[str, Any], of: Shape, mode: str, behind: bool, problem: str
) -> None:
    with pytest.raises(UsageError) as caught:
        check_table(feed(**given), of, mode, behind=behind)
    assert str(caught.value) == f"feed f: table public.users {problem}"


def test_tables_that_can() -> None:
    check_table(feed(FORMAT="DYNAMODB_STREAMS_JSON"), shape("string", "string"), "merge")
    check_table(feed(TOPIC_MIN_ACTIVE_PARTITIONS=2), shape("uint32", "string"), "history")
    check_table(feed(TOPIC_MIN_ACTIVE_PARTITIONS=1), shape("string"), "merge")
    check_table(feed(FORMAT="arcion-csv", TOPIC_MIN_ACTIVE_PARTITIONS=2), shape("string"), "merge")
