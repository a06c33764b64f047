"""What the golden cases of `xtdb` cannot show: rejects, refusals, writing for other dialects. Row ids are the checklist's."""

import json
from pathlib import Path
from typing import Any

import pytest

import changeling
from changeling.conformance.cases import CASES, batch
from changeling.model.line import lines

GOLDEN = Path(__file__).parents[1] / "golden" / "xtdb"
CREATE = (GOLDEN / "seed-create" / "input.jsonl").read_text().strip()


def event(**changed: Any) -> dict[str, Any]:
    """The seed's first event with some members changed, or removed with `...`."""
    made = {**json.loads(CREATE), **changed}
    return {name: value for name, value in made.items() if value is not ...}


def decode(*records: Any, **options: Any) -> tuple[list[dict[str, Any]], list[str]]:
    texts = [record if isinstance(record, str | bytes) else json.dumps(record) for record in records]
    changes, rejects = changeling.decode(texts, "xtdb", **options)
    return [json.loads(line) for part in changes.to_batches() for line in lines(part)], rejects["reason"].to_pylist()


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ("{", "not JSON: Input data was truncated"),
        ("[]", "not a record of this format: Expected `object`, got `array`"),
        ("{}", "not an XTDB event: it has no 'op'"),
        (event(op="x"), "unknown op 'x': XTDB has c, u, d and r"),
        (event(after=None), "op 'c' without a document in `after`"),
        (event(op="d"), "op 'd' with a document in `after`"),
        (event(after="{"), "not JSON: Input data was truncated"),
        (event(after="[1]"), "`after` must be a JSON object, or one as text"),
        (event(after="{}"), "no record id: neither `_id` nor `xt/id` in the document, and no message key"),
        (event(after=5), "`after` must be a JSON object, or one as text"),
        (event(before="nonsense"), "`before` must be a JSON object, or one as text"),
        (event(source={"tx_id": "7"}), "not a record of this format: Expected `int`, got `str` - at `$.source.tx_id`"),
        (event(source={"tx_id": 7}), "the event names no table: source.table is missing; say which with --table"),
        (event(source={"tx_id": -7, "table": "t"}), "a position cannot be negative, got -7"),
        (
            event(transaction={"id": 5}),
            "not a record of this format: Expected `str`, got `int` - at `$.transaction.id`",
        ),
        (event(after='{"_id":1,"x":' + "[" * 600 + "]" * 600 + "}"), "nested deeper than 500 levels"),
        (b'{"op":"\xff"}', "not UTF-8: byte 0xff at 7"),
        ('{"op":' + "[" * 3000 + "]" * 3000 + "}", "nested deeper than 500 levels"),
    ],
)
def test_a_bad_record_is_rejected_with_its_reason_and_its_neighbours_are_not(record: Any, reason: str) -> None:
    changes, reasons = decode(CREATE, record, CREATE)
    assert reasons == [reason]
    assert [change["origin"]["record"] for change in changes] == [0, 2]


def test_the_table_comes_from_the_topic_where_the_event_does_not_say() -> None:
    record = json.dumps(event(source={"tx_id": 7}))
    changes, _ = changeling.decode([{"value": record, "topic": "my.users"}], "xtdb", topic_prefix="my.")
    assert changes["table"].to_pylist() == [{"catalog": None, "schema": None, "name": "users"}]


def test_002_33_digits_are_kept() -> None:
    document = '{"_id":18446744073709551615,"total":150.00,"at":-74.0060,"d":12345678901234567890123456789012345678}'
    found, _ = changeling.decode([json.dumps(event(after=document))], "xtdb")
    assert found["after"].to_pylist() == [document]
    assert found["key"].to_pylist() == ['{"_id":18446744073709551615}']
    records, _ = changeling.encode(found, "xtdb")
    assert json.loads(records["value"][0].as_py())["after"] == document


def test_002_14_typed_values_of_the_seed() -> None:
    """Numbers and texts are one decimal; times, binary, durations and intervals have their canonical form."""
    order = (GOLDEN / "seed-complex-types" / "input.jsonl").read_text().strip()
    columns = (
        "_id:string,order_date:timestamptz,delivery_period:duration,processing_duration:duration,total_amount:decimal(10,2),"
        "metadata:json,valid_interval:interval,items:json"
    )
    changes, _ = changeling.decode([order], "xtdb", columns=columns)
    from changeling.formats.encoding import typed

    canonical, rejects = typed(changes.to_batches()[0])
    assert rejects.num_rows == 0
    assert json.loads(canonical.column("after")[0].as_py()) == json.loads(changes["after"][0].as_py())
    assert canonical.column("encoding").to_pylist() == ["canonical"]


def test_002_07_writing_for_another_dialect() -> None:
    records, rejects = changeling.encode(
        batch([CASES["transaction"]]), "xtdb", name="node-9", db="other", version="3.1.0"
    )
    assert rejects.num_rows == 0
    (row,) = records.to_pylist()
    value = json.loads(row["value"])
    assert json.loads(value.pop("after")) == json.loads(CASES["transaction"].after or "")
    assert value == {
        "before": None,
        "source": {
            "version": "3.1.0",
            "connector": "xtdb-cdc",
            "name": "node-9",
            "ts_ms": 1703505330123,
            "snapshot": None,
            "db": "other",
            "table": "orders",
            "tx_id": 12350,
            "system_time": 1703505330123,
        },
        "op": "c",
        "ts_ms": 1703505330123,
        "transaction": {"id": "12350", "total_order": 12350, "data_collection_order": 2},
    }
    assert row["key"] == b"o-1"
    assert row["topic"] == "xtdb.cdc.orders"


def test_002_20_the_record_id_comes_from_the_key_whatever_it_is_called() -> None:
    change = CASES["insert"].__class__(
        op=CASES["insert"].op,
        table=CASES["insert"].table,
        key='{"id":5}',
        after='{"id":5,"n":"x"}',
        after_image=CASES["insert"].after_image,
    )
    records, _ = changeling.encode(batch([change]), "xtdb")
    assert json.loads(json.loads(records["value"][0].as_py())["after"]) == {"_id": 5, "id": 5, "n": "x"}
    assert records["key"].to_pylist() == [b"5"]


@pytest.mark.parametrize(
    ("case", "feature"),
    [
        ("composite key", "composite-key"),
        ("partial update", "partial"),
        ("key alone", "keys-only"),
        ("keyless insert", "keyless"),
        ("nanoseconds", "commit_time"),
        ("position of three parts", "position"),
        ("table with a schema", "schema"),
        ("truncate", "truncate"),
        ("barrier", "barrier"),
        ("ddl", "ddl"),
    ],
)
def test_what_has_no_place_is_refused_by_name(case: str, feature: str) -> None:
    records, rejects = changeling.encode(batch([CASES[case]]), "xtdb")
    assert (records.num_rows, rejects["feature"].to_pylist()) == (0, [feature])


def test_a_dropped_composite_key_leaves_the_change_out_instead_of_guessing() -> None:
    records, rejects = changeling.encode(batch([CASES["composite key"]]), "xtdb", drop="composite-key")
    assert (records.num_rows, rejects.num_rows) == (0, 0)


def test_without_message_keys_a_delete_still_names_its_document() -> None:
    given = json.dumps(event(op="d", before=None, after=None))
    changes, _ = changeling.decode([{"value": given, "key": "user-123"}], "xtdb")
    kept, _ = changeling.encode(changes, "xtdb")
    plain, _ = changeling.encode(changes, "xtdb", keyed=False)
    assert json.loads(kept["value"][0].as_py())["before"] is None
    assert json.loads(plain["value"][0].as_py())["before"] == '{"_id":"user-123"}'


def test_unknown_members_come_back() -> None:
    given = event(ts_us=1703505330123000, extra={"a": 150.00})
    changes, _ = changeling.decode([json.dumps(given)], "xtdb")
    records, _ = changeling.encode(changes, "xtdb")
    assert json.loads(records["value"][0].as_py()) == given


def test_a_column_called_id_that_is_not_the_key_is_refused() -> None:
    change = CASES["insert"].__class__(
        op=CASES["insert"].op,
        table=CASES["insert"].table,
        key='{"id":"x"}',
        after='{"_id":5,"id":"x"}',
        after_image=CASES["insert"].after_image,
    )
    _, rejects = changeling.encode(batch([change]), "xtdb")
    assert rejects["feature"].to_pylist() == ["names"]
    records, _ = changeling.encode(batch([change]), "xtdb", drop="names")
    assert json.loads(json.loads(records["value"][0].as_py())["after"]) == {"_id": "x", "id": "x"}


def test_mixed_shapes_and_unknown_members_of_a_transaction_come_back() -> None:
    given = event(op="u", before={"_id": 1}, after='{"_id":1}', transaction={**event()["transaction"], "x": 1})
    changes, rejects = changeling.decode([json.dumps(given)], "xtdb")
    assert rejects.num_rows == 0
    records, _ = changeling.encode(changes, "xtdb")
    assert json.loads(records["value"][0].as_py()) == given


def test_the_catalog_is_kept_where_the_table_is_declared_next_to_the_event() -> None:
    given = event(source={"tx_id": 7, "db": "m"})
    changes, _ = decode(given, table="s.t")
    assert changes[0]["table"] == {"catalog": "m", "schema": "s", "name": "t"}
