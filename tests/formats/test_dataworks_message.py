"""Reading `dataworks-message` beyond its golden cases: rejects, pairs, order, images, schemas."""

import json
from typing import Any

import pyarrow as pa
import pytest

import changeling
from changeling.formats.pairing import Pairing
from changeling.model import arrow_layouts, position
from changeling.model.line import lines
from changeling.model.table import schema_from_json

NAME = "dataworks-message"
MILLIS = 1590315269123
SOURCE = {"dbType": "mysql", "dbVersion": "8.0", "dbName": "shop", "schemaName": None, "tableName": "users"}
COLUMNS = [{"name": "id", "type": "LONG"}, {"name": "n", "type": "STRING"}]
TABLE = {"dataColumn": COLUMNS, "primaryKey": ["id"], "source": SOURCE}
HALF = {"op": "UPDATE_BEFOR", "before": {"dataColumn": {"id": 1, "n": "a"}}, "after": None}


def message(schema: Any = TABLE, **members: Any) -> str:
    """An insert with some members of its payload changed, or left out with `...`."""
    payload = {
        "before": None,
        "after": {"dataColumn": {"id": 1, "n": "a"}},
        "sequenceId": "7",
        "op": "INSERT",
        "timestamp": {"eventTime": MILLIS},
        **members,
    }
    found = {"schema": schema, "payload": {name: value for name, value in payload.items() if value is not ...}}
    return json.dumps({name: value for name, value in found.items() if value is not ...}, separators=(",", ":"))


def update(sequence: str, old: dict[str, Any], new: dict[str, Any], **members: Any) -> list[str]:
    sides = [("UPDATE_BEFOR", {"dataColumn": old}, None), ("UPDATE_AFTER", None, {"dataColumn": new})]
    return [message(op=op, before=before, after=after, sequenceId=sequence, **members) for op, before, after in sides]


def decode(*records: Any, **options: Any) -> tuple[list[dict[str, Any]], list[str]]:
    changes, rejects = changeling.decode(list(records), NAME, **options)
    return [json.loads(line) for part in changes.to_batches() for line in lines(part)], rejects["reason"].to_pylist()


def paired(records: list[str]) -> pa.Table:
    changes, rejects = changeling.decode(records, NAME)
    assert rejects.num_rows == 0
    pairing = Pairing()
    parts = [pairing(part) for part in changes.to_batches()]
    return pa.Table.from_batches([*parts, pairing.rest()], arrow_layouts.CHANGES)


def rewritten(records: list[str], **options: Any) -> list[Any]:
    written, rejects = changeling.encode(paired(records), NAME, **options)
    assert rejects.to_pylist() == []
    return [json.loads(value) for value in written["value"].to_pylist()]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ("{", "not JSON: Input data was truncated"),
        ("[]", "not a record of this format: Expected `object`, got `array`"),
        ("{}", "not a message of DataWorks: `payload` must be an object"),
        ('{"payload":5}', "not a message of DataWorks: `payload` must be an object"),
        (message(op=...), "not a message of DataWorks: `payload.op` is missing"),
        (message(op="insert"), "unknown `payload.op` 'insert' (case matters); did you mean 'INSERT'?"),
        (
            message(op="UPDATE_BEFORE"),
            "unknown `payload.op` 'UPDATE_BEFORE' (case matters); did you mean 'UPDATE_BEFOR'?",
        ),
        (message(timestamp=...), "not a message of DataWorks: `payload.timestamp` must be an object"),
        (message(timestamp={}), "`payload.timestamp.eventTime` is missing, which every message must have"),
        (
            message(timestamp={"eventTime": 1.5}),
            "`payload.timestamp.eventTime` must be a whole number of milliseconds",
        ),
        (message(timestamp={"eventTime": 10**16}), "the time 10000000000000000 lies outside the years 1677 to 2262"),
        (message(after=None), "op INSERT must have a row in after, and in no other side"),
        (message(after={"dataColumn": {}}), "op INSERT must have a row in after, and in no other side"),
        (message(before={"dataColumn": {"id": 1}}), "op INSERT must have a row in after, and in no other side"),
        (message(op="DELETE"), "op DELETE must have a row in before, and in no other side"),
        (message(op="UPDATE_BEFOR"), "op UPDATE_BEFOR must have a row in before, and in no other side"),
        (message(op="UPDATE_AFTER", after=None), "op UPDATE_AFTER must have a row in after, and in no other side"),
        (message(op="MHEARTBEAT"), "op MHEARTBEAT with a row: only inserts, updates and deletes have one"),
        (message(after={"dataColumn": [1]}), "payload.after.dataColumn: Expected `object`, got `array`"),
        (message(after=5), "not a message of DataWorks: `payload.after` must be an object"),
        (message(after={"dataColumn": {"n": "a"}}), "the row lacks key column 'id'"),
        (
            message(sequenceId="XXX"),
            "the sequence id 'XXX' is neither digits nor a binlog file and offset like mysql-bin.000010:7461",
        ),
        (
            message(**HALF, sequenceId=None),
            "op UPDATE_BEFOR without `payload.sequenceId`, which names the other half of the update",
        ),
        (
            message(...),
            "the message names no table: `schema.source.tableName` is missing; say which with --table",
        ),
        (
            message({"dataColumn": [{"name": "id"}]}),
            "schema: Object missing required field `type` - at `$.dataColumn[0]`",
        ),
    ],
)
def test_a_bad_message_is_rejected_with_its_reason_and_its_neighbours_are_not(record: str, reason: str) -> None:
    changes, reasons = decode(message(), record, message())
    assert len(reasons) == 1
    assert reasons[0].startswith(reason)
    assert [change["origin"]["record"] for change in changes] == [0, 2]


def test_halves_join_and_come_back_as_the_two_messages() -> None:
    given = [
        *update("9", {"id": 1, "n": "a"}, {"id": 2, "n": "b"}, timestamp={"eventTime": MILLIS, "systemTime": 5}),
        *update("010", {"id": 2, "n": "b"}, {"id": 2, "n": "c"}, scn="77"),
    ]
    joined = paired(given)
    assert joined.select(["op", "key", "before", "after", "position"]).to_pylist()[0] == {
        "op": "update",
        "key": '{"id":2}',
        "before": '{"id":1,"n":"a"}',
        "after": '{"id":2,"n":"b"}',
        "position": "019.011",
    }
    assert rewritten(given) == [json.loads(text) for text in given]


@pytest.mark.parametrize("absent", [..., {"dataColumn": {}}, {"dataColumn": None, "more": 1}])
def test_joined_halves_of_other_shapes_come_back_as_they_were(absent: Any) -> None:
    before, after = {"dataColumn": {"id": 1, "n": "a"}}, {"dataColumn": {"id": 1, "n": "b"}}
    given = [
        message(op="UPDATE_BEFOR", before=before, after=absent),
        message(op="UPDATE_AFTER", before=absent, after=after),
    ]
    assert rewritten(given) == [json.loads(text) for text in given]


def test_only_halves_are_transactions_and_end_with_the_after_half() -> None:
    changes, _ = changeling.decode([message(), *update("9", {"id": 1}, {"id": 1})], NAME)
    assert changes["transaction"].to_pylist() == [
        None,
        {"id": "9", "order": None, "total": None, "complete": None},
        {"id": "9", "order": None, "total": None, "complete": True},
    ]


def test_ids_order_as_numbers_and_a_message_without_one_takes_its_place_of_arrival() -> None:
    changes, _ = decode(message(sequenceId="9"), message(sequenceId="10"), message(sequenceId=None))
    assert [position.decode(change["position"]) for change in changes] == [(9, 1), (10, 1), (0, 2)]


def test_a_heartbeat_is_a_barrier_where_it_has_a_place() -> None:
    mark = {"op": "MHEARTBEAT", "after": None}
    changes, _ = decode(message(**mark), message(**mark, sequenceId=None))
    assert [(change["op"], change["position"]) for change in changes] == [
        ("barrier", "017.010"),
        ("message", "010.011"),
    ]


def test_images_tell_how_much_of_the_row_they_hold() -> None:
    changes, _ = decode(
        message(op="DELETE", before={"dataColumn": {"id": 1}}, after=None),
        message(op="UPDATE_AFTER", after={"dataColumn": {"id": 1}}),
        message(after={"dataColumn": {"id": 1, "n": None, "x": 1}}),
    )
    assert [(change["before_image"], change["after_image"]) for change in changes] == [
        ("key", "none"),
        ("none", "partial"),
        ("none", "full"),
    ]


def test_the_schema_is_the_messages_own_unless_the_user_declares_another() -> None:
    changes, _ = changeling.decode([message()], NAME)
    own = schema_from_json(changes["schema"][0].as_py())
    assert [(column.name, column.type, column.original_type) for column in own.columns] == [
        ("id", "int64", "LONG"),
        ("n", "string", "STRING"),
    ]
    assert own.key == ("id",)
    changes, _ = changeling.decode([message()], NAME, columns="id:uint64,n:json")
    given = schema_from_json(changes["schema"][0].as_py())
    assert [(column.name, column.type) for column in given.columns] == [("id", "uint64"), ("n", "json")]
    records, _ = changeling.encode(changes, NAME)
    assert records["value"].to_pylist() == [message().encode()]


def test_a_key_can_be_declared_where_the_message_names_none() -> None:
    keyless = {**TABLE, "primaryKey": []}
    assert decode(message(keyless))[0][0]["key"] is None
    assert decode(message(keyless), key="n")[0][0]["key"] == {"n": "a"}
    assert decode(message(), key="n")[0][0]["key"] == {"id": 1}
