"""Stream records in the DynamoDB form as they are read: batches, tables, order, and what is rejected."""

import json
from typing import Any

import pytest

import changeling
from changeling.model.position import encode as position
from changeling.model.table import TableName
from tests.formats.test_ydb_dynamodb import ARN, KEYS, NAME, NEW, OLD, read, reject, stream_record


def test_the_records_of_a_batch_are_changes_of_their_own() -> None:
    """004-44: a Lambda event, or the answer of GetRecords; what else it says is kept with each."""
    inner = [stream_record("INSERT", NewImage=OLD), stream_record("REMOVE", OldImage=OLD)]
    changes, rejects = changeling.decode([json.dumps({"Records": inner, "NextShardIterator": "abc"})], NAME)
    assert rejects.to_pylist() == []
    assert changes["op"].to_pylist() == ["insert", "delete"]
    assert [origin["record"] for origin in changes["origin"].to_pylist()] == [0, 0]
    assert [json.loads(meta)["Records"] for meta in changes["meta"].to_pylist()] == [{"NextShardIterator": "abc"}] * 2
    records, _ = changeling.encode(changes, NAME)
    assert [json.loads(value) for value in records["value"].to_pylist()] == inner


def test_a_batch_names_the_table_of_its_records() -> None:
    inner = {name: value for name, value in stream_record().items() if name != "eventSourceARN"}
    (found,) = read({"Records": [inner], "eventSourceARN": ARN, "shardId": "shard-1"})
    assert found.table == TableName(None, None, "Orders")


def test_a_record_names_its_table_before_the_user_does() -> None:
    ydb = {**stream_record(), "eventSource": "ydb:document-table"}
    del ydb["eventSourceARN"]
    amazon, other = read(stream_record(), ydb, table="shop.users")
    assert amazon.table == TableName(None, None, "Orders")
    assert other.table == TableName(None, "shop", "users")
    assert [amazon.op, other.op] == ["update", "upsert"]


def test_order_can_be_that_of_arrival() -> None:
    """A YDB table's shards count each for itself, so after a split numbers may start again."""
    first, second = read(stream_record(), stream_record(), order="arrival")
    assert [first.position, second.position] == [position(0, 0), position(0, 1)]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ("[1]", "not a record of this format: Expected `object`, got `array`"),
        ({"eventName": "INSERT"}, "not a stream record: it has no `dynamodb`"),
        (stream_record("UPSERT"), 'eventName is "UPSERT": it must be INSERT, MODIFY or REMOVE'),
        ({"dynamodb": {"Keys": KEYS}}, "eventName is null: it must be INSERT, MODIFY or REMOVE"),
        (stream_record("INSERT", OldImage=OLD), "an INSERT cannot have an OldImage"),
        (stream_record("REMOVE", NewImage=NEW), "a REMOVE cannot have a NewImage"),
        (stream_record(NewImage={"a": 5}), "`NewImage`: column 'a': Expected `object`, got `int`"),
        (stream_record(NewImage=[]), "`NewImage`: Expected `object`, got `array`"),
        (
            stream_record(OldImage={"ok": {"S": ""}, "a": {"X": "1"}}),
            "`OldImage`: column 'a': Object contains unknown field `X`",
        ),
        (stream_record(NewImage={"a": {"N": 5}}), "`NewImage`: column 'a': Expected `str`, got `int` - at `$.N`"),
        (stream_record(NewImage={"a": {"N": "1_0"}}), "`NewImage`: column 'a': '1_0' is not a number"),
        (stream_record(NewImage={"a": {"NS": ["1", "x"]}}), "`NewImage`: column 'a': 'x' is not a number"),
        (
            stream_record(NewImage={"a": {"S": "1", "N": "1"}}),
            "`NewImage`: column 'a': an attribute value has one of S, N, B, BOOL, NULL, M, L, SS, NS, BS; this one has S and N",
        ),
        (
            stream_record(NewImage={"a": {"M": {"b": {"L": [{}]}}}}),
            "`NewImage`: column 'a': an attribute value has one of S, N, B, BOOL, NULL, M, L, SS, NS, BS; this one has none",
        ),
        (
            stream_record(NewImage={"a": {"NULL": False}}),
            "`NewImage`: column 'a': the only attribute value of kind NULL is {\"NULL\":true}",
        ),
        (stream_record(Keys={}), "`Keys` names no column"),
        (
            stream_record(Keys={"on": {"BOOL": True}}),
            "key column 'on': a key has values of kind S, N, B, this one is of kind BOOL",
        ),
        (stream_record(SequenceNumber="12x"), "`SequenceNumber` must be digits, got '12x'"),
        (stream_record(SequenceNumber=12), "`SequenceNumber`: Expected `str`, got `int`"),
        (
            stream_record(ApproximateCreationDateTime=True),
            "`ApproximateCreationDateTime` must be a number or an ISO-8601 text",
        ),
        (stream_record(ApproximateCreationDateTime=1e30), "the time 1e+30 lies outside the years 1677 to 2262"),
        (
            stream_record(ApproximateCreationDateTime="yesterday"),
            "'yesterday' is not an ISO-8601 time such as 2023-12-25T10:15:30.123Z",
        ),
        ({"Records": []}, "`Records` is empty: there is no record in this batch"),
        ({"Records": [stream_record(), {"a": 1}]}, "Records[1]: not a stream record: it has no `dynamodb`"),
        ({"Records": {}}, "`Records`: Expected `array`, got `object`"),
    ],
)
def test_bad_records_are_rejected_with_a_reason(record: dict[str, Any] | str, reason: str) -> None:
    assert reject(record) == reason


def test_a_record_without_a_table_is_rejected() -> None:
    record = {name: value for name, value in stream_record().items() if name != "eventSourceARN"}
    assert reject(record, table=None) == (
        "the record names no table: it has no eventSourceARN, and no topic path/to/table/feed; give --table"
    )


def test_a_record_without_keys_needs_an_image_with_the_columns_that_the_user_names() -> None:
    record = stream_record(NewImage=NEW)
    del record["dynamodb"]["Keys"]
    assert read(record)[0].key is None
    assert read(record, key="id")[0].key == '{"id":{"N":"1"}}'
    assert reject(record, key="id,other") == "the record has no `Keys`, and no image shows the key columns other"
