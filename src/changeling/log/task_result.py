"""What the tasks of a batch report to the driver: counts, the files they wrote, and the schemas they met."""

from collections.abc import Iterable

import msgspec

from changeling.iceberg.parquet_files import WrittenFile
from changeling.log.batch_stats import BatchStats, together
from changeling.model.table import TableName


class SeenSchema(msgspec.Struct, frozen=True):
    """A schema that records of a table carried, and between which positions.

    Both positions are one for a schema that is known before any record has it.
    """

    table: TableName
    schema: str
    first: str
    last: str
    arrived: bool
    """Positions are the order of arrival: the dialect has no order of its own."""


class TableSample(msgspec.Struct, frozen=True):
    """What a sample of a table without a declared schema shows: its columns with the kinds of their values, and its key."""

    table: TableName
    columns: dict[str, list[str]]
    key: tuple[str, ...] = ()


class NewestChange(msgspec.Struct, frozen=True, order=True):
    """The newest change: its commit time, and when it was extracted, where the dialect carries it."""

    commit_time: int
    extracted: int | None = None


class FirstReject(msgspec.Struct, frozen=True):
    """The first record that was rejected."""

    reason: str
    origin: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one task, or of all."""

    read: int = 0
    rejected: int = 0
    changed: int = 0
    late: int = 0
    ahead: int = 0
    position: str | None = None
    newest: NewestChange | None = None
    schemas: list[SeenSchema] = []
    unknown: bool = False
    """A schema is new: nothing was written."""
    samples: list[TableSample] = []
    refused: FirstReject | None = None
    stats: BatchStats = BatchStats()
    changes: list[WrittenFile] = []
    rejects: list[WrittenFile] = []
    notes: list[str] = []
    """What the source's readers noted, for the source alone."""


def merged(parts: Iterable[Outcome]) -> Outcome:
    """The combined result of all tasks."""
    found = list(parts)
    positions = [part.position for part in found if part.position is not None]
    newest = [part.newest for part in found if part.newest is not None]
    refused = [part.refused for part in found if part.refused is not None]
    return Outcome(
        read=sum(part.read for part in found),
        rejected=sum(part.rejected for part in found),
        changed=sum(part.changed for part in found),
        late=sum(part.late for part in found),
        ahead=sum(part.ahead for part in found),
        position=max(positions, default=None),
        newest=max(newest, key=lambda one: one.commit_time, default=None),
        schemas=_ranges(seen for part in found for seen in part.schemas),
        unknown=any(part.unknown for part in found),
        samples=[sample for part in found for sample in part.samples],
        refused=refused[0] if refused else None,
        stats=together(part.stats for part in found),
        changes=[file for part in found for file in part.changes],
        rejects=[file for part in found for file in part.rejects],
        notes=[note for part in found for note in part.notes],
    )


def _ranges(parts: Iterable[SeenSchema]) -> list[SeenSchema]:
    """Each schema of each table once, from its first position to its last."""
    found: dict[tuple[TableName, str], SeenSchema] = {}
    for part in parts:
        other = found.setdefault((part.table, part.schema), part)
        found[part.table, part.schema] = SeenSchema(
            part.table,
            part.schema,
            min(part.first, other.first),
            max(part.last, other.last),
            part.arrived or other.arrived,
        )
    return sorted(found.values(), key=lambda seen: seen.first)
