"""Where the schema of a table reverts: changes of an earlier version after those of a later one.

From there on that version holds again for the replica, and a column that it brings back is a different one than before. The
registry detects this across consecutive batches; within a batch, and among late changes, only the positions in the log show it.
"""

from typing import TYPE_CHECKING, NamedTuple

from changeling.iceberg.conditions import any_of, at_least, at_most, below, equals, is_null
from changeling.log.schema_registry import Registry, Version
from changeling.model.table import TableName
from changeling.replicas.logged_changes import Changes, of_table

if TYPE_CHECKING:
    from changeling.replicas.pending_changes import PendingTable

MIXED = 20
"""More reversions than these at once are not the history of a table, but interleaved records of several schemas: none is registered."""


class PositionRange(NamedTuple):
    """Changes of a table: from a position on, before another one, of batches up to one."""

    source: str
    table: TableName
    first: str
    limit: str | None
    batch: int


def reversions(changes: Changes, registry: Registry, span: PositionRange) -> list[tuple[Version, str]]:
    """The versions that begin to hold again within a range, each with the position; they are not registered."""
    carried = _carried(registry, span.source, span.table)
    kinds = _kinds(carried)
    if len(set(kinds.values())) < 2:
        return []
    runs = _changes_in(changes, span).schema_switches(kinds, limit=len(carried) + MIXED + 1)
    if not runs or len(runs) > len(carried) + MIXED:
        return []
    starts = [(version.position or "", kinds[version.id]) for version in carried]
    held = [kind for start, kind in starts if start < runs[0][0]][-1:]
    found: list[tuple[str, int]] = []
    for position, number in runs:
        kind = kinds[number]
        if [kind] != held and _is_reversion(position, kind, starts):
            found.append((position, number))
            starts = sorted([*starts, (position, kind)])
        held = [kind]
    by_number = {version.id: version for version in carried}
    return [(by_number[number], position) for position, number in found]


def _is_reversion(position: str, kind: int, starts: list[tuple[str, int]]) -> bool:
    """Whether a run is new, and not just the first run of a version that begins earlier than was known."""
    if (position, kind) in starts:
        return False
    following = [other for start, other in starts if start > position][:1]
    return following != [kind] or any(start < position and other == kind for start, other in starts)


def _carried(registry: Registry, source: str, table: TableName) -> list[Version]:
    """The versions that records carried and that alter the replica."""
    return [
        version
        for version in registry.of(source, table)
        if version.origin == "carried" and version.status == "accepted"
    ]


def _kinds(versions: list[Version]) -> dict[int, int]:
    """Versions with the same schema have the same number."""
    schemas = [version.schema for version in versions]
    return {version.id: schemas.index(version.schema) for version in versions}


def may_revert(registry: Registry, table: "PendingTable") -> bool:
    """Whether new changes of a table may revert its schema: those after all others that have the newest schema do not."""
    carried = _carried(registry, table.source, table.table)
    kinds = _kinds(carried)
    return bool(carried) and (
        table.late > 0 or {kinds.get(number) for number in table.versions} != {kinds[carried[-1].id]}
    )


def _changes_in(changes: Changes, span: PositionRange) -> Changes:
    """The changes of a range whose order is that of the source: the order of arrival is not."""
    parts = [at_least("position", span.first), at_most("batch", span.batch)]
    if span.limit is not None:
        parts.append(below("position", span.limit))
    placed = any_of([is_null("arrived"), equals("arrived", False)])
    return changes.where(of_table(span.source, span.table), *parts, placed)
