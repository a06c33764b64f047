"""Maintenance: compacts small files, expires old snapshots, drops days past retention. Safe during a running pipeline.

What must not be lost is held by tags: the newest snapshot that says how far each source is, and for each reader of the log
the snapshot up to which it has read. Nothing that a reader has still to read is dropped or expired.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from changeling.iceberg.catalog import NAME
from changeling.iceberg.lake import Lake, quoted
from changeling.iceberg.table_definition import TableDefinition
from changeling.log import log_tables
from changeling.log.log_tables import DROPPED, TABLES
from changeling.log.source_state import PROPERTY, STATE_TAG

READER_TAG = "reader-"
"""Readers of the log tag the snapshot they have read up to with this prefix and their name."""
KEEP_SNAPSHOTS = timedelta(hours=1)
_ORPHANS_AFTER = timedelta(days=3)
_FEW_FILES = 5


@dataclass(frozen=True)
class Done:
    """The result of maintenance for one table."""

    table: str
    files_before: int
    files_after: int
    rewritten: int
    snapshots_expired: int
    files_dropped: int
    orphans_removed: int


def maintain(
    lake: Lake,
    retention_millis: int,
    keep_snapshots: timedelta = KEEP_SNAPSHOTS,
    keep_changes: datetime | None = None,
) -> list[Done]:
    """Maintains every table of a pipeline; only the log has a retention. Changes since `keep_changes` stay in any case."""
    if not lake.has(log_tables.CHANGES):
        return []
    there = set(lake.names())
    wanted = [table for table in TABLES if table.name in there]
    return [_maintain(lake, table, retention_millis, keep_snapshots, keep_changes) for table in wanted]


def expire(lake: Lake) -> None:
    """Expires old snapshots only: a run does so now and then, since each batch adds some and every commit writes their list."""
    for table in TABLES:
        lake.tag_newest(table, STATE_TAG, PROPERTY)
        lake.expire(table, _earlier(datetime.now(UTC) - KEEP_SNAPSHOTS, _slowest_reader(lake, table)))


def _maintain(
    lake: Lake, table: TableDefinition, retention_millis: int, keep_snapshots: timedelta, keep_changes: datetime | None
) -> Done:
    now = datetime.now(UTC)
    slowest = _slowest_reader(lake, table)
    before = lake.size(table)
    dropped = 0
    if table is log_tables.CHANGES:
        before_day = _earlier(_earlier(now - timedelta(milliseconds=retention_millis), slowest), keep_changes)
        dropped = _drop_days(lake, table, before_day)
    rewritten = compact(lake, table)
    # We may commit nothing between these two: it would hide a state that was committed in between.
    lake.tag_newest(table, STATE_TAG, PROPERTY)
    expired = lake.expire(table, _earlier(now - keep_snapshots, slowest))
    orphans = remove_orphans(lake, table, now - _ORPHANS_AFTER) if table.partition_by_day_of is not None else 0
    return Done(table.name, before.files, lake.size(table).files, rewritten, expired, dropped, orphans)


def _earlier(moment: datetime, other: datetime | None) -> datetime:
    return moment if other is None else min(moment, other)


def _slowest_reader(lake: Lake, table: TableDefinition) -> datetime | None:
    """When the snapshot was made that the slowest reader has read up to."""
    moments = [moment for name, moment in lake.tags(table).items() if name.startswith(READER_TAG)]
    return min(moments, default=None)


def _drop_days(lake: Lake, table: TableDefinition, before: datetime) -> int:
    """Drops whole days, so that no file is rewritten; returns how many files were dropped."""
    day = f"{before:%Y-%m-%d}"
    column = f"partition.{table.partition_by_day_of}_day"
    found = lake.sql(f"SELECT count(*) FROM {lake.name(table)}.files WHERE {column} < DATE '{day}'").collect()[0][0]
    if found:
        # Recorded first: whoever looks for the first change must know that it may be gone.
        lake.retried(f"ALTER TABLE {lake.name(table)} SET TBLPROPERTIES ('{DROPPED}' = '{day}')")
        lake.retried(f"DELETE FROM {lake.name(table)} WHERE {table.partition_by_day_of} < TIMESTAMP '{day} 00:00:00'")
    return int(found)


def compact(lake: Lake, table: TableDefinition) -> int:
    """Rewrites small files, and those of which rows were deleted; returns how many there were."""
    size = lake.size(table)
    if size.files < _FEW_FILES and not size.deletes:
        return 0
    order = ", ".join(f"{column} ASC NULLS FIRST" for column in table.sort)
    sort = f", strategy => 'sort', sort_order => '{order}'" if order else ""
    call = (
        f"CALL {NAME}.system.rewrite_data_files(table => '{_procedure_name(lake, table)}'{sort}, "
        f"options => map('min-input-files', '{_FEW_FILES}', 'delete-file-threshold', '1'))"
    )
    return int(lake.retried(call)[0].rewritten_data_files_count)


def remove_orphans(lake: Lake, table: TableDefinition, before: datetime) -> int:
    """Files that tasks wrote and no batch took, such as those of an interrupted batch."""
    call = (
        f"CALL {NAME}.system.remove_orphan_files(table => '{_procedure_name(lake, table)}', "
        f"older_than => TIMESTAMP '{before:%Y-%m-%d %H:%M:%S}', prefix_listing => {str(lake.is_remote).lower()})"
    )
    return len(lake.retried(call))


def _procedure_name(lake: Lake, table: TableDefinition) -> str:
    return f"`{lake.namespace}`.{quoted(table.name)}".replace("\\", "\\\\").replace("'", "\\'")
