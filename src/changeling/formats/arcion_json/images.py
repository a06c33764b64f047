"""Which columns a record shows on which side, and how complete that makes its images."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec

from changeling.formats.arcion_json.envelope import NULL_TEXT
from changeling.model.errors import Rejected
from changeling.model.operation import Image

IN_AFTER, IN_BEFORE = 1, 2

Cell = str | msgspec.Raw | None
_exists = msgspec.json.Decoder(dict[str, int | str]).decode
_BITS: dict[int | str, int] = {0: 0, 1: 1, 2: 2, 3: 3, "0": 0, "1": 1, "2": 2, "3": 3}


class Side(NamedTuple):
    """The columns that one image shows, and those whose cell there says nothing."""

    present: tuple[str, ...]
    absent: tuple[str, ...]

    def pick(self, cells: Mapping[str, str]) -> Mapping[str, Cell] | None:
        """The image that these cells show, NULL as None; None where they show no column.

        Raises `KeyError` with a column whose cell should say nothing, but is not the text `null`.
        """
        for name in self.absent:
            if cells[name] != NULL_TEXT:
                raise KeyError(name)
        if not self.present:
            return None
        if NULL_TEXT in cells.values():
            return {name: None if cells[name] == NULL_TEXT else cells[name] for name in self.present}
        return {name: cells[name] for name in self.present} if self.absent else cells


class Presence(NamedTuple):
    """What `exists` says of all columns of a record."""

    columns: tuple[str, ...]
    before: Side
    after: Side
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
        _side(bits, IN_BEFORE),
        _side(bits, IN_AFTER),
        not any(isinstance(value, int) for value in found.values()),
    )


def _side(bits: Mapping[str, int], bit: int) -> Side:
    return Side(
        tuple(name for name, value in bits.items() if value & bit),
        tuple(name for name, value in bits.items() if not value & bit),
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
