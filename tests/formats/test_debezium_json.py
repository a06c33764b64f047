"""Reading Debezium's events: what golden cases cannot show."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import changeling
from changeling.model import arrow_layouts
from changeling.model.change import Change, Record
from changeling.model.table import Column, TableSchema, schema_from_json
from tests.golden.test_golden import CASES, records_of

SOURCE = {"connector": "postgresql", "db": "shop", "schema": "public", "table": "items", "lsn": 7, "ts_ms": 1000}


def event(op: str, before: Any, after: Any, **source: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "source": {**SOURCE, **source}, "op": op, "ts_ms": 2000}


def read(*records: Any, **options: Any) -> list[Change]:
    texts = [record if isinstance(record, (dict, bytes)) and "value" in record else _text(record) for record in records]
    changes, rejects = changeling.decode(texts, "debezium-json", **options)
    assert rejects.to_pylist() == []
    return arrow_layouts.changes(changes.combine_chunks().to_batches()[0])


def reason(record: Any, **options: Any) -> str:
    changes, rejects = changeling.decode([_text(record)], "debezium-json", **options)
    assert changes.num_rows == 0
    return str(rejects["reason"][0].as_py())


def _text(record: Any) -> Any:
    return record if isinstance(record, (str, bytes)) else json.dumps(record)


@pytest.mark.parametrize("case", [case for case in CASES if case.parent.name == "xtdb"], ids=lambda case: case.name)
def test_xtdb_events_say_the_same_as_in_their_own_format(case: Path) -> None:
    """Checklist 002-34: same op, images, transaction; and the same key, position and time."""
    decoded = [changeling.decode(records_of(case), name)[0] for name in ("xtdb", "debezium-json")]
    assert decoded[0].num_rows == decoded[1].num_rows
    same = ["op", "before", "after", "before_image", "after_image", "position", "commit_time", "transaction"]
    if "message" not in decoded[0]["op"].to_pylist():
        same += ["key", "table"]
    assert decoded[1].select(same) == decoded[0].select(same)


@pytest.mark.parametrize(
    ("source", "position"),
    [
        ({"connector": "postgresql", "sequence": '["10","20"]', "lsn": 20}, "0210.0220"),
        ({"connector": "postgresql", "sequence": '[null,"20"]', "lsn": 20}, "010.0220"),
        ({"connector": "postgresql", "sequence": "[null,null]", "lsn": 20}, "0220"),
        ({"connector": "postgresql", "lsn": 20}, "0220"),
        ({"connector": "mysql", "file": "binlog.000042", "pos": 4, "row": 1, "gtid": "a:9"}, "0242.014.011"),
        ({"connector": "MYSQL", "file": "b.000042", "pos": "4", "row": None}, "0242.014.010"),
        ({"connector": "mariadb", "file": None, "pos": None, "row": None}, None),
        (
            {"connector": "sqlserver", "commit_lsn": "00:00:0a", "change_lsn": "00:00:0f", "event_serial_no": 1},
            "0210.0215.011",
        ),
        ({"connector": "sqlserver", "commit_lsn": None, "change_lsn": None}, None),
        ({"connector": "db2", "commit_lsn": "00:00:0a", "change_lsn": None}, "0210.010.010"),
        ({"connector": "oracle", "commit_scn": "12", "scn": "9"}, "0212.019"),
        ({"connector": "oracle", "commit_scn": None, "scn": "9"}, "019.019"),
        ({"connector": "oracle", "commit_scn": None, "scn": "9", "rs_id": None, "ssn": 0}, "019.019"),
        (
            {"connector": "oracle", "commit_scn": "12", "scn": "9", "rs_id": " 0x000004.00000010.0010 ", "ssn": 7},
            "0212.019.014.0216.0216.017",
        ),
        ({"connector": "oracle", "commit_scn": "12", "scn": "9", "rs_id": "?", "ssn": "7"}, "0212.019.010.010.010.017"),
        ({"connector": "mongodb", "collection": "c", "ts_ms": 5000, "ord": 3}, "015.013"),
        ({"connector": "mongodb", "collection": "c", "ts_ms": 5000, "ord": 3, "tord": 2}, "015.013.012"),
        ({"connector": "ydb", "step": 5, "txId": 6}, "015.016"),
        ({"connector": "cassandra", "pos": 5}, None),
        ({"connector": "changeling", "position": "0210.0220.0230"}, "0210.0220.0230"),
    ],
)
def test_positions_of_every_connector(source: dict[str, Any], position: str | None) -> None:
    blank = dict.fromkeys(("lsn",))
    found = read(event("c", None, {"_id": 1}, **{**blank, **source}), key="_id")[0].position
    assert found == (position or "010.010"), "the place of arrival stands in for a missing one"


@pytest.mark.parametrize(
    ("source", "transaction", "position"),
    [
        ({"connector": "mysql", "file": "b.42", "pos": 0, "row": 0}, (7, 3), "0242.010.010.017.013"),
        ({"connector": "mysql", "file": "b.42", "pos": 0, "row": 0}, ("7", None), "0242.010.010.017.010"),
        ({"connector": "mongodb", "collection": "c", "ts_ms": 5000, "ord": 3}, (None, 2), "015.013.010.012"),
        ({"connector": "postgresql", "lsn": 20}, (None, None), "0220"),
        ({"connector": "ydb", "step": 5, "txId": 6}, (7, 3), "015.016"),
        ({"connector": "xtdb-cdc", "tx_id": 5}, (7, 3), "015.013"),
        ({"connector": "changeling", "position": "0210"}, (7, 3), "0210"),
    ],
)
def test_the_place_inside_the_transaction_is_behind_a_position_that_changes_share(
    source: dict[str, Any], transaction: tuple[Any, Any], position: str
) -> None:
    made = event("c", None, {"_id": 1}, **{"lsn": None, **source})
    total, order = transaction
    made["transaction"] = {"id": "t", "total_order": total, "data_collection_order": order}
    assert read(made, key="_id")[0].position == position


def test_the_finest_clock_of_the_source_gives_the_time() -> None:
    times: list[tuple[dict[str, Any], int]] = [
        ({"ts_ms": 1, "ts_us": 1002, "ts_ns": 1002003}, 1_002_003),
        ({"ts_ms": 1, "ts_us": 1002}, 1_002_000),
        ({"ts_ms": 1}, 1_000_000),
        ({"ts_ms": "1"}, 1_000_000),
        ({"ts_ms": None}, 2_000_000_000),
    ]
    for clocks, nanos in times:
        assert read(event("c", None, {"a": 1}, **clocks))[0].commit_time == nanos


def test_the_message_key_wins_over_the_option_and_keyless_rows_have_none() -> None:
    record = {"value": _text(event("c", None, {"id": 1, "a": 2})), "key": '{"id":1}'}
    assert read(record, key="a")[0].key == '{"id":1}'
    assert read({"value": record["value"]}, key="a")[0].key == '{"a":2}'
    assert read({"value": record["value"]})[0].key is None
    assert read({"value": record["value"], "key": "Struct{id=1}"})[0].key is None
    wrapped = '{"schema":{"type":"struct","fields":[]},"payload":{"b":1.50,"a":"2"}}'
    assert read({"value": record["value"], "key": wrapped})[0].key == '{"a":"2","b":1.5}'


def test_message_keys_that_are_no_json_come_back() -> None:
    value = json.dumps(event("c", None, {"id": 1}, connector="changeling", position="0210"))
    keys = [b"Struct{id=1}", b"{id=1}", b"a", b"b", b"7", b'{"id":1}', b'{"id": 1}', None]
    changes, _ = changeling.decode([{"value": value, "key": key} for key in keys], "debezium-json", key="id")
    assert [json.loads(meta).keys() - {"envelope"} for meta in changes["meta"].to_pylist()] == [
        *[{"key_text"}] * 4,
        {"key"},
        set(),
        {"key"},
        set(),
    ]
    records, rejects = changeling.encode(changes, "debezium-json")
    assert rejects.to_pylist() == []
    assert records["key"].to_pylist() == [*keys[:-1], b'{"id":1}']


def test_tombstones_of_which_some_have_no_key_are_kept() -> None:
    keys = [b'{"payload":{"id":1}}', None, b'{"payload":{"id":2}}', b"a"]
    changes, _ = changeling.decode([{"value": None, "key": key} for key in keys], "debezium-json", table="t")
    assert [json.loads(meta) for meta in changes["meta"].to_pylist()] == [
        {"tombstone": True, "key": {"payload": {"id": 1}}},
        {"tombstone": True},
        {"tombstone": True, "key": {"payload": {"id": 2}}},
        {"tombstone": True, "key_text": "a"},
    ]
    records, rejects = changeling.encode(changes, "debezium-json")
    assert (records["key"].to_pylist(), rejects.num_rows) == (keys, 0)


@pytest.mark.parametrize(
    ("op", "before", "after", "image"),
    [
        ("u", {"id": 1}, {"id": 1, "a": 2, "b": 3}, "key"),
        ("u", {"id": 1, "a": 1}, {"id": 1, "a": 2, "b": 3}, "partial"),
        ("u", {"id": 1, "a": 1, "b": 1}, {"id": 1, "a": 2, "b": 3}, "full"),
        ("u", {"id": 2}, {"id": 1}, "full"),
        ("u", {}, {"id": 1}, "none"),
        ("u", None, {"id": 1}, "none"),
        ("d", {"id": 1}, None, "key"),
        ("d", {"id": 1, "a": None}, None, "full"),
        ("d", {}, {}, "none"),
    ],
)
def test_how_complete_the_row_before_is(op: str, before: Any, after: Any, image: str) -> None:
    record = {"value": _text(event(op, before, after)), "key": '{"id":1}'}
    change = read(record)[0]
    assert change.before_image == image
    assert (change.before is None) == (image == "none")


def test_columns_that_the_database_did_not_send_are_absent_and_come_back() -> None:
    image = '{"id":1,"a":"__debezium_unavailable_value","m":{"__debezium_unavailable_value":"__debezium_unavailable_value"},"n":null}'
    text = f'{{"before":{image},"after":{image},"source":{json.dumps(SOURCE)},"op":"u"}}'
    changes, _ = changeling.decode([{"value": text, "key": '{"id":1}'}], "debezium-json")
    change = arrow_layouts.changes(changes.to_batches()[0])[0]
    assert (change.before, change.after) == ('{"id":1,"n":null}',) * 2
    assert (change.before_image, change.after_image) == ("partial", "partial")
    records, _ = changeling.encode(changes, "debezium-json")
    assert records["value"][0].as_py().decode() == text


def test_a_text_that_only_mentions_the_placeholder_is_a_value() -> None:
    change = read(event("c", None, {"id": 1, "a": "not __debezium_unavailable_value"}))[0]
    assert change.after_image == "full"


def test_the_schema_part_types_the_columns_and_the_user_wins_where_given() -> None:
    fields = [
        {"type": "int32", "optional": False, "field": "id"},
        {"type": "int32", "optional": True, "name": "io.debezium.time.Date", "field": "day"},
        {"type": "int64", "optional": True, "name": "com.acme.Unknown", "field": "other"},
    ]
    part = {"type": "struct", "fields": [{"type": "struct", "fields": fields, "field": "after"}]}
    key = {"schema": {"type": "struct", "fields": [fields[0]]}, "payload": {"id": 1}}
    row = {"id": 1, "day": 18321, "other": 5}
    message = {"value": _text({"schema": part, "payload": event("c", None, row)}), "key": _text(key)}
    own = TableSchema(
        (
            Column("id", "int32", "int32", False),
            Column("day", "date", "io.debezium.time.Date"),
            Column("other", "int64", "com.acme.Unknown"),
        ),
        ("id",),
    )
    assert schema_from_json(read(message)[0].schema or "") == own
    schema = read(message, columns="id:int64,day:timestamp,extra:string")[0].schema
    assert schema_from_json(schema or "").columns == (
        Column("id", "int64", "int32"),
        Column("day", "timestamp", "io.debezium.time.Date"),
        Column("other", "int64", "com.acme.Unknown"),
        Column("extra", "string"),
    )


def test_headers_come_back() -> None:
    headers = [
        {"name": "__debezium.newkey", "value": b'{"id":2}'},
        {"name": "raw", "value": b"\xff"},
        {"name": "no", "value": None},
    ]
    batch = pa.table(
        {
            "value": pa.array([_text(event("d", {"id": 1}, None)).encode()], pa.binary()),
            "key": pa.array([b'{"id":1}'], pa.binary()),
            "headers": pa.array([headers], arrow_layouts.HEADERS),
        }
    )
    changes, _ = changeling.decode(batch, "debezium-json")
    records, _ = changeling.encode(changes, "debezium-json")
    assert records["headers"].to_pylist() == [headers]


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (b"\x00\x00\x00\x00\x01abc", "Avro or another binary form in Confluent's framing"),
        (event("x", None, {"a": 1}), "unknown op 'x': Debezium has c, u, d, r, t and m"),
        (event("c", None, None), "op 'c' without a row in `after`"),
        (event("u", {"a": 1}, None), "op 'u' without a row in `after`"),
        (event("d", {"a": 1}, {"a": 1}), "op 'd' with a row in `after`"),
        (event("c", None, [1]), "`after` must be an object, or one as text"),
        (event("c", None, "[1]"), "`after` must be an object, or one as text"),
        (event("c", None, "{not JSON"), "`after` must be an object, or one as text"),
        (
            event("c", None, {"a": 1}, changeling={"op": "truncate"}),
            "source.changeling says truncate, which is not written as op 'c'",
        ),
        ({"id": 1, "name": "x"}, "not an event of Debezium: it has no `op`; a flattened record"),
        ({"op": "c", "after": {"a": 1}}, "the event names no table: source.table is missing; say which with --table"),
        ({"status": "HALF", "id": "1"}, "a transaction's status is 'HALF': it must be BEGIN or END"),
        (event("c", None, {"a": 1}, sequence="[1]"), "source.sequence is '[1]': it must be two log positions"),
        (event("c", None, {"a": 1}, lsn="0/16B"), "source.lsn is '0/16B', which is not an integer"),
        (
            event("c", None, {"a": 1}, connector="sqlserver", commit_lsn="zz:1"),
            "source.commit_lsn is 'zz:1', which is not a log",
        ),
        (event("c", None, {"a": 1}, position="17"), "'17' is not a position"),
        (event("c", None, {"a": 1}, ts_ns=2**70), "lies outside the years 1677 to 2262"),
        (event("c", None, {"a": 1}, lsn=-1), "source.lsn is -1: a position cannot be negative"),
        (
            event("c", None, {"a": 1}, connector="mysql", file="log.1", pos=-1),
            "source.pos is -1: a position cannot be negative",
        ),
        (
            event("c", None, {"a": 1}, connector="mongodb", ord=-1),
            "source.ord is -1: a position cannot be negative",
        ),
        (
            event("c", None, {"a": 1}, sequence='["-3","7"]'),
            "source.sequence: a position cannot be negative",
        ),
        (
            event("c", None, {"a": 1}, connector="xtdb-cdc", tx_id=1)
            | {"transaction": {"id": "1", "data_collection_order": -1}},
            "transaction.data_collection_order: a position cannot be negative",
        ),
        (
            event("c", None, {"a": 1}) | {"transaction": {"id": "1", "total_order": "x"}},
            "transaction.total_order is 'x', which is not an integer",
        ),
        (
            event("c", None, {"a": 1}) | {"transaction": {"id": "1", "data_collection_order": "x"}},
            "transaction.data_collection_order is 'x', which is not an integer",
        ),
        (event("c", None, {"a": 1}, ts_ms="a"), "source.ts_ms is 'a', which is not an integer"),
        ({**event("c", None, {"a": 1}, ts_ms=None), "ts_ms": "a"}, "ts_ms is 'a', which is not an integer"),
        ({"status": "END", "id": "1", "ts_ms": "a"}, "ts_ms is 'a', which is not an integer"),
        (
            {
                "schema": {"fields": [{"field": "after", "fields": [{"field": "a", "type": "int7"}]}]},
                "payload": event("c", None, {"a": 1}),
            },
            "the schema part has the type 'int7'",
        ),
        ('{"op":5,"after":{"a":1},"source":{"table":"t"}}', "Expected `str`, got `int` - at `$.op`"),
        (
            '{"op":"c","after":{"a":1},"source":{"table":"t"},"transaction":5}',
            "Expected `object | null`, got `int` - at `$.transaction`",
        ),
        ('{"source":{"table":"t"},"historyRecord":5}', "`historyRecord` must be an object, or one as text"),
        ('{"op":"c","after":{"a":1},"source":{"table":5}}', "Expected `str | null`, got `int` - at `$.source.table`"),
        ("[1]", "Expected `object`, got `array`"),
        ("{", "not JSON"),
    ],
)
def test_rejects_say_what_is_wrong(record: Any, expected: str) -> None:
    found = reason(record)
    assert expected in found
    # What is inside of `source` is named so, and nothing else.
    assert "source" in expected or f"source.{expected}" not in found


def test_a_row_without_its_key_columns_is_rejected() -> None:
    assert reason(event("c", None, {"a": 1}), key="id,a") == "no message key, and the row lacks the key columns id"


def test_an_update_of_ydb_that_has_the_old_row_alone_has_its_key_there() -> None:
    source = {"connector": "ydb", "version": "1.0.0", "ts_ms": 1, "step": 1, "txId": 1, "snapshot": False}
    given = {"payload": {"op": "u", "before": {"id": 1, "v": "a"}, "source": source}}
    (change,) = read(given, key="id", table="t")
    assert (change.key, change.before, change.after) == ('{"id":1}', '{"id": 1, "v": "a"}', None)


def test_the_size_of_a_record_is_an_option_of_every_format() -> None:
    record = b'{"op":"c","after":{"a":1},"source":{"table":"t"}}'
    assert changeling.decode([record], "debezium-json", record_bytes=len(record))[1].num_rows == 0
    _, rejects = changeling.decode([record], "debezium-json", record_bytes=len(record) - 1)
    assert rejects["reason"].to_pylist() == ["the record has 49 bytes; the limit is 48 (record_bytes)"]
    assert rejects["raw"].to_pylist() == [record]


@pytest.mark.parametrize(
    ("names", "table"),
    [
        ({"db": "", "keyspace": "shop"}, ("shop", None, "t")),
        ({"db": "shop", "keyspace": "shop"}, ("shop", None, "t")),
        ({"db": "cluster", "keyspace": "shop"}, ("cluster", "shop", "t")),
        ({"keyspace": "shop"}, ("shop", None, "t")),
    ],
)
def test_a_keyspace_is_part_of_the_name(names: dict[str, Any], table: tuple[str | None, ...]) -> None:
    source = {"connector": "cassandra", "table": "t", **names}
    changes, _ = changeling.decode(
        [{"value": json.dumps({"op": "c", "after": {"a": 1}, "source": source})}], "debezium-json"
    )
    assert tuple(changes["table"][0].as_py().values()) == table


def test_the_key_that_a_header_names_is_kept_for_a_create_in_part() -> None:
    value = json.dumps({"op": "c", "after": {"id": 2, "v": "__debezium_unavailable_value"}, "source": {"table": "t"}})
    named = [b'{"id": 1}', b'{"schema":null,"payload":{"id":1}}', b"Struct{id=1}"]
    records = [Record(value.encode(), b'{"id":2}', (("__debezium.oldkey", old),)) for old in named]
    origin = pa.array([{"ordinal": 0, "record": place} for place in range(3)], arrow_layouts.ORIGIN)
    changes, rejects = changeling.decode(arrow_layouts.records_batch(records, origin), "debezium-json")
    assert rejects.num_rows == 0
    assert [json.loads(meta).get("old_key") for meta in changes["meta"].to_pylist()] == [{"id": 1}, {"id": 1}, None]
    assert changes["after_image"].to_pylist() == ["partial"] * 3


def test_the_lsn_behind_postgresqls_transaction_id_is_no_part_of_it() -> None:
    """Each event of one transaction has the LSN of its own operation there; GTIDs and other ids stay as they are."""
    ids = ["571:53195829", "571:53195832", "3e11fa47-71ca-11e1-9e33-c80aa9429562:23", "00000025:00000d08:0025"]
    events = [{**event("c", None, {"id": 1}), "transaction": {"id": one, "total_order": 1}} for one in ids]
    marks = [
        {"status": status, "id": one, "event_count": 2} for status, one in zip(("BEGIN", "END"), ids, strict=False)
    ]
    found = [change.transaction.id for change in read(*events, *marks) if change.transaction is not None]
    assert found == ["571", "571", ids[2], ids[3], "571", "571"]
