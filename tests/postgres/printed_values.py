"""Values as PostgreSQL prints them, for tests that make up their own."""

from hypothesis import strategies as st

from changeling.postgres.relation import PgType
from tests.postgres.replication import array_of, pg_type

_years = st.integers(1, 9999)
_fractions = st.one_of(st.just(""), st.integers(1, 999_999).map(lambda part: f".{part:06d}".rstrip("0")))
_clocks = st.builds(
    lambda hour, minute, second, part: f"{hour:02d}:{minute:02d}:{second:02d}{part}",
    st.integers(0, 23),
    st.integers(0, 59),
    st.integers(0, 59),
    _fractions,
)
_days = st.dates().map(str)
_far_days = st.builds(lambda year: f"{year}-02-03", st.integers(10_000, 294_276))
_endless = st.sampled_from(["infinity", "-infinity"])
_moments = st.builds(lambda day, clock: f"{day} {clock}", _days, _clocks)
_far_moments = st.builds(lambda day, clock: f"{day} {clock}", _far_days, _clocks)
_letters = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
_numbers = st.builds(lambda number, part: f"{number}{part}", st.integers(-(10**30), 10**30), _fractions)
_floats = st.floats().map(
    lambda number: {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(str(number), str(number))
)
_json = st.recursive(
    st.sampled_from(["1.50", "true", " null ", '"a\\"b"', "1e400", '{"a" : 1, "a":\n2}']),
    lambda inner: st.lists(inner, max_size=3).map(lambda items: "[ " + " ,".join(items) + "]"),
)
_intervals = st.builds(
    lambda years, months, days, clock: f"{years} years {months:+d} mons {days} days {clock}",
    st.integers(-999, 999),
    st.integers(-11, 11),
    st.integers(-999, 999),
    st.builds(lambda sign, clock: sign + clock, st.sampled_from(["", "-", "+"]), _clocks),
)


def _array(items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    quoted = items.map(lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"')
    lists = st.lists(st.one_of(quoted, st.just("NULL")), max_size=4).map(lambda found: "{" + ",".join(found) + "}")
    nested = st.lists(lists, min_size=2, max_size=3).map(lambda found: "{" + ",".join(found) + "}")
    return st.one_of(lists, nested, lists.map(lambda found: "[2:5]=" + found))


def _plain_array(items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    lists = st.lists(st.one_of(items, st.just("NULL")), max_size=4).map(lambda found: "{" + ",".join(found) + "}")
    return st.one_of(lists, lists, lists, lists.map(lambda found: "[0:3]=" + found))


_integers = st.integers(-(2**31), 2**31 - 1).map(str)
_binary = st.binary(max_size=9).map(lambda value: "\\x" + value.hex())

PRINTED: dict[PgType, st.SearchStrategy[str]] = {
    pg_type("bool"): st.sampled_from(["t", "f"]),
    pg_type("int4"): _integers,
    pg_type("float8"): _floats,
    pg_type("numeric"): st.one_of(_numbers, st.sampled_from(["NaN", "Infinity", "-Infinity"])),
    pg_type("text"): _letters,
    pg_type("bytea"): _binary,
    pg_type("date"): st.one_of(_days, _far_days, _endless, st.just("0044-03-15 BC")),
    pg_type("time"): st.one_of(_clocks, st.just("24:00:00")),
    pg_type("timetz"): st.builds(lambda clock: clock + "+05:30", _clocks),
    pg_type("timestamp"): st.one_of(_moments, _far_moments, _endless, _moments.map(lambda moment: moment + " BC")),
    pg_type("timestamptz"): st.one_of(
        _moments.map(lambda moment: moment + "+00"),
        _far_moments.map(lambda moment: moment + "+00"),
        _moments.map(lambda moment: moment + "+00 BC"),
        st.builds(lambda day, clock: f"20{day[2:]} {clock}-03:30", _days, _clocks),
        _endless,
    ),
    pg_type("interval"): st.one_of(_intervals, _endless, st.just("00:00:00")),
    pg_type("uuid"): st.uuids().map(str),
    pg_type("json"): _json,
    array_of(pg_type("int4")): _plain_array(_integers),
    array_of(pg_type("float8")): _plain_array(_floats),
    array_of(pg_type("text")): _array(_letters),
    array_of(pg_type("bytea")): _array(_binary),
    array_of(pg_type("timestamp")): _array(st.one_of(_moments, _endless)),
}
"""Texts of each type."""
