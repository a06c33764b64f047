"""Writing `dataworks` for changes of other dialects: rows, ids, refusals. Row ids are the checklist's."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import changeling
from changeling.conformance.cases import CASES, KEY, ROW, SCHEMA, batch
from changeling.formats.pairing import Pairing
from changeling.model import arrow_layouts
from changeling.model.change import Change, Transaction
from changeling.model.line import lines
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName

GOLDEN = Path(__file__).parents[1] / "golden"
TIME = 1703505330123
METADATA = ["_sequence_id_", "_operation_type_", "_execute_time_", "_before_image_", "_after_image_"]
FREE = "position,transaction"
"""What every change of a dialect with an order of its own loses."""


def decode(*records: Any, **options: Any) -> tuple[list[dict[str, Any]], list[str]]:
    changes, rejects = changeling.decode(list(records), "dataworks", **options)
    return [json.loads(line) for part in changes.to_batches() for line in lines(part)], rejects["reason"].to_pylist()


def paired(changes: pa.Table) -> pa.Table:
    pairing = Pairing()
    parts = [pairing(part) for part in changes.to_batches()]
    return pa.Table.from_batches([*parts, pairing.rest()], arrow_layouts.CHANGES)


def written(change: Change, **options: Any) -> list[dict[str, Any]]:
    records, rejects = changeling.encode(batch([change]), "dataworks", **options)
    assert rejects.to_pylist() == []
    return [json.loads(value) for value in records["value"].to_pylist()]


def refusal(change: Change, **options: Any) -> tuple[str | None, str]:
    records, rejects = changeling.encode(batch([change]), "dataworks", **options)
    assert (records.num_rows, rejects.num_rows) == (0, 1)
    return rejects["feature"][0].as_py(), rejects["reason"][0].as_py()


def test_001_04_05_06_13_14_15_and_17_other_dialects_become_rows_with_the_metadata_first() -> None:
    texts = [
        (GOLDEN / "xtdb" / f"seed-{name}" / "input.jsonl").read_text().strip()
        for name in ("create", "update", "delete")
    ]
    changes, _ = changeling.decode(texts, "xtdb")
    records, rejects = changeling.encode(changes, "dataworks", drop=FREE)
    assert rejects.num_rows == 0
    rows = [json.loads(value) for value in records["value"].to_pylist()]
    assert [list(found)[:5] for found in rows] == [METADATA] * 4
    assert [[found[name] for name in METADATA] for found in rows] == [
        ["1", "I", 1703505330123, "N", "Y"],
        ["2", "U", 1703595015456, "Y", "N"],
        ["2", "U", 1703595015456, "N", "Y"],
        ["3", "D", 1703681415789, "Y", "N"],
    ]
    create, change, _ = (json.loads(text) for text in texts)
    for found, document in zip(rows, (create["after"], change["before"], change["after"]), strict=False):
        assert {name: value for name, value in found.items() if name not in METADATA} == json.loads(document)


def test_ids_go_on_from_where_an_output_stands() -> None:
    assert [found["_sequence_id_"] for found in written(CASES["update with both images"], start=41)] == ["41", "41"]


@pytest.mark.parametrize(
    ("case", "flags"),
    [
        ("read", [("I", "N", "Y")]),
        ("insert", [("I", "N", "Y")]),
        ("upsert", [("U", "N", "Y")]),
        ("replace", [("U", "N", "Y")]),
        ("update without before", [("U", "N", "Y")]),
        ("update with both images", [("U", "Y", "N"), ("U", "N", "Y")]),
        ("key change", [("U", "Y", "N"), ("U", "N", "Y")]),
        ("delete with before", [("D", "Y", "N")]),
        ("delete by key", [("D", "Y", "N")]),
        ("delete without image", [("D", "Y", "N")]),
        ("keyless insert", [("I", "N", "Y")]),
    ],
)
def test_what_each_operation_is_written_as(case: str, flags: list[tuple[str, str, str]]) -> None:
    names = ("_operation_type_", "_before_image_", "_after_image_")
    assert [tuple(found[name] for name in names) for found in written(CASES[case])] == flags


def test_a_delete_known_by_its_key_shows_the_key_alone() -> None:
    change = msgspec.structs.replace(CASES["delete without image"], commit_time=TIME * 1_000_000)
    assert written(change) == [dict(zip(METADATA, ("1", "D", TIME, "Y", "N"), strict=True)) | {"_id": "o-1"}]


def test_a_key_that_changed_is_worth_a_before_half_even_without_the_row() -> None:
    base = CASES["key change"]
    by_key = msgspec.structs.replace(base, before=KEY, before_image=Image.KEY)
    moved = written(by_key)
    assert [(found["_before_image_"], found["_id"], len(found)) for found in moved] == [
        ("Y", "o-1", 6),
        ("N", "o-2", 21),
    ]
    changes, _ = changeling.decode([json.dumps(found) for found in moved], "dataworks", key="_id", table="orders")
    joined = paired(changes).select(["key", "before", "before_image"]).to_pylist()
    assert joined == [{"key": '{"_id":"o-2"}', "before": '{"_id": "o-1"}', "before_image": "key"}]
    same = msgspec.structs.replace(by_key, key=KEY, after=ROW)
    assert [found["_after_image_"] for found in written(same)] == ["Y"]


def test_columns_that_a_full_image_leaves_out_are_written_as_null() -> None:
    change = msgspec.structs.replace(CASES["insert"], after='{"count":7}')
    (found,) = written(change)
    assert list(found) == [*METADATA, *(column.name for column in SCHEMA.columns)]
    assert (found["_id"], found["count"], found["name"]) == ("o-1", 7, None)


@pytest.mark.parametrize(
    ("case", "feature"),
    [
        ("partial update", "partial"),
        ("partial update with before", "partial"),
        ("key alone", "keys-only"),
        ("transaction", "transaction"),
        ("position of two parts", "position"),
        ("truncate", "truncate"),
        ("begin", "begin"),
        ("commit", "commit"),
        ("barrier", "barrier"),
        ("ddl", "ddl"),
        ("message", "message"),
    ],
)
def test_what_has_no_place_is_refused_by_name(case: str, feature: str) -> None:
    assert refusal(CASES[case])[0] == feature


def test_what_a_time_cannot_say_is_refused() -> None:
    assert refusal(CASES["nanoseconds"]) == (
        "commit_time",
        "dataworks cannot carry commit_time: a record's time has milliseconds, this one has more digits",
    )
    assert written(CASES["nanoseconds"], drop="commit_time")[0]["_execute_time_"] == TIME
    early = msgspec.structs.replace(CASES["insert"], commit_time=1_703_505_330 * 1_000_000)
    assert refusal(early) == (
        "commit_time",
        "dataworks cannot carry commit_time: the time 1703505330 in milliseconds has ten digits, "
        "which readers take for seconds",
    )
    assert written(early, drop="commit_time")[0]["_execute_time_"] is None


def test_a_delete_that_says_nothing_is_refused_and_can_be_left_out() -> None:
    change = Change(op=Operation.DELETE, table=TableName(None, None, "t"))
    assert refusal(change, drop="keyless") == (
        "delete",
        "dataworks cannot carry delete: it has neither the row nor its key",
    )


def test_a_column_by_the_name_of_a_metadata_field_is_refused() -> None:
    change = msgspec.structs.replace(CASES["insert"], after='{"_after_image_":1}')
    assert refusal(change) == (None, "the column '_after_image_' has the name of a metadata field")


def test_the_source_table_is_written_where_asked_for_and_read() -> None:
    (found,) = written(CASES["insert"], source_table=True)
    assert list(found)[:7] == [*METADATA, "_source_table_", "_id"]
    assert found["_source_table_"] == "orders"
    changes, _ = decode(json.dumps(found), key="_id", table="shop.orders")
    assert changes[0]["table"] == {"catalog": None, "schema": "shop", "name": "orders"}
    found["_source_table_"] = None
    assert decode(json.dumps(found), table="other")[0][0]["table"]["name"] == "other"
    found["_source_table_"] = "orders"
    changes, _ = decode(json.dumps(found), key="_id", table="other")
    assert changes[0]["table"] == {"catalog": None, "schema": None, "name": "orders"}


def test_a_transaction_of_another_dialect_can_be_let_go() -> None:
    change = msgspec.structs.replace(CASES["insert"], transaction=Transaction("x"))
    assert written(change, drop="transaction")[0]["_sequence_id_"] == "1"
