"""What the golden cases cannot show of `ydb-debezium`: modes on writing, refusals, reasons of rejects, keys in headers."""

import json
from typing import Any

import pyarrow as pa
import pytest

import changeling
from changeling.model import arrow_layouts
from changeling.model.change import Change, Transaction
from changeling.model.errors import UsageError
from changeling.model.operation import Image, Operation
from changeling.model.position import encode as position
from changeling.model.table import Column, TableName, TableSchema

SCHEMA = TableSchema((Column("id", "int64"), Column("v", "int64"), Column("day", "date")), ("id",)).to_json()
STEP, TX = 1_670_792_400_890, 562_949_953_607_163
SOURCE = {"connector": "ydb", "version": "1.0.0", "ts_ms": STEP, "step": STEP, "txId": TX, "snapshot": False}
BEFORE: dict[str, Any] = {"before": '{"v":1,"day":"2020-08-12"}', "before_image": Image.FULL}
AFTER: dict[str, Any] = {"after": '{"id":1,"v":2,"day":null}', "after_image": Image.FULL}
OLD = {"id": 1, "v": 1, "day": "2020-08-12T00:00:00.000000Z"}
NEW = {"id": 1, "v": 2, "day": None}


def foreign(op: Operation, **parts: Any) -> Change:
    stamp = {
        "position": position(STEP, TX),
        "commit_time": STEP * 1_000_000,
        "transaction": Transaction(str(TX)),
    }
    fields = {"table": TableName("db", None, "t"), "key": '{"id":1}', "schema": SCHEMA, **stamp, **parts}
    return Change(op=op, **fields)


def write(change: Change, **options: Any) -> list[tuple[Any, Any]]:
    records, rejects = encode(change, **options)
    assert rejects.to_pylist() == []
    return [(json.loads(row["value"])["payload"], json.loads(row["key"])) for row in records.to_pylist()]


def encode(change: Change, **options: Any) -> tuple[pa.Table, pa.Table]:
    change.position, change.arrived = change.position or position(9, 9), change.position is None or change.arrived
    place = pa.array([{"ordinal": 9, "record": 9}], arrow_layouts.ORIGIN)
    return changeling.encode(
        arrow_layouts.changes_batch([change], place, "test", "canonical"), "ydb-debezium", **options
    )


def refused(change: Change, **options: Any) -> str:
    records, rejects = encode(change, **options)
    assert records.num_rows == 0
    return str(rejects["feature"][0].as_py())


def reason(payload: Any, key: str | None = '{"payload":{"id":1}}', **options: Any) -> str:
    text = payload if isinstance(payload, str) else json.dumps({"payload": payload})
    changes, rejects = changeling.decode([{"value": text, "key": key}], "ydb-debezium", **{"table": "t", **options})
    assert changes.num_rows == 0
    return str(rejects["reason"][0].as_py())


@pytest.mark.parametrize(
    ("mode", "insert", "update", "delete", "scan"),
    [
        (None, ("c", None, NEW), ("u", OLD, NEW), ("d", OLD, None), ("r", None, NEW)),
        ("KEYS_ONLY", ("u", None, None), ("u", None, None), ("d", None, None), ("r", None, None)),
        ("UPDATES", ("u", None, None), ("u", None, None), ("d", None, None), ("r", None, None)),
        ("new_image", ("u", None, NEW), ("u", None, NEW), ("d", None, None), ("r", None, NEW)),
        ("OLD_IMAGE", ("u", None, None), ("u", OLD, None), ("d", OLD, None), ("r", NEW, None)),
        ("NEW_AND_OLD_IMAGES", ("c", None, NEW), ("u", OLD, NEW), ("d", OLD, None), ("r", None, NEW)),
    ],
)
def test_every_mode_shows_its_images_and_no_others(
    mode: str | None, insert: Any, update: Any, delete: Any, scan: Any
) -> None:
    """Checklist 004-48 to 004-52, 004-54 to 004-56: the wrapper, op, before and after, source, snapshot, key."""
    changes = [
        (foreign(Operation.INSERT, **AFTER), insert),
        (foreign(Operation.UPDATE, **BEFORE, **AFTER), update),
        (foreign(Operation.DELETE, **BEFORE), delete),
        (foreign(Operation.READ, **AFTER), scan),
    ]
    for change, (letter, before, after) in changes:
        expected = {"op": letter, "source": {**SOURCE, "snapshot": letter == "r"}}
        expected |= {} if before is None else {"before": before}
        expected |= {} if after is None else {"after": after}
        assert write(change, mode=mode) == [(expected, {"payload": {"id": 1}})]


def test_an_unknown_mode_is_a_wrong_call() -> None:
    with pytest.raises(UsageError, match="did you mean 'NEW_IMAGE'"):
        changeling.encode(
            arrow_layouts.changes_batch([], pa.array([], arrow_layouts.ORIGIN), "s", "canonical"),
            "ydb-debezium",
            mode="NEW_IMAG",
        )


def test_the_source_has_its_six_fields_whatever_the_change_says() -> None:
    """Checklist 004-48, 004-52: a change without a place of its own gets that of the output."""
    bare = foreign(Operation.INSERT, **AFTER, position=None, commit_time=None, transaction=None)
    written = write(bare, drop={"commit_time"})[0]
    assert written[0]["source"] == {**SOURCE, "ts_ms": None, "step": 0, "txId": 1}
    topics = encode(bare, feed="updates", drop={"commit_time"})[0]["topic"].to_pylist()
    assert topics == ["db//t/updates"]
    back, _ = changeling.decode(
        [{"value": json.dumps({"payload": written[0]}), "key": json.dumps(written[1])}], "ydb-debezium", table="t"
    )
    assert back["commit_time"].to_pylist() == [None]


@pytest.mark.parametrize(
    ("change", "options", "feature"),
    [
        (foreign(Operation.UPDATE, **AFTER), {"mode": "OLD_IMAGE"}, "before"),
        (foreign(Operation.UPSERT), {"mode": "NEW_IMAGE"}, "after"),
        (foreign(Operation.UPDATE, after='{"v":2}', after_image=Image.PARTIAL), {}, "partial"),
        (foreign(Operation.INSERT, **AFTER, key=None), {}, "keyless"),
        (foreign(Operation.INSERT, **AFTER, position=position(1, 2, 3), transaction=None), {}, "position"),
        (foreign(Operation.INSERT, **AFTER, commit_time=1), {}, "commit_time"),
        (foreign(Operation.INSERT, **AFTER, commit_time=None), {}, "commit_time"),
        (foreign(Operation.INSERT, **AFTER, transaction=Transaction("7")), {}, "transaction"),
        (foreign(Operation.INSERT, **AFTER, transaction=Transaction(str(TX), 1)), {}, "transaction"),
        (foreign(Operation.BARRIER, key=None), {}, "barrier"),
        (foreign(Operation.TRUNCATE, key=None), {}, "truncate"),
        (foreign(Operation.UPSERT), {"keyed": False}, "keys-only"),
        (foreign(Operation.DELETE), {"keyed": False}, "keys-only"),
        (foreign(Operation.INSERT, **AFTER), {"keyed": False, "mode": "UPDATES"}, "keys-only"),
    ],
)
def test_refusals_by_name(change: Change, options: dict[str, Any], feature: str) -> None:
    assert refused(change, **options) == feature


def test_plain_files_take_records_whose_images_show_the_key() -> None:
    assert write(foreign(Operation.DELETE, **BEFORE), keyed=False)[0][0]["before"] == OLD


def test_a_key_change_is_a_delete_and_a_create() -> None:
    moved = foreign(
        Operation.UPDATE,
        key='{"id":2}',
        before='{"id":1,"v":1}',
        before_image=Image.FULL,
        after='{"id":2,"v":2}',
        after_image=Image.FULL,
    )
    assert [(payload["op"], key) for payload, key in write(moved)] == [
        ("d", {"payload": {"id": 1}}),
        ("c", {"payload": {"id": 2}}),
    ]


def test_the_key_may_stand_in_the_header_that_ydb_uses() -> None:
    headers = [{"name": "trace", "value": b"7"}, {"name": "__key", "value": b'{"payload":{"id":1}}'}]
    batch = pa.table(
        {
            "value": pa.array([json.dumps({"payload": {"op": "d", "source": SOURCE}}).encode()], pa.binary()),
            "headers": pa.array([headers], arrow_layouts.HEADERS),
        }
    )
    changes, rejects = changeling.decode(batch, "ydb-debezium", table="t")
    assert (rejects.num_rows, changes["key"].to_pylist()) == (0, ['{"id":1}'])
    for options in ({}, {"mode": "KEYS_ONLY"}):
        records, _ = changeling.encode(changes, "ydb-debezium", **options)
        assert records.select(["key", "headers"]).to_pylist() == [{"key": None, "headers": headers}]


def test_native_records_take_another_mode_and_keep_their_source() -> None:
    value = {
        "payload": {
            "op": "u",
            "before": {"id": 1, "v": 1},
            "after": {"id": 1, "v": 2},
            "source": {**SOURCE, "user": "me"},
        }
    }
    changes, _ = changeling.decode(
        [{"value": json.dumps(value), "key": '{"payload":{"id":1}}'}], "ydb-debezium", table="t"
    )
    records, _ = changeling.encode(changes, "ydb-debezium", mode="NEW_IMAGE")
    assert json.loads(records["value"][0].as_py()) == {
        "payload": {"op": "u", "after": {"id": 1, "v": 2}, "source": {**SOURCE, "user": "me"}}
    }
    keys_only = {"value": '{"payload":{"op":"u"}}', "key": '{"payload":{"id":1}}'}
    changes, _ = changeling.decode([keys_only], "ydb-debezium", table="t")
    assert changeling.encode(changes, "ydb-debezium", keyed=False)[1]["feature"].to_pylist() == ["keys-only"]


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"op": "x"}, "unknown op 'x': YDB has c, u, d and r"),
        ({"op": "c"}, "op 'c' without a row in `after`"),
        ({"op": "d", "after": {"id": 1}}, "op 'd' with a row in `after`"),
        ({"op": "u", "after": [1]}, "`after` must be an object"),
        (
            {"op": "u", "source": {"connector": "mysql"}},
            "the connector is 'mysql', not 'ydb'; read it with --from debezium-json",
        ),
        ({"op": "u", "source": {"step": -1, "txId": 1}}, "must be whole numbers of 64 bits"),
        ({"op": "u", "source": {"step": "x", "txId": 1}}, "Expected `int | null`, got `str` - at `$.source.step`"),
        ({"source": {}}, "its payload has no `op`"),
        ("[]", "Expected `object`, got `array`"),
        ("{", "not JSON"),
    ],
)
def test_rejects_say_what_is_wrong(payload: Any, expected: str) -> None:
    assert expected in reason(payload)


def test_a_record_must_name_its_table_and_its_row() -> None:
    assert "give --table" in reason({"op": "u"}, table=None)
    assert "nothing names the row" in reason({"op": "u", "source": SOURCE}, key=None)
    _, rejects = changeling.decode(['{"payload":{"op":"u","after":{"v":1}}}'], "ydb-debezium", table="t", key="id")
    assert rejects["reason"].to_pylist() == ["no message key, and the row lacks the key columns id"]


def test_times_fall_back_on_the_step() -> None:
    """Checklist 004-53: ts_ms is the commit time."""
    late = {**SOURCE, "ts_ms": STEP + 5}
    for source, millis in ((late, STEP + 5), ({"step": STEP, "txId": TX}, STEP)):
        record = {"value": json.dumps({"payload": {"op": "u", "source": source}}), "key": '{"payload":{"id":1}}'}
        changes, _ = changeling.decode([record], "ydb-debezium", table="t")
        assert changes["commit_time"].to_pylist() == [millis * 1_000_000]
