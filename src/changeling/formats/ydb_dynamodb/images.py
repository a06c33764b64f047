"""Keys and images on the wire and in a change: the same text, except that NULL is `null` in a change."""

import itertools
import re
from collections.abc import Mapping

import msgspec

from changeling.formats.ydb_dynamodb import attributes
from changeling.model import json_text
from changeling.model.errors import Rejected

Columns = dict[str, bytes]

_PLAIN_TEXT = rb'"[^"\\\x00-\x1f]*+"'
_DIGITS = rb"-?(?:0|[1-9][0-9]*+)"
_FLAT_VALUE = rb'\{"(?:[SB]": ?%b|N": ?"%b(?:\.[0-9]++)?"|BOOL": ?(?:true|false))\}' % (_PLAIN_TEXT, _DIGITS)
_FLAT_PAIR = rb"%b: ?%b" % (_PLAIN_TEXT, _FLAT_VALUE)
_FLAT_IMAGE = re.compile(rb"\{(?:%b(?:, ?%b)*+)?\}" % (_FLAT_PAIR, _FLAT_PAIR))
"""An image of plain values: nothing in it can be wrong, so it need not be parsed."""
_KEY_PAIR = rb'%b:\{"(?:[SB]":%b|N":"(?!-0")%b(?:\.[0-9]*[1-9])?")\}' % (_PLAIN_TEXT, _PLAIN_TEXT, _DIGITS)
_FLAT_KEY = re.compile(rb"\{%b(?:,%b)*+\}" % (_KEY_PAIR, _KEY_PAIR))
_KEY_NAMES = re.compile(rb'"([^"]*+)":\{')


def read_image(name: str, raw: bytes) -> bytes | None:
    """An image as a change has it: the wire's text, except that `{"NULL":true}` is `null`; None where there is none."""
    if _FLAT_IMAGE.fullmatch(raw):
        return raw
    if raw == b"null":
        return None
    try:
        values = attributes.read_columns(raw)
        for value in values.values():
            attributes.check(value)
    except (Rejected, msgspec.DecodeError):
        raise _wrong(name, raw) from None
    nulls = [column for column, value in values.items() if value.NULL is True]
    return json_text.join({**json_text.members(raw), **dict.fromkeys(nulls, b"null")}.items()) if nulls else raw


def _wrong(name: str, raw: bytes) -> Rejected:
    """Why an image cannot be read, with the column that is wrong."""
    for column, value in _columns(name, raw).items():
        try:
            attributes.check(attributes.read(value))
        except (Rejected, msgspec.DecodeError) as error:
            return Rejected(f"`{name}`: column {column!r}: {error}")
    return Rejected(f"`{name}` is not an object of attribute values")


def read_key(raw: bytes) -> bytes:
    """`Keys` in the canonical spelling; raises `Rejected` naming the column that cannot be part of a key."""
    if _FLAT_KEY.fullmatch(raw):
        names = _KEY_NAMES.findall(raw)
        if len(names) == 1 or all(first < second for first, second in itertools.pairwise(names)):
            return raw
    columns = _columns("Keys", raw)
    if not columns:
        raise Rejected("`Keys` names no column")
    return canonical_key(columns)


def canonical_key(columns: Mapping[str, bytes]) -> bytes:
    """The canonical object of key columns; raises `Rejected` naming the one that cannot be part of a key."""
    pairs = []
    for column, value in columns.items():
        try:
            pairs.append((column, attributes.canonical(value)))
        except (Rejected, msgspec.DecodeError) as error:
            raise Rejected(f"key column {column!r}: {error}") from None
    return json_text.join(sorted(pairs))


def _columns(name: str, raw: bytes) -> Columns:
    try:
        return json_text.members(raw)
    except msgspec.DecodeError as error:
        raise Rejected(f"`{name}`: {error}") from None


def print_image(image: str | bytes, omit_nulls: bool) -> bytes:
    """An image as the wire has it: NULL as `{"NULL":true}`, or left out."""
    raw = image if isinstance(image, bytes) else image.encode()
    return raw if b"null" not in raw else print_columns(json_text.members(raw), omit_nulls)


def print_columns(columns: Columns, omit_nulls: bool) -> bytes:
    """The image of these columns, each an attribute value or `null`."""
    pairs = [(name, attributes.NULL if value == b"null" else value) for name, value in columns.items()]
    return json_text.join((name, value) for name, value in pairs if not (omit_nulls and value == attributes.NULL))
