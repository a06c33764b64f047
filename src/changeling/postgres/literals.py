"""Converts one value from the server's text format into canonical JSON; for array items and rare types.

`values` does the same for whole columns. Values without a canonical form (the infinities, years before 1 or after 9999,
arrays whose lower bound is not 1) stay text as the server prints it.
"""

import binascii
import functools
import re
from collections.abc import Callable

from changeling.model import canonical, times
from changeling.model.errors import Rejected
from changeling.model.json_text import join, quote
from changeling.model.types import INTEGER_RANGES, Type
from changeling.postgres.relation import PgType
from changeling.postgres.types import canonical_type, is_hstore, item_of

Literal = Callable[[bytes], bytes]
"""Converts the text of a value, never NULL, into JSON. Raises `ValueError` on a text that is not one of the type."""

_TIMESTAMP = re.compile(rb"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?(\+00)?")
_CLOCK = re.compile(rb"(\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?")
_INTERVAL = re.compile(
    rb"(?=.)(?:([+-]?\d+) years? ?)?(?:([+-]?\d+) mons? ?)?(?:([+-]?\d+) days? ?)?"
    rb"(?:([+-]?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?"
)
_PAIR = re.compile(rb'"((?:[^"\\]|\\.)*)"=>(?:"((?:[^"\\]|\\.)*)"|NULL)(?:, )?', re.DOTALL)
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)


@functools.lru_cache(maxsize=4096)
def literal(kind: PgType) -> Literal:
    """The converter for one value of this type."""
    if (item := item_of(kind)) is not None:
        return functools.partial(_array, literal(item), _tokens(_delimiter(item)))
    return _hstore if is_hstore(kind) else _SIMPLE[canonical_type(kind).kind]


def quoted(text: bytes) -> bytes:
    """Text as a JSON string."""
    return quote(text.decode())


def _same(text: bytes) -> bytes:
    return text


def _bool(text: bytes) -> bytes:
    if text not in (b"t", b"f"):
        raise ValueError(f"{text!r} is not a boolean")
    return b"true" if text == b"t" else b"false"


def _float(text: bytes) -> bytes:
    # NaN and the infinities end with a letter.
    return text if text[-1:].isdigit() else quoted(text)


def _bytea(text: bytes) -> bytes:
    if text[:2] != b"\\x":
        raise ValueError("a bytea is not in hex: the session's bytea_output must be hex")
    return b'"%b"' % binascii.b2a_base64(binascii.unhexlify(text[2:]), newline=False)


def _fraction(digits: bytes | None) -> bytes:
    """With 3 or 6 digits, whichever is enough."""
    return b"" if digits is None else b"." + digits.ljust((len(digits) + 2) // 3 * 3, b"0")


def _time(text: bytes) -> bytes:
    match = _CLOCK.fullmatch(text)
    return quoted(text) if match is None else b'"%b%b"' % (match[1], _fraction(match[2]))


def _timestamp(text: bytes) -> bytes:
    match = _TIMESTAMP.fullmatch(text)
    if match is None or match[4]:
        return quoted(text)
    return b'"%bT%b%b"' % (match[1], match[2], _fraction(match[3]))


def _timestamptz(text: bytes) -> bytes:
    match = _TIMESTAMP.fullmatch(text)
    if match is not None and match[4]:
        return b'"%bT%b%bZ"' % (match[1], match[2], _fraction(match[3]))
    try:
        # A session that is not in UTC.
        return canonical.reader(Type("timestamptz"))(quoted(text))
    except Rejected:
        return quoted(text)


def _interval(text: bytes) -> bytes:
    match = _INTERVAL.fullmatch(text)
    if match is None:
        return quoted(text)
    years, months, days, sign, hours, minutes, seconds, part = match.groups(b"0")
    nanos = (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * times.NANOS_PER_SECOND + int(part.ljust(9, b"0"))
    return b'{"months":%d,"days":%d,"nanos":%d}' % (
        int(years) * 12 + int(months),
        int(days),
        -nanos if sign == b"-" else nanos,
    )


def _hstore(text: bytes) -> bytes:
    pairs, end = [], 0
    for match in _PAIR.finditer(text):
        if match.start() != end:
            break
        name, value = match[1], match[2]
        pairs.append((_plain(name).decode(), b"null" if value is None else quoted(_plain(value))))
        end = match.end()
    if end != len(text):
        raise ValueError(f"{text[:60]!r} is not an hstore")
    return join(pairs)


def _plain(escaped: bytes) -> bytes:
    return _ESCAPED.sub(rb"\1", escaped) if b"\\" in escaped else escaped


def _delimiter(item: PgType) -> bytes:
    """The separator of items: of the built-in types, only boxes contain commas and use another one."""
    return b";" if item.name == "box" and item.schema == "pg_catalog" else b","


@functools.cache
def _tokens(delimiter: bytes) -> re.Pattern[bytes]:
    return re.compile(rb'"((?:[^"\\]|\\.)*)"|([^"{}\\%b]+)|([{}%b])' % (delimiter, delimiter), re.DOTALL)


_MARKS = {b"{": b"[", b"}": b"]"}


def _array(item: Literal, tokens: re.Pattern[bytes], text: bytes) -> bytes:
    """Arrays of several dimensions become arrays of arrays; one whose lower bound is not 1 stays text."""
    if text[:1] != b"{":
        return quoted(text)
    found, end = [], 0
    for match in tokens.finditer(text):
        if match.start() != end:
            break
        inside, plain, mark = match.groups()
        if mark is not None:
            found.append(_MARKS.get(mark, b","))
        elif plain is not None:
            found.append(b"null" if plain == b"NULL" else item(plain))
        else:
            found.append(item(_plain(inside)))
        end = match.end()
    if end != len(text) or text[-1:] != b"}":
        raise ValueError(f"{text[:60]!r} is not an array")
    return b"".join(found)


_SIMPLE: dict[str, Literal] = {
    "bool": _bool,
    **dict.fromkeys(INTEGER_RANGES, _same),
    "float32": _float,
    "float64": _float,
    "decimal": quoted,
    "string": quoted,
    "bytes": _bytea,
    "date": quoted,
    "time": _time,
    "timestamp": _timestamp,
    "timestamptz": _timestamptz,
    "interval": _interval,
    "uuid": quoted,
    "json": _same,
}
