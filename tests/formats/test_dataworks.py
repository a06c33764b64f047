"""Reading `dataworks` beyond its golden cases: rejects, order, times, pairs. Row ids are the checklist's."""

import json
from typing import Any

import pyarrow as pa
import pytest

import changeling
from changeling.formats.pairing import Pairing
from changeling.model import arrow_layouts, position
from changeling.model.line import lines

TIME = 1703505330123
METADATA = ["_sequence_id_", "_operation_type_", "_execute_time_", "_before_image_", "_after_image_"]


def row(
    sequence: Any = "7", op: Any = "I", time: Any = TIME, before: Any = "N", after: Any = "Y", **columns: Any
) -> str:
    """A record, metadata first; a field that is `...` is left out."""
    fields = {**dict(zip(METADATA, (sequence, op, time, before, after), strict=True)), **(columns or {"id": 1})}
    return json.dumps({name: value for name, value in fields.items() if value is not ...})


def update(sequence: str, old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    return [row(sequence, "U", TIME, "Y", "N", **old), row(sequence, "U", TIME, "N", "Y", **new)]


def decode(*records: Any, **options: Any) -> tuple[list[dict[str, Any]], list[str]]:
    changes, rejects = changeling.decode(list(records), "dataworks", **options)
    return [json.loads(line) for part in changes.to_batches() for line in lines(part)], rejects["reason"].to_pylist()


def paired(changes: pa.Table) -> pa.Table:
    pairing = Pairing()
    parts = [pairing(part) for part in changes.to_batches()]
    return pa.Table.from_batches([*parts, pairing.rest()], arrow_layouts.CHANGES)


NOT_TODAY = "a change has five metadata fields, and a row without them is not a change"


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ("{", "not JSON: Input data was truncated"),
        ("{}", f"there is no `_sequence_id_`: {NOT_TODAY}"),
        ('{"id":1}', f"there is no `_sequence_id_`: {NOT_TODAY}"),
        (row(op=...), f"there is no `_operation_type_`: {NOT_TODAY}"),
        (row(time=...), f"there is no `_execute_time_`: {NOT_TODAY}"),
        (row(before=...), f"there is no `_before_image_`: {NOT_TODAY}"),
        (row(after=...), f"there is no `_after_image_`: {NOT_TODAY}"),
        (row(op="X"), "unknown `_operation_type_` 'X': DataWorks has I, U and D"),
        (row(op="i"), "unknown `_operation_type_` 'i': DataWorks has I, U and D"),
        (row(op=None), "`_operation_type_` must be a text, it is null"),
        (
            row(before="Y"),
            "`_before_image_` Y and `_after_image_` Y do not go with operation type I: it has N and Y",
        ),
        (
            row(op="U", before="N", after="N"),
            "`_before_image_` N and `_after_image_` N do not go with operation type U: it has Y and N, or N and Y",
        ),
        (row(op="D"), "`_before_image_` N and `_after_image_` Y do not go with operation type D: it has Y and N"),
        (row(before="n"), "`_before_image_` and `_after_image_` must be Y or N, they are 'n' and 'Y'"),
        (row(after=True), "`_before_image_` and `_after_image_` must be Y or N, they are 'N' and 'true'"),
        (
            row(sequence="x7"),
            "the sequence id 'x7' is neither digits nor a binlog file and offset like mysql-bin.000010:7461",
        ),
        (
            row(sequence="-7"),
            "the sequence id '-7' is neither digits nor a binlog file and offset like mysql-bin.000010:7461",
        ),
        (
            row(sequence="٣"),
            "the sequence id '٣' is neither digits nor a binlog file and offset like mysql-bin.000010:7461",
        ),
        (row(sequence="9" * 100), "a position component has 100 digits or more"),
        (row(sequence={}), "`_sequence_id_` must be a text, it is {}"),
        (row(time=1.5), "`_execute_time_` must be a whole number of milliseconds, it is '1.5'"),
        (row(time="noon"), "`_execute_time_` must be a whole number of milliseconds, it is 'noon'"),
        (row(time=10**16), "the time 10000000000000000 lies outside the years 1677 to 2262"),
        (row(name="no id"), "the row lacks key column 'id'"),
        ("5", "neither a JSON object, nor a CSV row with a known header; name the columns with --columns"),
    ],
)
def test_a_bad_record_is_rejected_with_its_reason_and_its_neighbours_are_not(record: str, reason: str) -> None:
    """001-10 and 001-12, too: other letters and flags are rejected."""
    changes, reasons = decode(row(), record, row(), table="t", key="id")
    assert reasons == [reason]
    assert [change["origin"]["record"] for change in changes] == [0, 2]


def test_001_07_ids_order_as_numbers() -> None:
    ids = ["9", "10", "099", "100", "18446744073709551616", "9" * 98]
    changes, _ = decode(*(row(sequence) for sequence in ids))
    positions = [change["position"] for change in changes]
    assert positions == sorted(positions)
    assert [position.decode(found)[0] for found in positions] == [int(sequence) for sequence in ids]


def test_the_before_half_comes_before_the_after_half_and_both_between_their_neighbours() -> None:
    changes, _ = decode(row("1"), *update("2", {"id": 1}, {"id": 2}), row("3", "D", TIME, "Y", "N"))
    positions = [position.decode(change["position"]) for change in changes]
    assert positions == sorted(positions) == [(1, 1), (2, 0), (2, 1), (3, 0)]


def test_a_binlog_place_orders_by_file_and_offset() -> None:
    changes, _ = decode(
        *(row(found) for found in ("mysql-bin.000009:99", "mysql-bin.000010:7461", "bin.10:7462", "11:4"))
    )
    assert [position.decode(change["position"]) for change in changes] == [
        (9, 99, 1),
        (10, 7461, 1),
        (10, 7462, 1),
        (11, 4, 1),
    ]


def test_001_11_the_time_is_milliseconds_and_ten_digits_are_seconds() -> None:
    times = [TIME, 1703505330, 999_999_999, 0, -1, None, str(TIME)]
    changes, _ = decode(*(row(time=time) for time in times))
    assert [change["commit_time"] for change in changes] == [
        "2023-12-25T11:55:30.123Z",
        "2023-12-25T11:55:30Z",
        "1970-01-12T13:46:39.999Z",
        "1970-01-01T00:00:00Z",
        "1969-12-31T23:59:59.999Z",
        None,
        "2023-12-25T11:55:30.123Z",
    ]


def test_an_update_is_a_transaction_complete_with_its_after_half() -> None:
    changes, _ = changeling.decode([row("1"), *update("2", {"id": 1}, {"id": 1})], "dataworks")
    assert changes["transaction"].to_pylist() == [
        {"id": "1", "order": None, "total": None, "complete": True},
        {"id": "2", "order": None, "total": None, "complete": None},
        {"id": "2", "order": None, "total": None, "complete": True},
    ]


def test_001_16_halves_join_and_come_back_as_the_two_records() -> None:
    """A joined update holds both rows and the new key; written again it is the two records, in order."""
    given = [row("1"), *update("2", {"id": 1, "n": "a"}, {"id": 2, "n": "b"}), *update("03", {"id": 2}, {"id": 2})]
    changes, _ = changeling.decode(given, "dataworks", table="t", key="id")
    joined = paired(changes)
    assert joined.select(["op", "key", "before", "after", "position"]).to_pylist()[1] == {
        "op": "update",
        "key": '{"id":2}',
        "before": '{"id": 1, "n": "a"}',
        "after": '{"id": 2, "n": "b"}',
        "position": "012.011",
    }
    records, rejects = changeling.encode(joined, "dataworks")
    assert rejects.num_rows == 0
    assert [json.loads(value) for value in records["value"].to_pylist()] == [json.loads(text) for text in given]
    assert records["key"].to_pylist() == [b'{"id":1}', b'{"id":1}', b'{"id":2}', b'{"id":2}', b'{"id":2}']


def test_joined_halves_of_unusual_spelling_come_back_as_they_were() -> None:
    given = [
        '{"n":"a","_log_file_name_offset_":"bin.000010:5","_operation_type_":"U","_after_image_":"N","_before_image_":"Y",'
        '"_excute_time_":1703505330,"_source_table_":"t"}',
        '{"n":"b","_log_file_name_offset_":"bin.000010:5","_operation_type_":"U","_after_image_":"Y","_before_image_":"N",'
        '"_excute_time_":1703505330,"_source_table_":"t"}',
    ]
    changes, _ = changeling.decode(given, "dataworks")
    records, _ = changeling.encode(paired(changes), "dataworks")
    assert [value.decode() for value in records["value"].to_pylist()] == given


def test_001_16_a_pair_is_one_update_in_xtdb() -> None:
    changes, _ = changeling.decode(
        update("5", {"id": 1, "n": "a"}, {"id": 1, "n": "b"}), "dataworks", table="t", key="id"
    )
    records, rejects = changeling.encode(paired(changes), "xtdb")
    assert rejects.num_rows == 0
    (event,) = [json.loads(value) for value in records["value"].to_pylist()]
    assert (event["op"], event["ts_ms"]) == ("u", TIME)
    assert [json.loads(event[side])["n"] for side in ("before", "after")] == ["a", "b"]


def test_message_keys_that_are_no_keys_of_ours_come_back() -> None:
    given = [{"value": row(id=1), "key": key} for key in (b"1|a", b"\xff\x00", b'{"id":1}')]
    changes, _ = changeling.decode(given, "dataworks", key="id")
    records, _ = changeling.encode(changes, "dataworks")
    assert records["key"].to_pylist() == [b"1|a", b"\xff\x00", b'{"id":1}']


def test_the_table_is_declared_next_to_the_records() -> None:
    changes, _ = changeling.decode([{"value": row(), "topic": "users"}, {"value": row()}], "dataworks")
    assert changes["table"].to_pylist() == [{"catalog": None, "schema": None, "name": "users"}, None]
    changes, _ = changeling.decode([{"value": row(), "topic": "users"}], "dataworks", table="a.b")
    assert changes["table"].to_pylist() == [{"catalog": None, "schema": "a", "name": "b"}]


def test_a_table_of_key_columns_alone_has_full_rows() -> None:
    deleted = row("1", "D", TIME, "Y", "N", id=1)
    assert decode(deleted, table="t", columns="id:int64", key="id")[0][0]["before_image"] == "full"
    assert decode(deleted, table="t", columns="id:int64,n:string", key="id")[0][0]["before_image"] == "key"
