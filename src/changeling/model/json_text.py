"""JSON as text: members are cut out and put together without touching their digits."""

import functools
import re
from collections.abc import Callable, Iterable
from decimal import Decimal, InvalidOperation
from typing import TypeVar

import msgspec

from changeling.model.errors import Rejected

T = TypeVar("T")

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_STRING = msgspec.json.Decoder(str)
_INTEGER = re.compile(rb"-?(?:0|[1-9][0-9]*)")
_TEXTS_AND_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
quote = msgspec.json.Encoder().encode
"""A Python string (or number, or plain value) as JSON bytes with the fewest escapes."""

DEPTH_LIMIT = 500
SIZE_LIMIT = 64 * 1024 * 1024
LARGEST_LIMIT = 2**30


def members(text: str | bytes | msgspec.Raw) -> dict[str, bytes]:
    """The members of an object, in order, each value as its original bytes."""
    return {name: bytes(value) for name, value in _MEMBERS.decode(text).items()}


def items(text: str | bytes | msgspec.Raw) -> list[bytes]:
    """The items of an array, each as its original bytes."""
    return [bytes(item) for item in _ITEMS.decode(text)]


def named(name: str, decode: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """The same reader of one member's value, whose errors name the member."""

    def read(raw: bytes) -> T:
        try:
            return decode(raw)
        except msgspec.ValidationError as error:
            head, inside, path = str(error).rpartition(" - at `$")
            raise msgspec.ValidationError(
                f"{head if inside else path} - at `$.{name}{path if inside else '`'}"
            ) from None

    return read


def labelled(label: str, decode: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """The same reader of one member's value, which rejects a wrong one with a reason that begins with a label."""

    def read(raw: bytes) -> T:
        try:
            return decode(raw)
        except msgspec.DecodeError as error:
            raise Rejected(f"{label}: {error}") from None

    return read


def join(pairs: Iterable[tuple[str, bytes | str]]) -> bytes:
    """An object of these members, in this order, without blanks."""
    return b"{%b}" % b",".join(
        [head(name) + (value if isinstance(value, bytes) else value.encode()) for name, value in pairs]
    )


@functools.lru_cache(maxsize=65_536)
def head(name: str) -> bytes:
    """A member's name with its colon, cached: records repeat few of them."""
    return quote(name) + b":"


def join_array(values: Iterable[bytes]) -> bytes:
    """An array of these texts."""
    return b"[%b]" % b",".join(values)


def string(text: bytes | msgspec.Raw) -> str:
    """The content of a JSON string."""
    return _STRING.decode(text)


def compact(text: str | bytes) -> bytes:
    """The same JSON in one line and without blanks; digits, escapes and member order stay."""
    return msgspec.json.format(text if isinstance(text, bytes) else text.encode(), indent=-1)


def in_text(text: str) -> bytes:
    """The JSON that a text contains, compact; raises `Rejected` where it is nested too deep: the record around it shows no nesting."""
    content = text.encode()
    check_depth(content)
    return compact(content)


def canonical_number(text: bytes) -> bytes:
    """One spelling for equal numbers: `1.50` is `1.5`, `2.0` is `2`, `1E3` is `1000`; every digit is kept."""
    if _INTEGER.fullmatch(text):
        return b"0" if text == b"-0" else text
    try:
        sign, digits, exponent = Decimal(text.decode()).as_tuple()
    except InvalidOperation:
        return text
    if not any(digits) or not isinstance(exponent, int):
        return b"0"
    shown = "".join(map(str, digits)).lstrip("0")
    exponent += len(shown) - len(shown.rstrip("0"))
    shown = shown.rstrip("0")
    minus = "-" if sign else ""
    if exponent >= 0 and len(shown) + exponent <= 100:
        return f"{minus}{shown}{'0' * exponent}".encode()
    if -100 <= exponent < 0:
        padded = shown.rjust(1 - exponent, "0")
        return f"{minus}{padded[:exponent]}.{padded[exponent:]}".encode()
    return f"{minus}{shown}e{exponent}".encode()


def canonical(text: bytes) -> bytes:
    """One spelling for equal JSON values: members sorted by name, no blanks, fewest escapes, one form of a number."""
    first = text[:1]
    if first == b'"':
        return text if b"\\" not in text else quote(_STRING.decode(text))
    if first == b"{":
        return join(sorted((name, canonical(value)) for name, value in members(text).items()))
    if first == b"[":
        return join_array(canonical(item) for item in items(text))
    return text if first in b"tfn" else canonical_number(text)


def canonical_key(pairs: Iterable[tuple[str, bytes]]) -> bytes:
    """The canonical object of key columns."""
    return join(sorted((name, canonical(value)) for name, value in pairs))


def check_depth(text: bytes) -> None:
    """Raises `Rejected` where objects and arrays are nested deeper than `DEPTH_LIMIT` levels."""
    if text.count(b"{") + text.count(b"[") <= DEPTH_LIMIT:
        return
    depth = 0
    for found in _TEXTS_AND_BRACKETS.finditer(text):
        token = found[0]
        if token in (b"{", b"["):
            depth += 1
            if depth > DEPTH_LIMIT:
                raise Rejected(f"nested deeper than {DEPTH_LIMIT} levels")
        elif token in (b"}", b"]"):
            depth -= 1
