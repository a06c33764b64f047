import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeling.model import canonical
from changeling.postgres.literals import literal
from changeling.postgres.relation import PgType
from changeling.postgres.types import canonical_type
from changeling.postgres.values import reading
from tests.postgres.printed_values import PRINTED
from tests.postgres.replication import array_of, pg_type

HSTORE = PgType(1, "public", "hstore")
TEXTS, NUMBERS = array_of(pg_type("text")), array_of(pg_type("int4"))


def read(kind: PgType, texts: list[str]) -> list[str]:
    found = reading(kind)(pa.array([text.encode() for text in texts], pa.binary())).whole()
    return [value.decode() for value in found.to_pylist()]


@pytest.mark.parametrize(
    ("kind", "text", "written"),
    [
        (pg_type("bool"), "t", "true"),
        (pg_type("int8"), "-9223372036854775808", "-9223372036854775808"),
        (pg_type("float8"), "1e+20", "1e+20"),
        (pg_type("float8"), "-0", "-0"),
        (pg_type("float4"), "-Infinity", '"-Infinity"'),
        (pg_type("numeric"), "1.50", '"1.50"'),
        (pg_type("numeric"), "NaN", '"NaN"'),
        (pg_type("bpchar"), "ab  ", '"ab  "'),
        (pg_type("text"), "", '""'),
        (pg_type("text"), 'a"b\\c\n\t\x01\x7fé', '"a\\"b\\\\c\\n\\t\\u0001\x7fé"'),
        (pg_type("bytea"), "\\x", '""'),
        (pg_type("bytea"), "\\x00", '"AA=="'),
        (pg_type("bytea"), "\\x00ff", '"AP8="'),
        (pg_type("bytea"), "\\x00ff10", '"AP8Q"'),
        (pg_type("date"), "0044-03-15 BC", '"0044-03-15 BC"'),
        (pg_type("time"), "10:00:00.5", '"10:00:00.500"'),
        (pg_type("time"), "10:00:00.123456", '"10:00:00.123456"'),
        (pg_type("timetz"), "10:00:00.5+05:30:15", '"10:00:00.5+05:30:15"'),
        (pg_type("timestamp"), "2024-01-01 10:00:00.1234", '"2024-01-01T10:00:00.123400"'),
        (pg_type("timestamp"), "infinity", '"infinity"'),
        (pg_type("timestamp"), "0044-03-15 10:00:00.5 BC", '"0044-03-15 10:00:00.5 BC"'),
        (pg_type("timestamp"), "294276-12-31 23:59:59.999999", '"294276-12-31 23:59:59.999999"'),
        (pg_type("timestamptz"), "2024-01-01 10:00:00+00", '"2024-01-01T10:00:00Z"'),
        (pg_type("timestamptz"), "2024-01-01 10:00:00.25+00", '"2024-01-01T10:00:00.250Z"'),
        (pg_type("timestamptz"), "2024-01-01 10:00:00+05:30", '"2024-01-01T04:30:00Z"'),
        (pg_type("timestamptz"), "4714-11-24 00:00:00+00 BC", '"4714-11-24 00:00:00+00 BC"'),
        (pg_type("interval"), "00:00:00", '{"months":0,"days":0,"nanos":0}'),
        (pg_type("interval"), "1 year", '{"months":12,"days":0,"nanos":0}'),
        (
            pg_type("interval"),
            "-1 years -2 mons +3 days -04:05:06.7",
            '{"months":-14,"days":3,"nanos":-14706700000000}',
        ),
        (pg_type("interval"), "-infinity", '"-infinity"'),
        (pg_type("json"), ' {"a" :\n1.50}', ' {"a" :\n1.50}'),
        (NUMBERS, "{}", "[]"),
        (NUMBERS, "{1,NULL,-3}", "[1,null,-3]"),
        (NUMBERS, "{{1,2},{3,4}}", "[[1,2],[3,4]]"),
        (NUMBERS, "[2:3]={1,2}", '"[2:3]={1,2}"'),
        (array_of(pg_type("float8")), "{1e+20,NaN,NULL}", '[1e+20,"NaN",null]'),
        (TEXTS, '{a,"b,c","NULL",NULL,"","q\\"\\\\"}', '["a","b,c","NULL",null,"","q\\"\\\\"]'),
        (TEXTS, "[0:1]={a,b}", '"[0:1]={a,b}"'),
        (array_of(pg_type("box")), "{(1,1),(0,0);(2,2),(1,1)}", '["(1,1),(0,0)","(2,2),(1,1)"]'),
        (array_of(pg_type("bool")), "{t,f,NULL}", "[true,false,null]"),
        (array_of(pg_type("jsonb")), '{"{\\"a\\": 1}",null,NULL}', '[{"a": 1},null,null]'),
        (array_of(array_of(pg_type("int4"))), "{}", "[]"),
        (HSTORE, "", "{}"),
        (HSTORE, '"a"=>"1", "b\\"c"=>NULL, "d"=>"x, \\"y\\"=>\\\\"', '{"a":"1","b\\"c":null,"d":"x, \\"y\\"=>\\\\"}'),
        (PgType(1, "public", "amount", "domain", pg_type("numeric")), "1.50", '"1.50"'),
        (PgType(1, "public", "pair", "composite"), '(1,"a b")', '"(1,\\"a b\\")"'),
    ],
)
def test_a_value_is_written_canonically(kind: PgType, text: str, written: str) -> None:
    assert literal(kind)(text.encode()).decode() == written
    assert read(kind, [text]) == [written]
    # Among others, too: columns are read together.
    assert read(kind, [text, text, text]) == [written] * 3


@pytest.mark.generated
@pytest.mark.parametrize("kind", list(PRINTED), ids=lambda kind: kind.name)
def test_a_column_is_read_as_its_values_are_one_by_one(kind: PgType) -> None:
    @given(st.lists(PRINTED[kind], max_size=8))
    def check(texts: list[str]) -> None:
        assert read(kind, texts) == [literal(kind)(text.encode()).decode() for text in texts]

    check()


@pytest.mark.generated
@pytest.mark.parametrize("kind", list(PRINTED), ids=lambda kind: kind.name)
def test_what_is_reported_is_what_the_canonical_reader_gives_for_it(kind: PgType) -> None:
    reader = canonical.reader(canonical_type(kind))

    @given(PRINTED[kind])
    def check(text: str) -> None:
        written = literal(kind)(text.encode())
        json.loads(written)
        if written.startswith(b"[["):
            # Several dimensions fit no canonical array.
            return
        try:
            assert reader(written) == written
        except ValueError:
            # What it refuses is the server's own text.
            assert json.loads(written) == text

    check()


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pg_type("bytea"), "abc\\000"),
        (pg_type("bytea"), "\\x0"),
        (pg_type("bytea"), "\\xzz"),
        (pg_type("bool"), "yes"),
        (TEXTS, "{a"),
        (TEXTS, '{"a}'),
        (HSTORE, "a=>1"),
    ],
)
def test_a_text_that_a_type_does_not_print_is_refused(kind: PgType, text: str) -> None:
    for way in (lambda: literal(kind)(text.encode()), lambda: read(kind, [text])):
        with pytest.raises(ValueError):  # noqa: PT011  # the caller names the table
            way()


def test_the_largest_interval_is_exact() -> None:
    written = literal(pg_type("interval"))(b"178956970 years 7 mons 2147483647 days 2562047788:00:54.775807")
    assert written == b'{"months":2147483647,"days":2147483647,"nanos":9223372036854775807000}'
    assert canonical.reader(canonical_type(pg_type("interval")))(written) == written


def test_no_value_is_read_from_no_text() -> None:
    for kind in PRINTED:
        assert read(kind, []) == []
