"""What the changes of a batch come to, told by the tasks that wrote them: so the replicas need not look at them first."""

from collections.abc import Iterable

import msgspec

from changeling.model.table import TableName

ROWS = ("read", "insert", "update", "upsert", "replace", "delete")
"""Changes of one row."""


class TableStats(msgspec.Struct, frozen=True):
    """Of one table."""

    table: TableName
    changes: int
    """Of rows, and those that empty it."""
    first: str
    """The first position."""
    truncated: str | None = None
    """The last position at which all its rows went."""
    key: str | None = None
    """Some key."""
    version: tuple[str, int] | None = None
    """The last position that has a version of the schema, and its number."""
    versions: list[int] = []
    altered: bool = False
    """A version came by itself, without a row."""
    reads: bool = False
    """It has rows of a snapshot."""


class BatchStats(msgspec.Struct, frozen=True):
    """Of one task, or of whole batches."""

    last: tuple[str, str | None] | None = None
    """The last position, and its transaction."""
    commit_time: int | None = None
    """The latest."""
    open: bool = False
    """A transaction came whose end did not."""
    tables: list[TableStats] = []


def together(parts: Iterable[BatchStats]) -> BatchStats:
    """Of all of them."""
    found = list(parts)
    tables: dict[TableName, TableStats] = {}
    for one in (table for part in found for table in part.tables):
        tables[one.table] = _both(tables[one.table], one) if one.table in tables else one
    return BatchStats(
        max((part.last for part in found if part.last is not None), key=lambda last: last[0], default=None),
        max((part.commit_time for part in found if part.commit_time is not None), default=None),
        any(part.open for part in found),
        list(tables.values()),
    )


def _both(one: TableStats, other: TableStats) -> TableStats:
    return TableStats(
        one.table,
        one.changes + other.changes,
        min(one.first, other.first),
        max(filter(None, (one.truncated, other.truncated)), default=None),
        one.key or other.key,
        max(filter(None, (one.version, other.version)), default=None),
        sorted({*one.versions, *other.versions}),
        altered=one.altered or other.altered,
        reads=one.reads or other.reads,
    )
