"""What the golden cases cannot show of `ydb-json`: modes on writing, refusals, reasons of rejects, every type both ways."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import changeling
from changeling.formats.ydb_json.types import TYPES
from changeling.model import arrow_layouts, json_text, types
from changeling.model.change import Change, Transaction
from changeling.model.errors import CannotCarry, Rejected, UsageError
from changeling.model.operation import Image, Operation
from changeling.model.position import encode as position
from changeling.model.table import Column, TableName, TableSchema, schema_from_json

KEYED = {"table": "t", "key": "id"}
SCHEMA = TableSchema((Column("id", "int64"), Column("v", "int64"), Column("w", "string")), ("id",)).to_json()
BEFORE: dict[str, Any] = {"before": '{"id":1,"v":1,"w":"a"}', "before_image": Image.FULL}
AFTER: dict[str, Any] = {"after": '{"id":1,"v":2,"w":"a"}', "after_image": Image.FULL}
PARTIAL: dict[str, Any] = {"after": '{"v":2}', "after_image": Image.PARTIAL}
NEW, OLD = {"newImage": {"v": 2, "w": "a"}}, {"oldImage": {"v": 1, "w": "a"}}
FOLDER = Path(__file__).parents[1] / "golden" / "ydb-json"


def rows(name: str) -> list[bytes]:
    """The lines of a table in the folder of the golden cases, each a JSON object."""
    return (FOLDER / name).read_bytes().splitlines()


def foreign(op: Operation, **parts: Any) -> Change:
    return Change(op=op, **{"table": TableName(None, None, "t"), "key": '{"id":1}', "schema": SCHEMA, **parts})


def write(change: Change, **options: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """The written values, and the features that were refused."""
    place = {"ordinal": 9, "record": 9}
    change.position, change.arrived = change.position or position(9, 9), change.position is None or change.arrived
    batch = arrow_layouts.changes_batch([change], pa.array([place], arrow_layouts.ORIGIN), "test", "canonical")
    records, rejects = changeling.encode(batch, "ydb-json", **options)
    return [json.loads(value) for value in records["value"].to_pylist()], rejects["feature"].to_pylist()


def read(record: str | bytes | dict[str, Any], **options: Any) -> Change:
    changes, rejects = changeling.decode([record], "ydb-json", **{**KEYED, **options})
    assert rejects["reason"].to_pylist() == []
    return arrow_layouts.changes(changes.combine_chunks().to_batches()[0])[0]


def reason(record: str, **options: Any) -> str:
    changes, rejects = changeling.decode([record], "ydb-json", **{**KEYED, **options})
    assert changes.num_rows == 0
    return str(rejects["reason"][0].as_py())


@pytest.mark.parametrize(
    ("mode", "insert", "update", "delete"),
    [
        (None, {"update": {}, **NEW}, {"update": {}, **NEW, **OLD}, {"erase": {}, **OLD}),
        ("KEYS_ONLY", {"update": {}}, {"update": {}}, {"erase": {}}),
        ("updates", {"update": {"v": 2, "w": "a"}}, {"update": {"v": 2}}, {"erase": {}}),
        ("NEW_IMAGE", {"update": {}, **NEW}, {"update": {}, **NEW}, {"erase": {}}),
        ("OLD_IMAGE", {"update": {}}, {"update": {}, **OLD}, {"erase": {}, **OLD}),
        ("NEW_AND_OLD_IMAGES", {"update": {}, **NEW}, {"update": {}, **NEW, **OLD}, {"erase": {}, **OLD}),
    ],
)
def test_each_mode_writes_its_shape(mode: str | None, insert: Any, update: Any, delete: Any) -> None:
    """004-09, -10, -28 to -34, -40: flags, images by mode, an added row as an update, no key columns in them."""
    options = {} if mode is None else {"mode": mode}
    assert write(foreign(Operation.INSERT, **AFTER), **options) == ([{"key": [1], **insert}], [])
    assert write(foreign(Operation.UPDATE, **AFTER, **BEFORE), **options) == ([{"key": [1], **update}], [])
    assert write(foreign(Operation.DELETE, **BEFORE), **options) == ([{"key": [1], **delete}], [])


def test_without_a_mode_the_shape_follows_the_change() -> None:
    assert write(foreign(Operation.UPDATE, **PARTIAL)) == ([{"key": [1], "update": {"v": 2}}], [])
    assert write(foreign(Operation.UPSERT)) == ([{"key": [1], "update": {}}], [])
    assert write(foreign(Operation.DELETE, before='{"id":1}', before_image=Image.KEY)) == (
        [{"key": [1], "erase": {}}],
        [],
    )


@pytest.mark.parametrize(
    ("mode", "change", "feature"),
    [
        ("NEW_IMAGE", foreign(Operation.UPDATE, **PARTIAL), "after"),
        ("NEW_AND_OLD_IMAGES", foreign(Operation.UPDATE, **AFTER), "before"),
        ("OLD_IMAGE", foreign(Operation.DELETE), "before"),
        ("UPDATES", foreign(Operation.UPSERT), "after"),
        ("UPDATES", foreign(Operation.REPLACE, **AFTER, schema=None), "replace"),
        (None, foreign(Operation.DELETE, before='{"v":1}', before_image=Image.PARTIAL), "before"),
        (None, foreign(Operation.UPDATE, key='{"id":2}', before='{"id":1}', before_image=Image.KEY), "key-change"),
        (None, foreign(Operation.INSERT, key=None, **AFTER), "keyless"),
        (None, foreign(Operation.TRUNCATE, key=None), "truncate"),
        (None, foreign(Operation.BEGIN, key=None), "begin"),
        (None, foreign(Operation.COMMIT, key=None), "commit"),
        (None, foreign(Operation.MESSAGE, key=None), "message"),
        (None, foreign(Operation.BARRIER, key=None), "barrier"),
        (None, foreign(Operation.DDL, key=None), "ddl"),
    ],
)
def test_what_a_record_cannot_say_is_refused_by_name(mode: str | None, change: Change, feature: str) -> None:
    """004-03: every record names a key, so that a row without one is refused too."""
    options = {} if mode is None else {"mode": mode}
    assert write(change, **options) == ([], [feature])
    assert write(change, **options, drop=feature)[1] == []


def test_a_moved_row_is_an_erase_and_an_update() -> None:
    moved = foreign(Operation.UPDATE, key='{"id":2}', after='{"id":2,"w":"b"}', after_image=Image.PARTIAL, **BEFORE)
    erase = {"key": [1], "erase": {}, "oldImage": {"v": 1, "w": "a"}}
    assert write(moved) == ([erase, {"key": [2], "update": {}, "newImage": {"v": 1, "w": "b"}}], [])


def test_a_replace_names_its_nulls_or_is_a_reset() -> None:
    replace = foreign(Operation.REPLACE, after='{"id":1,"v":2}', after_image=Image.FULL)
    assert write(replace) == ([{"key": [1], "update": {}, "newImage": {"v": 2, "w": None}}], [])
    assert write(replace, mode="UPDATES") == ([{"key": [1], "update": {"v": 2, "w": None}}], [])
    assert write(replace, reset=True) == ([{"key": [1], "reset": {"v": 2}}], [])
    assert write(replace, reset=True, mode="NEW_IMAGE") == ([{"key": [1], "reset": {}, "newImage": {"v": 2}}], [])


STAMPED: dict[str, Any] = {"position": position(1670792400890, 7), "commit_time": 1670792400890_000_000}


def test_ts_is_written_where_the_position_is_of_its_kind() -> None:
    """004-12, 004-15: two integers, on or off by the option."""
    change = foreign(Operation.UPSERT, **STAMPED, transaction=Transaction("7"))
    stamped = {"key": [1], "update": {}, "ts": [1670792400890, 7]}
    assert write(change) == ([stamped], [])
    assert write(change, virtual_timestamps=True) == ([stamped], [])
    assert write(change, virtual_timestamps=False) == ([{"key": [1], "update": {}}], [])
    assert write(foreign(Operation.UPSERT), virtual_timestamps=True) == ([], ["position"])
    assert write(foreign(Operation.BARRIER, key=None, **STAMPED)) == ([{"resolved": [1670792400890, 7]}], [])


@pytest.mark.parametrize(
    ("parts", "feature"),
    [
        ({"position": position(1, 2, 3)}, "position"),
        ({"position": position(2**64, 0)}, "position"),
        ({**STAMPED, "commit_time": 5}, "position"),
        ({"commit_time": 5}, "commit_time"),
        ({"transaction": Transaction("7")}, "transaction"),
        ({**STAMPED, "transaction": Transaction("8")}, "transaction"),
        ({**STAMPED, "transaction": Transaction("7", order=1)}, "transaction"),
    ],
)
def test_order_time_and_transaction_of_another_kind_are_refused(parts: dict[str, Any], feature: str) -> None:
    assert write(foreign(Operation.UPSERT, **parts)) == ([], [feature])
    everything = "position,commit_time,transaction"
    assert write(foreign(Operation.UPSERT, **parts), drop=everything)[1] == []


def test_a_foreign_schema_change_is_a_schema_record() -> None:
    columns = {"id": {"type": "Int64"}, "v": {"type": "Int64"}, "w": {"type": "Utf8"}}
    table = {"schemaVersion": 1, "columns": columns, "primaryKeyColumnNames": ["id"]}
    expected = {"tableChanges": [{"table": table}], "ts": [1670792400890, 7]}
    assert write(foreign(Operation.DDL, key=None, **STAMPED)) == ([expected], [])


def test_topic_message_key_and_key_order() -> None:
    """004-29: composite keys in the order of the table's key; the message key is the array's text."""
    columns = (Column("b", "int64"), Column("a", "string"))
    change = foreign(
        Operation.DELETE,
        table=TableName("shop", "public", "t"),
        key='{"a":"x","b":2}',
        schema=TableSchema(columns, ("b", "a")).to_json(),
        position=position(9, 9),
        arrived=True,
    )
    place = pa.array([{"ordinal": 9, "record": 9}], arrow_layouts.ORIGIN)
    batch = arrow_layouts.changes_batch([change], place, "test", "canonical")
    records, _ = changeling.encode(batch, "ydb-json", feed="changes")
    found = records.to_pylist()[0]
    assert (found["topic"], found["key"], found["value"]) == (
        "shop/public/t/changes",
        b'[2,"x"]',
        b'{"key":[2,"x"],"erase":{}}',
    )


def test_native_records_come_back_in_member_order_and_may_change_mode() -> None:
    text = '{"user":"u","update":{},"newImage":{"v":1.50},"key":[1],"oldImage":{"v":1.5},"ts":[9,9]}'
    changes, _ = changeling.decode([text], "ydb-json", **KEYED)
    assert changeling.encode(changes, "ydb-json")[0]["value"].to_pylist() == [text.encode()]
    updates, _ = changeling.encode(changes, "ydb-json", mode="UPDATES", virtual_timestamps=False)
    assert updates["value"].to_pylist() == [b'{"key":[1],"update":{"v":1.50},"user":"u"}']


@pytest.mark.parametrize("row", rows("rejects.jsonl"), ids=lambda row: json.loads(row)["record"])
def test_wrong_records_are_rejected_with_the_reason(row: bytes) -> None:
    """004-39: a record with both flags, and one with neither; and other shapes that are none of YDB's."""
    said = json.loads(row)
    assert said["reason"] in reason(said["record"])


def test_a_schema_record_gives_the_schema() -> None:
    columns = '{"id":"Uint64","d":{"type":"Decimal(35, 10)"},"x":"Unheard"}'
    text = f'{{"tableChanges":[{{"table":{{"schemaVersion":3,"columns":{columns},"primaryKeyColumnNames":"last"}}}}],"ts":[1,2]}}'
    found = schema_from_json(read(text).schema or "")
    assert found == TableSchema(
        (
            Column("id", "uint64", "Uint64"),
            Column("d", "decimal(35,10)", "Decimal(35, 10)"),
            Column("x", "json", "Unheard"),
        ),
        ("id",),
        TableName(None, None, "t"),
        3,
    )


def test_key_names_table_and_mode_must_be_declared() -> None:
    with pytest.raises(UsageError, match="--key a,b or in a schema"):
        changeling.decode([], "ydb-json", table="t")
    with pytest.raises(UsageError, match="did you mean 'UPDATES'"):
        changeling.decode([], "ydb-json", **KEYED, mode="update")
    with pytest.raises(UsageError, match="did you mean 'OLD_IMAGE'"):
        changeling.encode(arrow_layouts.CHANGES.empty_table(), "ydb-json", mode="old_images")
    assert "give --table" in reason('{"key":[1],"erase":{}}', table=None)
    other = (TableSchema((Column("id", "int64"),), ("id",), TableName(None, None, "other")),)
    _, rejects = changeling.decode([{"value": "{}", "topic": "t/feed"}], "ydb-json", schemas=other)
    assert "nothing names the key columns of table t" in rejects["reason"][0].as_py()


@pytest.mark.parametrize(
    "row", rows("types.jsonl"), ids=lambda row: f"{json.loads(row)['type']} {json.loads(row)['wire']}"
)
def test_every_type_both_ways(row: bytes) -> None:
    """002-26 to 002-29 from YDB's side: instants, decimals with their scale, bytes, UUIDs; and all other types."""
    said = json_text.members(row)
    name, only = json_text.string(said["type"]), said.get("only")
    kind = TYPES.parse(name)
    assert kind is not None
    if only != b'"write"':
        assert TYPES.reader(kind, name)(said["wire"]) == said["canonical"]
    if only != b'"read"':
        convert = TYPES.writer(kind, name)
        assert (said["canonical"] if convert is None else convert(said["canonical"])) == said["wire"]


@pytest.mark.parametrize("row", rows("types-of-others.jsonl"), ids=lambda row: json.loads(row)["type"])
def test_types_of_other_dialects_find_a_place(row: bytes) -> None:
    said = json_text.members(row)
    kind = types.parse(json_text.string(said["type"]))
    convert = TYPES.writer(kind)
    assert TYPES.name(kind) == json_text.string(said["name"])
    assert (said["canonical"] if convert is None else convert(said["canonical"])) == said["wire"]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("timestamptz", b'"2023-12-25T10:15:30.123456789Z"'),
        ("timestamp", b'"infinity"'),
        ("date", b'"0044-03-15 BC"'),
        ("duration", b'"P1M"'),
        ("duration", b'"P1Y2DT1S"'),
        ("duration", b'"PT0.0000001S"'),
    ],
)
def test_values_without_a_place_are_refused_as_types(kind: str, value: bytes) -> None:
    with pytest.raises(CannotCarry) as refused:
        (TYPES.writer(types.parse(kind)) or bytes)(value)
    assert refused.value.feature == "types"
    change = foreign(
        Operation.UPSERT,
        after=b'{"v":%b}' % value,
        after_image=Image.PARTIAL,
        schema=TableSchema((Column("id", "int64"), Column("v", kind)), ("id",)).to_json(),
    )
    assert write(change) == ([], ["types"])


@pytest.mark.parametrize(
    ("name", "wire"),
    [
        ("Date32", b"99999999"),
        ("Timestamp64", b"1.5"),
        ("Interval", b"0.0001"),
        ("Uint64", b"18446744073709551616"),
        ("pgbytea", b'"00"'),
    ],
)
def test_values_outside_of_their_type_are_rejected(name: str, wire: bytes) -> None:
    kind = TYPES.parse(name)
    assert kind is not None
    with pytest.raises(Rejected):
        TYPES.reader(kind, name)(wire)


@pytest.mark.parametrize("stamp", ["[1670792400890,-0]", "[-0,7]", "[-0,-0]"])
@pytest.mark.parametrize(
    "record",
    [
        '{"key":[1],"update":{"v":2},"ts":%s}',
        '{"key":[1],"update":{},"newImage":{"v":2},"oldImage":{},"ts":%s,"user":"u"}',
        '{"key":[1],"erase":{},"ts":%s}',
        '{"resolved":%s}',
        '{"tableChanges":[{"table":{"schemaVersion":3,"columns":{"id":"Int64"},"primaryKeyColumnNames":"last"}}],"ts":%s}',
    ],
)
def test_a_zero_with_a_sign_comes_back_as_it_was(record: str, stamp: str) -> None:
    plain, odd = record % "[1670792400890,7]", record % stamp
    for given in ([odd], [odd] * 3, [plain, odd, plain]):
        changes, rejects = changeling.decode(given, "ydb-json", **KEYED)
        assert rejects["reason"].to_pylist() == []
        records, rejects = changeling.encode(changes, "ydb-json")
        assert rejects.num_rows == 0
        assert [value.decode() for value in records["value"].to_pylist()] == given


def test_another_mode_keeps_a_zero_with_a_sign_too() -> None:
    changes, _ = changeling.decode(['{"key":[1],"update":{"v":2},"ts":[5,-0]}'], "ydb-json", **KEYED)
    records, _ = changeling.encode(changes, "ydb-json", mode="UPDATES")
    assert records["value"].to_pylist() == [b'{"key":[1],"update":{"v":2},"ts":[5,-0]}']
    records, _ = changeling.encode(changes, "ydb-json", virtual_timestamps=False)
    assert records["value"].to_pylist() == [b'{"key":[1],"update":{"v":2}}']
