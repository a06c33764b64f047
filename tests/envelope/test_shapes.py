"""Objects of one shape are cut into the values of their members; whatever is spelled in another way is told apart."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from changeling.envelope.shapes import Shape, ShapeMismatch
from changeling.model import json_text

NAMES = ("a", "b", "ab", "abc", "é", "ba")
VALUES = st.sampled_from([b"1", b"12", b'"a"', b'","', b'{"a":1}', b"[1,2]", b"null", b'"b\\":"', b'"\xc3\xa9"'])
BLANKS = st.sampled_from([b"", b"", b"", b" ", b"  "])


@st.composite
def objects(draw: st.DrawFn, names: tuple[str, ...]) -> bytes:
    """An object of these names, or nearly."""
    own = draw(st.one_of(st.just(list(names)), st.permutations(names), st.lists(st.sampled_from(NAMES), min_size=1)))
    spelled = [json_text.quote(name) if draw(st.integers(0, 9)) else b'"\\u%04x"' % ord(name[0]) for name in own]
    members = [draw(BLANKS) + name + draw(BLANKS) + b":" + draw(VALUES) + draw(BLANKS) for name in spelled]
    return b"{%b}" % b",".join(members)


@given(data=st.data(), names=st.permutations(NAMES), count=st.integers(1, len(NAMES)))
def test_only_objects_of_the_shape_are_cut(data: st.DataObject, names: list[str], count: int) -> None:
    texts = data.draw(st.lists(objects(tuple(names[:count])), min_size=1, max_size=6))
    shape = Shape.of(texts[0])
    while shape is not None and texts:
        try:
            found = shape.members(pa.array(texts, pa.binary()))
        except ShapeMismatch as error:
            left = [text for text, plain in zip(texts, error.plain, strict=True) if plain]
            assert len(left) < len(texts)
            texts = left
        else:
            rows = [column.to_pylist() for column in found.values()]
            for text, values in zip(texts, zip(*rows, strict=True), strict=True):
                assert json_text.members(text) == dict(zip(shape.names, values, strict=True))
                parts = [part for pair in zip(shape.literals, (*values, b""), strict=True) for part in pair]
                assert b"".join(parts) == text
            return


@given(texts=st.lists(st.tuples(*(st.sampled_from([None, b"1", b'"x,y"']) for _ in range(4))), min_size=1, max_size=5))
def test_objects_that_lack_members(texts: list[tuple[bytes | None, ...]]) -> None:
    names = ("z", "after", "b", "source")
    rows = [dict(zip(names, (row[0] or b"0", *row[1:]), strict=True)) for row in texts]
    spelled = [json_text.join((name, value) for name, value in row.items() if value is not None) for row in rows]
    shape = Shape.of(spelled[0])
    assert shape is not None
    found = shape.with_optional(names[1:], names).members(pa.array(spelled, pa.binary()))
    assert {name: column.to_pylist() for name, column in found.items()} == {
        name: [row[name] for row in rows] for name in names
    }
