"""Decimals as Connect sends them: the unscaled integer in big-endian two's complement as Base64, the scale apart from it."""

import base64
import binascii
from decimal import Decimal, InvalidOperation

import msgspec

from changeling.model import canonical, json_text
from changeling.model.canonical import Convert
from changeling.model.errors import CannotCarry, Rejected
from changeling.model.json_text import quote
from changeling.model.types import Type

_ANY = canonical.reader(Type("decimal"))


class _VariableScale(msgspec.Struct):
    scale: int
    value: str


def from_bytes(scale: int) -> Convert:
    """From the Base64 of a Decimal; a number (the converter's `decimal.format=NUMERIC`) is accepted as it is."""

    def read(raw: bytes) -> bytes:
        return _ANY(raw) if raw[:1] != b'"' else quote(_plain(json_text.string(raw), scale))

    return read


def _plain(text: str, scale: int) -> str:
    try:
        unscaled = int.from_bytes(base64.b64decode(text, validate=True), "big", signed=True)
    except (binascii.Error, ValueError):
        raise Rejected(f"{text[:60]!r} is not the Base64 of a decimal") from None
    digits = tuple(map(int, str(abs(unscaled))))
    return f"{Decimal((unscaled < 0, digits, -scale)):f}"


def to_bytes(scale: int) -> Convert:
    """To the Base64 of a Decimal; raises `CannotCarry` where the value has more digits after the point."""

    def write(raw: bytes) -> bytes:
        return quote(_packed(_finite(raw), scale))

    return write


def _finite(raw: bytes) -> Decimal:
    number = Decimal(canonical.text_of(raw))
    if not number.is_finite():
        raise CannotCarry("types", f"a precise decimal cannot be {number}; write decimals=string")
    return number


def _packed(number: Decimal, scale: int) -> str:
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    shift = scale + exponent
    unscaled = int("".join(map(str, digits)))
    if shift < 0:
        unscaled, rest = divmod(unscaled, 10**-shift)
        if rest:
            raise CannotCarry("types", f"{number} has more than {scale} digits after the point")
    else:
        unscaled *= 10**shift
    signed = -unscaled if sign else unscaled
    length = (signed if signed >= 0 else -signed - 1).bit_length() // 8 + 1
    return base64.b64encode(signed.to_bytes(length, "big", signed=True)).decode()


def from_variable_scale(raw: bytes) -> bytes:
    """From a VariableScaleDecimal, an object of scale and value; numbers and text pass."""
    if raw[:1] != b"{":
        return _ANY(raw)
    try:
        found = msgspec.json.decode(raw, type=_VariableScale)
    except msgspec.ValidationError as error:
        raise Rejected(f"not a VariableScaleDecimal: {error}") from None
    return quote(_plain(found.value, found.scale))


def to_variable_scale(raw: bytes) -> bytes:
    """To a VariableScaleDecimal with the digits that the value has."""
    try:
        number = _finite(raw)
    except InvalidOperation:
        raise Rejected(f"{raw[:60].decode(errors='replace')} is not a decimal") from None
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    return quote(_VariableScale(max(0, -exponent), _packed(number, max(0, -exponent))))
