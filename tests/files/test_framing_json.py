"""Every layout of JSON gives the same values; broken text costs itself, and never a neighbour."""

import io
import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeling.files.framing import Oversized, RawRecord, blocks
from changeling.files.raw_records import Readable
from changeling.formats.framing import JsonValues

SIZES = (1, 2, 3, 7, 64, 1 << 20)


def json_values(stream: Readable, *, arrays: bool = True, **sizes: int) -> Iterator[RawRecord]:
    for block in blocks(stream, JsonValues(arrays), **sizes):
        yield from block if isinstance(block, list) else block.to_pylist()


def split(text: bytes, *, arrays: bool = True, limit: int = 1 << 20) -> list[RawRecord]:
    found = [list(json_values(io.BytesIO(text), arrays=arrays, chunk_size=size, limit=limit)) for size in SIZES]
    assert all(each == found[0] for each in found)
    return found[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(b"", [], id="empty"),
        pytest.param(b"\n \r\n\t\n", [], id="blank"),
        pytest.param(b"[]", [], id="empty-array"),
        pytest.param(b'{"a":1}\n{"b":2}\n', [b'{"a":1}', b'{"b":2}'], id="lines"),
        pytest.param(b'{"a":1}\n{"b":2}', [b'{"a":1}', b'{"b":2}'], id="no-newline-at-the-end"),
        pytest.param(b'{"a":1}\r\n{"b":2}\r\n', [b'{"a":1}', b'{"b":2}'], id="crlf"),
        pytest.param(b'\n\n{"a":1}\n\n\n{"b":2}\n\n', [b'{"a":1}', b'{"b":2}'], id="blank-lines"),
        pytest.param(b'\xef\xbb\xbf{"a":1}\n{"b":2}', [b'{"a":1}', b'{"b":2}'], id="bom"),
        pytest.param(b'{"a":1}{"b":2} {"c":3}', [b'{"a":1}', b'{"b":2}', b'{"c":3}'], id="concatenated"),
        pytest.param(b'{"a":1},\n{"b":2},\n', [b'{"a":1}', b'{"b":2}'], id="comma-behind-each"),
        pytest.param(
            b'{\n  "a": {\n  }\n}\n{\n  "b": []\n}', [b'{\n  "a": {\n  }\n}', b'{\n  "b": []\n}'], id="pretty"
        ),
        pytest.param(b'{"a":{}\n}\n{"b":2}', [b'{"a":{}\n}', b'{"b":2}'], id="closing-bracket-inside-at-line-end"),
        pytest.param(b'{"a":[{},\n{}]}\n{}', [b'{"a":[{},\n{}]}', b"{}"], id="opening-bracket-inside-at-line-start"),
        pytest.param(b'{"a":"}{"}\n{"b":"]["}\n', [b'{"a":"}{"}', b'{"b":"]["}'], id="brackets-in-strings"),
        pytest.param(rb'{"a":"\"}{\\"}{"b":"\\\""}', [rb'{"a":"\"}{\\"}', rb'{"b":"\\\""}'], id="escapes"),
        pytest.param(b'[{"a":1},{"b":2}]', [b'{"a":1}', b'{"b":2}'], id="array"),
        pytest.param(b'[\n {"a":1},\n {"b":2}\n]\n', [b'{"a":1}', b'{"b":2}'], id="array-of-lines"),
        pytest.param(b'[{\n"a":1\n}, {\n"b":2\n}]', [b'{\n"a":1\n}', b'{\n"b":2\n}'], id="array-in-chain"),
        pytest.param(b'[{"a":1},{"b":2}]\n[{"c":3}]\n', [b'{"a":1}', b'{"b":2}', b'{"c":3}'], id="line-of-arrays"),
        pytest.param(b"[[1,2],\n[3]]", [b"[1,2]", b"[3]"], id="array-of-arrays-on-its-line"),
        pytest.param(b"[\n[1,2],\n[3]\n]", [b"[1,2]", b"[3]"], id="array-of-arrays"),
        pytest.param(b'1\n"x y"\nnull\n', [b"1", b'"x y"', b"null"], id="scalars"),
        pytest.param(b'[1, "a,]b", null ,[2]]', [b"1", b'"a,]b"', b"null", b"[2]"], id="scalars-in-an-array"),
    ],
)
def test_layouts(text: bytes, expected: list[bytes]) -> None:
    assert split(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(b'{"a":1}\n{"b":"x\n{"c":3}\n', [b'{"a":1}', b'{"b":"x', b'{"c":3}'], id="cut-in-a-string"),
        pytest.param(
            b'{"a":1}\n{"b":\n{"c":3}\n{"d":4}\n', [b'{"a":1}', b'{"b":', b'{"c":3}', b'{"d":4}'], id="cut-at-a-colon"
        ),
        pytest.param(b'{"a":[\n{"c":3}\n{"d":4}\n', [b'{"a":[', b'{"c":3}', b'{"d":4}'], id="cut-in-an-array"),
        pytest.param(b'{"a":[\n{"c":3}\n', [b'{"a":[', b'{"c":3}'], id="cut-before-the-last"),
        pytest.param(
            b'{"a":\n{\n "b": 1\n}\n{"c":3}\n', [b'{"a":', b'{\n "b": 1\n}', b'{"c":3}'], id="cut-before-pretty"
        ),
        pytest.param(b'{"a":1}\n{"b":2', [b'{"a":1}', b'{"b":2'], id="cut-at-the-end"),
        pytest.param(
            b'{"a":1}\ngarbage {"x":1}\n{"b":2}\n', [b'{"a":1}', b'garbage {"x":1}', b'{"b":2}'], id="garbage-line"
        ),
        pytest.param(b'{"a":1}\n{"b":2}\ntail', [b'{"a":1}', b'{"b":2}', b"tail"], id="garbage-at-the-end"),
        pytest.param(b'{"a":1} tail\n{"b":2}', [b'{"a":1}', b"tail", b'{"b":2}'], id="garbage-behind-a-value"),
        pytest.param(b'{"a":1}}\n{"b":2}\n', [b'{"a":1}}', b'{"b":2}'], id="bracket-too-many"),
        pytest.param(b'{"a":{"b":1}\n{"c":2}\n', [b'{"a":{"b":1}', b'{"c":2}'], id="bracket-too-few"),
        pytest.param(b'{"a":[1}\n{"c":2}\n', [b'{"a":[1}', b'{"c":2}'], id="bracket-of-another-kind"),
        pytest.param(b']\n}\n{"c":2}\n', [b"]", b"}", b'{"c":2}'], id="stray-brackets"),
        pytest.param(b'\0\0\n{"c":"\0"}\n', [b"\0\0", b'{"c":"\0"}'], id="nul"),
        pytest.param(
            b'{\n "a": "x\n "b": 1\n}\n{\n "c": 1\n}', [b'{\n "a": "x\n "b": 1\n}', b'{\n "c": 1\n}'], id="pretty"
        ),
        pytest.param(
            b'[\n {"a":1},\n {"b":"x\n {"c":3}\n]\n{}', [b'{"a":1}', b'{"b":"x', b'{"c":3}', b"{}"], id="item"
        ),
        pytest.param(b'[\n {"b":"x\n]\n{}', [b'{"b":"x', b"{}"], id="last-item"),
        pytest.param(b'[{\n "a":"x\n}, {\n "b":1\n}]', [b'{\n "a":"x\n}', b'{\n "b":1\n}'], id="item-in-chain"),
        pytest.param(b'[{"a":1},{"b":\n[{"c":3}]\n', [b'{"a":1}', b'{"b":', b'{"c":3}', b"["], id="line-of-arrays"),
        pytest.param(
            b'[{"a":1},\n[{"c":3}]\n[{"d":4}]', [b'{"a":1}', b'{"c":3}', b'{"d":4}', b"["], id="array-cut-at-a-comma"
        ),
        pytest.param(
            b'[{"a":1}\n{"b":2}\n{"c":3}\n', [b'{"a":1}', b'{"b":2}', b'{"c":3}', b"["], id="array-never-closed"
        ),
        pytest.param(b'[{"a":1},\n{"b":2},\n', [b'{"a":1}', b'{"b":2}', b"["], id="array-cut-between-records"),
        pytest.param(b'[{"a":1}},{"b":2}]', [b'{"a":1}', b"}", b'{"b":2}'], id="stray-bracket-in-an-array"),
    ],
)
def test_broken_text_costs_itself_alone(text: bytes, expected: list[bytes]) -> None:
    assert split(text) == expected


def test_an_array_is_a_record_where_asked() -> None:
    text = b'[1,{"a":"]["}]\n[2]\r\n{"b":3}\n[\n 4\n]\n'
    assert split(text, arrays=False) == [b'[1,{"a":"]["}]', b"[2]", b'{"b":3}', b"[\n 4\n]"]
    assert split(b"[1,\n[2]\n[3]\n", arrays=False) == [b"[1,", b"[2]", b"[3]"]


def test_a_broken_line_does_not_shift_thousands_of_others() -> None:
    good = [b'{"id":%d,"name":"n {%d}"}' % (number, number) for number in range(20_000)]
    mixed = [*good[:7_000], b'{"id":', *good[7_000:12_000], b"oops", *good[12_000:]]
    assert list(json_values(io.BytesIO(b"\n".join(mixed)), chunk_size=1 << 16)) == mixed


@pytest.mark.parametrize("opening", [b'{"a":', b"["])
def test_deep_nesting_is_one_record(opening: bytes) -> None:
    closing = {b"{": b"}", b"[": b"]"}[opening[:1]]
    deep = opening * 100_000 + b"1" + closing * 100_000
    assert list(json_values(io.BytesIO(deep + b'\n{"b":1}'), arrays=False)) == [deep, b'{"b":1}']
    assert list(json_values(io.BytesIO(b"[" + deep + b',{"b":1}]'))) == [deep, b'{"b":1}']


def test_many_lines_that_never_end_take_no_quadratic_time() -> None:
    text = b'{"a":\n' * 20_000 + b'{"b":1}\n'
    found = list(json_values(io.BytesIO(text)))
    assert found == [b'{"a":'] * 20_000 + [b'{"b":1}']


@pytest.mark.parametrize(
    ("before", "large", "behind"),
    [
        (b'{"a":1}\n', b'{"x":"' + b"y" * 5000 + b'"}', b'\n{"b":2}\n'),
        (b'[{"a":1},', b'{"x":[' + b'{"k":"}"},' * 500 + b"0]}", b',{"b":2}]'),
        (b'[\n {"a":1},\n ', b'{\n  "x": [' + b'\n   "]",' * 500 + b"\n  0]}", b',\n {"b":2}\n]'),
        (b'{"a":1}\n', b"garbage" * 500, b'\n{"b":2}\n'),
        (b'{"a":1}\n', b'{"x":"' + b"y" * 5000, b'\n{"b":2}\n'),
        (b'{"a":1}\n', b'{"x":[' + b"1,\n  " * 500 + b"}", b'\n{"b":2}\n'),
    ],
)
def test_a_record_over_the_limit_is_reported_and_not_held(before: bytes, large: bytes, behind: bytes) -> None:
    oversized = Oversized(large[:1024], len(large))
    assert split(before + large + behind, limit=2000) == [b'{"a":1}', oversized, b'{"b":2}']


@pytest.mark.parametrize(
    ("before", "large", "behind"),
    [
        (b'{"a":1}\n', b'{"x":"' + b"y" * 500 + b'"}', b'\n{"b":2}\n'),
        (b'[{"a":1},', b'{"x":[' + b'{"k":"}"},' * 50 + b"0]}", b',{"b":2}]'),
        (b'{"a":1}\n', b"garbage" * 50, b'\n{"b":2}\n'),
        (b'{"a":1}\n', b'{"x":[' + b"1,\n  " * 50 + b"}", b'\n{"b":2}\n'),
    ],
)
def test_a_record_over_a_small_limit_has_no_bytes_of_the_next_one(before: bytes, large: bytes, behind: bytes) -> None:
    for size in SIZES:
        first, found, last = json_values(io.BytesIO(before + large + behind), chunk_size=size, limit=100)
        assert isinstance(found, Oversized)
        # How much of it was read when it was over the limit depends on the size of a chunk.
        assert (first, found.length, last) == (b'{"a":1}', len(large), b'{"b":2}')
        assert len(found.head) > 100
        assert large.startswith(found.head)


def test_a_record_at_the_limit_is_a_record() -> None:
    text = b'{"x":"' + b"y" * 1992 + b'"}'
    assert split(text + b"\n{}\n", limit=2000) == [text, b"{}"]
    assert split(text + b"\n{}\n", limit=1999) == [Oversized(text[:1024], 2000), b"{}"]


class Endless:
    """70 MB of one string, made as it is read, and a record after it."""

    def __init__(self) -> None:
        self.left = 70 * 1024 * 1024
        self.tail = b'"}\n{"b":2}\n'
        self.head = b'{"a":"'

    def read(self, size: int, /) -> bytes:
        if self.head:
            head, self.head = self.head, b""
            return head
        if self.left:
            size = min(size, self.left)
            self.left -= size
            return b"x" * size
        tail, self.tail = self.tail, b""
        return tail


def test_the_default_limit_is_64_mb() -> None:
    large, small = json_values(Endless())
    assert large == Oversized(b'{"a":"' + b"x" * 1018, 70 * 1024 * 1024 + 8)
    assert small == b'{"b":2}'


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab"\\{}[],: é\n'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('a"{]'), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text('ab"\\{}[], '), values, max_size=3)
blanks = st.text(" \t\r\n", max_size=3)


@st.composite
def spelled(draw: st.DrawFn, value: object) -> str:
    """A value with blanks anywhere that JSON allows them."""
    if isinstance(value, dict):
        members = [
            f"{draw(blanks)}{json.dumps(name)}{draw(blanks)}:{draw(blanks)}{draw(spelled(item))}{draw(blanks)}"
            for name, item in value.items()
        ]
        return "{" + (",".join(members) or draw(blanks)) + "}"
    if isinstance(value, list):
        items = [draw(blanks) + draw(spelled(item)) + draw(blanks) for item in value]
        return "[" + (",".join(items) or draw(blanks)) + "]"
    return json.dumps(value, ensure_ascii=draw(st.booleans()))


@given(st.data(), st.lists(objects, max_size=6), st.sampled_from(["line", "run", "array"]), st.integers(1, 40))
def test_any_layout_and_chunk_size_gives_the_same_values(
    data: st.DataObject, rows: list, layout: str, size: int
) -> None:
    texts = [data.draw(spelled(row)) for row in rows]
    if layout == "line":
        text = "".join(f"{each}{data.draw(st.sampled_from(['', ' ']))}\n{data.draw(blanks)}" for each in texts)
    elif layout == "run":
        text = "".join(data.draw(blanks) + each + data.draw(blanks) for each in texts)
    else:
        text = "[" + ",".join(data.draw(blanks) + each + data.draw(blanks) for each in texts) + "]"
    for chunk_size in (size, 1 << 20):
        found = list(json_values(io.BytesIO(text.encode()), chunk_size=chunk_size))
        assert [json.loads(each) for each in found if isinstance(each, bytes)] == rows
        assert found == [each.encode() for each in texts]


pieces = [b"{", b"}", b"[", b"]", b'"', b",", b":", b"\n", b" ", b"a", b"\\", b"\r\n", b"\0", b'{"a":1}', b'\n{"k":']
pieces += [b'{"a":[{"b":2},{"c":"}{"}]}', b"},\n{", b"}\n{", b"\n[", b'"\\""', b'[{"a":1},{"b":2}]']
soup = st.lists(st.sampled_from(pieces), max_size=30).map(b"".join)


@given(soup | st.binary(max_size=60), st.booleans())
def test_no_byte_is_lost_and_chunks_do_not_matter(text: bytes, arrays: bool) -> None:
    found = b"".join(each for each in split(text, arrays=arrays) if isinstance(each, bytes))
    separators = b" \t\r\n," + (b"[]" if arrays else b"")
    assert found.translate(None, separators) == text.removeprefix(b"\xef\xbb\xbf").translate(None, separators)
