"""What DynamoDB cannot express. Each is a loss of `types`, and becomes text if the user drops the types."""

import re

from changeling.envelope.cells import Cell, Cells, Members
from changeling.formats.format import Outgoing
from changeling.formats.ydb_dynamodb import attributes
from changeling.formats.ydb_dynamodb.images import print_columns
from changeling.model import json_text
from changeling.model.json_text import quote

_NUMBERS = re.compile(rb'"N":"([^"]*)"')
"""Every number of a text: inside of a string the quotes around the letter would be escaped."""
_SHORT_NUMBER = re.compile(rb"-?[0-9]{1,37}(?:\.[0-9]+)?")
_MOST_CHARACTERS = 38
_UNUSUAL_NUMBER = r'(?s).*"N":"(?:[^"]{38,}|[^"]*[^-0-9."][^"]*)".*'
"""A value with a number that is long, or has an exponent, or is none."""
PLAIN_KEY_VALUE = r'\{"(?:[SB]":"[^"\\\x00-\x1f]*"|N":"(?:0|-?[1-9][0-9]{0,36})")\}'
"""Values of a key that are their own canonical form."""
KEY_KIND = r'(?s)\{"[SBN]":.*'
"""Values of the kinds that a key can have."""
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]')
_DEEPEST = json_text.DEPTH_LIMIT - 2
"""How deep an image may nest: the record and its `dynamodb` enclose it."""


def key_column(cells: Cells, out: Cell, name: str, value: Cell) -> Cell:
    """An attribute value that a key can have."""
    if cells.only(cells.matches(value, PLAIN_KEY_VALUE)):
        return value
    kind = "NULL" if value == b"null" else attributes.kind_of(attributes.read(value))
    if kind not in attributes.KEY_KINDS:
        out.lose("types", f"a document's key is text, number or binary; key column {name!r} is of kind {kind}")
        return _as_text(value)
    return numbers(out, value)


def image(cells: Cells, out: Cell, columns: Members, omit_nulls: bool) -> Cell:
    """The image of these columns, without numbers and documents that DynamoDB does not have."""
    text = print_columns(cells, columns, omit_nulls)
    # A text shorter than two brackets a level cannot be nested too deep.
    unfit = ~cells.less(cells.size(text), 2 * _DEEPEST)
    for value in columns.values():
        unfit |= cells.matches(value, _UNUSUAL_NUMBER)
    if cells.only(~unfit):
        return text
    if text.count(b"{") + text.count(b"[") > _DEEPEST and _depth(text) > _DEEPEST:
        out.lose(
            "types", f"attribute values nest twice as deep as JSON, a record {json_text.DEPTH_LIMIT} levels at most"
        )
        text = print_columns(cells, {name: _shallow(value) for name, value in columns.items()}, omit_nulls)
    return numbers(out, text)


def numbers(out: Outgoing, text: bytes) -> bytes:
    """The same text without numbers that DynamoDB does not have."""
    unfit = {
        found
        for found in _NUMBERS.findall(text)
        if not (len(found) <= _MOST_CHARACTERS and _SHORT_NUMBER.fullmatch(found))
        and not attributes.is_storable_number(found.decode())
    }
    if not unfit:
        return text
    shown = min(unfit)[:60].decode()
    out.lose("types", f"a number has at most 38 digits, up to 9.9E+125, and is never NaN; this one is {shown}")
    return _NUMBERS.sub(lambda match: b'"S":"%b"' % match[1] if match[1] in unfit else match[0], text)


def _shallow(value: bytes) -> bytes:
    return _as_text(value) if _depth(value) >= _DEEPEST else value


def _depth(text: bytes) -> int:
    depth = deepest = 0
    for token in _TOKENS.findall(text):
        if token in (b"{", b"["):
            depth += 1
            deepest = max(deepest, depth)
        elif token in (b"}", b"]"):
            depth -= 1
    return deepest


def _as_text(value: bytes) -> bytes:
    plain = b"null" if value == b"null" else attributes.plain(attributes.read(value))
    return b'{"S":%b}' % quote(plain.decode())
