"""Columns of inferred types: a value is of exactly that kind, or its kind is reported."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeling.formats.ydb_dynamodb.types import TYPES
from changeling.log.schema_sampling import kinds_of
from changeling.model.types import Type
from changeling.replicas.stored_types import arrow_type
from changeling.replicas.value_kinds import kinds_of_values, undeclared
from tests.replicas.json_values import own

TYPES_OF = {"bool": "bool", "int": "int64", "number": "decimal", "text": "string", "json": "json"}
VALUES = {
    "bool": [b"true", b"false"],
    "int": [b"0", b"-0", b"9223372036854775807", b"-9223372036854775808"],
    "number": [b"1.0", b"1e3", b"9223372036854775808", b"-1.50", b"1E-7"],
    "text": [b'""', b'"1"', b'"true"', b'"a\\nb"', b'"\\ud83d\\ude00"'],
    "json": [b"[]", b'{"a": 1.50}'],
}


@pytest.mark.parametrize("kind", VALUES)
def test_values_of_the_kind_fit(kind: str) -> None:
    array, others = undeclared([*VALUES[kind], None, b"null"], Type(TYPES_OF[kind]))
    assert others == set()
    assert array.type == arrow_type(Type(TYPES_OF[kind]))
    assert array.null_count == 2


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("other", VALUES)
def test_values_of_another_kind_are_told(kind: str, other: str) -> None:
    values = [*VALUES[kind], None, *VALUES[other]]
    found = undeclared(values, Type(TYPES_OF[kind]))[1]
    if kind in (other, "json") or (kind, other) == ("number", "int"):
        assert found == set()
    else:
        assert found == {other}


def test_stored_values_are_exact() -> None:
    assert undeclared([b"-9223372036854775808"], Type("int64"))[0].to_pylist() == [-(2**63)]
    assert undeclared(VALUES["number"], Type("decimal"))[0].to_pylist() == [
        *("1.0", "1000", "9223372036854775808", "-1.50", "0.0000001")
    ]
    assert undeclared(VALUES["text"], Type("string"))[0].to_pylist() == ["", "1", "true", "a\nb", "\U0001f600"]
    # Numbers and texts as columns of their own kinds have them, since those become this one; all else as it came.
    assert undeclared([b'{"a": 1e3}', b'"x"', b"1e3", b"1.50", b"-0", b'"\\u0041\\/"'], Type("json"))[
        0
    ].to_pylist() == [*('{"a": 1e3}', '"x"', "1000", "1.50", "0", '"A/"')]
    assert undeclared([b"-0", b"-0.0"], Type("decimal"))[0].to_pylist() == ["0", "-0.0"]


@pytest.mark.parametrize(
    ("name", "value"), [("string", b'"\\ud800"'), ("decimal", b"1e99999"), ("decimal", b"1e999999999999999999999")]
)
def test_what_not_even_its_own_column_holds_can_only_be_json(name: str, value: bytes) -> None:
    assert undeclared([value], Type(name))[1] == {"json"}
    array, others = undeclared([value], Type("json"))
    assert (array.to_pylist(), others) == ([value.decode()], set())


@pytest.mark.parametrize("name", TYPES_OF.values())
@pytest.mark.parametrize("values", [[], [None, b"null"]])
def test_nothing_fits_everywhere(name: str, values: list[bytes | None]) -> None:
    array, others = undeclared(values, Type(name))
    assert array.type == arrow_type(Type(name))
    assert (array.to_pylist(), others) == ([None] * len(values), set())


def test_wire_values_are_read_as_plain_ones() -> None:
    values = [b'{"N":"1"}', b'{"NULL":true}', None, b'{"N":"-25"}']
    assert undeclared(values, Type("int64"), TYPES.untyped_read)[0].to_pylist() == [1, None, None, -25]
    assert undeclared([*values, b'{"S":"x"}'], Type("int64"), TYPES.untyped_read)[1] == {"text"}


def test_what_a_reader_refuses_stands_for_itself() -> None:
    assert undeclared([b'{"Q":"1"}'], Type("int64"), TYPES.untyped_read)[1] == {"json"}
    assert undeclared([b'{"Q":"1"}'], Type("json"), TYPES.untyped_read)[0].to_pylist() == ['{"Q":"1"}']


@given(own(Type("json")) | own(Type("float64")) | st.integers(-(2**65), 2**65).map(lambda number: b"%d" % number))
def test_the_kind_of_a_value_is_that_of_samples(value: bytes) -> None:
    assert kinds_of_values([value, None, value]) == kinds_of([f'{{"a":{value.decode()}}}'])["a"]


@pytest.mark.parametrize("name", TYPES_OF.values())
@given(data=st.data())
def test_a_column_fits_if_each_of_its_values_does(name: str, data: st.DataObject) -> None:
    kind = Type(name)
    values = data.draw(st.lists(own(kind) | own(Type("json")), max_size=6))
    array, others = undeclared(values, kind)
    alone = [undeclared([value], kind) for value in values]
    assert others == set().union(*(found for _, found in alone))
    if not others:
        assert array.to_pylist() == [one[0].as_py() for one, _ in alone]
