"""Stream records in the DynamoDB form as they are written: options, modes, refusals, and the rows 004-41 to 004-47."""

import json
from typing import Any

import msgspec
import pytest

import changeling
from changeling.conformance.cases import batch
from changeling.model import arrow_layouts
from changeling.model.change import Change
from changeling.model.errors import UsageError
from changeling.model.operation import Image, Operation
from changeling.model.position import encode as position
from changeling.model.table import Column, TableName, TableSchema

NAME = "ydb-dynamodb"
MODES = ["KEYS_ONLY", "UPDATES", "NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES"]
KEYS = {"id": {"N": "1"}}
OLD = {"id": {"N": "1"}, "name": {"S": "a"}}
NEW = {"id": {"N": "1"}, "name": {"S": "b"}}
ARN = "arn:aws:dynamodb:us-east-1:123456789012:table/Orders/stream/2015-06-27T00:48:05.899"
TIME = 1_703_505_330_123_000_000


def change(op: str, **parts: Any) -> Change:
    """A change of a table with an integer key and a text, canonical values."""
    schema = TableSchema((Column("id", "int64"), Column("name", "string")), ("id",))
    return Change(
        **{
            "op": Operation(op),
            "table": TableName(None, None, "users"),
            "key": '{"id":1}',
            "schema": schema.to_json(),
            **parts,
        }
    )


def full(**sides: str) -> dict[str, Any]:
    return {**sides, **{f"{side}_image": Image.FULL for side in sides}}


BEFORE, AFTER = full(before='{"id":1,"name":"a"}'), full(after='{"id":1,"name":"b"}')
INSERT, UPDATE, DELETE = change("insert", **AFTER), change("update", **BEFORE, **AFTER), change("delete", **BEFORE)


def typed_change(values: dict[str, tuple[str, str]], **parts: Any) -> Change:
    """An upsert of columns given as (type, canonical JSON), with a text key."""
    columns = (Column("id", "string"), *(Column(name, kind) for name, (kind, _) in values.items()))
    row = ",".join(['"id":"x"', *(f"{json.dumps(name)}:{value}" for name, (_, value) in values.items())])
    text = "{" + row + "}"
    return change(
        "upsert",
        **{"key": '{"id":"x"}', "schema": TableSchema(columns, ("id",)).to_json(), **full(after=text), **parts},
    )


def write(*changes: Change, **options: Any) -> list[dict[str, Any]]:
    records, rejects = changeling.encode(batch(changes), NAME, **options)
    assert rejects.to_pylist() == []
    return [json.loads(value) for value in records["value"].to_pylist()]


def refusal(*changes: Change, **options: Any) -> tuple[str, str]:
    records, rejects = changeling.encode(batch(changes), NAME, **options)
    assert records.num_rows == 0
    return rejects["feature"][0].as_py(), rejects["reason"][0].as_py()


def read(*records: dict[str, Any] | str, **options: Any) -> list[Change]:
    texts = [record if isinstance(record, str) else json.dumps(record) for record in records]
    changes, rejects = changeling.decode(texts, NAME, **options)
    assert rejects.to_pylist() == []
    return arrow_layouts.changes(changes.combine_chunks().to_batches()[0])


def reject(record: dict[str, Any] | str, **options: Any) -> str:
    text = record if isinstance(record, str) else json.dumps(record)
    changes, rejects = changeling.decode([text], NAME, **{"table": "users", **options})
    assert changes.num_rows == 0
    reason: str = rejects["reason"][0].as_py()
    return reason


def stream_record(event: str = "MODIFY", **body: Any) -> dict[str, Any]:
    return {
        "eventID": "1",
        "eventName": event,
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "us-east-1",
        "dynamodb": {"Keys": KEYS, "SequenceNumber": "400000000000000499660", **body},
        "eventSourceARN": ARN,
    }


def test_a_change_of_any_dialect_becomes_a_record_of_six_fields() -> None:
    """004-42, 004-47: awsRegion, dynamodb, eventID, eventName, eventSource and eventVersion, whole."""
    update = msgspec.structs.replace(UPDATE, position=position(17), commit_time=TIME)
    assert write(update) == [
        {
            "awsRegion": "",
            "dynamodb": {
                "ApproximateCreationDateTime": 1703505330.123,
                "Keys": KEYS,
                "NewImage": NEW,
                "OldImage": OLD,
                "SequenceNumber": "000000000000000000017",
                "StreamViewType": "NEW_AND_OLD_IMAGES",
            },
            "eventID": "0-17",
            "eventName": "MODIFY",
            "eventSource": "ydb:document-table",
            "eventVersion": "1.0",
        }
    ]


def test_awsregion_is_the_option() -> None:
    """004-43."""
    assert [record["awsRegion"] for record in write(INSERT, DELETE, region="ru-central1")] == ["ru-central1"] * 2
    changes, _ = changeling.decode([json.dumps(stream_record())], NAME)
    kept, _ = changeling.encode(changes, NAME)
    named, _ = changeling.encode(changes, NAME, region="eu-west-1")
    assert json.loads(kept["value"][0].as_py()) == stream_record()
    assert json.loads(named["value"][0].as_py()) == {**stream_record(), "awsRegion": "eu-west-1"}


def test_event_ids_are_distinct() -> None:
    """004-45: also for the two records of a row that takes another key."""
    moved = change("update", key='{"id":2}', **BEFORE, **full(after='{"id":2,"name":"b"}'))
    ids = [record["eventID"] for record in write(INSERT, INSERT, moved, DELETE, shard="72075186224037888")]
    assert ids == [f"72075186224037888-{rest}" for rest in ("1", "2", "3-moved", "3", "4")]


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_shows_its_images_and_insert_in_one_of_them(mode: str) -> None:
    """004-46: INSERT only in NEW_AND_OLD_IMAGES; UPDATES is labelled KEYS_ONLY."""
    new, old = mode in ("NEW_IMAGE", "NEW_AND_OLD_IMAGES"), mode in ("OLD_IMAGE", "NEW_AND_OLD_IMAGES")
    view = "KEYS_ONLY" if mode == "UPDATES" else mode
    records = write(INSERT, UPDATE, DELETE, mode=mode.lower())
    insert = "INSERT" if mode == "NEW_AND_OLD_IMAGES" else "MODIFY"
    assert [record["eventName"] for record in records] == [insert, "MODIFY", "REMOVE"]
    for number, (record, shows_new, shows_old) in enumerate(
        zip(records, (new, new, False), (False, old, old), strict=True), 1
    ):
        assert record["dynamodb"] == {
            "Keys": KEYS,
            **({"NewImage": NEW} if shows_new else {}),
            **({"OldImage": OLD} if shows_old else {}),
            "SequenceNumber": f"{number:021d}",
            "StreamViewType": view,
        }


def test_without_a_mode_a_record_shows_what_its_change_has() -> None:
    """004-46: the view is the narrowest that shows all of it."""
    given = [
        (INSERT, "INSERT", "NEW_AND_OLD_IMAGES"),
        (change("read", **AFTER), "MODIFY", "NEW_IMAGE"),
        (change("upsert", **AFTER), "MODIFY", "NEW_IMAGE"),
        (UPDATE, "MODIFY", "NEW_AND_OLD_IMAGES"),
        (change("update", **BEFORE), "MODIFY", "OLD_IMAGE"),
        (change("upsert"), "MODIFY", "KEYS_ONLY"),
        (change("delete"), "REMOVE", "KEYS_ONLY"),
        (DELETE, "REMOVE", "OLD_IMAGE"),
    ]
    records = write(*(row for row, _, _ in given))
    found = [(record["eventName"], record["dynamodb"]["StreamViewType"]) for record in records]
    assert found == [(event, view) for _, event, view in given]


def test_a_record_that_was_read_can_be_written_in_another_mode() -> None:
    record = stream_record("MODIFY", NewImage=NEW, OldImage=OLD, StreamViewType="NEW_AND_OLD_IMAGES")
    changes, _ = changeling.decode([json.dumps({**record, "userIdentity": {"type": "User"}})], NAME)
    records, rejects = changeling.encode(changes, NAME, mode="NEW_IMAGE")
    assert rejects.to_pylist() == []
    expected = stream_record("MODIFY", NewImage=NEW, StreamViewType="NEW_IMAGE")
    assert json.loads(records["value"][0].as_py()) == {**expected, "userIdentity": {"type": "User"}}


@pytest.mark.parametrize(
    ("given", "options", "feature", "why"),
    [
        (change("update", key=None, **AFTER), {}, "keyless", "without a key"),
        (change("upsert", after='{"name":"b"}', after_image=Image.PARTIAL), {}, "partial", "unchanged columns"),
        (change("upsert"), {"mode": "NEW_IMAGE"}, "after", "does not have it"),
        (change("upsert", **AFTER), {"mode": "OLD_IMAGE"}, "before", "does not have it"),
        (change("insert", position=position(1, 2), **AFTER), {}, "position", "one number"),
        (change("insert", position=position(10**40), **AFTER), {}, "position", "up to 40 digits"),
        (change("insert", commit_time=TIME + 1, **AFTER), {"time_unit": "milliseconds"}, "commit_time", "milliseconds"),
        (change("insert", commit_time=10**9, **AFTER), {"time_unit": "milliseconds"}, "commit_time", "milliseconds"),
        (change("truncate", key=None), {}, "truncate", "truncation"),
        (typed_change({"f": ("float64", '"NaN"')}), {}, "types", "never NaN"),
        (typed_change({"f": ("float64", "1e126")}), {}, "types", "this one is 1e126"),
        (typed_change({"n": ("decimal", f'"{"9" * 39}"')}), {}, "types", "38 digits"),
        (typed_change({"doc": ("json", f'{{"a":[{"9" * 39}]}}')}), {}, "types", "38 digits"),
        (typed_change({"doc": ("json", "[" * 249 + "]" * 249)}), {}, "types", "500 levels"),
    ],
)
def test_what_has_no_place_is_refused_by_name(given: Change, options: dict[str, Any], feature: str, why: str) -> None:
    assert why in refusal(given, **options)[1]
    assert refusal(given, **options)[0] == feature


def test_a_table_that_cannot_be_a_document_table_is_refused() -> None:
    """004-41: its key has one or two columns, of text, number or binary."""
    three = TableSchema(tuple(Column(name, "int64") for name in "abc"), ("a", "b", "c"))
    wide = change("delete", key='{"a":1,"b":2,"c":3}', schema=three.to_json())
    assert refusal(wide)[0] == "composite-key"
    flag = change("delete", key='{"on":true}', schema=TableSchema((Column("on", "bool"),), ("on",)).to_json())
    assert refusal(flag) == (
        "types",
        "ydb-dynamodb cannot carry types: a document's key is text, number or binary; key column 'on' is of kind BOOL",
    )
    assert write(flag, drop="types")[0]["dynamodb"]["Keys"] == {"on": {"S": "true"}}


def test_a_part_of_a_row_is_never_written_as_a_whole_one() -> None:
    part = {"after": '{"name":"b"}', "after_image": Image.PARTIAL}
    alone, completed = write(change("update", **part), change("update", **part, **BEFORE), drop="partial")
    assert alone["dynamodb"]["StreamViewType"] == "KEYS_ONLY"
    assert "NewImage" not in alone["dynamodb"]
    assert completed["dynamodb"]["NewImage"] == NEW


def test_images_hold_the_key_also_where_the_change_keeps_it_apart() -> None:
    (record,) = write(change("upsert", **full(after='{"name":"b"}')))
    assert record["dynamodb"]["NewImage"] == NEW


def test_images_hold_the_key_as_the_key_is_where_the_row_has_it_as_an_object() -> None:
    """MongoDB's documents have `_id` as `{"$numberLong":"5"}`, their keys as a number."""
    rows = [
        change("upsert", schema=None, **full(after=after))
        for after in ('{"id":{"$numberLong":"1"},"name":"b"}', '{"id":1,"name":"b"}')
    ]
    assert [record["dynamodb"]["NewImage"] for record in write(*rows)] == [NEW, NEW]


def test_nulls_are_written_or_left_out() -> None:
    row = change("upsert", **full(after='{"id":1,"name":null}'))
    assert write(row)[0]["dynamodb"]["NewImage"] == {"id": {"N": "1"}, "name": {"NULL": True}}
    assert write(row, nulls="omit")[0]["dynamodb"]["NewImage"] == {"id": {"N": "1"}}
    (back,) = read(write(row)[0], table="users")
    assert json.loads(back.after or "") == {"id": {"N": "1"}, "name": None}


def test_wrong_options_are_named() -> None:
    with pytest.raises(UsageError, match="there is no mode 'NEW_IMAGES'; did you mean 'NEW_IMAGE'"):
        changeling.encode(batch([INSERT]), NAME, mode="NEW_IMAGES")
    with pytest.raises(UsageError, match="nulls"):
        changeling.encode(batch([INSERT]), NAME, nulls="drop")
    with pytest.raises(UsageError, match="order"):
        changeling.decode([], NAME, order="time")


def test_equal_keys_in_two_spellings_are_no_key_change() -> None:
    schema = TableSchema((Column("id", "decimal"),), ("id",)).to_json()
    row = change("update", key='{"id":"1.5"}', schema=schema, **full(before='{"id":"1.50"}', after='{"id":"1.5"}'))
    (record,) = write(row)
    assert record["dynamodb"]["Keys"] == {"id": {"N": "1.5"}}
    assert record["dynamodb"]["OldImage"] == {"id": {"N": "1.50"}}


def test_a_row_that_takes_another_key_goes_and_comes() -> None:
    moved = change("update", key='{"id":2}', **BEFORE, after='{"id":2}', after_image=Image.PARTIAL)
    gone, come = write(moved, drop="partial")
    assert [gone["eventName"], gone["dynamodb"]["Keys"], gone["dynamodb"]["OldImage"]] == ["REMOVE", KEYS, OLD]
    assert [come["eventName"], come["dynamodb"]["Keys"]] == ["INSERT", {"id": {"N": "2"}}]
    assert come["dynamodb"]["NewImage"] == {"id": {"N": "2"}, "name": {"S": "a"}}
    assert "OldImage" not in come["dynamodb"]


def test_the_message_key_is_the_key_of_the_row_and_the_topic_its_path() -> None:
    records, _ = changeling.encode(batch([INSERT]), NAME, feed="updates")
    assert records["key"].to_pylist() == [b'{"id":{"N":"1"}}']
    assert records["topic"].to_pylist() == ["users/updates"]
