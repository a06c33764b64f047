import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeling.postgres.slot import format_lsn, parse_lsn
from tests.postgres.server import Database

LSNS = [
    ("0/0", 0),
    ("0/1", 1),
    ("0/FFFFFFFF", 0xFFFFFFFF),
    ("1/0", 1 << 32),
    ("16/B374D848", 0x16_B374D848),
    ("7FFFFFFF/FFFFFFFF", 2**63 - 1),
    ("FFFFFFFF/FFFFFFFF", 2**64 - 1),
]


@pytest.mark.parametrize(("text", "number"), LSNS)
def test_an_lsn_is_written_as_the_server_writes_it(text: str, number: int) -> None:
    assert (parse_lsn(text), format_lsn(number)) == (number, text)


def test_leading_zeros_and_lower_case_are_the_same_lsn() -> None:
    assert parse_lsn("0000000A/00b374d8") == parse_lsn("A/B374D8")


@given(st.integers(0, 2**64 - 1))
def test_every_lsn_round_trips(number: int) -> None:
    assert parse_lsn(format_lsn(number)) == number


def test_the_server_reads_the_same_numbers(emptied: Database) -> None:
    for text, number in LSNS:
        query = f"SELECT ('{format_lsn(number)}'::pg_lsn - '0/0'::pg_lsn)::text, '{text}'::pg_lsn::text"
        assert emptied.rows(query) == [(str(number), text)]
