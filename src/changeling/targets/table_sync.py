"""One table of a target on its way from the rows that it has to those of a point."""

from dataclasses import dataclass

from psycopg import sql

from changeling.model.errors import ChangelingError
from changeling.targets.apply import Applied, How, apply, check_whole
from changeling.targets.quarantine import Asides, asides
from changeling.targets.schema_changes import Connection, add_key, alter, create, drop_key, empty, present
from changeling.targets.snapshot_diff import Differences, Side
from changeling.targets.staging_table import Staged, create_stage, stage
from changeling.targets.sync_plan import Work
from changeling.targets.target_state import Entry, Ledger


@dataclass(frozen=True)
class Move:
    """A work whose rows wait in the target database."""

    work: Work
    staged: Staged
    asides: Asides | None
    """All that is kept aside of the table; None where that is as it was."""

    def warnings(self, done: Applied) -> list[str]:
        """What a user should know when it is done."""
        found, place = [], self.work.place
        if self.asides is not None and self.asides.count:
            found.append(
                f"{self.asides.count:,} rows of {place} cannot be in PostgreSQL and are kept aside "
                f"({self.asides.reasons()}): changeling.asides lists them"
            )
        if done.missing > 0 and not self.staged.misfits:
            found.append(
                f"{done.missing:,} rows of {place} that were to go were not there: somebody else changed the table"
            )
        return found


def begin(connection: Connection, url: str, stage_name: str, differences: Differences, work: Work) -> Move:
    """Copies the rows that a work needs into the target database, where nobody sees them yet."""
    entry, new = work.entry, Side(work.snapshot, work.shape)
    if work.how is How.CHANGES and entry is not None:
        rows = differences.between(work.replica, Side(entry.snapshot, entry.shape), new)
    else:
        rows = differences.whole(work.replica, new)
    staged = stage(url, create_stage(connection, stage_name, work.shape), rows, work.shape)
    # PostgreSQL's planner takes a table that nobody looked at for a small one.
    connection.execute(sql.SQL("ANALYZE {}").format(staged.table))
    listed_otherwise = entry is not None and entry.asides > 0 and entry.shape != work.shape
    if staged.misfits or listed_otherwise:
        return Move(work, staged, asides(differences.rows(work.replica, new), work.shape))
    return Move(work, staged, None if work.how is How.CHANGES else Asides(0, []))


def finish(connection: Connection, ledger: Ledger, move: Move) -> Applied:
    """Brings the table to its point, inside of the transaction that is open."""
    check_whole(connection, move.staged)
    work, entry = move.work, move.work.entry
    schema_created, has_key = _shape(connection, work)
    if not has_key and work.how is not How.ALL:
        add_key(connection, work.place, work.shape)
    done = apply(connection, work.place, work.shape, move.staged, work.how)
    if not has_key and work.how is How.ALL:
        # Many rows are put in order sooner than one by one.
        add_key(connection, work.place, work.shape)
    oid = _checked_oid(connection, work)
    before = entry.asides if entry is not None else 0
    ledger.write_table(
        Entry(
            work.place,
            oid,
            work.replica.identity,
            work.snapshot,
            work.shape,
            before if move.asides is None else move.asides.count,
            created=work.there is None or (entry is not None and entry.created and entry.oid == oid),
            schema_created=schema_created or (entry is not None and entry.schema_created),
        )
    )
    if move.asides is not None:
        ledger.write_asides(work.place, move.asides.listed)
    return done


def _checked_oid(connection: Connection, work: Work) -> int:
    """Which table was written to, and is held now; raises `ChangelingError` where it is not the one that was looked at."""
    oid = present(connection, [work.place])[work.place].oid
    if work.there is not None and work.there.oid != oid:
        raise ChangelingError(f"table {work.place} was made anew by somebody else meanwhile")
    return oid


def _shape(connection: Connection, work: Work) -> tuple[bool, bool]:
    """Gives the table its columns; tells whether its schema was made, and whether the key is on it."""
    place, shape, entry, there = work.place, work.shape, work.entry, work.there
    if there is None:
        return create(connection, place, shape), False
    has_key = there.constraint is not None
    if entry is None or entry.shape == shape:
        return False, has_key
    if there.constraint is not None and entry.shape.key != shape.key:
        drop_key(connection, place, there.constraint, entry.shape)
        has_key = False
    if work.how is How.ALL:
        empty(connection, place)
    alter(connection, place, entry.shape, shape)
    return False, has_key
