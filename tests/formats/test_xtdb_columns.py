"""Which events are plain, and go by columns; that both ways give the same is shown for every format in `conformance`."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

import changeling
from bench.events import events
from changeling.formats import registry
from changeling.formats.decoding import Decoded, Decoder
from changeling.formats.format import read_options
from changeling.model.change import Change, Record
from changeling.model.table import Column, TableName, TableSchema
from tests.formats.test_xtdb import CREATE, event
from tests.golden.test_golden import CASES, options_of, records_of
from tests.spark.inputs import records as table_of

FORM = registry.get("xtdb")
PLAIN = [json.loads(line) for line in events(300)]
GOLDEN = {case.name: case for case in CASES if case.parent.name == "xtdb"}
PLAIN_CASES = {
    *("seed-complex-types", "seed-create", "seed-delete", "seed-sql-insert", "seed-transaction", "seed-update"),
    *("sample-example-products-001-c-prod-456", "sample-example-users-001-c-user-123"),
    *("sample-example-users-002-u-user-123", "sample-live-users-1-c-user-001", "snapshot-read", "without-transaction"),
    "key-that-the-user-names",
}
"""Those of them that go the quick way, in whatever shape."""


class OneByOne(Exception):
    """A record was looked at by itself."""


def _one_by_one(record: Record) -> Sequence[Change]:
    raise OneByOne


def decoded(records: list[Any], **options: Any) -> tuple[Decoded, bool]:
    """What the format makes of one batch, which is what the slow way makes of it; and whether it went the quick way."""
    given = read_options(FORM, options)
    rows = [record if isinstance(record, dict) else {"value": record} for record in records]
    (batch,) = table_of(rows, 0).to_batches()
    found, slow = (Decoder(FORM, given, by_columns=quick)(batch) for quick in (True, False))
    assert found.changes.equals(slow.changes)
    assert found.rejects.equals(slow.rejects)
    assert found.changes.num_rows + found.rejects.num_rows == len(records)
    decoder = Decoder(FORM, given)
    decoder._decode = _one_by_one
    try:
        quick = decoder(batch)
    except OneByOne:
        return found, False
    assert quick.changes.equals(slow.changes)
    assert quick.rejects.num_rows == 0
    return found, True


def test_plain_events_go_the_quick_way_and_come_out_the_same() -> None:
    found, quick = decoded([json.dumps(each) for each in PLAIN])
    assert quick
    assert found.changes.num_rows == 300


def test_the_schema_is_declared_there_too() -> None:
    found, quick = decoded([CREATE] * 3, columns="_id:string,age:int32")
    assert quick
    assert found.changes.column("schema").null_count == 0


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_records_are_the_same_either_way(name: str) -> None:
    _, quick = decoded(records_of(GOLDEN[name]), **options_of(GOLDEN[name], "read"))
    assert quick == (name in PLAIN_CASES)


@pytest.mark.parametrize(
    "odd",
    [
        "{",
        event(op="x"),
        event(after=None),
        event(after="{"),
        event(after="{}"),
        event(after='{"_id":1.0}'),
        event(after='{"_id":"\\u0041"}'),
        event(after='{"_id":-0}'),
        event(after='{"_id":1,"x":' + "[" * 600 + "]" * 600 + "}"),
        event(before="nonsense", op="u"),
        event(source={"tx_id": 7, "ts_ms": 1703505330123}),
        event(source={"tx_id": -7, "ts_ms": 1703505330123, "table": "t"}),
    ],
)
def test_an_odd_record_goes_the_other_way(odd: Any) -> None:
    text = odd if isinstance(odd, str) else json.dumps(odd)
    assert decoded([CREATE, CREATE])[1]
    _, quick = decoded([CREATE, text, CREATE])
    assert not quick


@pytest.mark.parametrize(
    "other", [event(extra=1), event(transaction=None), event(after={"_id": 5}), event(ts_ms=...), event(ts_ms=1)]
)
def test_events_of_another_shape_go_the_quick_way_by_themselves(other: Any) -> None:
    found, quick = decoded([CREATE, json.dumps(other), CREATE, json.dumps(other)])
    assert quick
    assert ["envelope" in meta for meta in found.changes.column("meta").to_pylist()] == [False, True, False, True]


def test_integers_and_deletes_by_key_are_plain() -> None:
    deleted = event(op="d", before='{"_id":5}', after=None)
    found, quick = decoded([json.dumps(event(after='{"_id":5}')), json.dumps(deleted)])
    assert quick
    assert found.changes.column("before_image").to_pylist() == ["none", "key"]


def of_table(name: str, document: str, **changed: Any) -> str:
    source = {**event()["source"], "table": name}
    return json.dumps(event(source=source, after=document, **changed))


SCHEMAS = (
    TableSchema((Column("id", "int64"),), ("id",), TableName(None, None, "users")),
    TableSchema((), ("b", "a"), TableName("mydb", None, "orders")),
    TableSchema((), ("_id",)),
)


def test_the_key_of_a_table_is_what_its_schema_says() -> None:
    users = [of_table("users", f'{{"_id":"u{number}","id":{number}}}') for number in range(20)]
    orders = [of_table("orders", f'{{"_id":"o{number}","a":{number},"b":"x"}}') for number in range(20)]
    notes = [of_table("notes", f'{{"_id":"n{number}","id":1}}') for number in range(20)]
    mixed = [record for three in zip(users, orders, notes, strict=True) for record in three]
    found, quick = decoded(mixed, schemas=SCHEMAS)
    assert quick
    keys = [text for n in range(20) for text in (f'{{"id":{n}}}', f'{{"a":{n},"b":"x"}}', f'{{"_id":"n{n}"}}')]
    assert found.changes.column("key").to_pylist() == keys


def test_the_key_that_the_user_names_is_that_of_all_tables() -> None:
    records = [of_table(name, '{"_id":"u","id":1,"a":2,"b":3}') for name in ("users", "orders", "notes")]
    found, quick = decoded(records, schemas=SCHEMAS, key="a")
    assert quick
    assert found.changes.column("key").to_pylist() == ['{"a":2}'] * 3


def test_the_table_that_the_topic_names_has_its_key_as_well() -> None:
    record = json.dumps(event(source={"tx_id": 7}, after='{"_id":"u","id":1}'))
    found, _ = decoded([{"value": record, "topic": "xtdb.cdc.users"}], schemas=SCHEMAS)
    assert found.changes.column("key").to_pylist() == ['{"id":1}']


@pytest.mark.parametrize("named", [{"schemas": SCHEMAS}, {"key": "id"}], ids=["by a schema", "by the user"])
def test_documents_that_lack_the_key_columns(named: dict[str, Any]) -> None:
    found, _ = decoded([of_table("users", '{"_id":"u"}'), of_table("users", '{"_id":"u","id":1}')], **named)
    assert found.changes.column("key").to_pylist() == ['{"id":1}']
    assert found.rejects.column("reason").to_pylist() == ["the document lacks the key columns id"]


@pytest.mark.parametrize("named", [{"schemas": SCHEMAS}, {"key": "id"}], ids=["by a schema", "by the user"])
def test_a_delete_without_a_document_has_the_message_key(named: dict[str, Any]) -> None:
    gone = event(op="d", before=None, after=None)
    found, _ = decoded([{"value": json.dumps(gone), "key": "u"}, json.dumps(gone)], **named)
    assert found.changes.column("key").to_pylist() == ['{"_id":"u"}']
    reason = "no record id: neither `_id` nor `xt/id` in the document, and no message key"
    assert found.rejects.column("reason").to_pylist() == [reason]


def test_the_record_id_is_found_where_a_schema_calls_it_the_key() -> None:
    found, _ = decoded(
        [of_table("notes", '{"xt/id":"n1"}'), {"value": of_table("notes", '{"name":"x"}'), "key": "n2"}],
        schemas=SCHEMAS,
    )
    assert found.changes.column("key").to_pylist() == ['{"_id":"n1"}', '{"_id":"n2"}']


@pytest.mark.parametrize(
    "record", [event(op="d", before='{"id":1}', after=None), event(op="d", before='{"_id":1}', after=None)]
)
def test_a_delete_that_shows_the_key_alone_is_written_back(record: dict[str, Any]) -> None:
    (name,) = json.loads(record["before"])
    found, _ = decoded([json.dumps(record)] * 3, key=name)
    assert found.changes.column("before_image").to_pylist() == ["key"] * 3
    for written in (changeling.encode(found.changes, "xtdb", keyed=keyed)[0] for keyed in (True, False)):
        assert [json.loads(value) for value in written["value"].to_pylist()] == [record] * 3


@pytest.mark.parametrize("member", ["total_order", "data_collection_order"])
def test_a_zero_with_a_sign_comes_back_as_it_was(member: str) -> None:
    """One by one and by columns: numbers say the same, and the text that they had is kept."""
    plain = json.dumps({**event(), "transaction": {"id": "7", "total_order": 0, "data_collection_order": 0}})
    odd = plain.replace(f'"{member}": 0', f'"{member}": -0')
    assert odd != plain
    for given in ([odd], [odd] * 3, [plain, odd, plain], [odd.replace('": ', '":')] * 3):
        found, _ = decoded(given)
        records, rejects = changeling.encode(found.changes, "xtdb")
        assert rejects.num_rows == 0
        written = [value.decode().replace('": ', '":').replace('", ', '",') for value in records["value"].to_pylist()]
        assert [f'"{member}":-0' in value for value in written] == ["-0" in value for value in given]
