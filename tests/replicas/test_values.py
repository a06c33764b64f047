"""JSON values into stored columns: whole columns exactly as one by one, nothing lost, and what does not fit is reported."""

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeling.model import canonical, json_text
from changeling.model.errors import Rejected
from changeling.model.types import Type, parse
from changeling.replicas.casts import cast
from changeling.replicas.json_output import json_column
from changeling.replicas.stored_types import arrow_type, is_exact_decimal
from changeling.replicas.values import Misfit, column, raw
from tests.replicas.json_values import KINDS, ODD, columns


def one_by_one(values: list[bytes | None], kind: Type) -> tuple[pa.Array, list[Misfit]]:
    def read(value: bytes) -> bytes:
        return canonical.reader(kind)(value)

    return column(values, kind, read)


def reread(text: bytes | None, kind: Type) -> bytes | None:
    """What a value is stored and shown as, by a model that knows nothing of Arrow; None where it does not fit."""
    if text is None or text == b"null":
        return b"null"
    try:
        found = canonical.reader(kind)(text)
        if kind.item is not None:
            items = [reread(item, kind.item) for item in json_text.items(found)]
            return None if None in items else json_text.join_array(item for item in items if item is not None)
        return _shown(found, kind)
    except (ValueError, RecursionError):
        return None


def _shown(found: bytes, kind: Type) -> bytes | None:
    found.decode()
    if kind.kind in ("date", "timestamp", "timestamptz"):
        content = json_text.string(found)
        fraction = content.rstrip("Z").partition(".")[2]
        return None if content.endswith((" BC", "nfinity")) or len(fraction) > 6 else found
    if kind.kind in ("float32", "float64"):
        return _shown_float(float(canonical.text_of(found)), kind)
    if is_exact_decimal(kind):
        number = Decimal(canonical.text_of(found))
        return json_text.quote(f"{_rescaled(number, kind):f}") if number.is_finite() else None
    if kind.kind == "json":
        return _shown_document(found)
    return json_text.quote(json_text.string(found)) if found[:1] == b'"' else found


def _rescaled(number: Decimal, kind: Type) -> Decimal:
    shown = Decimal(f"{number:.{kind.scale}f}")
    assert shown == number
    return shown if shown else abs(shown)


def _shown_float(number: float, kind: Type) -> bytes | None:
    if not math.isfinite(number):
        return {math.inf: b'"Infinity"', -math.inf: b'"-Infinity"'}.get(number, b'"NaN"')
    if kind.kind == "float64":
        return json_text.quote(number)
    with np.errstate(over="ignore"):
        small = np.float32(number)
    return json_text.quote(float(str(small))) if np.isfinite(small) else None


def _shown_document(text: bytes) -> bytes:
    try:
        return json_text.compact(text)
    except (ValueError, RecursionError):
        return json_text.quote(text.decode())


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
def test_whole_columns_are_read_as_single_values_are(kind: Type, data: st.DataObject) -> None:
    values = data.draw(columns(kind))
    array, misfits = column(values, kind)
    slow, slow_misfits = one_by_one(values, kind)
    assert array.type == slow.type == arrow_type(kind)
    array.validate(full=True)
    assert repr(array.to_pylist()) == repr(slow.to_pylist())
    assert [misfit[:2] for misfit in misfits] == [misfit[:2] for misfit in slow_misfits]
    if kind.item is None:
        assert misfits == slow_misfits


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
def test_what_was_stored_is_shown_in_its_canonical_form(kind: Type, data: st.DataObject) -> None:
    values = data.draw(columns(kind))
    array, misfits = column(values, kind)
    expected = [reread(value, kind) for value in values]
    assert json_column(array, kind) == [b"null" if text is None else text for text in expected]
    assert [misfit.place for misfit in misfits] == [place for place, text in enumerate(expected) if text is None]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_odd_values_are_read_alone_as_among_others(kind: Type) -> None:
    array, misfits = column(ODD, kind)
    assert column(ODD, kind, canonical.reader(kind))[1] == misfits
    expected = [reread(value, kind) for value in ODD]
    assert json_column(array, kind) == [b"null" if text is None else text for text in expected]
    assert [(misfit.place, misfit.value) for misfit in misfits] == [
        (place, ODD[place]) for place, text in enumerate(expected) if text is None
    ]
    assert all(misfit.reason for misfit in misfits)
    for place, value in enumerate(ODD):
        alone, unfit = column([value], kind)
        assert repr(alone.to_pylist()) == repr(array.slice(place, 1).to_pylist())
        assert [found.value for found in unfit] == [found.value for found in misfits if found.place == place]


USUAL = [
    ("bool", "true", True),
    ("int8", "-128", -128),
    ("uint8", '"255"', 255),
    ("int64", "8999999999999999999", 8999999999999999999),
    ("uint64", "9999999999999999999", Decimal("9999999999999999999")),
    ("float32", "0.5", 0.5),
    ("float64", '"1e3"', 1000.0),
    ("decimal(10,2)", "12.5", Decimal("12.50")),
    (
        "decimal(38,38)",
        '"-0.12345678901234567890123456789012345678"',
        Decimal("-0.12345678901234567890123456789012345678"),
    ),
    ("decimal", "-0.00", "-0.00"),
    ("string", '"né"', "né"),
    ("json", '{"a": 150.00}', '{"a": 150.00}'),
    ("uuid", '"550e8400-e29b-41d4-a716-446655440000"', "550e8400-e29b-41d4-a716-446655440000"),
    ("time", '"10:15:30.500"', "10:15:30.500"),
    ("date", '"2024-02-29"', date(2024, 2, 29)),
    ("timestamp", '"0001-01-01 00:00:00.000001"', datetime(1, 1, 1, 0, 0, 0, 1)),
    ("timestamptz", '"9999-12-31T23:59:59.999999"', datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)),
    ("timestamptz", '"2024-01-02T03:04:05+01:30"', datetime(2024, 1, 2, 1, 34, 5, tzinfo=UTC)),
]


@pytest.mark.parametrize(("name", "text", "value"), USUAL)
def test_the_usual_spelling_needs_no_single_look(name: str, text: str, value: Any) -> None:
    kind = parse(name)
    assert column([text.encode(), None], kind)[0].to_pylist() == [value, None]
    array, right = cast(raw([text.encode(), None, b"null"]), kind)
    assert right.to_pylist() == [True, True, True]
    assert array.to_pylist() == [value, None, None]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("values", [[], [None], [None, b"null", None]], ids=str)
def test_nothing_is_nothing_of_the_right_type(kind: Type, values: list[bytes | None]) -> None:
    array, misfits = column(values, kind)
    assert array.type == arrow_type(kind)
    assert (array.to_pylist(), misfits) == ([None] * len(values), [])


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("int8", b"128", "128 is not a value of type int8"),
        ("timestamptz", b'"2024-01-02T03:04:05.123456789Z"', "finer than a microsecond"),
        ("timestamp", b'"infinity"', "infinity cannot be stored in a column of type timestamp"),
        ("date", b'"0044-03-15 BC"', "0044-03-15 BC cannot be stored in a column of type date"),
        ("decimal(10,2)", b'"NaN"', "NaN cannot be stored in a column of type decimal"),
        ("decimal(10,2)", b"1.005", "1.005 is not a value of type decimal"),
        ("string", b'"\\ud800"', "half of a surrogate pair"),
        ("json", b'"\xff"', "is not a value of type json"),
        ("float32", b"3.40282356779733661637539395458142568448e38", "is not a value of type float32"),
        ("array<int32>", b'[1,"x"]', '"x" is not a value of type int32'),
        ("array<date>", b'[null,"-infinity"]', "-infinity cannot be stored"),
        ("array<int32>", b"5", "5 is not a value of type array"),
    ],
)
def test_a_value_that_does_not_fit_is_reported_with_its_reason(name: str, text: bytes, reason: str) -> None:
    array, misfits = column([None, text], parse(name))
    assert array.to_pylist() == [None, None]
    assert [(misfit.place, misfit.value) for misfit in misfits] == [(1, text)]
    assert reason in misfits[0].reason


def test_misfits_do_not_disturb_their_neighbours() -> None:
    values = [b'"2024-01-01"', b'"infinity"', b'"2024-02-30"', None, b'"2024-01-02T00:00:00Z"']
    array, misfits = column(values, Type("date"))
    assert array.to_pylist() == [date(2024, 1, 1), None, None, None, date(2024, 1, 2)]
    assert [misfit.place for misfit in misfits] == [1, 2]


def test_a_dialects_own_reader_is_asked_first() -> None:
    def days(value: bytes) -> bytes:
        if value == b"0":
            return b"null"
        if value == b"9":
            raise Rejected("no nines")
        return json.dumps(str(date.fromordinal(int(value)))).encode()

    array, misfits = column([b"1", b"0", None, b"null", b"9", b"x", b"738521"], Type("date"), days)
    assert array.to_pylist() == [date(1, 1, 1), None, None, None, None, None, date(2023, 1, 1)]
    assert [(misfit.place, misfit.value) for misfit in misfits] == [(4, b"9"), (5, b"x")]
    assert misfits[0].reason == "no nines"


def test_what_a_reader_gives_is_still_checked() -> None:
    array, misfits = column([b"1", b"2"], Type("uint8"), lambda value: value * 3)
    assert array.to_pylist() == [111, 222]
    array, misfits = column([b"1", b"3"], Type("uint8"), lambda value: value * 3)
    assert array.to_pylist() == [111, None]
    assert [(misfit.place, misfit.value) for misfit in misfits] == [(1, b"3")]


def test_arrays_keep_their_null_items() -> None:
    array, misfits = column([b"[1,null]", None, b"[]", b'"[2]"', b'["x"]', b"[3]"], parse("array<int64>"))
    assert array.to_pylist() == [[1, None], None, [], [2], None, [3]]
    assert [misfit.place for misfit in misfits] == [4]


def test_bytes_are_unpacked() -> None:
    assert column([b'"AQID/w=="', b'""'], Type("bytes"))[0].to_pylist() == [b"\x01\x02\x03\xff", b""]


def test_a_decimal_of_more_digits_than_a_column_has_is_text() -> None:
    number = "1" * 60 + ".50"
    assert column([number.encode()], parse("decimal(62,2)"))[0].to_pylist() == [number]
    assert column([number.encode()], Type("decimal"))[0].to_pylist() == [number]
