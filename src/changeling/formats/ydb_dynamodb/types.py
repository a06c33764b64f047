"""Attribute values: `{"S": "text"}`, `{"N": "1.5"}` and the other eight kinds, the plain JSON that they mean, and their types.

A value names its own kind, so columns of unknown type convert too.
"""

import functools
import re
from decimal import Context, DecimalException, Inexact, InvalidOperation, Overflow, Subnormal

import msgspec

from changeling.formats.type_table import TypeTable
from changeling.model import canonical, json_text, types
from changeling.model.canonical import Convert
from changeling.model.errors import Rejected
from changeling.model.json_text import quote

NULL = b'{"NULL":true}'
KEY_KINDS = ("S", "N", "B")
"""The kinds that a key may have."""


class Attribute(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """One attribute value. A valid one has exactly one member, whose name is its kind."""

    S: str | msgspec.UnsetType = msgspec.UNSET
    N: str | msgspec.UnsetType = msgspec.UNSET
    B: str | msgspec.UnsetType = msgspec.UNSET
    BOOL: bool | msgspec.UnsetType = msgspec.UNSET
    NULL: bool | msgspec.UnsetType = msgspec.UNSET
    M: "dict[str, Attribute] | msgspec.UnsetType" = msgspec.UNSET
    L: "list[Attribute] | msgspec.UnsetType" = msgspec.UNSET
    SS: list[str] | msgspec.UnsetType = msgspec.UNSET
    NS: list[str] | msgspec.UnsetType = msgspec.UNSET
    BS: list[str] | msgspec.UnsetType = msgspec.UNSET


_READ_AS = {
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
_WRITTEN_AS = {
    **dict.fromkeys((*types.INTEGER_RANGES, "float32", "float64", "decimal"), "N"),
    "bytes": "B",
    "bool": "BOOL",
    "json": "M",
    "interval": "M",
    "array": "L",
}
"""The kind that fits every value of a canonical type; all others are `S`."""
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")
_STORABLE = Context(prec=38, Emin=-130, Emax=125, traps=[Inexact, InvalidOperation, Overflow, Subnormal])
_FLAT = re.compile(
    rb'\{"(?:[SB]":("[^"\\\x00-\x1f]*+")|N":"(-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?)"|BOOL":(true|false))\}'
)
"""The usual values, which contain their plain JSON as it is."""
read = msgspec.json.Decoder(Attribute).decode
"""An attribute value; raises `msgspec.ValidationError` if a member is none of the kinds or not of its type."""


def kind_of(value: Attribute) -> str:
    """The kind of an attribute value; raises `Rejected` where it has none, or several."""
    names = Attribute.__struct_fields__
    kinds = [
        kind for kind, part in zip(names, msgspec.structs.astuple(value), strict=True) if part is not msgspec.UNSET
    ]
    if len(kinds) != 1:
        said = f"this one has {' and '.join(kinds)}" if kinds else "this one has none"
        raise Rejected(f"an attribute value has one of {', '.join(names)}; {said}")
    return kinds[0]


def plain(value: Attribute) -> bytes:
    """The plain JSON of an attribute value: numbers with their own digits, binary as Base64, sets as arrays."""
    kind = kind_of(value)
    part = getattr(value, kind)
    if kind in ("S", "B"):
        return quote(part)
    if kind == "N":
        return number(part)
    if kind == "BOOL":
        return b"true" if part else b"false"
    if kind == "NULL":
        if not part:
            raise Rejected('the only attribute value of kind NULL is {"NULL":true}')
        return b"null"
    # Loops, not generators: a document may be hundreds of levels deep, and each level must cost only one call.
    if kind == "M":
        pairs = []
        for name, inner in part.items():
            pairs.append((name, plain(inner)))
        return json_text.join(pairs)
    convert = plain if kind == "L" else number if kind == "NS" else quote
    return json_text.join_array(list(map(convert, part)))


def number(text: str) -> bytes:
    """The text of an `N` as a JSON number: its own digits where JSON allows them; YDB also prints `.45e1`."""
    if _JSON_NUMBER.fullmatch(text):
        return text.encode()
    if not _NUMBER.fullmatch(text):
        raise Rejected(f"{text[:60]!r} is not a number")
    return json_text.canonical_number(text.encode())


def wrap(raw: bytes) -> bytes:
    """A plain JSON value as an attribute value: the kind follows from the JSON type."""
    first = raw[:1]
    if first == b'"':
        return b'{"S":%b}' % raw
    if first == b"{":
        pairs = []
        for name, inner in json_text.members(raw).items():
            pairs.append((name, wrap(inner)))
        return b'{"M":%b}' % json_text.join(pairs)
    if first == b"[":
        return b'{"L":%b}' % json_text.join_array(list(map(wrap, json_text.items(raw))))
    if first == b"n":
        return NULL
    return b'{"BOOL":%b}' % raw if first in (b"t", b"f") else b'{"N":"%b"}' % raw


def key_value(raw: bytes) -> bytes:
    """One spelling for equal attribute values of a key; raises `Rejected` where a key cannot have such a value."""
    value = read(raw)
    kind = kind_of(value)
    if kind not in KEY_KINDS:
        raise Rejected(f"a key has values of kind {', '.join(KEY_KINDS)}, this one is of kind {kind}")
    if value.N is not msgspec.UNSET:
        return b'{"N":"%b"}' % json_text.canonical_number(number(value.N))
    return json_text.canonical(raw)


def is_storable_number(text: str) -> bool:
    """Whether DynamoDB has this number: finite, at most 38 digits, of magnitude 1E-130 to 9.9E+125."""
    try:
        return _STORABLE.create_decimal(text).is_finite()
    except DecimalException:
        return False


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

        def from_attribute(raw: bytes) -> bytes:
            value = read(raw)
            if not document:
                _check_binary(value, binary, kind)
            found = plain(value)
            return found if found == b"null" else checked(found)

        return from_attribute

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - as above
    def writer(self, kind: types.Type, wire: str | None = None) -> Convert:
        """From the canonical value of a type to its attribute value."""
        if kind.item is not None:
            return _list_of(self.writer(kind.item))
        attribute = name(kind)
        if attribute == "M":
            # The attribute value of JSON's null is that of NULL.
            return lambda raw: raw if raw == b"null" else wrap(raw)
        if attribute == "N":
            # Decimals are canonical as text, and so are NaN and the infinities; the encoder refuses those.
            return lambda raw: b'{"N":%b}' % raw if raw[:1] == b'"' else b'{"N":"%b"}' % raw
        return (b'{"%b":%%b}' % attribute.encode()).__mod__


def _check_binary(value: Attribute, binary: bool, kind: types.Type) -> None:
    """Raises `Rejected` where Base64 would be taken for text, or text for Base64."""
    for item in value.L if isinstance(value.L, list) else ():
        _check_binary(item, binary, kind)
    held = [name for name in ("S", "SS", "B", "BS") if getattr(value, name) is not msgspec.UNSET]
    if held and (held[0][0] == "B") is not binary:
        raise Rejected(f"an attribute value of kind {held[0]} is not a value of type {kind}")


def _list_of(item: Convert) -> Convert:
    def write(raw: bytes) -> bytes:
        values = [NULL if value == b"null" else item(value) for value in json_text.items(raw)]
        return b'{"L":%b}' % json_text.join_array(values)

    return write


def name(kind: types.Type) -> str:
    """The kind of attribute value that fits every value of a canonical type."""
    return _WRITTEN_AS.get(kind.kind, "S")


def _untyped(raw: bytes) -> bytes:
    flat = _FLAT.fullmatch(raw)
    return plain(read(raw)) if flat is None else flat[flat.lastindex or 0]


TYPES = AttributeTypes(parse=_READ_AS.get, name=name, untyped=wrap, untyped_read=_untyped)
