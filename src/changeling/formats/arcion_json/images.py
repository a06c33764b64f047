"""Which columns a record shows on which side, and how complete that makes its images."""

from collections.abc import Collection
from typing import NamedTuple

import msgspec

from changeling.model.errors import Rejected
from changeling.model.operation import Image

IN_AFTER, IN_BEFORE = 1, 2

_exists = msgspec.json.Decoder(dict[str, int | str]).decode
_BITS: dict[int | str, int] = {0: 0, 1: 1, 2: 2, 3: 3, "0": 0, "1": 1, "2": 2, "3": 3}


class Presence(NamedTuple):
    """What `exists` says of all columns of a record."""

    columns: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    """The columns that an image shows; the cells of the others say nothing."""
    as_text: bool
    """Every value is printed as text."""


def presence(raw: bytes) -> Presence:
    """Reads `exists`: 0 to 3 for each column, as text or as a number; raises `Rejected` with the column that is wrong."""
    try:
        found = _exists(raw)
    except msgspec.DecodeError as error:
        raise Rejected(f"exists: {error}") from None
    bits = {}
    for name, value in found.items():
        if value not in _BITS:
            raise Rejected(f"exists of column {name!r} is {value!r}: it must be 0, 1, 2 or 3")
        bits[name] = _BITS[value]
    return Presence(
        tuple(bits),
        tuple(name for name, value in bits.items() if value & IN_BEFORE),
        tuple(name for name, value in bits.items() if value & IN_AFTER),
        not any(isinstance(value, int) for value in found.values()),
    )


def before_image(present: Collection[str], columns: Collection[str], key: Collection[str]) -> Image:
    """How complete a before image is. Arcion writes ALL columns or the KEY: without a known key, few mean the key."""
    if not present:
        return Image.NONE
    if len(present) == len(columns):
        return Image.FULL
    return Image.KEY if not key or set(present) == set(key) else Image.PARTIAL


def after_image(present: Collection[str], columns: Collection[str]) -> Image:
    """How complete an after image is: ALL columns, or those UPDATED."""
    if not present:
        return Image.NONE
    return Image.FULL if len(present) == len(columns) else Image.PARTIAL
