"""Statistics of a batch's changes, reported by the tasks that wrote them, so that merges need not scan the log for them."""

from collections.abc import Iterable

import msgspec

from changeling.model.operation import ROW_OPERATIONS, Operation
from changeling.model.table import TableName

TABLE_OPERATIONS = (*sorted(operation.value for operation in ROW_OPERATIONS), Operation.TRUNCATE.value)
"""Changes of the rows of a table; the others are control changes."""


class TableStats(msgspec.Struct, frozen=True):
    """The statistics of one table."""

    table: TableName
    changes: int
    """The number of row changes and truncates."""
    first: str
    """The first position."""
    truncated: str | None = None
    """The position of the first truncate."""
    key: str | None = None
    """A key of one of its rows."""
    version: tuple[str, int] | None = None
    """The last position that has a version of the schema, and its number."""
    versions: list[int] = []
    altered: bool = False
    """A schema version arrived on its own, without a row."""
    has_snapshot_rows: bool = msgspec.field(default=False, name="reads")


class BatchStats(msgspec.Struct, frozen=True):
    """The statistics of one task, or of complete batches."""

    last: tuple[str, str | None] | None = None
    """The last position, and its transaction. Control changes that only have their place of arrival do not count."""
    commit_time: int | None = None
    """The latest of changes that have a position."""
    open: bool = False
    """A transaction began whose end may not have arrived, or not all that its end counts."""
    tables: list[TableStats] = []


def together(parts: Iterable[BatchStats]) -> BatchStats:
    """The sum of several statistics."""
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
        min(filter(None, (one.truncated, other.truncated)), default=None),
        one.key or other.key,
        max(filter(None, (one.version, other.version)), default=None),
        sorted({*one.versions, *other.versions}),
        altered=one.altered or other.altered,
        has_snapshot_rows=one.has_snapshot_rows or other.has_snapshot_rows,
    )
