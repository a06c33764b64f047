"""Attribute values: `{"S": "text"}`, `{"N": "1.5"}` and the other eight kinds, and the plain JSON that they mean."""

import re
from decimal import Decimal, InvalidOperation

import msgspec

from changeling.model import json_text
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


KINDS = Attribute.__struct_fields__
read = msgspec.json.Decoder(Attribute).decode
"""An attribute value; raises `msgspec.ValidationError` if a member is none of the kinds or not of its type."""
read_columns = msgspec.json.Decoder(dict[str, Attribute]).decode
"""The attribute values of an image; raises as `read` does."""

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")
_MOST_DIGITS, _LEAST_EXPONENT, _MOST_EXPONENT = 38, -130, 125


def kind_of(value: Attribute) -> str:
    """The kind of an attribute value; raises `Rejected` where it has none, or several."""
    parts = msgspec.structs.astuple(value)
    if parts.count(msgspec.UNSET) != len(KINDS) - 1:
        kinds = [kind for kind, part in zip(KINDS, parts, strict=True) if part is not msgspec.UNSET]
        said = f"this one has {' and '.join(kinds)}" if kinds else "this one has none"
        raise Rejected(f"an attribute value has one of {', '.join(KINDS)}; {said}")
    return next(kind for kind, part in zip(KINDS, parts, strict=True) if part is not msgspec.UNSET)


def check(value: Attribute) -> None:
    """Raises `Rejected` where `plain` would."""
    if msgspec.structs.astuple(value).count(msgspec.UNSET) != len(KINDS) - 1:
        kind_of(value)
    if isinstance(value.N, str):
        if not _JSON_NUMBER.fullmatch(value.N):
            number(value.N)
    elif isinstance(value.M, dict):
        for inner in value.M.values():
            check(inner)
    elif isinstance(value.L, list):
        for inner in value.L:
            check(inner)
    elif value.NULL is False or isinstance(value.NS, list):
        plain(value)


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


def canonical(raw: bytes | msgspec.Raw) -> bytes:
    """One spelling for equal attribute values of a key; raises `Rejected` where a key cannot have such a value."""
    value = read(raw)
    kind = kind_of(value)
    if kind not in KEY_KINDS:
        raise Rejected(f"a key has values of kind {', '.join(KEY_KINDS)}, this one is of kind {kind}")
    if value.N is not msgspec.UNSET:
        return b'{"N":"%b"}' % json_text.canonical_number(number(value.N))
    return json_text.canonical(bytes(raw))


def is_storable_number(text: str) -> bool:
    """Whether DynamoDB has this number: finite, at most 38 digits, of magnitude 1E-130 to 9.9E+125."""
    try:
        found = Decimal(text)
    except InvalidOperation:
        return False
    if not found.is_finite():
        return False
    digits = "".join(map(str, found.as_tuple().digits)).strip("0")
    return not digits or (len(digits) <= _MOST_DIGITS and _LEAST_EXPONENT <= found.adjusted() <= _MOST_EXPONENT)
