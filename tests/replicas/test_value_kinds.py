"""Columns of inferred types: a value is of exactly that kind, or its kind is reported."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeling.formats.ydb_dynamodb.types import TYPES
from changeling.log.schema_sampling import kinds_of
from changeling.model.types import Type, parse
from changeling.replicas.stored_types import arrow_type
from changeling.replicas.value_kinds import kinds_of_values, undeclared
from tests.replicas.json_values import own

TYPES_OF = {
    "bool": "bool",
    "int": "int64",
    "decimal(3,2)": "decimal(3,2)",
    "double": "float64",
    "number": "decimal",
    "text": "string",
    "json": "json",
}
VALUES = {
    "bool": [b"true", b"false"],
    "int": [b"0", b"-0", b"9007199254740992", b"-9007199254740992"],
    "decimal(3,2)": [b"1.25", b"-1.50", b"9.99"],
    "double": [b"1e3", b"1E-7", b"-1.7976931348623157e308", b"-0e5"],
    "number": [b"1e400", b"-123456789012345678901234567890123456789", b"0.3e-400", b"12345678901234567e1"],
    "text": [b'""', b'"1"', b'"true"', b'"a\\nb"', b'"\\ud83d\\ude00"'],
    "json": [b"[]", b'{"a": 1.50}'],
}


@pytest.mark.parametrize("kind", VALUES)
def test_values_of_the_kind_fit(kind: str) -> None:
    array, others = undeclared([*VALUES[kind], None, b"null"], parse(TYPES_OF[kind]))
    assert others == set()
    assert array.type == arrow_type(parse(TYPES_OF[kind]))
    assert array.null_count == 2


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("other", VALUES)
def test_values_of_another_kind_are_reported(kind: str, other: str) -> None:
    values = [*VALUES[kind], None, *VALUES[other]]
    found = undeclared(values, parse(TYPES_OF[kind]))[1]
    numbers = ["int", "decimal(3,2)", "double", "number"]
    if (
        kind in (other, "json")
        or (kind == "number" and other in numbers)
        or (kind == "double" and other in numbers[:2])
    ):
        assert found == set()
    else:
        assert found == ({other, "long"} if other == "number" else {other})


def test_stored_values_are_exact() -> None:
    assert undeclared([b"-9223372036854775808"], Type("int64"))[0].to_pylist() == [-(2**63)]
    numbers = [b"1.0", b"1e3", b"9223372036854775808", b"-1.50", b"1E-7"]
    assert undeclared(numbers, Type("decimal"))[0].to_pylist() == [
        *("1", "1000", "9223372036854775808", "-1.5", "0.0000001")
    ]
    assert list(map(str, undeclared([b"1.5", b"-0.0"], parse("decimal(3,2)"))[0].to_pylist())) == ["1.50", "0.00"]
    assert list(map(repr, undeclared([b"-0.0", b"0.1"], Type("float64"))[0].to_pylist())) == ["0.0", "0.1"]
    assert undeclared(VALUES["text"], Type("string"))[0].to_pylist() == ["", "1", "true", "a\nb", "\U0001f600"]
    # Numbers and texts as columns of their own kinds have them, since those become this one; all else as it came.
    assert undeclared([b'{"a": 1e3}', b'"x"', b"1e3", b"1.50", b"-0", b'"\\u0041\\/"'], Type("json"))[
        0
    ].to_pylist() == [*('{"a": 1e3}', '"x"', "1000", "1.5", "0", '"A/"')]
    assert undeclared([b"-0", b"-0.0"], Type("decimal"))[0].to_pylist() == ["0", "0"]


@pytest.mark.parametrize(
    ("value", "kind", "found"),
    [
        (b"1234567.5", "decimal(3,2)", {"decimal(8,1)"}),
        (b"1.250", "decimal(3,2)", {"decimal(4,3)"}),
        (b"0.30000000000000004", "float64", set()),
        (b"0.3000000000000000444", "float64", {"decimal(19,19)", "long"}),
        (b"9007199254740993", "float64", {"int", "long"}),
        (b"9223372036854775807000", "int64", {"decimal(22,0)", "long"}),
        (b"1e-400", "float64", {"number", "long"}),
        (b"NaN", "float64", {"json"}),
    ],
)
def test_a_number_fits_where_no_digit_is_lost(value: bytes, kind: str, found: set[str]) -> None:
    assert undeclared([b"0", value], parse(kind))[1] == found


def test_exact_numbers_that_are_no_doubles_are_reported_where_all_were_doubles() -> None:
    for kind, double, other in (
        ("int64", b"9007199254740992", b"9007199254740993"),
        ("decimal(20,19)", b"0.30000000000000004", b"0.3000000000000000444"),
    ):
        assert undeclared([double, None], parse(kind), doubles=True)[1] == set()
        array, found = undeclared([double, other], parse(kind), doubles=True)
        assert (found, array.null_count) == ({"long"}, 0)


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
    array, others = undeclared(values, parse(name))
    assert array.type == arrow_type(parse(name))
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
    kind = parse(name)
    values = data.draw(st.lists(own(kind) | own(Type("json")), max_size=6))
    array, others = undeclared(values, kind)
    alone = [undeclared([value], kind) for value in values]
    assert others == set().union(*(found for _, found in alone))
    if not others:
        assert array.to_pylist() == [one[0].as_py() for one, _ in alone]
