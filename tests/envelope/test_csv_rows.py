"""Rows of CSV in every style: fields survive, any text is a row or rejected."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeling.envelope.csv_columns import fields_of
from changeling.envelope.csv_rows import CsvRow, RowStyle
from changeling.envelope.shapes import ShapeMismatch
from changeling.model.errors import Rejected

CONTENT = st.one_of(st.none(), st.sampled_from(["", "NULL", "\\N", " "]), st.text("a,;\"'\\\n\r \té", max_size=6))
FIELDS = st.lists(CONTENT, min_size=1)
STYLES = st.sampled_from(
    [
        (",", '"', "NULL", None),
        (";", "'", "\\N", "\\"),
        (",", '"', "", "\\"),
        ("\t", '"', "", '"'),
        ("|", '"', "", None),
    ]
)


@given(fields=FIELDS, letters=STYLES)
def test_fields_survive_in_every_style(fields: list[str | None], letters: tuple[str, str, str, str | None]) -> None:
    style = RowStyle(*letters)
    text = style.print(fields)
    assert style.split(text) == (fields, True, ())


@given(text=st.text('a,"\\\n N', max_size=12), letters=STYLES)
def test_any_text_is_a_row_or_rejected(text: str, letters: tuple[str, str, str, str | None]) -> None:
    style = RowStyle(*letters)
    try:
        fields, usual, _ = style.split(text)
    except Rejected:
        return
    assert (style.print(fields) == text) == usual
    assert style.split(style.print(fields)).fields == fields


@given(
    rows=st.lists(
        st.one_of(st.lists(CONTENT, min_size=2, max_size=2), st.text('a,"\n N', max_size=8)), min_size=1, max_size=4
    ),
    letters=STYLES,
)
def test_rows_are_split_together_as_each_of_them(
    rows: list[list[str | None] | str], letters: tuple[str, str, str, str | None]
) -> None:
    style = RowStyle(*letters)
    texts = [row if isinstance(row, str) else style.print(row) for row in rows]
    try:
        found: list[CsvRow | None] = list(map(style.split, texts))
    except Rejected:
        found = [None]
    widths = {row and len(row.fields) for row in found}
    same = [row is not None and row.usual and len(widths) == 1 for row in found]
    if columns := _together(style, texts):
        assert all(same)
        assert list(map(list, zip(*columns, strict=True))) == [row and row.fields for row in found]
    else:
        assert not style.is_plain or not all(same)


def _together(style: RowStyle, texts: list[str]) -> list[list[str | None]] | None:
    try:
        return [column.to_pylist() for column in fields_of(pa.array(map(str.encode, texts), pa.binary()), style)]
    except ShapeMismatch:
        return None


def test_a_long_hostile_row_is_split_in_one_pass() -> None:
    with pytest.raises(Rejected):
        RowStyle(",", '"', "NULL").split('"a"' * 1_000_000 + '"')
