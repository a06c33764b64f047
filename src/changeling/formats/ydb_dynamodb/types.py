"""Canonical types as attribute values, both ways. A value names its own kind, so columns of unknown type convert too."""

import functools
import re

import msgspec

from changeling.formats.type_table import TypeTable
from changeling.formats.ydb_dynamodb import attributes
from changeling.model import canonical, json_text, types
from changeling.model.canonical import Convert
from changeling.model.errors import Rejected

_KINDS = {
    "S": types.Type("string"),
    "N": types.Type("decimal"),
    "B": types.Type("bytes"),
    "BOOL": types.Type("bool"),
    "M": types.Type("json"),
    "L": types.Type("json"),
    "SS": types.array(types.Type("string")),
    "NS": types.array(types.Type("decimal")),
    "BS": types.array(types.Type("bytes")),
}
_NUMBERS = frozenset({*types.INTEGER_RANGES, "float32", "float64", "decimal"})
_FLAT = re.compile(
    rb'\{"(?:[SB]":("[^"\\\x00-\x1f]*+")|N":"(-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?)"|BOOL":(true|false))\}'
)
"""The usual values, which contain their plain JSON as it is."""
_DOCUMENTS = frozenset({"json", "interval"})


class AttributeTypes(TypeTable):
    """The type table of attribute values: `L` and the sets are unwrapped before their items are read."""

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - there is one table, and it lives as long as the program
    def reader(self, kind: types.Type, wire: str | None = None) -> Convert:
        """From an attribute value to the canonical value of a type."""
        checked = canonical.reader(kind)
        innermost = kind
        while innermost.item is not None:
            innermost = innermost.item
        binary, document = innermost.kind == "bytes", innermost.kind == "json"

        def read(raw: bytes) -> bytes:
            value = attributes.read(raw)
            if not document:
                _check_binary(value, binary, kind)
            plain = attributes.plain(value)
            return plain if plain == b"null" else checked(plain)

        return read

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - as above
    def writer(self, kind: types.Type, wire: str | None = None) -> Convert:
        """From the canonical value of a type to its attribute value."""
        if kind.item is not None:
            return _list_of(self.writer(kind.item))
        if kind.kind in _NUMBERS:
            return _number
        if kind.kind in _DOCUMENTS:
            return _document
        head = b'{"B":%b}' if kind.kind == "bytes" else b'{"BOOL":%b}' if kind.kind == "bool" else b'{"S":%b}'
        return head.__mod__


def _check_binary(value: attributes.Attribute, binary: bool, kind: types.Type) -> None:
    """Raises `Rejected` where Base64 would be taken for text, or text for Base64."""
    for item in value.L if isinstance(value.L, list) else ():
        _check_binary(item, binary, kind)
    held = [name for name in ("S", "SS", "B", "BS") if getattr(value, name) is not msgspec.UNSET]
    if held and (held[0][0] == "B") is not binary:
        raise Rejected(f"an attribute value of kind {held[0]} is not a value of type {kind}")


def _number(raw: bytes) -> bytes:
    # Decimals are canonical as text, and so are NaN and the infinities; the encoder refuses those.
    return b'{"N":%b}' % raw if raw[:1] == b'"' else b'{"N":"%b"}' % raw


def _document(raw: bytes) -> bytes:
    # The attribute value of JSON's null is that of NULL.
    return raw if raw == b"null" else attributes.wrap(raw)


def _list_of(item: Convert) -> Convert:
    def write(raw: bytes) -> bytes:
        values = [attributes.NULL if value == b"null" else item(value) for value in json_text.items(raw)]
        return b'{"L":%b}' % json_text.join_array(values)

    return write


def _plain(raw: bytes) -> bytes:
    flat = _FLAT.fullmatch(raw)
    if flat is not None:
        return flat[flat.lastindex or 0]
    return attributes.plain(attributes.read(raw))


def name(kind: types.Type) -> str:
    """The kind of attribute value that fits every value of a canonical type."""
    if kind.item is not None:
        return "L"
    if kind.kind in _NUMBERS:
        return "N"
    return {"bytes": "B", "bool": "BOOL", "json": "M", "interval": "M"}.get(kind.kind, "S")


TYPES = AttributeTypes(parse=_KINDS.get, name=name, untyped=attributes.wrap, untyped_read=_plain)
