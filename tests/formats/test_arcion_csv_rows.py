"""Rows of CSV in every style: fields survive, any text is a row or rejected."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeling.formats.arcion_csv.rows import RowStyle
from changeling.model.errors import Rejected

FIELDS = st.lists(
    st.one_of(st.none(), st.sampled_from(["", "NULL", "\\N", " "]), st.text("a,;\"'\\\n\r \té", max_size=6)), min_size=1
)
STYLES = st.sampled_from(
    [
        (",", '"', None, "NULL"),
        (";", "'", "\\", "\\N"),
        (",", '"', "\\", ""),
        ("\t", '"', '"', ""),
        ("|", '"', None, ""),
    ]
)


@given(fields=FIELDS, letters=STYLES)
def test_fields_survive_in_every_style(fields: list[str | None], letters: tuple[str, str, str | None, str]) -> None:
    style = RowStyle(*letters)
    text = style.print(fields)
    assert style.split(text) == (fields, True)


@given(text=st.text('a,"\\\n N', max_size=12), letters=STYLES)
def test_any_text_is_a_row_or_rejected(text: str, letters: tuple[str, str, str | None, str]) -> None:
    style = RowStyle(*letters)
    try:
        fields, usual = style.split(text)
    except Rejected:
        return
    assert (style.print(fields) == text) == usual
    assert style.split(style.print(fields)).fields == fields


def test_a_long_hostile_row_is_split_in_one_pass() -> None:
    with pytest.raises(Rejected):
        RowStyle(",", '"', None, "NULL").split('"a"' * 1_000_000 + '"')
