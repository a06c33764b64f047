"""Literals of every type that PostgreSQL ships, of some that users make, and what rows of them look like in JSON."""

import base64
from collections.abc import Callable, Iterator

from changeling.model import canonical
from changeling.model.json_text import quote
from changeling.model.types import parse

_MOMENTS = ["2024-02-29 10:00:00", "2024-01-01 10:00:00.5", "0001-01-01 00:00:00.123456", "9999-12-31 23:59:59.999999"]
_FAR = ["infinity", "-infinity", "0044-03-15 12:00:00 BC", "294276-12-31 23:59:59.999999"]
LITERALS: dict[str, list[str]] = {
    "bool": ["true", "false"],
    "int2": ["-32768", "32767", "0"],
    "int4": ["-2147483648", "2147483647"],
    "int8": ["-9223372036854775808", "9223372036854775807"],
    "oid": ["0", "4294967295"],
    "float4": ["1.5", "-0", "NaN", "Infinity", "-Infinity", "3.4028235e38", "1e-45", "123456.79"],
    "float8": ["1.5", "-0", "NaN", "Infinity", "-Infinity", "1.7976931348623157e308", "5e-324", "0.1", "1e20"],
    "numeric": ["0", "1.50", "-0.000", "NaN", "Infinity", "-Infinity", "1" + "0" * 130, "0." + "1" * 500],
    "numeric(10,2)": ["12345678.90", "-0.05", "NaN"],
    "numeric(3,-2)": ["12300", "-99900"],
    "numeric(3,5)": ["0.00123", "0.00999"],
    "money": ["12.34", "-1234567.89"],
    "text": [
        "",
        "plain",
        'quo"te',
        "back\\slash",
        "tab\tnew\nline\rbell\x07del\x7f",
        "Zoë 🐘  ",
        "null",
        "\\N",
        "\\\\N\\",
        "{}",
    ],
    "varchar(20)": ["", "short ", "\\."],
    "char(5)": ["ab", "", "abcde"],
    '"char"': ["a", ""],
    "name": ["some_name"],
    "bytea": ["\\x", "\\x00", "\\x00ff", "\\x00ff10", "\\xdeadbeef5c5c6e"],
    "date": ["2024-02-29", "0001-01-01", "9999-12-31", "infinity", "-infinity", "0044-03-15 BC", "5874897-12-31"],
    "time": ["10:00:00", "23:59:59.999999", "24:00:00", "00:00:00.1", "01:02:03.1234"],
    "timetz": ["10:00:00.5+05:30", "23:59:59-08", "10:00:00+05:30:15"],
    "timestamp": _MOMENTS + _FAR,
    "timestamptz": [moment + "+00" for moment in _MOMENTS] + _FAR + ["2024-07-01 10:00:00+05:30"],
    "interval": [
        "0",
        "1 year 2 mons 3 days 04:05:06.789",
        "-1 year -2 mons +3 days -04:05:06.7",
        "1 mon -1 day",
        "-00:00:00.000001",
        "1000000 hours",
        "infinity",
        "-infinity",
    ],
    "uuid": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "A0EEBC999C0B4EF8BB6D6BB9BD380A12"],
    "json": [' {"a" :\n 1.50, "a":2e400}', "null", '"\\u00e9\\ud83d\\ude00 \\\\ \\" \\n"', "[1,\t2]", '"x"'],
    "jsonb": ['{"b": 1, "a": [1.50, null]}', "null", '"q\\"uote"', "12345678901234567890.123"],
    "jsonpath": ['$.a[*] ? (@ > "x")'],
    "xml": ['<a b="c">d</a>'],
    "inet": ["192.168.0.1", "192.168.0.0/24", "::1"],
    "cidr": ["10.0.0.0/8", "2001:db8::/32"],
    "macaddr": ["08:00:2b:01:02:03"],
    "macaddr8": ["08:00:2b:01:02:03:04:05"],
    "bit(5)": ["10101"],
    "varbit": ["", "101"],
    "point": ["(1,2.5)", "(NaN,Infinity)"],
    "line": ["{1,2,3}"],
    "lseg": ["[(0,0),(1,1)]"],
    "box": ["(1,1),(0,0)"],
    "path": ["[(0,0),(1,1)]", "((0,0),(1,1))"],
    "polygon": ["((0,0),(1,1),(1,0))"],
    "circle": ["<(0,0),1>"],
    "tsvector": ["'a':1A 'b c':2,3", "'it''s \\\\ x'"],
    "tsquery": ["'fat' & !'cat':A"],
    "pg_lsn": ["16/B374D848"],
    "txid_snapshot": ["10:20:10,14"],
    "pg_snapshot": ["10:20:10,14"],
    "xid": ["4294967295"],
    "xid8": ["18446744073709551615"],
    "cid": ["7"],
    "tid": ["(42,7)"],
    "aclitem": ["postgres=r/postgres"],
    "refcursor": ["cursor"],
    "int2vector": ["1 2 3"],
    "oidvector": ["1 2"],
    "regproc": ["now"],
    "regprocedure": ["abs(integer)"],
    "regoper": ["||/"],
    "regoperator": ["+(integer,integer)"],
    "regclass": ["pg_class"],
    "regtype": ["integer"],
    "regrole": ["postgres"],
    "regnamespace": ["pg_catalog"],
    "regcollation": ['"C"'],
    "regconfig": ["simple"],
    "regdictionary": ["simple"],
    "int4range": ["[1,5)", "empty", "(,)"],
    "int8range": ["[1,5)"],
    "numrange": ["[1.5,2.50]"],
    "tsrange": ['["2024-01-01 00:00:00",)'],
    "tstzrange": ['["2024-01-01 00:00:00+00",infinity]'],
    "daterange": ["[2024-01-01,2024-02-01)"],
    "int4multirange": ["{[1,3),[5,7)}", "{}"],
    "int8multirange": ["{[1,3)}"],
    "nummultirange": ["{(,1.5]}"],
    "tsmultirange": ['{["2024-01-01 00:00:00",)}'],
    "tstzmultirange": ['{["2024-01-01 00:00:00+00",)}'],
    "datemultirange": ["{[2024-01-01,2024-02-01)}"],
    "int4[]": ["{}", "{1,NULL,-3}", "{{1,2},{3,4}}", "[2:3]={1,2}"],
    "numeric(6,2)[]": ["{1.50,NaN,NULL}"],
    "text[]": ['{a,"b,c",NULL,"NULL","","{}","q\\"\\\\"}', '{{"a b",c},{d,NULL}}', "[0:1]={a,b}", '{"tab\t","é"}'],
    "bool[]": ["{t,f,NULL}"],
    "bytea[]": ['{"\\\\x00ff",NULL}'],
    "timestamptz[]": ['{"2024-01-01 10:00:00.5+00",infinity}'],
    "date[]": ["{2024-01-01}"],
    "uuid[]": ["{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}"],
    "jsonb[]": ['{"{\\"a\\": [1, \\"x\\"]}",NULL,"null"}'],
    "interval[]": ['{"1 year",-00:00:01}'],
    "float8[]": ["{1.5,NaN,-Infinity,1e+20}", "{1.5,NULL}"],
    "box[]": ["{(1,1),(0,0);(2,2),(1,1)}"],
    "mood": ["ok", "so so", 'q"'],
    "mood[]": ['{ok,"so so"}'],
    "cents": ["150", "0"],
    "short_numbers": ["{1,2}"],
    "pair": ['(1,"a b")', "(,)", '(2,"q""uote")'],
    "pair[]": ['{"(1,\\"a b\\")"}'],
    "span": ["[1.5,2.5]"],
    "vector(3)": ["[1,2.5,-3]"],
    "vector(3)[]": ['{"[1,2,3]"}'],
}
"""By the type as a column is declared with it."""

TYPES = (
    "CREATE TYPE mood AS ENUM ('ok', 'so so', 'q\"')",
    "CREATE DOMAIN cents AS bigint CHECK (VALUE >= 0)",
    "CREATE DOMAIN short_numbers AS int[] CHECK (cardinality(VALUE) < 5)",
    "CREATE TYPE pair AS (a int, b text)",
    "CREATE TYPE span AS RANGE (subtype = float8)",
)

_SINCE_15 = ("numeric(3,-2)", "numeric(3,5)")
_SINCE_17 = {"interval": ("infinity", "-infinity")}


def literals(version: int, *, vector: bool, xml: bool) -> dict[str, list[str]]:
    """Those that a server of a version takes, with or without the extension, and built with XML or not."""
    found = {kind: list(texts) for kind, texts in LITERALS.items() if vector or not kind.startswith("vector")}
    if not xml:
        found["xml"] = []
    for kind in _SINCE_15 if version < 150_000 else ():
        del found[kind]
    for kind, texts in _SINCE_17.items() if version < 170_000 else ():
        found[kind] = [text for text in found[kind] if text not in texts]
    return found


IntervalParts = Callable[[str], tuple[int, int, int] | None]
"""Months, days and nanoseconds of an interval's text, or None where it has no end."""


def expected(kind: str, text: str, interval: IntervalParts) -> bytes:
    """The JSON of a value of this canonical type, from the text that the server prints for it."""
    if kind.startswith("array<"):
        separator = ";" if text.startswith("{(") else ","
        return quote(text) if text.startswith("[") else _array(iter(text[1:]), kind, interval, separator)
    if kind == "json":
        # As the members of an object are cut out of it.
        return text.strip().encode()
    if kind == "interval":
        found = interval(text)
        names = ("months", "days", "nanos")
        return quote(text if found is None else dict(zip(names, found, strict=True)))
    if kind == "bytes":
        return quote(base64.b64encode(bytes.fromhex(text[2:])).decode())
    try:
        return canonical.reader(parse(kind))(quote(text))
    except ValueError:
        return quote(text)


def _array(letters: Iterator[str], kind: str, interval: IntervalParts, separator: str = ",") -> bytes:
    """What stands behind an opening brace, letter by letter."""
    found: list[bytes] = []
    item: str | None = None
    quoted = False
    for letter in letters:
        if letter == "{":
            found.append(_array(letters, kind, interval, separator))
        elif letter == '"':
            item, quoted = "", True
            while (inner := next(letters)) != '"':
                item += next(letters) if inner == "\\" else inner
        elif letter in (separator, "}"):
            if item is not None:
                null = item == "NULL" and not quoted
                found.append(b"null" if null else expected(kind[6:-1], item, interval))
            item, quoted = None, False
            if letter == "}":
                break
        else:
            item = (item or "") + letter
    return b"[" + b",".join(found) + b"]"
