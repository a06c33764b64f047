"""What can be done with cells is the same for one record and for many: all that dialects say rests on this."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from changeling.envelope.cells import Cells, MemberStruct
from changeling.envelope.column_cells import ColumnCells
from changeling.envelope.columns import Distinct
from changeling.envelope.csv_rows import RowStyle
from changeling.envelope.scalar_cells import SCALARS
from changeling.envelope.shapes import ShapeMismatch
from changeling.model import arrow_layouts
from changeling.model.change import Transaction

Operation = Callable[..., Any]


class Place(msgspec.Struct):
    id: str
    number: int | None = None


PLACE = MemberStruct("place", Place)
OBJECTS = [
    *(b"{}", b"{ }", b'{"a":1}', b'{"a":1,"b":"x"}', b'{"b":2,"a":1}', b'{"a":1,"a":2}', b'{"a": 1, "b": "x"}'),
    *(b'{"a":1.0}', b'{"a":"\\u0041"}', b'{"a":-0}', b'{"a":{"b":[1]},"b":null}', b'{"a":null}', b' {"a":1}', b"[1]"),
]
TEXTS = [b'"x"', b'"a\\"b"', b'"Zo\xc3\xab"', b'""', b"null", b"5", b'{"a":1}', b'"{\\"a\\":1}"', b'" {}"', b'"[1]"']
NUMBERS = [0, 1, -1, None, 7, 10**12, 2**62, -(2**62)]
POSITIONS = ["010", "0512350.012", "011.191000000000000000000", "011.012.013", None, "1", "0001", "021.010"]
STYLE = RowStyle(",", '"', "NULL")
KEYS = [b'{"a":1}', b'{"a":"x","b":2}', b'{"b":"\\"","c":null}', b'{"d":1.5}']


def _place(name: str | None) -> Place | None:
    return None if name is None else Place(name, len(name))


def binary(values: Sequence[bytes | None]) -> pa.Array:
    return pa.array(values, pa.binary())


CASES: dict[str, tuple[Operation, list[list[Any]]]] = {
    "starts": (lambda cells, text: cells.starts(text, b"{"), [OBJECTS]),
    "contains": (lambda cells, text: cells.contains(text, [b'"b"', b"x"]), [OBJECTS]),
    "matches": (lambda cells, text: cells.matches(text, r"\{\s*\}"), [OBJECTS]),
    "ordered": (lambda cells, text: cells.ordered(text, ("a", "b")), [OBJECTS]),
    "canonical": (lambda cells, raw: cells.canonical(raw), [TEXTS]),
    "members": (lambda cells, text: cells.joined(*cells.members(text).values()), [OBJECTS]),
    "json_object": (lambda cells, text: cells.json_object(cells.members(text), ("a",)), [OBJECTS]),
    "columns": (lambda cells, text: cells.first(*cells.columns(text, ("b", "a")).values(), b"-"), [OBJECTS]),
    "key": (lambda cells, text: cells.key(cells.columns(text, ("a",))), [OBJECTS[2:]]),
    "value": (lambda cells, raw: cells.value({"a": raw}, "a"), [TEXTS]),
    "text": (lambda cells, raw: cells.text(raw), [TEXTS]),
    "document": (lambda cells, raw: cells.document({"a": raw}, "a"), [TEXTS]),
    "quoted": (lambda cells, raw: cells.quoted(cells.text(raw)), [TEXTS]),
    "fields": (lambda cells, name: cells.fields(cells.each(_place, name)).number, [["a", None, "bc", "a"]]),
    "parse_natural_json": (
        lambda cells, raw: cells.parse_natural_json(raw),
        [[b"0", b"12", b"-1", b"1.5", b'"1"', b"9" * 18, b"null"]],
    ),
    "int_json": (lambda cells, number: cells.int_json(number), [NUMBERS]),
    "int_text": (lambda cells, number: cells.int_text(number), [NUMBERS]),
    "less": (lambda cells, number: cells.less(number, 7), [NUMBERS]),
    "at_least": (lambda cells, number: cells.at_least(number, 0), [NUMBERS]),
    "time": (lambda cells, number: cells.time(number, 1_000), [NUMBERS[:6]]),
    "units": (lambda cells, number: cells.units(number, 1_000), [NUMBERS]),
    "position": (lambda cells, one, two: cells.position(one, two), [[0, 1, -1, 10**12, 2**62], [1, 0, 1, 5, -7]]),
    "components": (lambda cells, text: cells.first(*cells.components(text, 2), -1), [POSITIONS]),
    "captured": (lambda cells, text: cells.captured(text, r"(?P<n>[0-9]{1,18})")[0], [POSITIONS]),
    "sole_value": (lambda cells, key: cells.sole_value(key), [KEYS]),
    "content": (lambda cells, raw: cells.content(raw), [[b'"x"', b"5", b"true", b'"a\\nb"']]),
    "key_in_row": (lambda cells, key, row: cells.key_in_row(key, row), [KEYS, [b'{"a":1}', b'{"a":"y"}', None, b"{}"]]),
    "without_key": (lambda cells, key: cells.without_key(b_row(cells, key), key), [KEYS]),
    "with_key": (lambda cells, key: cells.with_key(rows(cells, [b'{"z":1}', b"{}", b'{"y":[]}', b"{}"]), key), [KEYS]),
    "with_first": (lambda cells, text: cells.with_first(text, "z", b"0"), [OBJECTS[:1] + OBJECTS[2:6]]),
    "each_object": (lambda cells, text: cells.each_object(",".join, text), [OBJECTS]),
    "behind": (lambda cells, text: cells.behind(text, r'\{"(?P<name>[ab])":')[1], [OBJECTS]),
    "behind, groups": (lambda cells, text: cells.behind(text, r'\{"(?P<name>[ab])":')[0], [OBJECTS]),
    "parse_int": (lambda cells, text: cells.parse_int(text), [["0", "007", "-12", None, "9" * 18, "9" * 30]]),
    "present": (lambda cells, number: cells.present(number), [NUMBERS]),
    "one_of": (lambda cells, text: cells.one_of(text, ["010", "x"]), [POSITIONS[:4]]),
    "holds": (lambda cells, number: cells.holds(lambda one: one is not None and one > 0, number), [NUMBERS]),
    "each_row": (lambda cells, number: cells.each_row(lambda one: str(100 // one), number), [[1, 5, 7, 100]]),
    "items": (
        lambda cells, text: cells.joined(*cells.items(text, 2, str)),
        [[b"[1,2]", b"[1]", b'[[1],"a,b"]', b"[]"]],
    ),
    "as_text": (lambda cells, text: cells.as_text(text), [POSITIONS]),
    "int_or_text": (lambda cells, number: cells.int_or_text(number, "n"), [NUMBERS]),
    "same": (lambda cells, raw: cells.usually(cells.same(raw, b"1")) and raw, [[b"1", b"1.0", b"2", b"1"]]),
    "check_position": (lambda cells, text: cells.check_position(text) or text, [POSITIONS[:4] + POSITIONS[5:]]),
    "is_position": (lambda cells, text: cells.is_position(text), [POSITIONS]),
    "check_object": (lambda cells, text: cells.check_object(text) or text, [OBJECTS]),
    "check_depth": (
        lambda cells, text: cells.check_depth(text) or text,
        [[b"{}", b'{"a":' + b"[" * 600 + b"]" * 600 + b"}", b'{"a":"' + b"[" * 2000 + b'"}']],
    ),
    "changed": (lambda cells, text: cells.changed(text, b".", lambda one: one.partition(".")[0]), [POSITIONS]),
    "struct": (
        lambda cells, text: cells.struct(PLACE, text).number,
        [[b'{"id":"x"}', b'{"id":"y","number":5}', b'{"id":1}', None, b"null", b'{"number":null,"id":"z","more":0}']],
    ),
    "each": (lambda cells, number: cells.each(lambda one: str(100 // one), number), [[1, 5, 1, 7, 5]]),
    "where": (lambda cells, number: cells.where(cells.equal(number, 7), 1, cells.first(number, 0)), [NUMBERS]),
    "plus": (lambda cells, one, two: cells.plus(one, two), [[1, None, 7], [2, 3, -7]]),
    "padded": (lambda cells, number: cells.padded(number, 4), [[0, 12, 12345, None]]),
    "size": (lambda cells, text: cells.size(text), [TEXTS]),
    "without_end": (lambda cells, text: cells.without_end(text), [[b"{}", b'{"a":1}', None]]),
    "with_front": (lambda cells, text: cells.with_front(b'{"z":0', text), [[b"{}", b'{"a":1}', None]]),
    "merged": (
        lambda cells, one, two: cells.merged(one, two),
        [[b"{}", b'{"a":1}', None, b'{"a":1}', None], [b'{"b":2}', b'{"b":2}', b'{"b":2}', None, None]],
    ),
    "sparse": (
        lambda cells, one, two: cells.sparse({"a": one, "b": two}),
        [[b"1", None, b"1", None], [b"2", b"2", None, None]],
    ),
    "array_of": (lambda cells, one, two: cells.array_of([one, two]), [[b"1", b"{}"], [b"2", b"[]"]]),
    "json_object of what is there": (
        lambda cells, one, two: cells.json_object({"a": b"0", "b": one, "c": cells.each(lambda value: value, two)}),
        [[b"1", None, b"1", None], [b"2", b"2", None, None]],
    ),
    "by_shape": (
        lambda cells, one, two: cells.by_shape(_named, (one, two), two)[0],
        [OBJECTS[2:12], [b'{"x":1}', None, b'{"y":2}', b"{}", None, b'{"x":1}', b'{"x":2}', b"{}", b'{"x": 1}', None]],
    ),
    "without_key, which stands elsewhere": (
        lambda cells, row, key: cells.without_key(row, key),
        [[b'{"z":1,"a":1}', b'{"z":1}', b'{"a":1,"z":1}', None, b'{"a":1}', b"{}"], [b'{"a":1}'] * 6],
    ),
    "csv_row": (
        lambda cells, text: cells.first(*cells.csv_row(text, STYLE).fields, "-"),
        [[b"a,b,c", b'"a,b",,NULL', b'NULL,"x""y",z', b'"NULL",a,b', b'"a",b,c', b"a,b", b'"a\nb",c,d', b'a,"b', b""]],
    ),
    "csv_text": (
        lambda cells, one, two: cells.csv_text([one, "3", two], STYLE),
        [[b"a", None, b'x"y', b"NULL", b""], [b"", b"a,b", None, b"l\n", b"x"]],
    ),
    "csv_field": (
        lambda cells, raw: cells.csv_field(raw),
        [[*TEXTS, b'[1, "a b"]', b'["a","b"]', b'"\\u0041"', b'["\\n"]', b"{}"]],
    ),
    "doubled": (lambda cells, text: cells.doubled(text, "0"), [POSITIONS]),
    "transaction": (lambda cells, name, order: cells.transaction(name, order), [["a", None, "c"], [1, 2, None]]),
}


def _named(cells: Cells, one: dict[str, Any] | None, two: dict[str, Any] | None, text: Any) -> Sequence[Any]:
    """The names of two objects, the values of both, and a cell next to them."""
    names = f"{list(one or ())}{None if two is None else list(two)}".encode()
    return (cells.joined(names, *(one or {}).values(), *(two or {}).values(), cells.first(text, b"-")),)


def b_row(cells: Cells, key: Any) -> Any:
    return cells.with_key(rows(cells, [b'{"z":1}', b"{}", b'{"y":[]}', b"{}"]), key)


def rows(cells: Cells, values: list[bytes]) -> Any:
    """The same row for one record; a group of less records has less."""
    return binary(values[:1] * cells.count) if isinstance(cells, ColumnCells) else values[0]


def alone(operation: Operation, row: Sequence[Any]) -> Any:
    try:
        return listed(operation(SCALARS, *row))
    except (ValueError, RecursionError) as error:
        return error


def listed(value: Any) -> Any:
    """One spelling for texts and truth values of both kinds."""
    if isinstance(value, str):
        return value.encode()
    return bool(value) if isinstance(value, np.bool_) else value


def together(operation: Operation, given: Sequence[Sequence[Any]]) -> tuple[list[int], list[Any]]:
    """The places of the records that stay in the group, and what is made of them."""
    places = list(range(len(given)))
    while places:
        columns = [_column([given[place][at] for place in places]) for at in range(len(given[0]))]
        cells = ColumnCells(len(places))
        try:
            made = operation(cells, *columns)
            cells.check()
        except ShapeMismatch as error:
            places = [place for place, plain in zip(places, error.plain, strict=True) if plain]
            continue
        if isinstance(made, np.ndarray):
            return places, made.tolist()
        found = arrow_layouts.transactions(made) if isinstance(made, pa.StructArray) else _values(cells, made)
        return places, [listed(value) for value in found]
    return [], []


def _column(values: list[Any]) -> Any:
    if all(value is None for value in values):
        return None
    return binary(values) if any(isinstance(value, bytes) for value in values) else pa.array(values)


def _values(cells: ColumnCells, made: Any) -> list[Any]:
    if isinstance(made, list | tuple) and not isinstance(made, Distinct):
        return list(made)
    found: list[Any] = cells.array(made).to_pylist()
    return found


@pytest.mark.parametrize("name", CASES)
def test_columns_give_what_single_values_give(name: str) -> None:
    operation, columns = CASES[name]
    given = list(zip(*columns, strict=True))
    wanted = [alone(operation, row) for row in given]
    stayed = 0
    for start in range(len(given)):
        places, found = together(operation, given[start:])
        assert found == [wanted[start + place] for place in places]
        stayed += len(places)
    assert stayed > 0


def test_records_that_go_another_way_leave_the_group() -> None:
    cells = ColumnCells(3)
    with pytest.raises(ShapeMismatch) as caught:
        cells.usually(np.array([True, False, True]))
    assert caught.value.plain.tolist() == [True, False, True]
    with pytest.raises(ShapeMismatch) as caught:
        ColumnCells(3).branch(np.array([False, False, True]))
    assert caught.value.plain.tolist() == [True, True, False]
    with pytest.raises(ShapeMismatch) as caught:
        ColumnCells(2).one_by_one()
    assert caught.value.plain.tolist() == [False, False]


def test_rows_are_made_by_their_value() -> None:
    def twice(cells: Cells, value: str, text: Any) -> Sequence[Any]:
        return cells.joined(value.encode(), b":", text), None

    made, nothing = ColumnCells(4).by_value(twice, ["a", "b", "a", "c"], binary([b"1", b"2", b"3", b"4"]))
    assert made.to_pylist() == [b"a:1", b"b:2", b"a:3", b"c:4"]
    assert nothing.null_count == 4
    assert SCALARS.by_value(twice, "a", b"1") == (b"a:1", None)


def test_transactions_of_both_are_equal() -> None:
    assert SCALARS.transaction("7", 1, 2) == Transaction("7", 1, 2)
    assert arrow_layouts.transactions(ColumnCells(1).transaction(["7"], [1], [2])) == [Transaction("7", 1, 2)]
