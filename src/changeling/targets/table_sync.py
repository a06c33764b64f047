"""Moves one table of a target from the rows that it has to those of a point."""

from dataclasses import dataclass

from psycopg import sql

from changeling.model.errors import ChangelingError
from changeling.targets.apply import Applied, ApplyMode, apply, check_complete
from changeling.targets.quarantine import QuarantinedRows, find_quarantined
from changeling.targets.schema_changes import Connection, add_key, alter, create, drop_key, empty, existing_tables
from changeling.targets.snapshot_diff import Differences, Side
from changeling.targets.staging_table import Staged, create_stage, stage
from changeling.targets.sync_plan import TableTask
from changeling.targets.target_state import Entry, Ledger


@dataclass(frozen=True)
class StagedTask:
    """A task whose rows are staged in the target database."""

    task: TableTask
    rows: Staged
    quarantined: QuarantinedRows | None
    """All quarantined rows of the table; None where they did not change."""

    def warnings(self, done: Applied) -> list[str]:
        """Warnings for the user after it was applied."""
        found, place = [], self.task.place
        if self.quarantined is not None and self.quarantined.count:
            found.append(
                f"{self.quarantined.count:,} rows of {place} cannot be stored in PostgreSQL and are quarantined "
                f"({self.quarantined.reasons()}): changeling.asides lists them"
            )
        if done.missing > 0 and not self.rows.misfits:
            found.append(
                f"{done.missing:,} rows of {place} that were to be deleted did not exist: somebody else changed the table"
            )
        return found


def begin(connection: Connection, url: str, stage_name: str, differences: Differences, task: TableTask) -> StagedTask:
    """Copies the rows that a task needs into a staging table of the target database."""
    entry, new = task.entry, Side(task.snapshot, task.shape)
    if task.mode is ApplyMode.CHANGES and entry is not None:
        rows = differences.between(task.replica, Side(entry.snapshot, entry.shape), new)
    else:
        rows = differences.all_rows(task.replica, new)
    staged = stage(url, create_stage(connection, stage_name, task.shape), rows, task.shape)
    # Without statistics, PostgreSQL's planner assumes a small table.
    connection.execute(sql.SQL("ANALYZE {}").format(staged.table))
    reshaped = entry is not None and entry.quarantined > 0 and entry.shape != task.shape
    if staged.misfits or reshaped:
        return StagedTask(task, staged, find_quarantined(differences.rows(task.replica, new), task.shape))
    return StagedTask(task, staged, None if task.mode is ApplyMode.CHANGES else QuarantinedRows(0, []))


def finish(connection: Connection, ledger: Ledger, staged: StagedTask) -> Applied:
    """Moves the table to its point, within the open transaction."""
    check_complete(connection, staged.rows)
    task, entry = staged.task, staged.task.entry
    schema_created, has_key = _shape(connection, task)
    if not has_key and task.mode is not ApplyMode.ALL:
        add_key(connection, task.place, task.shape)
    done = apply(connection, task.place, task.shape, staged.rows, task.mode)
    if not has_key and task.mode is ApplyMode.ALL:
        # Building the index at once is faster than row by row.
        add_key(connection, task.place, task.shape)
    oid = _checked_oid(connection, task)
    before = entry.quarantined if entry is not None else 0
    ledger.write_table(
        Entry(
            task.place,
            oid,
            task.replica.identity,
            task.snapshot,
            task.shape,
            before if staged.quarantined is None else staged.quarantined.count,
            created=task.existing is None or (entry is not None and entry.created and entry.oid == oid),
            schema_created=schema_created or (entry is not None and entry.schema_created),
        )
    )
    if staged.quarantined is not None:
        ledger.write_quarantine(task.place, staged.quarantined.listed)
    return done


def _checked_oid(connection: Connection, task: TableTask) -> int:
    """The oid of the table that was written and is now locked; raises `ChangelingError` where it is not the planned one."""
    oid = existing_tables(connection, [task.place])[task.place].oid
    if task.existing is not None and task.existing.oid != oid:
        raise ChangelingError(f"table {task.place} was recreated by somebody else during the step")
    return oid


def _shape(connection: Connection, task: TableTask) -> tuple[bool, bool]:
    """Creates or alters the table; returns whether its schema was created, and whether the table has its key."""
    place, shape, entry, existing = task.place, task.shape, task.entry, task.existing
    if existing is None:
        return create(connection, place, shape), False
    has_key = existing.constraint is not None
    if entry is None or entry.shape == shape:
        return False, has_key
    if existing.constraint is not None and entry.shape.key != shape.key:
        drop_key(connection, place, existing.constraint, entry.shape)
        has_key = False
    if task.mode is ApplyMode.ALL:
        empty(connection, place)
    alter(connection, place, entry.shape, shape)
    return False, has_key
