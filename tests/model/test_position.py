"""Positions sort bytewise as their numbers do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeling.model.errors import Rejected
from changeling.model.position import decode, encode

COMPONENTS = st.lists(st.integers(0, 10**98), min_size=2, max_size=2).map(tuple)


def test_the_written_form() -> None:
    assert encode(12350, 2) == "0512350.012"
    assert encode(0) == "010"
    assert decode("0512350.012") == (12350, 2)


@given(COMPONENTS, COMPONENTS)
def test_text_order_is_number_order(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    assert (encode(*one) < encode(*other)) == (one < other)
    assert decode(encode(*one)) == one


@pytest.mark.parametrize("wrong", [(-1,), (10**99,)])
def test_what_is_no_position(wrong: tuple[int, ...]) -> None:
    with pytest.raises(Rejected):
        encode(*wrong)


@pytest.mark.parametrize("text", ["", "1", "02", "0201", "0112", "01a", "010.", "01.0", "\uff101\uff12"])
def test_what_is_no_position_text(text: str) -> None:
    with pytest.raises(Rejected):
        decode(text)
