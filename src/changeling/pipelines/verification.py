"""Compares replicas with their source, row for row: both at one position of the source's log, while writes continue."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from changeling.iceberg.lock import is_held
from changeling.iceberg.reader import Tables
from changeling.log import log_tables
from changeling.log.change_log import Log
from changeling.log.source_state import stored_state
from changeling.model.errors import ChangelingError, UsageError
from changeling.model.table import TableName
from changeling.pipelines.definition import PostgresSource
from changeling.pipelines.lakehouse import lake_of, lock_file, tables_of
from changeling.pipelines.loading import LoadedPipeline
from changeling.pipelines.server_sources import capture_settings, check_has_database, postgres_sources
from changeling.pipelines.snapshot_requests import check_exist, check_known, chosen
from changeling.replicas.as_of import States
from changeling.replicas.comparison import Difference, compare
from changeling.replicas.points import points_of
from changeling.replicas.spark_changes import SparkChanges
from changeling.replicas.spark_states import SparkStore
from changeling.sources import postgres_plan as plans
from changeling.sources.postgres_known import KnownTables
from changeling.sources.postgres_plan import PostgresPlan, Snapshot, Stream
from changeling.sources.postgres_point import TablesAtPoint
from changeling.sources.postgres_probe import ServerProbe

_PATIENCE = 600.0
"""How long an active run may take to reach the position at which both are compared."""


_ALTERING_SECONDS = 120.0
_ALTERING_TIMES = 10
"""How long, and how often at least, tables may be altered during the comparison before that is an error: a comparison may be slow."""


@dataclass(frozen=True)
class Verified:
    """The result for one table."""

    source: str
    table: TableName
    rows: int
    different: int
    differences: list[Difference] = field(default_factory=list)
    """The first differences."""
    quarantined: int = 0
    """Values of the source that no column of the replica can store: they are NULL there, and listed in `asides`."""


class _AlteredError(ChangelingError):
    """A table was altered while it was compared."""


CatchUp = Callable[[str, int | None], object]
"""Brings the log up to date if no run is active: one source to a position of its server's log, or to its end."""


def verify(loaded: LoadedPipeline, wanted: Sequence[str], most: int, catch_up: CatchUp) -> Iterator[Verified]:
    """Compares tables (all where none is `wanted`), one after another."""
    check_has_database(loaded, "verify compares replicas with their database")
    check_exist(loaded, wanted)
    known: list[TableName] = []
    for source in postgres_sources(loaded):
        done: set[TableName] = set()
        end = time.monotonic() + _ALTERING_SECONDS
        for times in count(1):
            try:
                for one in _verified(loaded, source, _Wanted(wanted, known, done), most, catch_up):
                    done.add(one.table)
                    yield one
                break
            except _AlteredError:
                if times >= _ALTERING_TIMES and time.monotonic() > end:
                    raise
                time.sleep(1)
    check_known(known, wanted)


@dataclass(frozen=True)
class _Wanted:
    """Which tables to compare."""

    names: Sequence[str]
    """All tables if empty."""
    known: list[TableName]
    """The tables of all sources so far."""
    done: set[TableName]


def _verified(
    loaded: LoadedPipeline, source: PostgresSource, wanted: _Wanted, most: int, catch_up: CatchUp
) -> Iterator[Verified]:
    """Compares the remaining tables; raises `_AlteredError` where one is altered in between."""
    _catch_up(loaded, source, catch_up)
    point = TablesAtPoint(capture_settings(loaded, source))
    try:
        with point:
            captured = point.tables()
            wanted.known.extend(captured)
            tables = [table for table in chosen(captured, wanted.names) if table not in wanted.done]
            if tables:
                _catch_up(loaded, source, catch_up, point)
                yield from _compared(loaded, source, point, tables, most)
    except (UsageError, _AlteredError):
        raise
    except ChangelingError as error:
        if not point.were_altered():
            raise
        raise _AlteredError(str(error)) from None


def _catch_up(
    loaded: LoadedPipeline, source: PostgresSource, catch_up: CatchUp, point: TablesAtPoint | None = None
) -> None:
    """Brings the log to the source's position; a table that was altered is snapshotted again and completed first."""
    if not is_held(lock_file(loaded)):
        catch_up(source.name, None if point is None else point.lsn)
        return
    with ServerProbe(capture_settings(loaded, source)) as server:
        # The mark has to come later: on an idle server the run reads up to it, and no further.
        lsn = server.present() if point is None else point.lsn
        server.mark()
        _wait(loaded, source, lsn)


def _compared(
    loaded: LoadedPipeline, source: PostgresSource, point: TablesAtPoint, tables: list[TableName], most: int
) -> Iterator[Verified]:
    lake = lake_of(loaded)
    log = Log(lake)
    states = States(SparkStore(log), loaded.policy)
    behind = _behind(loaded, source, point)
    for table in tables:
        schema = point.schema(table)
        # Where the log has it only after the point, the replica does not have it at the point either.
        known = [one for one in log.registry.of(source.name, table) if (one.position or "") < point.position]
        version = next((one.id for one in reversed(known) if one.schema == schema), None)
        if version is None or table in behind:
            raise _AlteredError(
                f"{table} was altered, and no run has seen it since: run the pipeline, then verify again"
            )
        expected = states.given(source.name, table, SparkChanges(point.rows(lake.spark, table, version)), version)
        actual = states.before(source.name, table, point.position)
        found = compare(expected, actual, most)
        yield Verified(
            source.name, table, found.rows, found.different, found.differences, _quarantined(loaded, source, table)
        )


def _behind(loaded: LoadedPipeline, source: PostgresSource, point: TablesAtPoint) -> set[TableName]:
    """The tables that were altered or created before the point, while their rows are in the log only after it."""
    tables = tables_of(loaded)
    state = stored_state(tables, log_tables.CHANGES).of(source.name)
    known = KnownTables(state.own_state)
    later: set[str] = set()
    for plan in _plans_read(tables, source, state.batch).values():
        if isinstance(plan, Snapshot) and plan.point > point.lsn:
            later.update(plan.prints)
        elif isinstance(plan, Snapshot):
            if plan.slot_recreated:
                known.clear()
            known.add(plan)
    return {table for table in point.tables() if table.spelled() in later or point.outdates(known, table)}


def _plans_read(tables: Tables, source: PostgresSource, last: int) -> dict[int, PostgresPlan]:
    """The plans of a source's batches up to `last`, each of its last attempt."""
    rows = sorted(tables.rows(log_tables.BATCHES).to_pylist(), key=lambda row: (row["batch"], row["attempt"]))
    return {
        row["batch"]: plans.parse_plan(row["plan"])
        for row in rows
        if row["source"] == source.name and row["batch"] <= last
    }


def _quarantined(loaded: LoadedPipeline, source: PostgresSource, table: TableName) -> int:
    rows = tables_of(loaded).rows(log_tables.QUARANTINE, columns=("source", "table", "column")).to_pylist()
    own = {"catalog": table.catalog, "schema": table.schema, "name": table.name}
    return sum(row["source"] == source.name and row["table"] == own and row["column"] is not None for row in rows)


def _wait(loaded: LoadedPipeline, source: PostgresSource, lsn: int) -> None:
    """Waits until the run has read beyond an LSN and merged it into the replicas."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        if not is_held(lock_file(loaded)):
            raise ChangelingError("the run ended in between: verify again")
        tables = tables_of(loaded)
        plans_read = _plans_read(tables, source, stored_state(tables, log_tables.CHANGES).batch(source.name))
        read = [batch for batch, plan in plans_read.items() if isinstance(plan, Stream) and plan.end > lsn]
        merged = points_of(tables).last.of(source.name).last_complete_batch
        if read and merged >= min(read) and not _snapshot_is_running(plans_read):
            return
        time.sleep(0.5)
    raise ChangelingError("the run does not catch up with the database: see `changeling status`")


def _snapshot_is_running(read: dict[int, PostgresPlan]) -> bool:
    """Whether a snapshot of tables is not complete yet."""
    snapshots = [plan for plan in read.values() if isinstance(plan, Snapshot)]
    return bool(snapshots) and not snapshots[-1].parts[-1].last
