"""Random JSON values for columns of every type: the usual ones, odd spellings, and ones that do not fit."""

import base64
import json
from collections.abc import Callable
from datetime import date, datetime

from hypothesis import strategies as st

from changeling.model.types import INTEGER_RANGES, SIMPLE, Type, array, decimal

ODD = [
    *b"0 -0 -0.0 7.0 1e3 1E3 1e-3 1E-7 12.50 0.1 0.000 1e400 1e39 1e-400 1e19 1e20000 1e20001 1e-99999999".split(),
    *b"127 128 255 256 -129 32768 65536 4294967296 9007199254740993 18446744073709551615 18446744073709551616".split(),
    *b"9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809".split(),
    *b"3.4028234663852886e38 3.4028235677973366e38 3.40282356779733661637539395458142568448e38".split(),
    *rb""""5" "007" "+5" "0x10" "1_000" "5\n" "\u0035" ".5" "5." "5""".split(),
    *(b"5\n", b'" 5 "', b'"\xd9\xa3"'),
    *b""""NaN" "nan" "inf" "-Infinity" "sNaN" "infinity" "-infinity" NaN""".split(),
    *b"""true false "t" "F" "TRUE" 1 "yes" null "null" "" [] {} [null] nul""".split(),
    *rb'''"a\"b" "\ud83d\ude00" "\ud800" "\u0000"'''.split(),
    *(b'"\xc3\xa9"', b'"\xff"', b'"\xed\xa0\x80"', b'"\x01"', b""),
    *b'''"2024-02-29" "1900-02-29" "2000-02-29" "2023-02-29" "2024-02-30" "2024-04-31" "2024-13-01"'''.split(),
    *b'''"0000-00-00" "0000-01-01" "0001-01-01" "9999-12-31" "1582-10-10" "2024-1-2"'''.split(),
    *b'''"2024-01-02T00:00:00Z" "2024-01-02T03:04:05Z" "2024-01-02T03:04:05,5" "2024-01-02T03:04:05z"'''.split(),
    *b'''"2024-01-02T03:04:05.1" "2024-01-02T03:04:05.123456789Z" "2024-01-02T03:04:05.123456000Z"'''.split(),
    *b'''"2024-01-02T03:04:05+01" "2024-01-02T03:04:05+23:59" "2024-01-02T03:04:05+30:00"'''.split(),
    *b'''"2024-01-02T03:04:05+01:00[Europe/Paris]" "2024-01-02T03:04:05+00:19:32" "2024-01-02T24:00:00"'''.split(),
    *b'''"2024-01-02T23:59:60Z" "0001-01-01T00:00:00+01:00" "9999-12-31T23:59:59.999999-01:00"'''.split(),
    *b'''"9999-12-31T23:59:59.999999Z" "0001-01-01T00:00:00Z" "0000-06-01T00:00:00Z"'''.split(),
    *(b'"2024-01-02 03:04"', b'"2024-01-02 03:04:05-0130"', b'"0001-12-31 BC"', b'"0044-03-15T12:00:00 BC"'),
    *b'''"10:15:30.500000" "10:15:30.500" "24:00:00" "10:15" "10:15:60" "10:15:30+02" "10:15:30.000"'''.split(),
    *rb'''"PT2H30M" "P3D" "P" {"months":6} "{\"days\":1}" "AQID/w==" "AQI"'''.split(),
    *b'''"550E8400-E29B-41D4-A716-446655440000" "{550e8400e29b41d4a716446655440000}"'''.split(),
    *b""""[1,2]" ["x",1] [[1],[null]] ["2024-01-02","infinity"] [1""".split(),
    *(b'"a b="', b"[1, 2]", b"[" * 3000),
]
"""Values that readers of JSON, Python and Arrow do not all take for the same."""


def quoted(values: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
    return values.map(lambda text: json.dumps(text).encode())


def either(values: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
    """Numbers as numbers and as text."""
    return values.map(str.encode) | quoted(values)


def _moment(offsets: list[str]) -> st.SearchStrategy[bytes]:
    return quoted(
        st.builds(
            lambda moment, glue, offset: moment.isoformat(glue) + offset,
            st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)),
            st.sampled_from("T "),
            st.sampled_from(offsets),
        )
    )


def _decimals(digits: int) -> st.SearchStrategy[bytes]:
    return either(
        st.decimals(allow_nan=False, allow_infinity=False, places=3).map(lambda value: f"{value:f}")
        | st.integers(-(10**digits), 10**digits).map(lambda value: f"{value / 100:.2f}")
        | st.integers(-(10**digits), 10**digits).map(str)
        | st.integers(0, 10**40).map(lambda value: f"0.{value}")
    )


_OWN: dict[str, Callable[[], st.SearchStrategy[bytes]]] = {
    "bool": lambda: st.sampled_from([b"true", b"false"]),
    "float32": lambda: either(st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr)),
    "float64": lambda: either(st.floats(allow_nan=False, allow_infinity=False).map(repr)),
    "string": lambda: quoted(st.text()) | st.text().map(lambda text: json.dumps(text, ensure_ascii=False).encode()),
    "bytes": lambda: quoted(st.binary().map(lambda value: base64.b64encode(value).decode())),
    "date": lambda: quoted(st.dates(date(1, 1, 1)).map(str)),
    "time": lambda: quoted(st.times().map(str)),
    "timestamp": lambda: _moment(["", "", "Z", "+02:00"]),
    "timestamptz": lambda: _moment(["Z", "Z", "+00:00", "-11", "+0530", ""]),
    "duration": lambda: quoted(st.builds("PT{}H{}M".format, st.integers(0, 99), st.integers(0, 59))),
    "interval": lambda: st.builds(
        b'{"months":%d,"days":%d,"nanos":%d}'.__mod__, st.tuples(*[st.integers(-99, 99)] * 3)
    ),
    "uuid": lambda: quoted(st.uuids().map(str)),
    "json": lambda: st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=5,
    ).map(lambda value: json.dumps(value).encode()),
}


def own(kind: Type) -> st.SearchStrategy[bytes]:
    """Values that look like those of a type; most of them fit."""
    if kind.item is not None:
        inner = own(kind.item) | st.just(b"null")
        return st.lists(inner, max_size=4).map(lambda items: b"[%b]" % b",".join(items))
    if kind.kind == "decimal":
        return _decimals(kind.precision or 45)
    if kind.kind in INTEGER_RANGES:
        low, high = INTEGER_RANGES[kind.kind]
        return either(st.integers(low - 2, high + 2).map(str))
    return _OWN[kind.kind]()


def columns(kind: Type) -> st.SearchStrategy[list[bytes | None]]:
    """Columns: of the type's own values alone, and with others between them."""
    usual = st.none() | st.just(b"null") | own(kind)
    return st.lists(usual, max_size=8) | st.lists(usual | own(kind) | st.sampled_from(ODD), max_size=8)


KINDS = [
    *map(Type, SIMPLE),
    *(decimal(10, 2), decimal(38, 10), decimal(38, 0), decimal(5, 5), decimal(50, 3)),
    *(array(Type(name)) for name in ("int32", "string", "date", "json", "decimal")),
    array(array(decimal(4, 1))),
]
