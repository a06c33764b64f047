"""Records cut apart at their quotes are what they are by themselves, whatever is in their texts and between them."""

import json
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.events import events
from changeling.envelope.flat_objects import flat_objects
from changeling.envelope.shapes import ShapeMismatch
from changeling.envelope.structs import MemberStruct
from changeling.formats import registry
from changeling.formats.decoding import Decoder
from changeling.formats.format import read_options
from changeling.model import json_text
from tests.spark.inputs import records as table_of

EVENTS = list(events(60, inserts=0.4, deletes=0.2))
TEXTS = st.text(st.sampled_from('ab"\\{}[],:é\n\t\x00\ud800 '), max_size=6)
SCALARS = st.one_of(
    TEXTS.map(lambda text: json.dumps(text.replace("\ud800", ""))),
    st.integers(-(2**70), 2**70).map(str),
    st.sampled_from(["null", "true", "false", "1.50", "-0", "1E5", "0", '"\\u0041"', '"\\\\"', '"\\/"']),
)
BROKEN = st.sampled_from(
    ["01", "tru", "+1", "1.", "0x1F", "nul", '"\\q"', '"\\ud8"', "1 2", '"a"b', "", "-", "[1]", "{}"]
)


def columns_of(records: list[bytes]) -> Any:
    return flat_objects(pa.array(records, pa.binary()))


def cut_apart(records: list[bytes]) -> tuple[Any, np.ndarray]:
    """The records cut apart, or else which of them could be: all, where it is not worth it."""
    try:
        return columns_of(records), np.ones(len(records), bool)
    except ShapeMismatch as error:
        return None, error.plain


def text_of(names: list[str], values: list[str]) -> bytes:
    outer = [f'"{name}":{value}' for name, value in zip(names, values[:3], strict=False)]
    inner = ",".join(f'"{name}":{value}' for name, value in zip(names, values[3:], strict=False))
    return ("{" + ",".join(outer) + ',"in":{' + inner + '},"end":1}').encode("utf-8", "surrogatepass")


@given(st.lists(st.lists(SCALARS, min_size=5, max_size=5), min_size=1, max_size=30))
def test_members_are_those_of_each_record(drawn: list[list[str]]) -> None:
    records = [text_of(["a", "b", "c"], values) for values in drawn]
    found, plain = cut_apart(records)
    if found is None:
        return
    assert plain.all()
    for path, expected in (((), [json_text.members(one) for one in records]), (("in",), None)):
        members = found.members(path)
        expected = expected or [json_text.members(json_text.members(one)["in"]) for one in records]
        for name, cell in members.items():
            own = cell.to_pylist() if isinstance(cell, pa.Array) else [cell] * len(records)
            assert own == [one[name] for one in expected]
        assert list(members) == list(expected[0])


@given(
    st.lists(st.lists(SCALARS, min_size=5, max_size=5), min_size=8, max_size=30),
    BROKEN,
    st.integers(0, 7),
    st.integers(0, 4),
)
def test_what_is_no_json_is_never_cut_apart(drawn: list[list[str]], broken: str, row: int, place: int) -> None:
    drawn[row][place] = broken
    records = [text_of(["a", "b", "c"], values) for values in drawn]
    found, plain = cut_apart(records)
    assert found is None
    assert plain.all() or not plain[row]


def both_ways(records: list[bytes]) -> None:
    form = registry.get("xtdb")
    (batch,) = table_of([{"value": record} for record in records], 0).to_batches()
    found, alone = (Decoder(form, read_options(form, {}), by_columns=quick)(batch) for quick in (True, False))
    assert found.changes.equals(alone.changes)
    assert found.rejects.equals(alone.rejects)
    assert found.changes.num_rows + found.rejects.num_rows == len(records)


@given(
    st.lists(
        st.tuples(st.integers(0, 59), st.integers(0, 900), st.integers(0, 3), st.binary(max_size=3)),
        max_size=6,
    ),
    st.lists(
        st.tuples(st.integers(0, 59), st.integers(0, 900), st.sampled_from(list(b'"\\{}[],:01ntru .-e'))), max_size=6
    ),
)
def test_events_with_bytes_changed_are_the_same_either_way(
    cuts: list[tuple[int, int, int, bytes]], puts: list[tuple[int, int, int]]
) -> None:
    records = list(EVENTS)
    for row, place, size, put in cuts:
        records[row] = records[row][:place] + put + records[row][place + size :]
    for row, place, letter in puts:
        records[row] = records[row][:place] + bytes([letter]) + records[row][place:]
    both_ways(records)


@given(st.lists(TEXTS, min_size=12, max_size=12), st.integers(2, 5))
def test_texts_of_every_kind_are_the_same_either_way(texts: list[str], step: int) -> None:
    records = []
    for number, record in enumerate(EVENTS):
        one = json.loads(record)
        if number % step == 0:
            one["source"]["name"] = texts[number % 12]
            one["transaction"]["id"] = texts[(number + 1) % 12]
            one["before"] = None if number % 3 else json.dumps({"_id": texts[(number + 2) % 12]})
        records.append(json.dumps(one, separators=(",", ":")).encode("utf-8", "surrogatepass"))
    both_ways(records)


@pytest.mark.parametrize("shift", range(6))
def test_escapes_are_seen_wherever_the_bytes_are_divided(shift: int) -> None:
    """The bytes of a batch are looked at in blocks: these have a backslash or an escaped quote at every end of one."""
    parts = [r"\\" * 37, r"\"" * 41, r"\\\"" * 29, "x" * 7]
    records = [b'{"a":"%s","b":%d}' % (b" " * shift, 0)]
    while sum(map(len, records)) < 3 * 1024 * 1024:
        number = len(records)
        records.append(b'{"a":"%s","b":%d}' % ("".join(parts[number % 4 :]).encode() * (1 + number % 3), number))
    members = columns_of(records).members()
    assert members["a"].to_pylist() == [json_text.members(one)["a"] for one in records]
    assert members["b"].to_pylist() == [json_text.members(one)["b"] for one in records]


def test_a_value_that_only_seems_common_to_all_is_a_column() -> None:
    records = [b'{"a":"x","b":%d,"c":"%c"}' % (number, b"yz"[number == 13]) for number in range(40)]
    members = columns_of(records).members()
    assert members["a"] == b'"x"'
    assert members["b"].to_pylist() == [b"%d" % number for number in range(40)]
    assert members["c"].to_pylist() == [b'"%c"' % b"yz"[number == 13] for number in range(40)]


def test_few_records_of_another_shape_leave_and_many_end_it() -> None:
    few = [b'{"a":1}'] * 39 + [b'{"b":1}']
    with pytest.raises(ShapeMismatch) as caught:
        columns_of(few)
    assert caught.value.plain.tolist() == [True] * 39 + [False]
    assert columns_of([b'{"a":1}'] * 20 + [b'{"b":1}'] * 20) is None


def test_what_a_struct_has_is_typed() -> None:
    class Source(msgspec.Struct):
        tx: int
        name: str | None = None
        gone: int | None = None

    part = MemberStruct("source", Source)
    records = [b'{"source":{"tx":%d,"name":%s}}' % (number, b'"n"' if number % 2 else b"null") for number in range(9)]
    found = columns_of(records).struct(part, ("source",))
    assert found.tx.to_pylist() == list(range(9))
    assert found.name.to_pylist() == [None, "n"] * 4 + [None]
    assert found.gone is None
    wrong = [b'{"source":{"tx":"%d","name":"n"}}' % number for number in range(9)]
    assert columns_of(wrong).struct(part, ("source",)) is None
