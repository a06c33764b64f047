"""Which columns a replica has, and where the values of each version of a schema go.

A column keeps its identity over versions: one that is renamed stays the same column, one that is dropped and comes again is
another. A column that no schema tells of has the type that its values need.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from changeling.log.evolution import difference, widens
from changeling.log.schemas import Policy, Version
from changeling.model import types
from changeling.model.table import Column, TableSchema

_START = ""


class ReplicaColumn(msgspec.Struct, frozen=True):
    """One column of a replica. `id` tells it from every other that the table ever had."""

    id: str
    name: str
    type: str

    @property
    def kind(self) -> types.Type:
        """The parsed type."""
        return types.parse(self.type)


class Shape(msgspec.Struct, frozen=True):
    """The columns of a replica at one moment, and which of them are the key (by id; none where rows have no key)."""

    columns: tuple[ReplicaColumn, ...]
    key: tuple[str, ...] = ()

    def column(self, number: str) -> ReplicaColumn:
        """The column with an id."""
        return next(column for column in self.columns if column.id == number)

    @property
    def key_columns(self) -> list[ReplicaColumn]:
        """The columns of the key, in the order of the key."""
        return [self.column(number) for number in self.key]


class Place(msgspec.Struct, frozen=True):
    """Where a value goes: the column, and the type that the schema of its change gives it (None where none does)."""

    id: str
    told: Column | None


@dataclass(frozen=True)
class Columns:
    """All columns that a table ever had. It is sent to the tasks."""

    places: dict[int, dict[str, Place]] = field(default_factory=dict)
    """By the number of a version and the name of a column in it."""
    shapes: tuple[tuple[str, Shape], ...] = ()
    """From which position on which shape holds; the told columns only."""
    extra: tuple[ReplicaColumn, ...] = ()
    """Columns that values have and no schema tells of."""
    versions: tuple[tuple[str, int], ...] = ()
    """From which position on which version holds."""
    policy: Policy = "evolve"

    def shape(self, limit: str | None = None) -> Shape:
        """What the replica looks like after all changes before a position."""
        held = [shape for position, shape in self.shapes if limit is None or position < limit]
        told = held[-1] if held else self.shapes[0][1] if self.shapes else Shape(())
        names = {column.name for column in told.columns}
        return Shape(told.columns + tuple(column for column in self.extra if column.name not in names), told.key)

    def holding(self, position: str) -> int | None:
        """The version that holds at a position, for changes that do not say which they have."""
        held = [number for start, number in self.versions if start <= position]
        return held[-1] if held else self.versions[0][1] if self.versions else None

    def place(self, version: int | None, name: str) -> Place | None:
        """Where the values of a column go; None for one that is passed over."""
        found = self.places.get(version, {}).get(name) if version is not None else None
        if found is not None:
            return found
        if any(column.name == name for column in self.extra):
            return Place(_extra_id(name), None)
        return None


def columns_of(versions: Sequence[Version], untold: TableSchema | None, policy: Policy, key: Sequence[str]) -> Columns:
    """What is known of a table's columns: from the versions that were told, by position, and from what values showed.

    `key` names the key columns where no schema does.
    """
    chain = _Chain()
    for version in versions:
        if version.status != "aside":
            chain.take(version)
    extra = _extra(chain.names, untold, policy)
    shapes = tuple((start, _with_key(shape, extra, key)) for start, shape in chain.shapes)
    if not shapes:
        shapes = ((_START, _with_key(Shape(()), extra, key)),)
    return Columns(chain.places, shapes, extra, tuple(chain.versions), policy)


def _extra(told: set[str], untold: TableSchema | None, policy: Policy) -> tuple[ReplicaColumn, ...]:
    if untold is None or (told and policy == "ignore"):
        return ()
    return tuple(
        ReplicaColumn(_extra_id(column.name), column.name, column.type)
        for column in untold.columns
        if column.name not in told
    )


def _extra_id(name: str) -> str:
    return f"+{name}"


def _with_key(shape: Shape, extra: Sequence[ReplicaColumn], key: Sequence[str]) -> Shape:
    if shape.key:
        return shape
    by_name = {column.name: column.id for column in (*extra, *shape.columns)}
    return Shape(shape.columns, tuple(by_name[name] for name in key if name in by_name))


class _Chain:
    """Follows columns from version to version."""

    def __init__(self) -> None:
        self.places: dict[int, dict[str, Place]] = {}
        self.shapes: list[tuple[str, Shape]] = []
        self.versions: list[tuple[str, int]] = []
        self.names: set[str] = set()
        self._last: tuple[TableSchema, dict[str, str]] | None = None

    def take(self, version: Version) -> None:
        start = version.position or _START
        numbers = self._numbers(version)
        self.places[version.id] = {
            column.name: Place(numbers[column.name], column)
            for column in version.schema.columns
            if column.name in numbers
        }
        self.versions.append((start, version.id))
        if version.status == "accepted":
            self.shapes.append((start, self._shape(version.schema, numbers)))
            self.names |= set(numbers)
            self._last = (version.schema, numbers)

    def _numbers(self, version: Version) -> dict[str, str]:
        """The id of each column; one that an ignored version adds has none."""
        schema = version.schema
        if self._last is None:
            return {column.name: f"{column.name}@{version.id}" for column in schema.columns}
        before, known = self._last
        was = {now: old for old, now in difference(before, schema).renamed}
        found = {}
        for column in schema.columns:
            number = known.get(was.get(column.name, column.name))
            if number is not None:
                found[column.name] = number
            elif version.status == "accepted":
                found[column.name] = f"{column.name}@{version.id}"
        return found

    def _shape(self, schema: TableSchema, numbers: dict[str, str]) -> Shape:
        """Columns that were there keep their order and the widest type that they had; new ones stand behind them."""
        before = {column.id: column for column in (self.shapes[-1][1].columns if self.shapes else ())}
        now = {numbers[column.name]: column for column in schema.columns}
        order = [number for number in before if number in now] + [number for number in now if number not in before]
        columns = [
            ReplicaColumn(number, now[number].name, _wider(before.get(number), now[number].type)) for number in order
        ]
        return Shape(tuple(columns), tuple(numbers[name] for name in schema.key))


def _wider(before: ReplicaColumn | None, now: str) -> str:
    if before is None or widens(before.kind, types.parse(now)):
        return now
    return before.type
