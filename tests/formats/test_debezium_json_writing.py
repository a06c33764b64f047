"""Writing Debezium's events: envelopes of other dialects' changes, key changes, marks, refusals."""

import json
from typing import Any

import pyarrow as pa
import pytest

import changeling
from changeling.formats import registry
from changeling.model import arrow_layouts
from changeling.model.change import Change, Record, Transaction
from changeling.model.operation import Image, Operation
from changeling.model.position import encode as position
from changeling.model.table import Column, TableName, TableSchema

SCHEMA = TableSchema((Column("id", "int64"), Column("v", "int64"), Column("w", "string")), ("id",)).to_json()
TABLE = TableName("shop", "public", "items")
TIME = 1_703_505_330_123_000_000
BEFORE: dict[str, Any] = {"before": '{"id":1,"v":1,"w":"a"}', "before_image": Image.FULL}
AFTER: dict[str, Any] = {"after": '{"id":1,"v":2,"w":"a"}', "after_image": Image.FULL}
PARTIAL: dict[str, Any] = {"after": '{"v":2}', "after_image": Image.PARTIAL}
NAMED = {"version": "3.0.0.Final", "connector": "changeling", "name": "changeling"}


def foreign(op: Operation, **parts: Any) -> Change:
    return Change(op=op, **{"table": TABLE, "key": '{"id":1}', "schema": SCHEMA, **parts})


def batch(change: Change, encoding: str = "canonical") -> pa.RecordBatch:
    change.position, change.arrived = change.position or position(9, 9), change.position is None or change.arrived
    return arrow_layouts.changes_batch(
        [change], pa.array([{"ordinal": 9, "record": 9}], arrow_layouts.ORIGIN), "test", encoding
    )


def write(change: Change, **options: Any) -> list[dict[str, Any]]:
    records, rejects = changeling.encode(batch(change), "debezium-json", **options)
    assert rejects.to_pylist() == []
    return [
        {
            "value": row["value"] and json.loads(row["value"]),
            "key": row["key"] and json.loads(row["key"]),
            "topic": row["topic"],
            **({"headers": {h["name"]: json.loads(h["value"]) for h in row["headers"]}} if row["headers"] else {}),
        }
        for row in records.to_pylist()
    ]


def refused(change: Change, **options: Any) -> tuple[str | None, str]:
    records, rejects = changeling.encode(batch(change), "debezium-json", **options)
    assert records.num_rows == 0
    return rejects["feature"][0].as_py(), rejects["reason"][0].as_py()


def back(change: Change, **options: Any) -> Change:
    records, _ = changeling.encode(batch(change), "debezium-json", **options)
    changes, rejects = changeling.decode(records, "debezium-json")
    assert rejects.to_pylist() == []
    return arrow_layouts.changes(changes.to_batches()[0])[0]


def test_an_insert_whole() -> None:
    change = foreign(
        Operation.INSERT,
        **AFTER,
        position=position(5, 6),
        commit_time=TIME + 1,
        transaction=Transaction("77", 2, 9),
    )
    assert write(change) == [
        {
            "value": {
                "before": None,
                "after": {"id": 1, "v": 2, "w": "a"},
                "source": {
                    **NAMED,
                    "ts_ms": 1703505330123,
                    "snapshot": "false",
                    "db": "shop",
                    "ts_us": 1703505330123000,
                    "ts_ns": 1703505330123000001,
                    "schema": "public",
                    "table": "items",
                    "position": "015.016",
                },
                "transaction": {"id": "77", "total_order": 9, "data_collection_order": 2},
                "op": "c",
                "ts_ms": 1703505330123,
                "ts_us": 1703505330123000,
                "ts_ns": 1703505330123000001,
            },
            "key": {"id": 1},
            "topic": "changeling.public.items",
        }
    ]


def test_names_are_the_users() -> None:
    options = {"connector": "postgresql", "version": "2.7.0.Final", "name": "srv"}
    made = write(foreign(Operation.READ, **AFTER, table=TableName("shop", None, "items")), **options)
    assert made[0]["topic"] == "srv.shop.items"
    assert made[0]["value"]["op"] == "r"
    assert made[0]["value"]["source"] == {
        **options,
        "ts_ms": None,
        "snapshot": "true",
        "db": "shop",
        "schema": "",
        "table": "items",
    }


def test_a_delete_names_its_row_and_a_tombstone_follows_where_messages_have_keys() -> None:
    change = foreign(Operation.DELETE)
    whole = write(change)
    assert whole[0]["value"]["before"] == {"id": 1}
    assert whole[0]["value"]["after"] is None
    assert whole[1:] == [{"value": None, "key": {"id": 1}, "topic": "changeling.public.items"}]
    assert len(write(change, tombstones=False)) == 1
    assert len(write(change, keyed=False)) == 1
    assert len(write(foreign(Operation.DELETE, **BEFORE, key=None))) == 1


def test_a_key_change_is_a_delete_a_tombstone_and_a_create() -> None:
    moved = foreign(Operation.UPDATE, key='{"id":2}', **BEFORE, after='{"id":2,"v":1,"w":"a"}', after_image=Image.FULL)
    first, tombstone, last = write(moved)
    assert (first["value"]["op"], first["key"], first["value"]["before"]) == (
        "d",
        {"id": 1},
        {"id": 1, "v": 1, "w": "a"},
    )
    assert (tombstone["value"], tombstone["key"]) == (None, {"id": 1})
    assert (last["value"]["op"], last["key"], last["value"]["after"]) == ("c", {"id": 2}, {"id": 2, "v": 1, "w": "a"})
    assert (first["headers"], last["headers"]) == ({"__debezium.newkey": {"id": 2}}, {"__debezium.oldkey": {"id": 1}})
    assert [made["value"]["op"] for made in write(moved, keyed=False)] == ["d", "c"]


def test_a_key_change_of_part_of_the_row_takes_the_rest_from_before() -> None:
    moved = foreign(Operation.UPDATE, key='{"id":2}', **BEFORE, **PARTIAL)
    assert write(moved)[-1]["value"]["after"] == {"id": 2, "v": 2, "w": "a"}


def test_a_key_change_of_part_of_the_row_is_a_create_with_placeholders() -> None:
    moved = foreign(Operation.UPDATE, key='{"id":2}', before='{"id":1}', before_image=Image.KEY, **PARTIAL)
    first, tombstone, last = write(moved)
    assert (first["value"]["op"], first["key"], first["value"]["before"]) == ("d", {"id": 1}, {"id": 1})
    assert (tombstone["value"], tombstone["key"]) == (None, {"id": 1})
    assert (last["value"]["op"], last["key"], last["value"]["after"]) == (
        "c",
        {"id": 2},
        {"id": 2, "v": 2, "w": "__debezium_unavailable_value"},
    )
    assert (first["headers"], last["headers"]) == ({"__debezium.newkey": {"id": 2}}, {"__debezium.oldkey": {"id": 1}})
    records, rejects = changeling.encode(batch(moved), "debezium-json")
    assert rejects.num_rows == 0
    changes, rejects = changeling.decode(records, "debezium-json")
    assert rejects.num_rows == 0
    found = arrow_layouts.changes(changes.combine_chunks().to_batches()[0])
    assert [(change.op, change.key, change.after, change.after_image) for change in found] == [
        (Operation.DELETE, '{"id":1}', None, Image.NONE),
        (Operation.MESSAGE, '{"id":1}', None, Image.NONE),
        (Operation.INSERT, '{"id":2}', '{"id":2,"v":2}', Image.PARTIAL),
    ]
    again, _ = changeling.encode(changes, "debezium-json")
    assert again.drop_columns(["origin"]) == records.drop_columns(["origin"])


def test_a_key_change_of_part_of_a_row_whose_columns_are_not_known_is_marked() -> None:
    moved = foreign(Operation.UPDATE, key='{"id":2}', before='{"id":1}', before_image=Image.KEY, **PARTIAL, schema=None)
    last = write(moved)[-1]
    assert (last["value"]["after"], last["value"]["source"]["changeling"]) == (
        {"id": 2, "v": 2},
        {"after_image": "partial"},
    )


@pytest.mark.parametrize(
    ("change", "marks"),
    [
        (foreign(Operation.UPDATE, **BEFORE, **AFTER), None),
        (foreign(Operation.UPSERT, **AFTER), {"op": "upsert"}),
        (foreign(Operation.REPLACE, **AFTER), {"op": "replace"}),
        (foreign(Operation.UPDATE, **PARTIAL), None),
        (foreign(Operation.UPDATE, **PARTIAL, schema=None), {"after_image": "partial"}),
        (foreign(Operation.UPDATE, before='{"v":1}', before_image=Image.PARTIAL, **AFTER), None),
        (foreign(Operation.UPDATE, before='{"id":1}', before_image=Image.KEY, **AFTER), None),
        (
            foreign(Operation.UPDATE, before='{"id":1,"v":1}', before_image=Image.FULL, **AFTER),
            {"before_image": "full"},
        ),
        (foreign(Operation.DELETE, before='{"id":1,"v":1}', before_image=Image.PARTIAL), {"before_image": "partial"}),
        (foreign(Operation.DELETE, before='{"id":1}', before_image=Image.FULL), {"before_image": "full"}),
    ],
)
def test_what_debezium_has_no_word_for_stands_in_the_source_and_comes_back(
    change: Change, marks: dict[str, str] | None
) -> None:
    assert write(change)[0]["value"]["source"].get("changeling") == marks
    found = back(change)
    assert (found.op, found.before_image, found.after_image) == (change.op, change.before_image, change.after_image)


def test_absent_columns_of_a_known_schema_are_the_placeholder() -> None:
    change = foreign(Operation.UPDATE, **PARTIAL)
    assert write(change)[0]["value"]["after"] == {"id": 1, "v": 2, "w": "__debezium_unavailable_value"}
    assert write(change, placeholder="~")[0]["value"]["after"] == {"id": 1, "v": 2, "w": "~"}
    assert back(change).after == '{"id":1,"v":2}'


def test_transaction_marks_and_statements() -> None:
    begin = foreign(Operation.BEGIN, key=None, table=None, transaction=Transaction("7"), commit_time=TIME)
    mark = {"status": "BEGIN", "id": "7", "ts_ms": 1703505330123, "event_count": None, "data_collections": None}
    assert write(begin) == [{"value": mark, "key": {"id": "7"}, "topic": "changeling.transaction"}]
    assert write(begin, schemas=True)[0]["value"] == {"schema": None, "payload": mark}
    end = foreign(
        Operation.COMMIT, key=None, table=None, transaction=Transaction("7", complete=True), position=position(5)
    )
    assert write(end)[0]["value"] == {**mark, "status": "END", "ts_ms": None, "position": "015"}
    assert (back(end).position, back(end).transaction) == ("015", Transaction("7", complete=True))
    ddl = write(foreign(Operation.DDL, key=None, meta='{"statement":"ALTER TABLE items ADD x int"}'))
    assert ddl[0]["topic"] == "changeling"
    assert ddl[0]["key"] == {"databaseName": "shop"}
    assert {name: ddl[0]["value"][name] for name in ("databaseName", "schemaName", "ddl", "tableChanges")} == {
        "databaseName": "shop",
        "schemaName": "public",
        "ddl": "ALTER TABLE items ADD x int",
        "tableChanges": [],
    }


def test_truncates_and_messages() -> None:
    truncate = write(foreign(Operation.TRUNCATE, key=None))[0]
    assert (truncate["key"], truncate["value"]["op"], "after" in truncate["value"]) == (None, "t", False)
    message = write(foreign(Operation.MESSAGE, key=None, table=None, meta='{"prefix":"audit","content":"hi"}'))[0]
    assert message["key"] == {"prefix": "audit"}
    assert message["value"]["message"] == {"prefix": "audit", "content": "aGk="}
    assert message["topic"] == "changeling.message"


@pytest.mark.parametrize(
    ("change", "feature"),
    [
        (foreign(Operation.UPSERT), "keys-only"),
        (foreign(Operation.BARRIER, key=None, position=position(5, 0)), "barrier"),
        (foreign(Operation.BEGIN, key=None, table=None), "begin"),
        (foreign(Operation.DDL, key=None), "ddl"),
    ],
)
def test_refusals_by_name(change: Change, feature: str) -> None:
    found, reason = refused(change)
    assert found == feature
    assert f"debezium-json cannot carry {feature}" in reason


def test_the_schema_part_needs_known_types() -> None:
    assert refused(foreign(Operation.INSERT, **AFTER, schema=None), schemas=True) == (
        None,
        "the schema part needs the types of the columns, which are not known; give --columns",
    )


def test_a_value_too_fine_for_its_type_is_refused_or_written_as_text() -> None:
    schema = TableSchema((Column("id", "int64"), Column("at", "timestamp")), ("id",)).to_json()
    row = '{"id":1,"at":"2020-01-01T00:00:00.000000001"}'
    change = foreign(Operation.INSERT, schema=schema, after=row, after_image=Image.FULL)
    assert refused(change, schemas=True)[0] == "types"
    assert back(change, schemas=True, times="isostring").after == row[:-2] + 'Z"}'


def native(record: dict[str, Any], **options: Any) -> tuple[list[Any], list[Any]]:
    changes, _ = changeling.decode([record], "debezium-json", table="t")
    records, rejects = changeling.encode(changes, "debezium-json", **options)
    return [json.loads(value) for value in records["value"].to_pylist()], rejects["feature"].to_pylist()


def test_plain_files_keep_no_message_key_so_the_value_must_name_the_row() -> None:
    delete = {"value": '{"before":null,"after":null,"source":{"table":"t"},"op":"d"}', "key": '{"id":1}'}
    assert native(delete)[0][0]["before"] is None
    (named,), _ = native(delete, keyed=False)
    assert (named["before"], list(named)) == ({"id": 1}, ["before", "after", "source", "op"])
    last = {"value": '{"op":"d","source":{"connector":"ydb","table":"t"},"before":null}', "key": '{"id":1}'}
    assert list(native(last, keyed=False)[0][0]) == ["op", "source", "before"]
    short = {"value": '{"payload":{"op":"d","source":{"connector":"ydb"}}}', "key": '{"payload":{"id":1}}'}
    assert native(short, keyed=False)[0] == [
        {"payload": {"before": {"id": 1}, "op": "d", "source": {"connector": "ydb"}}}
    ]
    keys_only = {"value": '{"payload":{"op":"u","source":{"connector":"ydb"}}}', "key": '{"payload":{"id":1}}'}
    assert native(keys_only)[1] == []
    assert native(keys_only, keyed=False) == ([], ["keys-only"])


ZONED = ("pg:time with time zone", "pgtimetz", "io.debezium.time.ZonedTime")


@pytest.mark.parametrize("times", ["adaptive", "isostring", "connect"])
@pytest.mark.parametrize("original", ZONED)
def test_a_time_with_a_zone_is_a_zoned_time_in_the_schema_part(original: str, times: str) -> None:
    schema = TableSchema((Column("id", "int64"), Column("at", "time", original)), ("id",)).to_json()
    change = foreign(Operation.INSERT, after='{"id":1,"at":"10:15:30+02:00"}', after_image=Image.FULL, schema=schema)
    (made,) = write(change, schemas=True, times=times)
    (row,) = [field for field in made["value"]["schema"]["fields"] if field["field"] == "after"]
    assert row["fields"][1] == {
        "type": "string",
        "name": "io.debezium.time.ZonedTime",
        "version": 1,
        "optional": True,
        "field": "at",
    }
    assert made["value"]["payload"]["after"] == {"id": 1, "at": "10:15:30+02:00"}


def test_a_time_with_a_zone_in_a_column_without_one_is_refused() -> None:
    schema = TableSchema((Column("id", "int64"), Column("at", "time")), ("id",)).to_json()
    change = foreign(Operation.INSERT, after='{"id":1,"at":"10:15:30+02:00"}', after_image=Image.FULL, schema=schema)
    feature, reason = refused(change, schemas=True, times="isostring")
    assert (feature, "original_type timetz" in reason) == ("types", True)
    assert write(change)[0]["value"]["after"] == {"id": 1, "at": "10:15:30+02:00"}


def test_the_rest_of_a_row_that_moved_is_named_as_lost_where_a_dialect_has_no_word_for_it() -> None:
    value = {
        "before": None,
        "after": {"id": 2, "n": "b", "big": "__debezium_unavailable_value"},
        "source": {"connector": "postgresql", "db": "d", "schema": "s", "table": "t", "lsn": 7, "ts_ms": 1},
        "op": "c",
    }
    changes, _ = changeling.decode([json.dumps(value)], "debezium-json", key="id")
    _, refused = changeling.encode(changes, "ydb-json", drop=frozenset({"position", "commit_time"}))
    assert refused["feature"].to_pylist() == ["key-change"]


@pytest.mark.parametrize("form", [name for name in registry.names() if name != "debezium-json"])
def test_a_named_origin_is_lost_in_every_other_dialect(form: str) -> None:
    value = {
        "before": None,
        "after": {"id": 2, "n": "b", "big": "__debezium_unavailable_value"},
        "source": {"connector": "postgresql", "db": "d", "schema": "s", "table": "t", "lsn": 7},
        "op": "c",
    }
    record = Record(json.dumps(value).encode(), b'{"id":2}', (("__debezium.oldkey", b'{"id":1}'),))
    origin = pa.array([{"ordinal": 0, "record": 0}], arrow_layouts.ORIGIN)
    changes, _ = changeling.decode(arrow_layouts.records_batch([record], origin), "debezium-json")
    others = frozenset({"position", "commit_time", "partial", "schema", "catalog"})
    records, refused = changeling.encode(changes, form, drop=others)
    assert (records.num_rows, refused["feature"].to_pylist()) == (0, ["key-change"])
    records, refused = changeling.encode(changes, form, drop=others | {"key-change"})
    assert (records.num_rows, refused.num_rows) == (0, 0)


@pytest.mark.parametrize("name", [5, None, True, 1.5, ["a"], {"a": 1}])
def test_a_server_name_of_any_kind_is_written_back(name: Any) -> None:
    """One by one and by columns: it is part of a topic where it is a text, and the record's own in any case."""
    event = {"before": None, "after": {"id": 1}, "source": {"name": name, "table": "t"}, "op": "c", "ts_ms": 1}
    usual = {**event, "source": {"name": "s", "table": "t"}}
    for given in ([event], [event] * 3, [event, usual, event], [usual, event, event]):
        changes, rejects = changeling.decode([json.dumps(one) for one in given], "debezium-json", key="id")
        assert rejects.to_pylist() == []
        records, rejects = changeling.encode(changes, "debezium-json")
        assert rejects.to_pylist() == []
        assert [json.loads(value) for value in records["value"].to_pylist()] == given
        assert records["topic"].to_pylist() == ["s.t" if one is usual else "changeling.t" for one in given]


WORD = "__debezium_unavailable_value"
PACKED = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
LOOK_ALIKES = [WORD, PACKED, list(WORD.encode()), [WORD], {WORD: WORD}]


@pytest.mark.parametrize("value", LOOK_ALIKES)
@pytest.mark.parametrize("side", ["before", "after"])
def test_a_value_that_looks_like_the_placeholder_is_refused(value: Any, side: str) -> None:
    """By columns and one by one, alike: with such changes alone, and between others."""
    plain = foreign(Operation.UPDATE, **BEFORE, **AFTER, schema=None)
    image = json.dumps({"id": 1, "v": 1, "w": value}, separators=(",", ":"))
    odd = foreign(Operation.UPDATE, **{**BEFORE, **AFTER, side: image}, schema=None)
    assert refused(odd)[0] == "placeholder"
    assert "column 'w' is the placeholder" in refused(odd)[1]
    for changes in ([odd] * 3, [plain, odd, plain], [odd, plain, plain]):
        given = pa.Table.from_batches([batch(one) for one in changes]).combine_chunks()
        records, rejects = changeling.encode(given, "debezium-json")
        assert rejects["feature"].to_pylist() == ["placeholder"] * changes.count(odd)
        assert records.num_rows == changes.count(plain)
        records, rejects = changeling.encode(given, "debezium-json", drop="placeholder")
        assert rejects.to_pylist() == []
        shown = [json.loads(text)[side]["w"] for text in records["value"].to_pylist()]
        assert shown == [value if one is odd else "a" for one in changes]


@pytest.mark.parametrize("value", ["not " + WORD, [WORD, WORD], {WORD: 1}, {"a": WORD}, PACKED[:-4]])
def test_a_value_that_only_mentions_the_placeholder_is_written(value: Any) -> None:
    image = json.dumps({"id": 1, "w": value}, separators=(",", ":"))
    assert back(foreign(Operation.INSERT, after=image, after_image=Image.FULL, schema=None)).after == image


@pytest.mark.parametrize("word", ["~", 'a"b', "\\N", "é\t"])
def test_another_placeholder_is_looked_for_where_one_is_chosen(word: str) -> None:
    image = json.dumps({"id": 1, "v": 1, "w": word}, separators=(",", ":"), ensure_ascii=False)
    odd = foreign(Operation.INSERT, after=image, after_image=Image.FULL)
    assert refused(odd, placeholder=word)[0] == "placeholder"
    assert back(odd).after == image
    usual = foreign(
        Operation.INSERT, after=image.replace(json.dumps(word, ensure_ascii=False), f'"{WORD}"'), after_image=Image.FULL
    )
    assert write(usual, placeholder=word)[0]["value"]["after"]["w"] == WORD
    partial = foreign(Operation.UPDATE, **PARTIAL)
    given = pa.Table.from_batches([batch(partial), batch(partial)]).combine_chunks()
    records, _ = changeling.encode(given, "debezium-json", placeholder=word)
    found, _ = changeling.decode(records, "debezium-json", placeholder=word)
    assert found["after"].to_pylist() == ['{"id":1,"v":2}'] * 2


def test_bytes_that_are_written_as_the_placeholder_are_refused() -> None:
    schema = TableSchema((Column("id", "int64"), Column("w", "bytes")), ("id",)).to_json()
    image = f'{{"id":1,"w":"{PACKED}"}}'
    change = foreign(Operation.INSERT, after=image, after_image=Image.FULL, schema=schema)
    for options in ({}, {"schemas": True}):
        assert refused(change, **options)[0] == "placeholder"
        (found, *_) = write(change, drop="placeholder", **options)
        assert found["value"].get("payload", found["value"])["after"]["w"] == PACKED


@pytest.mark.parametrize("op", [Operation.INSERT, Operation.DELETE])
def test_a_key_that_looks_like_the_placeholder_is_refused(op: Operation) -> None:
    """Where it is let go, the message key names the row; in plain files nothing does, and the change is left out."""
    key = f'{{"id":"{WORD}"}}'
    images = {"after": key, "after_image": Image.FULL} if op is Operation.INSERT else {}
    change = foreign(op, key=key, schema=None, **images)
    assert refused(change)[0] == refused(change, keyed=False)[0] == "placeholder"
    assert back(change, drop="placeholder", tombstones=False).key == key
    records, rejects = changeling.encode(batch(change), "debezium-json", keyed=False, drop="placeholder")
    assert (records.num_rows, rejects.num_rows) == (0, 0)


def test_a_key_change_to_or_from_such_a_key_is_refused() -> None:
    for old, new in ((WORD, "b"), ("b", WORD)):
        row = {"before": f'{{"id":"{old}"}}', "before_image": Image.FULL, "after": f'{{"id":"{new}"}}'}
        change = foreign(Operation.UPDATE, key=f'{{"id":"{new}"}}', schema=None, after_image=Image.FULL, **row)
        assert refused(change)[0] == "placeholder"


@pytest.mark.parametrize("value", LOOK_ALIKES)
def test_an_event_with_the_placeholder_is_written_back_as_it_was(value: Any) -> None:
    event = {"before": {"id": 1, "w": value}, "after": {"id": 1, "w": value}, "source": {"table": "t"}, "op": "u"}
    for given in ([event], [event] * 3):
        changes, _ = changeling.decode([json.dumps(one) for one in given], "debezium-json", key="id")
        records, rejects = changeling.encode(changes, "debezium-json")
        assert rejects.to_pylist() == []
        assert [json.loads(text) for text in records["value"].to_pylist()] == given


def test_the_placeholder_is_a_value_like_others_in_ydbs_form() -> None:
    change = foreign(Operation.UPSERT, after=f'{{"id":1,"w":"{WORD}"}}', after_image=Image.FULL, schema=None)
    records, rejects = changeling.encode(batch(change), "ydb-debezium", drop="commit_time,position")
    assert rejects.to_pylist() == []
    changes, _ = changeling.decode(records, "ydb-debezium", table="t")
    assert changes["after"].to_pylist() == [f'{{"id":1,"w":"{WORD}"}}']
