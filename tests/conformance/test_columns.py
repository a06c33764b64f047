"""Readers by columns give exactly what readers record by record give: the same columns, the same rejects, whatever comes mixed."""

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

import changeling
from bench.events import events
from changeling.conformance.cases import CASES, batch
from changeling.envelope.groups import plain_changes
from changeling.envelope.shapes import ShapeMismatch, first_mismatches
from changeling.formats import registry
from changeling.formats.capabilities import FEATURES
from changeling.formats.decoding import Decoder
from changeling.formats.format import read_options
from changeling.model import arrow_layouts, json_text
from changeling.model.change import Change, Record
from tests.conformance.test_fuzz import DICTIONARY, mutated
from tests.golden.test_golden import CASES as GOLDEN
from tests.golden.test_golden import options_of, records_of
from tests.spark.inputs import records as table_of

FORMATS = registry.names()
CSV: list[tuple[str, dict[str, Any]]] = [
    ("arcion-csv", {"delimiter": ";", "null_text": "\\N"}),
    ("arcion-csv", {"mode": "snapshot"}),
    ("dataworks", {"layout": "csv"}),
    ("dataworks", {"layout": "csv", "delimiter": "|", "null_text": "NULL"}),
]
"""Layouts of rows of CSV."""
NAMELESS = ("ydb-json",)
"""Formats whose records have no names of key columns: options must name them."""
_NUMBERS = [b"1.0", b"-0", b"1E400", b"1e2", b"9223372036854775808", b'"7"', b"0.10"]


class OneByOne(Exception):
    """A record was looked at by itself."""


def _one_by_one(record: Record) -> Sequence[Change]:
    raise OneByOne


def check_same(name: str, records: pa.RecordBatch, options: dict[str, Any]) -> None:
    form = registry.get(name)
    given = read_options(form, options)
    found, slow = (Decoder(form, given, by_columns=quick)(records) for quick in (True, False))
    for column in slow.changes.schema.names:
        assert found.changes[column].to_pylist() == slow.changes[column].to_pylist(), column
    assert found.changes.equals(slow.changes)
    assert found.rejects.equals(slow.rejects)


def check_quick(name: str, records: pa.RecordBatch, options: dict[str, Any]) -> None:
    """All of these records are read by columns."""
    form = registry.get(name)
    decoder = Decoder(form, read_options(form, options))
    decoder._decode = _one_by_one
    assert decoder(records).changes.num_rows == records.num_rows


def _batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    (found,) = table_of(rows, 0).combine_chunks().to_batches()
    return found


def respelled(text: bytes, dice: random.Random) -> bytes:
    """The same kind of object with members in another order, twice, added or gone, other numbers, or blanks between them."""
    try:
        members = list(json_text.members(text).items())
    except msgspec.DecodeError:
        return text
    if not members:
        return text
    place = dice.randrange(len(members))
    name, value = members[place]
    choice = dice.randrange(9)
    if choice == 0:
        dice.shuffle(members)
    elif choice == 1:
        members.append((name, dice.choice([value, b"null", b"0"])))
    elif choice == 2:
        del members[place]
    elif choice == 3:
        members.insert(place, ("more", b'{"x":[1.50]}'))
    elif choice == 4:
        return json_text.join(members).replace(b",", b" , ").replace(b":", b": ")
    elif choice == 5 and value[:1].isdigit():
        members[place] = (name, dice.choice(_NUMBERS))
    elif choice == 6:
        members[place] = (name, dice.choice(DICTIONARY[:7]))
    elif value[:1] == b"{":
        members[place] = (name, respelled(value, dice))
    elif value[:2] == b'"{':
        inner = respelled(json_text.string(value).encode(), dice).decode(errors="replace")
        members[place] = (name, json_text.quote(inner))
    return json_text.join(members)


def _text(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize("case", [case for case in GOLDEN if case.parent.name in FORMATS], ids=lambda case: case.name)
def test_golden_records_alone_and_respelled(case: Any) -> None:
    name, options, rows = case.parent.name, options_of(case, "read"), records_of(case)
    check_same(name, _batch(rows), options)
    dice = random.Random(f"{case.name} 1")
    changed = []
    for row in rows * (1 + 120 // len(rows)):
        value, key = _text(row.get("value")), _text(row.get("key"))
        if value is not None and dice.random() < 0.6:
            value = respelled(value, dice)
        if key is not None and dice.random() < 0.3:
            key = respelled(key, dice)
        changed.append({**row, "value": value, "key": key})
    check_same(name, _batch(changed), options)
    wounded = [
        {**row, "value": mutated(row["value"], dice)} if row["value"] is not None and dice.random() < 0.3 else row
        for row in changed
    ]
    check_same(name, _batch(wounded), options)


@pytest.mark.parametrize("name", FORMATS)
def test_all_golden_records_in_one_batch(name: str) -> None:
    rows = [row for case in GOLDEN if case.parent.name == name for row in records_of(case)]
    check_same(name, _batch(rows * 3), {"key": "id"} if name in NAMELESS else {})


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("options", [{}, {"key": "_id"}, {"table": "t", "columns": "_id:string,count:int32"}], ids=str)
def test_written_changes_of_all_kinds(name: str, options: dict[str, Any]) -> None:
    made, _ = changeling.encode(batch(list(CASES.values())), name, drop=frozenset(FEATURES))
    if name in NAMELESS:
        options = {**options, "key": "_id"}
    check_same(name, made.combine_chunks().to_batches()[0], options)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("keyed", [True, False])
def test_rows_of_several_tables_go_the_quick_way(name: str, keyed: bool) -> None:
    changes, _ = changeling.decode(list(events(400)), "xtdb")
    made, rejects = changeling.encode(changes, name, drop=frozenset(FEATURES))
    assert rejects.num_rows == 0
    rows = [row for row in made.to_pylist() if row["value"] is not None]
    rows = [{**row, "headers": [tuple(pair.values()) for pair in row["headers"] or ()]} for row in rows]
    if not keyed:
        rows = [{**row, "key": None} for row in rows]
    check_same(name, _batch(rows), {"key": "_id"})
    check_quick(name, _batch(rows), {"key": "_id"})


def test_virtual_timestamps_of_our_days_go_the_quick_way() -> None:
    """A step of YDB counts milliseconds since 1970: it has 13 digits since 2001."""
    values = [
        b'{"key":[%d],"update":{"v":%d},"ts":[%d,%d]}' % (n, n, 1_670_792_400_890 + n, 2**49 + n) for n in range(99)
    ]
    rows = _batch([{"value": value} for value in values])
    check_same("ydb-json", rows, {"table": "t", "key": "id"})
    check_quick("ydb-json", rows, {"table": "t", "key": "id"})


@pytest.mark.parametrize(("name", "options"), CSV)
def test_rows_of_csv_go_the_quick_way(name: str, options: dict[str, Any]) -> None:
    changes, _ = changeling.decode(list(events(400)), "xtdb")
    made, _ = changeling.encode(changes, name, drop=frozenset(FEATURES), **options)
    style = {option: value for option, value in options.items() if option != "layout"}
    (rows,) = made.combine_chunks().to_batches()
    check_same(name, rows, {"key": "_id", **style})
    check_quick(name, rows, {"key": "_id", **style})
    dice = random.Random(3)
    values = [mutated(value, dice) if dice.random() < 0.3 else value for value in rows["value"].to_pylist()]
    wounded = rows.set_column(0, arrow_layouts.RECORDS.field(0), pa.array(values, pa.binary()))
    check_same(name, wounded, {"key": "_id", **style})


def test_records_without_a_common_shape_are_tried_a_limited_number_of_times() -> None:
    tried: list[int] = []

    def read(records: pa.RecordBatch) -> pa.RecordBatch:
        tried.append(records.num_rows)
        raise first_mismatches(records.num_rows)

    records = pa.record_batch([pa.array(range(5000), pa.int64())], names=["value"])
    assert plain_changes(records, np.ones(5000, np.bool_), read) is None
    assert len(tried) < 20


def test_odd_records_in_front_do_not_keep_the_others_from_the_quick_way() -> None:
    def read(records: pa.RecordBatch) -> pa.RecordBatch:
        if records.column("value")[0].as_py() < 5:
            raise first_mismatches(records.num_rows)
        return records

    records = pa.record_batch([pa.array(range(5000), pa.int64())], names=["value"])
    found = plain_changes(records, np.ones(5000, np.bool_), read)
    assert found is not None
    assert found.others == list(range(5))
    assert found.changes.equals(records.slice(5))
    assert found.places.tolist() == list(range(5, 5000))


def test_a_group_that_has_to_be_read_one_by_one_is_not_tried_again() -> None:
    tried: list[int] = []

    def read(records: pa.RecordBatch) -> pa.RecordBatch:
        tried.append(records.num_rows)
        if records.column("value")[0].as_py() < 3000:
            raise ShapeMismatch(np.zeros(records.num_rows, np.bool_) if len(tried) > 1 else np.arange(5000) < 3000)
        return records

    records = pa.record_batch([pa.array(range(5000), pa.int64())], names=["value"])
    found = plain_changes(records, np.ones(5000, np.bool_), read)
    assert found is not None
    assert (tried, found.others) == ([5000, 3000, 2000], list(range(3000)))
