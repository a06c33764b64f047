"""Writing `dataworks-message`: updates in one or two, changes of other dialects, refusals."""

import json
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import changeling
from changeling.conformance.cases import CASES, KEY, ROW, SCHEMA, batch
from changeling.formats.dataworks_message.write import ddl_name
from changeling.formats.encoding import typed
from changeling.formats.pairing import Pairing
from changeling.model import arrow_layouts
from changeling.model.change import Change
from changeling.model.operation import Image

NAME = "dataworks-message"
MILLIS = 1590315269123
SOURCE = {"dbType": "mysql", "dbVersion": "8.0", "dbName": "shop", "schemaName": None, "tableName": "users"}
COLUMNS = [{"name": "id", "type": "LONG"}, {"name": "n", "type": "STRING"}]
TABLE = {"dataColumn": COLUMNS, "primaryKey": ["id"], "source": SOURCE}


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


def written(change: Change, **options: Any) -> list[dict[str, Any]]:
    records, rejects = changeling.encode(batch([change]), NAME, **options)
    assert rejects.to_pylist() == []
    return [json.loads(value) for value in records["value"].to_pylist()]


def test_an_update_can_be_written_as_one_message_or_two() -> None:
    two = update("9", {"id": 1, "n": "a"}, {"id": 1, "n": "b"})
    sides = {"before": {"dataColumn": {"id": 1, "n": "a"}}, "after": {"dataColumn": {"id": 1, "n": "b"}}}
    one = message(op="UPDATE_AFTER", sequenceId="9", **sides)
    assert rewritten(two, update="one") == [json.loads(one)] == rewritten([one])
    assert rewritten([one], update="two") == [json.loads(text) for text in two]
    foreign = CASES["update with both images"]
    assert [found["payload"]["op"] for found in written(foreign)] == ["UPDATE_BEFOR", "UPDATE_AFTER"]
    (found,) = written(foreign, update="one")
    assert found["payload"]["op"] == "UPDATE_AFTER"
    assert found["payload"]["before"]["dataColumn"]["_id"] == "o-1"


def test_a_message_of_another_dialect_is_whole() -> None:
    change = msgspec.structs.replace(CASES["delete by key"], commit_time=MILLIS * 1_000_000)
    (found,) = written(change, db_type="postgresql", db_version="18", start=100)
    columns = found["schema"].pop("dataColumn")
    assert columns[0] == {"name": "_id", "type": "STRING"}
    assert [column["name"] for column in columns] == [column.name for column in SCHEMA.columns]
    assert {column["type"] for column in columns} == {"STRING", "LONG", "DOUBLE", "BOOLEAN", "BYTES", "DATE"}
    source = {"dbType": "postgresql", "dbVersion": "18", "dbName": "shop", "schemaName": None, "tableName": "orders"}
    assert found == {
        "schema": {"primaryKey": ["_id"], "source": source},
        "payload": {
            "before": {"dataColumn": json.loads(KEY)},
            "after": None,
            "sequenceId": "100",
            "op": "DELETE",
            "timestamp": {"eventTime": MILLIS},
        },
    }


def test_columns_without_a_schema_take_the_type_that_their_values_look_like() -> None:
    row = '{"a":1,"b":1.50,"c":"x","d":true,"e":null,"f":[1],"g":99999999999999999999}'
    change = msgspec.structs.replace(CASES["keyless insert"], after=row, schema=None)
    (found,) = written(change, drop="types")
    types = {column["name"]: column["type"] for column in found["schema"]["dataColumn"]}
    assert list(types.items()) == [
        ("a", "LONG"),
        ("b", "DOUBLE"),
        ("c", "STRING"),
        ("d", "BOOLEAN"),
        ("e", "STRING"),
        ("f", "STRING"),
        ("g", "STRING"),
    ]
    assert found["payload"]["after"]["dataColumn"]["f"] == "[1]"
    assert found["payload"]["after"]["dataColumn"]["g"] == "99999999999999999999"


@pytest.mark.parametrize("value", ["[1]", "{}", "99999999999999999999", "1E400", "-1e309", "0.12345678901234567890"])
def test_a_value_that_no_type_holds_is_refused_by_name_and_text_where_that_is_allowed(value: str) -> None:
    change = msgspec.structs.replace(CASES["keyless insert"], after=f'{{"v":{value}}}', schema=None)
    _, rejects = changeling.encode(batch([change]), NAME)
    assert rejects["feature"].to_pylist() == ["types"]
    records, _ = changeling.encode(batch([change]), NAME, drop="types")
    changes, rejects = changeling.decode(records["value"].to_pylist(), NAME)
    found, unfit = typed(changes.to_batches()[0])
    assert (rejects.num_rows, unfit.num_rows, found["after"].to_pylist()) == (
        0,
        0,
        [json.dumps({"v": value}, separators=(",", ":"))],
    )


@pytest.mark.parametrize("value", ["1", "-9223372036854775808", "12.50", "1.5e300", "0.1", "true", '"1E400"'])
def test_other_values_are_read_back_as_they_are(value: str) -> None:
    change = msgspec.structs.replace(CASES["keyless insert"], after=f'{{"v":{value}}}', schema=None)
    records, rejects = changeling.encode(batch([change]), NAME)
    assert rejects.num_rows == 0
    changes, _ = changeling.decode(records["value"].to_pylist(), NAME)
    found, unfit = typed(changes.to_batches()[0])
    assert (unfit.num_rows, found["after"].to_pylist()) == (0, [f'{{"v":{value}}}'])


@pytest.mark.parametrize(
    ("case", "op"),
    [
        ("truncate", "TRUNCATE"),
        ("begin", "TRANSACTION_BEGIN"),
        ("commit", "TRANSACTION_END"),
        ("barrier", "MHEARTBEAT"),
    ],
)
def test_control_changes_are_messages_without_rows(case: str, op: str) -> None:
    (found,) = written(CASES[case], drop="position,transaction")
    assert (found["payload"]["op"], found["payload"]["before"], found["payload"]["after"]) == (op, None, None)


def test_a_statement_names_the_operation_of_its_message() -> None:
    (found,) = written(CASES["ddl"])
    assert found["payload"]["op"] == "ALTER"
    assert found["payload"]["ddl"] == {"text": "ALTER TABLE orders ADD COLUMN x int"}
    statements = [
        "create unique index i on t (a)",
        "DROP INDEX i",
        "drop table t",
        "RENAME TABLE a TO b",
        "GRANT x",
        "",
    ]
    assert [ddl_name(text) for text in statements] == ["CINDEX", "DINDEX", "ERASE", "RENAME", "QUERY", "QUERY"]


@pytest.mark.parametrize(
    ("case", "feature"),
    [
        ("partial update", "partial"),
        ("key alone", "keys-only"),
        ("transaction", "transaction"),
        ("position of two parts", "position"),
        ("nanoseconds", "commit_time"),
        ("message", "message"),
    ],
)
def test_what_has_no_place_is_refused_by_name(case: str, feature: str) -> None:
    records, rejects = changeling.encode(batch([CASES[case]]), NAME)
    assert (records.num_rows, rejects["feature"].to_pylist()) == (0, [feature])


def test_a_before_image_by_key_is_written_where_the_key_changed() -> None:
    change = msgspec.structs.replace(CASES["key change"], before=KEY, before_image=Image.KEY)
    moved = written(change)
    assert [found["payload"]["op"] for found in moved] == ["UPDATE_BEFOR", "UPDATE_AFTER"]
    assert moved[0]["payload"]["before"] == {"dataColumn": {"_id": "o-1"}}
    (found,) = written(msgspec.structs.replace(change, key=KEY, after=ROW))
    assert (found["payload"]["op"], found["payload"]["before"]) == ("UPDATE_AFTER", None)


@pytest.mark.parametrize("update", [None, "one", "two"])
def test_a_delete_that_has_the_key_alone_comes_back_as_that(update: str | None) -> None:
    """Without a schema the columns of the key must not be taken for all that there are."""
    change = msgspec.structs.replace(CASES["delete by key"], schema=None)
    records, rejects = changeling.encode(batch([change]), NAME, update=update)
    assert rejects.num_rows == 0
    changes, rejects = changeling.decode(records, NAME)
    assert rejects.num_rows == 0
    (back,) = arrow_layouts.changes(changes.to_batches()[0])
    assert (back.op, back.key, back.before, back.before_image) == ("delete", KEY, KEY, "key")
