"""A format's two-way table between its own values and type names, and the canonical ones."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from changeling.model import canonical
from changeling.model.canonical import Convert
from changeling.model.errors import CannotCarry
from changeling.model.types import Type

WriteColumn: TypeAlias = Callable[[pa.Array], pa.Array]
"""A column of values, as `canonical_cells.are_canonical` takes them, into the dialect's; null where a value needs a closer look."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TypeTable:
    """How one format spells values. Only what differs from the canonical convention is listed."""

    read: Mapping[str, Convert] = field(default_factory=dict)
    """From the dialect's values, by the kind of the canonical type."""
    write: Mapping[str, Convert] = field(default_factory=dict)
    """Into the dialect's values, by the kind of the canonical type."""
    write_columns: Mapping[str, WriteColumn | None] = field(default_factory=dict)
    """What is quicker than `write`, or None where only odd values are spelled in another way."""
    read_wire: Mapping[str, Convert] = field(default_factory=dict)
    """By the wire's own type name, where one canonical type has several spellings."""
    write_wire: Mapping[str, Convert] = field(default_factory=dict)
    parse: Callable[[str], Type | None] = lambda name: None
    """The canonical type of a wire type name, or None where it is unknown."""
    name: Callable[[Type], str] = str
    """The wire's name of a canonical type."""
    untyped: Convert | None = None
    """How a plain value of unknown type is written, or None: as it is."""
    untyped_read: Convert | None = None
    """The plain value that a value of unknown type means, or None: itself."""
    untyped_loss: Callable[[bytes], str | None] = lambda raw: None
    """Why a plain value of unknown type reads back as another one, or None: it does not."""
    all_text: bool = False
    """Every value is text, which its users know: one of unknown type is reported, and is not a loss."""

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - a format has one table, and it lives as long as the program
    def reader(self, kind: Type, wire: str | None = None) -> Convert:
        """From this format's value to the canonical one; raises `Rejected` where it does not fit."""
        if wire is not None and (special := self.read_wire.get(_bare(wire))):
            return special
        if kind.item is not None:
            return canonical.array_of(self.reader(kind.item))
        own = self.read.get(kind.kind)
        checked = canonical.reader(kind)
        return checked if own is None else lambda raw: checked(own(raw))

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - as above
    def writer(self, kind: Type, wire: str | None = None) -> Convert | None:
        """From the canonical value to this format's, or None where they are the same."""
        if wire is not None and (special := self.write_wire.get(_bare(wire))):
            return special
        if own := self.write.get(kind.kind):
            return own
        if kind.item is not None and (item := self.writer(kind.item)):
            return canonical.array_of(item)
        return None

    def column_writer(self, kind: Type) -> WriteColumn | None:
        """As `writer`, for values that `canonical_cells.are_canonical` takes."""
        if kind.kind in self.write_columns:
            return self.write_columns[kind.kind]
        write = self.writer(kind)
        return None if write is None else functools.partial(_each, write)


def is_zoned(wire: str | None) -> bool:
    """Whether a dialect's name of a type of times, or of arrays of them, is that of times with a zone.

    The canonical type `time` holds both, so that only this name says which it is.
    """
    name = (wire or "").lower()
    return any(part in name for part in ("time with time zone", "timetz", "zonedtime"))


def _each(write: Convert, cells: pa.Array) -> pa.Array:
    """Equal values are converted once."""
    given = cells.dictionary_encode()
    return pa.array([_or_none(write, value) for value in given.dictionary.to_pylist()], pa.binary()).take(given.indices)


def _or_none(write: Convert, value: bytes) -> bytes | None:
    try:
        return write(value)
    except (CannotCarry, ValueError):
        return None


def _bare(wire: str) -> str:
    return wire.partition("(")[0].strip().lower()


CANONICAL = TypeTable()
"""The canonical convention itself."""
