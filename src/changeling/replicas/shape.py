"""Which columns a replica has, and where the values of each version of a schema go.

A column keeps its identity over versions: one that is renamed stays the same column, one that is dropped and comes again is
another. A column that no schema declares has the type that its values need.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from changeling.log.inferred_schemas import doubles
from changeling.log.schema_evolution import common, difference
from changeling.model import types
from changeling.model.table import Column, TableSchema
from changeling.replicas.column_names import stored_names

if TYPE_CHECKING:
    from changeling.log.schema_registry import Policy, Version

_START = ""
_UNDECLARED = "+"


class ReplicaColumn(msgspec.Struct, frozen=True):
    """One column of a replica. `id` distinguishes it from every other column that the table ever had."""

    id: str
    name: str
    type: str
    name_in_source: str | None = msgspec.field(default=None, name="told_name")
    """Its name in the source, where it cannot be stored under that name."""

    @property
    def source_name(self) -> str:
        """What the source calls it."""
        return self.name if self.name_in_source is None else self.name_in_source

    @property
    def is_declared(self) -> bool:
        """Whether a schema has it; otherwise only values do."""
        return not self.id.startswith(_UNDECLARED)

    @property
    def kind(self) -> types.Type:
        """The parsed type."""
        return types.parse(self.type)


class Shape(msgspec.Struct, frozen=True):
    """The columns of a replica at one time, and which of them are the key (by id; none where rows have no key)."""

    columns: tuple[ReplicaColumn, ...]
    key: tuple[str, ...] = ()

    def column(self, number: str) -> ReplicaColumn:
        """The column with an id."""
        return next(column for column in self.columns if column.id == number)

    @property
    def key_columns(self) -> list[ReplicaColumn]:
        """The columns of the key, in the order of the key."""
        return [self.column(number) for number in self.key]


class ColumnTarget(msgspec.Struct, frozen=True):
    """Where a value goes: the column, and the type that the schema of its change gives it (None where none does)."""

    id: str
    declared: Column | None


@dataclass(frozen=True)
class Columns:
    """All columns that a table ever had. It is sent to the tasks."""

    column_targets: dict[int, dict[str, ColumnTarget]] = field(default_factory=dict)
    """By the number of a version and the name of a column in it."""
    shapes: dict[int, Shape] = field(default_factory=dict)
    """By the number of a version; the declared columns only. One that is skipped has the shape of the one before it."""
    begun: dict[str, str] = field(default_factory=dict)
    """The first position of each column, by its id."""
    extra: tuple[ReplicaColumn, ...] = ()
    """Columns that values have and no schema declares."""
    versions: tuple[tuple[str, int], ...] = ()
    """From which position on which version holds."""
    policy: "Policy" = "evolve"
    key: tuple[str, ...] = ()
    """The ids of the key columns where no schema declares them."""
    reversions: tuple[tuple[frozenset[int], tuple[tuple[str, int], ...]], ...] = ()
    """Versions with the same schema as others: for a change that has one of these, its position decides which it is."""
    doubles: frozenset[str] = frozenset()
    """The ids of columns without a schema whose exact numbers are all doubles as well, so far."""

    def shape(self, version: int | None = None) -> Shape:
        """The shape of the replica while a version holds; by default the last one."""
        if version not in self.shapes:
            version = self.versions[-1][1] if self.versions else None
        declared = Shape(()) if version is None else self.shapes[version]
        names = {column.name for column in declared.columns}
        columns = _storable(declared.columns + tuple(column for column in self.extra if column.name not in names))
        known = {column.id for column in columns}
        return Shape(columns, declared.key or tuple(number for number in self.key if number in known))

    def holding(self, position: str) -> int | None:
        """The version that holds at a position, for changes that carry none."""
        held = [number for start, number in self.versions if start <= position]
        return held[-1] if held else self.versions[0][1] if self.versions else None

    def version_at(self, version: int | None, position: str) -> int | None:
        """The version that holds for a change which carries this one: at its position, another version with the same schema may hold."""
        for alike, starts in self.reversions:
            if version in alike:
                held = [number for start, number in starts if start <= position]
                return held[-1] if held else starts[0][1]
        return version

    def target_of(self, version: int | None, name: str) -> ColumnTarget | None:
        """Where the values of a column go; None for one that is skipped."""
        found = self.column_targets.get(version, {}).get(name) if version is not None else None
        if found is not None:
            return found
        if any(column.name == name for column in self.extra):
            return ColumnTarget(_extra_id(name), None)
        return None

    def names(self, version: int | None) -> set[str]:
        """The names that columns have in changes of a version."""
        own = {} if version is None else self.column_targets.get(version, {})
        return {*own, *(column.name for column in self.extra)}

    def fits(self, stored: Shape, version: int | None, wanted: Shape, up_to: str) -> bool:
        """Whether stored rows, whose columns a version named, can be kept in another shape as they are.

        A late version may merge two columns or split one, or bring back a column that stored rows up to a position no longer
        have.
        """
        if self.identified(stored, version) != stored:
            return False
        there = {column.id for column in stored.columns}
        return all(
            column.id in there or column.id not in self.begun or self.begun[column.id] > up_to
            for column in wanted.columns
        )

    def identified(self, stored: Shape, version: int | None) -> Shape:
        """Stored columns under the ids that they have by the current knowledge."""
        places = {column.id: self.target_of(version, column.source_name) for column in stored.columns}
        ids = {number: number if place is None else place.id for number, place in places.items()}
        columns = tuple(msgspec.structs.replace(column, id=ids[column.id]) for column in stored.columns)
        return Shape(columns, tuple(ids[number] for number in stored.key))


def columns_of(
    versions: "Sequence[Version]", undeclared: TableSchema | None, policy: "Policy", key: Sequence[str]
) -> Columns:
    """What is known of a table's columns: from the declared versions, by position, and from the values seen.

    `key` names the key columns where no schema does.
    """
    chain = _Chain([version for version in versions if not version.incompatible])
    extra = _extra(chain.names, undeclared, policy)
    by_name = {column.name: column.id for column in extra}
    if chain.last is not None:
        by_name |= {name: place.id for name, place in chain.places[chain.last].items()}
    return Columns(
        chain.places,
        chain.shapes,
        chain.begun,
        extra,
        tuple((version.position or _START, version.id) for version in chain.versions),
        policy,
        tuple(by_name[name] for name in key if name in by_name),
        _reversions(chain.versions),
        frozenset() if undeclared is None else frozenset(map(_extra_id, doubles(undeclared))),
    )


def _reversions(versions: "Sequence[Version]") -> tuple[tuple[frozenset[int], tuple[tuple[str, int], ...]], ...]:
    """Versions that hold more than once, and from where on each time."""
    alike: dict[TableSchema, list[Version]] = {}
    for version in versions:
        alike.setdefault(version.schema, []).append(version)
    return tuple(
        (
            frozenset(version.id for version in found),
            tuple((version.position or _START, version.id) for version in found),
        )
        for found in alike.values()
        if len(found) > 1
    )


def _storable(columns: tuple[ReplicaColumn, ...]) -> tuple[ReplicaColumn, ...]:
    """The columns under names that they can be stored under."""
    return tuple(
        column if name == column.name else msgspec.structs.replace(column, name=name, name_in_source=column.name)
        for column, name in zip(columns, stored_names([column.name for column in columns]), strict=True)
    )


def _extra(declared: set[str], undeclared: TableSchema | None, policy: "Policy") -> tuple[ReplicaColumn, ...]:
    if undeclared is None or (declared and policy == "ignore"):
        return ()
    return tuple(
        ReplicaColumn(_extra_id(column.name), column.name, column.type)
        for column in undeclared.columns
        if column.name not in declared
    )


def _extra_id(name: str) -> str:
    return f"{_UNDECLARED}{name}"


class _Chain:
    """Follows columns from version to version.

    A column keeps the name from the first version seen; a version seen later, whatever its position, does not rename stored
    columns.
    """

    def __init__(self, versions: "Sequence[Version]") -> None:
        self.versions = versions
        self.places: dict[int, dict[str, ColumnTarget]] = {}
        self.shapes: dict[int, Shape] = {}
        self.begun: dict[str, str] = {}
        lines = self._lines()
        ids = {line: f"{min(met)[1]}@{min(met)[0]}" for line, met in lines.items()}
        self.names = {name for met in lines.values() for _, name in met}
        self.last: int | None = None
        shape = Shape(())
        for version in versions:
            numbers = {name: ids[line] for name, line in self._of[version.id].items()}
            self.places[version.id] = {
                column.name: ColumnTarget(numbers[column.name], column)
                for column in version.schema.columns
                if column.name in numbers
            }
            if version.status == "accepted":
                shape = _shape(shape, version.schema, numbers)
                self.last = version.id
                for number in numbers.values():
                    self.begun.setdefault(number, version.position or _START)
            self.shapes[version.id] = shape

    def _lines(self) -> dict[int, set[tuple[int, str]]]:
        """The columns, numbered: each with the versions that have it, and its name there."""
        self._of: dict[int, dict[str, int]] = {}
        lines: dict[int, set[tuple[int, str]]] = {}
        last: tuple[TableSchema, dict[str, int]] | None = None
        for version in self.versions:
            found = self._continued(version, last)
            for column in version.schema.columns:
                if column.name not in found and (version.status == "accepted" or last is None):
                    found[column.name] = len(lines)
                    lines[len(lines)] = set()
            for name, line in found.items():
                if version.status == "accepted":
                    lines[line].add((version.id, name))
                else:
                    lines[line] = lines[line] or {(version.id, name)}
            self._of[version.id] = found
            if version.status == "accepted":
                last = (version.schema, found)
        return lines

    def _continued(self, version: "Version", last: tuple[TableSchema, dict[str, int]] | None) -> dict[str, int]:
        """The columns that existed before."""
        if last is None:
            return {}
        before, known = last
        was = {now: old for old, now in difference(before, version.schema).renamed}
        names = ((column, was.get(column.name, column.name)) for column in version.schema.columns)
        return {
            column.name: known[old] for column, old in names if old in known and _is_one(before.column(old), column)
        }


def _is_one(before: Column | None, now: Column) -> bool:
    """Whether values of both versions of a column fit into one: a column that was text and is a number is a different one."""
    return before is None or common(before.canonical, now.canonical) is not None


def _shape(before: Shape, schema: TableSchema, numbers: dict[str, str]) -> Shape:
    """Existing columns keep their order, and have a type that holds all their values; new ones come after them."""
    there = {column.id: column for column in before.columns}
    now = {numbers[column.name]: column for column in schema.columns}
    order = [number for number in there if number in now] + [number for number in now if number not in there]
    columns = [ReplicaColumn(number, now[number].name, _wider(there.get(number), now[number].type)) for number in order]
    return Shape(tuple(columns), tuple(numbers[name] for name in schema.key))


def _wider(before: ReplicaColumn | None, now: str) -> str:
    both = None if before is None else common(before.kind, types.parse(now))
    return now if both is None else str(both)
