"""What a new version of a schema changes, and which types hold all values of which others."""

import itertools

import pytest

from changeling.log.schema_evolution import Difference, common, difference, shown, widens
from changeling.model import types
from changeling.model.table import Column, TableSchema
from changeling.model.types import INTEGER_RANGES


def schema(columns: str, *key: str) -> TableSchema:
    """`id int64, n decimal(10,2)` as a schema."""
    parts = [part.split(" ") for part in columns.split(", ")]
    return TableSchema(tuple(Column(name, kind) for name, kind in parts), key)


WIDER = {
    "int8": {"int16", "int32", "int64"},
    "int16": {"int32", "int64"},
    "int32": {"int64"},
    "int64": set(),
    "uint8": {"uint16", "uint32", "uint64", "int16", "int32", "int64"},
    "uint16": {"uint32", "uint64", "int32", "int64"},
    "uint32": {"uint64", "int64"},
    "uint64": set(),
}
"""The integer types that hold every value of another one."""


@pytest.mark.parametrize(("old", "new"), list(itertools.product(WIDER, WIDER)))
def test_an_integer_type_widens_to_those_that_hold_all_its_values(old: str, new: str) -> None:
    assert WIDER.keys() == INTEGER_RANGES.keys()
    assert widens(types.parse(old), types.parse(new)) is (new == old or new in WIDER[old])


DIGITS = {"int8": 3, "uint8": 3, "int16": 5, "uint16": 5, "int32": 10, "uint32": 10, "int64": 19, "uint64": 20}


@pytest.mark.parametrize(("kind", "digits"), DIGITS.items())
def test_an_integer_widens_to_decimals_with_room_for_its_digits(kind: str, digits: int) -> None:
    fitting = ["decimal", f"decimal({digits},0)", f"decimal({digits + 5},5)"]
    narrow = [f"decimal({digits - 1},0)", f"decimal({digits + 5},6)"]
    assert [widens(types.parse(kind), types.parse(name)) for name in fitting] == [True] * 3
    assert [widens(types.parse(kind), types.parse(name)) for name in narrow] == [False] * 2
    assert not any(widens(types.parse(name), types.parse(kind)) for name in fitting)


@pytest.mark.parametrize(
    ("old", "new", "answer"),
    [
        ("decimal(10,2)", "decimal(10,2)", True),
        ("decimal(10,2)", "decimal(12,2)", True),
        ("decimal(10,2)", "decimal(12,4)", True),
        ("decimal(10,2)", "decimal", True),
        ("decimal(10,2)", "decimal(11,4)", False),
        ("decimal(10,2)", "decimal(12,1)", False),
        ("decimal(10,2)", "decimal(9,2)", False),
        ("decimal", "decimal(38,10)", False),
        ("decimal(10,2)", "int64", False),
        ("decimal", "float64", False),
        ("float32", "float64", True),
        ("float64", "float32", False),
        ("float64", "decimal", False),
        ("int8", "float64", False),
        ("array<int32>", "array<int64>", True),
        ("array<array<int32>>", "array<array<decimal>>", True),
        ("array<int64>", "array<int32>", False),
        ("int32", "array<int32>", False),
        ("array<int32>", "decimal", False),
        ("date", "timestamp", False),
        ("string", "json", False),
        ("bool", "int8", False),
    ],
)
def test_other_types_widen_where_no_value_is_lost(old: str, new: str, answer: bool) -> None:
    assert widens(types.parse(old), types.parse(new)) is answer


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("int64", "decimal(20,2)", "decimal(21,2)"),
        ("int32", "decimal(5,4)", "decimal(14,4)"),
        ("uint64", "decimal(10,2)", "decimal(22,2)"),
        ("decimal(10,2)", "decimal(8,6)", "decimal(14,6)"),
        ("decimal(30,0)", "decimal(30,20)", "decimal"),
        ("int64", "decimal(38,20)", "decimal"),
        ("int64", "decimal(37,19)", "decimal(38,19)"),
        ("decimal(50,3)", "int8", "decimal(50,3)"),
        ("int8", "uint8", "int16"),
        ("int32", "uint32", "int64"),
        ("int8", "uint64", "decimal(20,0)"),
        ("array<int64>", "array<decimal(20,2)>", "array<decimal(21,2)>"),
        ("int64", "float64", None),
        ("decimal(10,2)", "float64", None),
        ("string", "int64", None),
        ("array<int64>", "decimal(20,2)", None),
    ],
)
def test_two_types_have_one_that_holds_the_values_of_both(one: str, other: str, both: str | None) -> None:
    wanted = None if both is None else types.parse(both)
    assert common(types.parse(one), types.parse(other)) == common(types.parse(other), types.parse(one)) == wanted


def test_the_common_type_holds_both_and_what_holds_both_is_no_narrower() -> None:
    names = [
        *types.SIMPLE,
        *(f"decimal({p},{s})" for p in (5, 20, 38) for s in (0, 2, 5)),
        "array<int8>",
        "array<decimal>",
    ]
    kinds = [types.parse(name) for name in names]
    for one, other in itertools.product(kinds, kinds):
        both = common(one, other)
        if both is not None:
            assert widens(one, both), (one, other)
            assert widens(other, both), (one, other)
        else:
            assert not any(widens(one, kind) and widens(other, kind) for kind in kinds), (one, other)


OLD = "id int64, name string, n int32"


@pytest.mark.parametrize(
    ("new", "expected", "description"),
    [
        (OLD, Difference(), "says the same of other names"),
        (f"{OLD}, note string", Difference(added=("note",)), "adds note"),
        ("id int64, n int32", Difference(dropped=("name",)), "drops name"),
        (
            "id int64, full_name string, n int32",
            Difference(renamed=(("name", "full_name"),)),
            "renames name to full_name",
        ),
        (
            "id int64, n int32, full_name string",
            Difference(added=("full_name",), dropped=("name",)),
            "adds full_name; drops name",
        ),
        (
            "id int64, title json, n int32",
            Difference(added=("title",), dropped=("name",)),
            "adds title; drops name",
        ),
        (
            "id int64, name string, n int64",
            Difference(widened=("n from int32 to int64",)),
            "widens n from int32 to int64",
        ),
        (
            "id int64, name string, n int16",
            Difference(narrowed=("n from int32 to int16",)),
            "narrows n from int32 to int16",
        ),
        (
            "id int64, name string, n string",
            Difference(conflicts=("column n was int32 and is string",)),
            "column n was int32 and is string",
        ),
        (
            "id decimal(20,0), label json, n bool, more date",
            Difference(
                added=("label", "more"),
                dropped=("name",),
                widened=("id from int64 to decimal(20,0)",),
                conflicts=("column n was int32 and is bool",),
            ),
            "adds label, more; drops name; widens id from int64 to decimal(20,0); column n was int32 and is bool",
        ),
    ],
)
def test_what_a_new_version_changes(new: str, expected: Difference, description: str) -> None:
    found = difference(schema(OLD, "id"), schema(new, "id"))
    assert found == expected
    assert str(found) == description


@pytest.mark.parametrize(
    ("old_key", "new_key", "description"),
    [
        (("id",), (), "the key was (id) and is ()"),
        ((), ("id",), "the key was () and is (id)"),
        (("id",), ("name",), "the key was (id) and is (name)"),
        (("id",), ("id", "n"), "the key was (id) and is (id, n)"),
        (("id", "n"), ("n", "id"), "the key was (id, n) and is (n, id)"),
    ],
)
def test_another_key_is_a_conflict(old_key: tuple[str, ...], new_key: tuple[str, ...], description: str) -> None:
    assert difference(schema(OLD, *old_key), schema(OLD, *new_key)) == Difference(conflicts=(description,))


def test_a_key_column_may_be_renamed() -> None:
    found = difference(schema(OLD, "id", "n"), schema("number int64, name string, n int32", "number", "n"))
    assert found == Difference(renamed=(("id", "number"),))


def test_columns_that_change_places_are_not_renamed() -> None:
    assert difference(schema("a int32, b int32"), schema("b int32, a int32")) == Difference()
    moved = Difference(added=("c",), dropped=("a",))
    assert difference(schema("a int32, b int32"), schema("b int32, c int32")) == moved


def test_several_columns_are_renamed_at_once() -> None:
    found = difference(schema("a int32, b string"), schema("x int32, y string"))
    assert found == Difference(renamed=(("a", "x"), ("b", "y")))
    assert str(found) == "renames a to x, b to y"


def test_a_schema_is_shown_on_one_line() -> None:
    assert shown(schema(OLD, "id", "n")) == "(id int64 key, name string, n int32 key)"
    assert shown(TableSchema(())) == "()"
