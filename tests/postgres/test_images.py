"""Objects and keys of rows, made by columns."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeling.model import json_text
from changeling.postgres import images
from changeling.postgres.images import Member
from changeling.postgres.literals import literal
from changeling.postgres.published_table import PublishedTable
from changeling.postgres.relation import PgType
from tests.postgres.printed_values import PRINTED
from tests.postgres.replication import array_of, pg_type, relation_of

KINDS = list(PRINTED)


def members_of(table: PublishedTable, rows: list[list[Any]]) -> list[Member]:
    found = []
    for column in table.columns:
        values = [row[column.number] for row in rows]
        kinds = np.array([ord("n" if value is None else "u" if value is ... else "t") for value in values], np.uint8)
        is_text = kinds == ord("t")
        texts = pa.array([value.encode() for value in values if isinstance(value, str)], pa.binary())
        places = None if is_text.all() else np.where(is_text, np.cumsum(is_text) - 1, -1)
        found.append(column.member(texts, places, kinds))
    return found


def plainly(table: PublishedTable, row: list[Any]) -> dict[str, bytes]:
    return {
        column.name: b"null" if value is None else literal(column.type)(value.encode())
        for column, value in zip(table.relation.columns, row, strict=True)
        if value is not ...
    }


@st.composite
def tables(draw: st.DrawFn) -> tuple[PublishedTable, list[list[Any]]]:
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=5))
    names = draw(st.lists(st.text(min_size=1, max_size=4), min_size=len(kinds), max_size=len(kinds), unique=True))
    key = draw(st.integers(1, len(kinds)))
    table = PublishedTable(relation_of(dict(zip(names, kinds, strict=True)), tuple(names[:key])))
    cells = [st.one_of(PRINTED[kind], PRINTED[kind], st.none(), st.just(...)) for kind in kinds]
    return table, draw(st.lists(st.tuples(*cells).map(list), max_size=6))


@given(tables())
def test_rows_become_the_objects_that_they_are_one_by_one(given: tuple[PublishedTable, list[list[Any]]]) -> None:
    table, rows = given
    made, partial = images.images(members_of(table, rows), len(rows))
    made.validate(full=True)
    expected = [plainly(table, row) for row in rows]
    assert made.to_pylist() == [json_text.join(row.items()).decode() for row in expected]
    assert partial.tolist() == [len(row) < len(table.columns) for row in expected]


@given(tables())
def test_keys_are_those_of_the_model(given: tuple[PublishedTable, list[list[Any]]]) -> None:
    table, rows = given
    made = images.keys(table.spelled(members_of(table, rows)), len(rows))
    made.validate(full=True)
    expected = []
    for row in rows:
        known = {name: value for name, value in plainly(table, row).items() if name in table.relation.key}
        whole = known.keys() == set(table.relation.key)
        expected.append(json_text.canonical_key(known.items()).decode() if whole else None)
    assert made.to_pylist() == expected


@pytest.mark.parametrize(
    ("kind", "spellings", "expected"),
    [
        (pg_type("float8"), ["1e+20", "100000000000000000000"], "100000000000000000000"),
        (pg_type("float8"), ["-0", "0"], "0"),
        (pg_type("jsonb"), ['{"b": 1.0, "a": 2}', '{"a":2,"b":1}'], '{"a":2,"b":1}'),
        (pg_type("interval"), ["1 year"], '{"days":0,"months":12,"nanos":0}'),
        (array_of(pg_type("float8")), ["{1e+1,10}"], "[10,10]"),
        (pg_type("numeric"), ["1.50"], '"1.50"'),
        (pg_type("text"), ['a"b'], '"a\\"b"'),
    ],
)
def test_a_key_spells_equal_values_alike(kind: PgType, spellings: list[str], expected: str) -> None:
    table = PublishedTable(relation_of({"id": kind}, ("id",)))
    rows = [[text] for text in spellings]
    made = images.keys(table.spelled(members_of(table, rows)), len(rows))
    assert made.to_pylist() == [f'{{"id":{expected}}}'] * len(rows)


def test_wide_rows_are_made_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "_PIECES_AT_ONCE", 10)
    table = PublishedTable(relation_of({f"c{number}": pg_type("text") for number in range(7)}))
    rows: list[list[Any]] = [[f"{row}.{column}" for column in range(7)] for row in range(5)]
    rows[3][2], rows[4][5] = None, ...
    made, _ = images.images(members_of(table, rows), len(rows))
    assert [json.loads(text) for text in made.to_pylist()] == [
        {f"c{column}": value for column, value in enumerate(row) if value is not ...} for row in rows
    ]


def test_rows_without_columns_are_empty_objects() -> None:
    made, partial = images.images([], 2)
    assert (made.to_pylist(), partial.tolist()) == (["{}", "{}"], [False, False])
