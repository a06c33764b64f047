"""Are the replicas what the source has, row for row: both at one place of the source's log, while writes go on."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from changeling.log import layout
from changeling.log.lock import is_held
from changeling.log.log import Log
from changeling.log.reading import Tables
from changeling.model.errors import ChangelingError, UsageError, nearest
from changeling.model.table import TableName
from changeling.pipelines.capturing import capture_settings, postgres_sources, requests_of
from changeling.pipelines.definition import PostgresSource
from changeling.pipelines.lakehouse import lake_of, lock_file, tables_of
from changeling.pipelines.loading import Loaded
from changeling.pipelines.running import rules_of
from changeling.postgres import catalog
from changeling.replicas.states import States
from changeling.replicas.verifying import Difference, compare
from changeling.sources import postgres_plan as plans
from changeling.sources.postgres_known import KnownTables
from changeling.sources.postgres_plan import Plan, Snapshot, Stream
from changeling.sources.postgres_point import Asking, TablesAtPoint

_PATIENCE = 600.0
"""So long a run that goes on has, to come to the place at which both are compared."""


_ALTERING = 120.0
"""So long tables may be altered meanwhile, again and again, before that is an error."""


@dataclass(frozen=True)
class Verified:
    """What came of one table."""

    source: str
    table: TableName
    rows: int
    different: int
    differences: list[Difference] = field(default_factory=list)
    """The first of them."""
    aside: int = 0
    """Values of the source that no column of the replica can hold: they are NULL there, and listed in `asides`."""


class _AlteredError(ChangelingError):
    """A table was altered while it was compared."""


CatchUp = Callable[[str, int | None], object]
"""Brings the log up to date where no run does: one source to a place of its server's log, or to what is there."""


def verify(loaded: Loaded, wanted: Sequence[str], most: int, catch_up: CatchUp) -> Iterator[Verified]:
    """Compares tables (all where none is `wanted`), one after another."""
    sources = postgres_sources(loaded)
    if not sources:
        raise UsageError("verify compares replicas with their database: the pipeline has no source of type postgres")
    for source in sources:
        done: set[TableName] = set()
        end = time.monotonic() + _ALTERING
        while True:
            try:
                for one in _verified(loaded, source, wanted, most, catch_up, done):
                    done.add(one.table)
                    yield one
                break
            except _AlteredError:
                if time.monotonic() > end:
                    raise
                time.sleep(1)


def _verified(
    loaded: Loaded, source: PostgresSource, wanted: Sequence[str], most: int, catch_up: CatchUp, done: set[TableName]
) -> Iterator[Verified]:
    """Compares the tables that are not done; raises `_AlteredError` where one is altered meanwhile."""
    _catch_up(loaded, source, catch_up)
    point = TablesAtPoint(capture_settings(loaded, source))
    try:
        with point:
            tables = _chosen(point.tables(), wanted)
            _catch_up(loaded, source, catch_up, point)
            yield from _compared(loaded, source, point, [table for table in tables if table not in done], most)
    except (UsageError, _AlteredError):
        raise
    except ChangelingError as error:
        if not point.were_altered():
            raise
        raise _AlteredError(str(error)) from None


def _catch_up(loaded: Loaded, source: PostgresSource, catch_up: CatchUp, point: TablesAtPoint | None = None) -> None:
    """Brings the log to where the source is; a table that was altered is told again first, and then has to be whole."""
    if not is_held(lock_file(loaded)):
        catch_up(source.name, None if point is None else point.lsn)
        return
    with Asking(capture_settings(loaded, source)) as asking:
        asking.mark()
        _wait(loaded, source, asking.present() if point is None else point.lsn)


def ask_again(loaded: Loaded, found: Sequence[Verified]) -> None:
    """Notes the tables that differ: the next run, or the one that goes on, takes them anew."""
    for source in postgres_sources(loaded):
        tables = [one.table.spelled() for one in found if one.source == source.name and one.different]
        if tables:
            requests_of(loaded, source).ask(tables)


def ask_for(loaded: Loaded, wanted: Sequence[str]) -> list[str]:
    """Notes tables to be taken anew; tells which they are."""
    asked = []
    for source in postgres_sources(loaded):
        with Asking(capture_settings(loaded, source)) as asking:
            tables = [table.spelled() for table in _chosen(asking.tables(), wanted)]
        requests_of(loaded, source).ask(tables)
        asked += tables
    return asked


def _chosen(known: list[TableName], wanted: Sequence[str]) -> list[TableName]:
    chosen = [table for table in known if not wanted or any(catalog.fits(text, table) for text in wanted)]
    if not chosen:
        names = [f"{table.schema}.{table.name}" for table in known]
        raise UsageError(f"there is no table {wanted[0]!r} among those captured; {nearest(wanted[0], names)}")
    return chosen


def _compared(
    loaded: Loaded, source: PostgresSource, point: TablesAtPoint, tables: list[TableName], most: int
) -> Iterator[Verified]:
    lake = lake_of(loaded)
    log = Log(lake)
    states = States(log, rules_of(loaded).policy)
    behind = _behind(loaded, source, point)
    for table in tables:
        schema = point.schema(table)
        version = next((one.id for one in reversed(log.registry.of(source.name, table)) if one.schema == schema), None)
        if version is None or table in behind:
            raise _AlteredError(
                f"{table} was altered, and no run has seen it since: run the pipeline, then verify again"
            )
        there = states.given(source.name, table, point.rows(lake.spark, table, version), version)
        here = states.before(source.name, table, point.position)
        found = compare(there, here, most)
        yield Verified(
            source.name, table, found.rows, found.different, found.differences, _asides(loaded, source, table)
        )


def _behind(loaded: Loaded, source: PostgresSource, point: TablesAtPoint) -> set[TableName]:
    """The tables that were altered or made before the point, while their rows come into the log only behind it."""
    tables = tables_of(loaded)
    state = tables.state(layout.CHANGES).of(source.name)
    known = KnownTables(state.kept)
    later: set[str] = set()
    for plan in _plans_read(tables, source, state.batch).values():
        if isinstance(plan, Snapshot) and plan.point > point.lsn:
            later.update(plan.prints)
        elif isinstance(plan, Snapshot):
            if plan.anew:
                known.clear()
            known.add(plan)
    return {table for table in point.tables() if table.spelled() in later or point.outdates(known, table)}


def _plans_read(tables: Tables, source: PostgresSource, last: int) -> dict[int, Plan]:
    """The plans of a source's batches up to one, each in its last attempt."""
    rows = sorted(tables.rows(layout.BATCHES).to_pylist(), key=lambda row: (row["batch"], row["attempt"]))
    return {
        row["batch"]: plans.parse(row["plan"]) for row in rows if row["source"] == source.name and row["batch"] <= last
    }


def _asides(loaded: Loaded, source: PostgresSource, table: TableName) -> int:
    rows = tables_of(loaded).rows(layout.ASIDES, columns=("source", "table", "column")).to_pylist()
    own = {"catalog": table.catalog, "schema": table.schema, "name": table.name}
    return sum(row["source"] == source.name and row["table"] == own and row["column"] is not None for row in rows)


def _wait(loaded: Loaded, source: PostgresSource, lsn: int) -> None:
    """Until the run has read beyond a place, and its replicas have that."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        if not is_held(lock_file(loaded)):
            raise ChangelingError("the run ended meanwhile: verify again")
        tables = tables_of(loaded)
        plans_read = _plans_read(tables, source, tables.state(layout.CHANGES).batch(source.name))
        read = [batch for batch, plan in plans_read.items() if isinstance(plan, Stream) and plan.end > lsn]
        points = tables.rows(layout.POINTS, columns=("sources",)).to_pylist()
        merged = max(
            (one["whole_batch"] for row in points for one in row["sources"] or () if one["source"] == source.name),
            default=0,
        )
        if read and merged >= min(read) and not _snapshot_goes_on(plans_read):
            return
        time.sleep(0.5)
    raise ChangelingError("the run does not get to what the database has now: look at `changeling status`")


def _snapshot_goes_on(read: dict[int, Plan]) -> bool:
    """Whether tables are being told again of which the last part is not there yet."""
    snapshots = [plan for plan in read.values() if isinstance(plan, Snapshot)]
    return bool(snapshots) and not snapshots[-1].parts[-1].last
