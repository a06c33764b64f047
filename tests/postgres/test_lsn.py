import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeling.postgres import lsn
from tests.postgres.server import Database

PLACES = [
    ("0/0", 0),
    ("0/1", 1),
    ("0/FFFFFFFF", 0xFFFFFFFF),
    ("1/0", 1 << 32),
    ("16/B374D848", 0x16_B374D848),
    ("7FFFFFFF/FFFFFFFF", 2**63 - 1),
    ("FFFFFFFF/FFFFFFFF", 2**64 - 1),
]


@pytest.mark.parametrize(("text", "number"), PLACES)
def test_a_place_is_spelled_as_the_server_spells_it(text: str, number: int) -> None:
    assert (lsn.parse(text), lsn.spell(number)) == (number, text)


def test_zeros_in_front_and_small_letters_are_the_same_place() -> None:
    assert lsn.parse("0000000A/00b374d8") == lsn.parse("A/B374D8")


@given(st.integers(0, 2**64 - 1))
def test_every_place_comes_back(number: int) -> None:
    assert lsn.parse(lsn.spell(number)) == number


def test_the_server_reads_the_same_numbers(emptied: Database) -> None:
    for text, number in PLACES:
        query = f"SELECT ('{lsn.spell(number)}'::pg_lsn - '0/0'::pg_lsn)::text, '{text}'::pg_lsn::text"
        assert emptied.rows(query) == [(str(number), text)]
