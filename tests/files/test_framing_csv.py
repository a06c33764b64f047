"""Rows of CSV."""

import csv
import io
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeling.files.framing import Block, RawRecord, blocks
from changeling.formats.framing import CsvRows

SIZES = (1, 2, 5, 1 << 20)


def _rows_of(found: Iterable[Block]) -> list[RawRecord]:
    return [row for block in found for row in (block if isinstance(block, list) else block.to_pylist())]


def rows(text: bytes, delimiter: str = ",", escape: str | None = None, limit: int = 1 << 20) -> list[RawRecord]:
    framing = CsvRows(delimiter, escape=escape)
    found = [_rows_of(blocks(io.BytesIO(text), framing, chunk_size=size, limit=limit)) for size in SIZES]
    assert all(each == found[0] for each in found)
    return found[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(b"", [], id="empty"),
        pytest.param(b"a,b\r\n1,\n\n2, \n", [b"a,b", b"1,", b"2, "], id="plain"),
        pytest.param(b'1,"x\ny"\n2,"""\r\n,"\r\n3', [b'1,"x\ny"', b'2,"""\r\n,"', b"3"], id="line-breaks-in-quotes"),
        pytest.param(b'1,5" pipe\n2,6" pipe\n', [b'1,5" pipe', b'2,6" pipe'], id="quote-inside-a-plain-field"),
        pytest.param(b'1,"cut\n2,"ok"\n3,"ok"\n', [b'1,"cut', b'2,"ok"', b'3,"ok"'], id="quote-that-was-cut"),
        pytest.param(b'1,a\n2,"open\n3\n4', [b"1,a", b'2,"open', b"3", b"4"], id="quote-open-at-the-end"),
        pytest.param(b'"a"', [b'"a"'], id="no-newline-at-the-end"),
    ],
)
def test_rows(text: bytes, expected: list[bytes]) -> None:
    assert rows(text) == expected


def test_other_delimiters_and_escapes() -> None:
    assert rows(b'1\t"x\ny"\t\n2\t\t\n', "\t") == [b'1\t"x\ny"\t', b"2\t\t"]
    assert rows(b'1,"x\\"\ny"\n2,a\\\nb\n3\n', escape="\\") == [b'1,"x\\"\ny"', b"2,a\\\nb", b"3"]


def test_a_row_over_the_limit_costs_its_lines_alone() -> None:
    text = b'1,"' + b"x\n" * 200 + b"2,ok\n"
    assert rows(text, limit=100)[-1] == b"2,ok"


fields = st.lists(st.lists(st.text('ab",\n\r 1', max_size=5), min_size=1, max_size=3), max_size=6)


@given(fields)
def test_rows_are_those_of_the_csv_module(table: list[list[str]]) -> None:
    texts = []
    for row in table:
        out = io.StringIO(newline="")
        csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="").writerow(row)
        texts.append(out.getvalue().encode())
    assert rows(b"\n".join(texts)) == texts
    assert rows(b"\r\n".join(texts) + b"\r\n") == texts


@given(st.lists(st.sampled_from([b'"', b'""', b",", b"\n", b"\r\n", b"a", b'"x\ny"']), max_size=25).map(b"".join))
def test_no_byte_of_a_row_is_lost(text: bytes) -> None:
    found = b"".join(each for each in rows(text) if isinstance(each, bytes))
    assert found.translate(None, b"\r\n") == text.translate(None, b"\r\n")
