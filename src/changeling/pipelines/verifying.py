"""Are the replicas what the source has, row for row: both at one place of the source's log, while writes go on."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from changeling.log import layout
from changeling.log.lock import is_held
from changeling.log.log import Log
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
from changeling.sources.postgres_plan import Stream
from changeling.sources.postgres_point import TablesAtPoint

_PATIENCE = 600.0
"""So long a run that goes on has, to come to the place at which both are compared."""


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


def verify(loaded: Loaded, wanted: Sequence[str], most: int, catch_up: Callable[[], object]) -> Iterator[Verified]:
    """Compares tables (all where none is `wanted`), one after another; `catch_up` brings the log up to date where no run does."""
    sources = postgres_sources(loaded)
    if not sources:
        raise UsageError("verify compares replicas with their database: the pipeline has no source of type postgres")
    for source in sources:
        with TablesAtPoint(capture_settings(loaded, source)) as point:
            tables = _chosen(point.tables(), wanted)
            if is_held(lock_file(loaded)):
                point.mark()
                _wait(loaded, source, point.lsn)
            else:
                catch_up()
            yield from _compared(loaded, source, point, tables, most)


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
        with TablesAtPoint(capture_settings(loaded, source)) as point:
            tables = [table.spelled() for table in _chosen(point.tables(), wanted)]
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
    for table in tables:
        schema = point.schema(table)
        version = next((one.id for one in reversed(log.registry.of(source.name, table)) if one.schema == schema), None)
        if version is None:
            raise ChangelingError(
                f"{table} was altered, and no run has seen it since: run the pipeline, then verify again"
            )
        there = states.given(source.name, table, point.rows(lake.spark, table, version), version)
        here = states.before(source.name, table, point.position)
        found = compare(there, here, most)
        yield Verified(
            source.name, table, found.rows, found.different, found.differences, _asides(loaded, source, table)
        )


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
        done = tables.state(layout.CHANGES).batch(source.name)
        read = [
            row["batch"]
            for row in tables.rows(layout.BATCHES).to_pylist()
            if row["source"] == source.name and row["batch"] <= done and _ends_behind(row["plan"], lsn)
        ]
        points = tables.rows(layout.POINTS, columns=("sources",)).to_pylist()
        merged = max(
            (one["whole_batch"] for row in points for one in row["sources"] or () if one["source"] == source.name),
            default=0,
        )
        if read and merged >= min(read):
            return
        time.sleep(0.5)
    raise ChangelingError("the run does not get to what the database has now: look at `changeling status`")


def _ends_behind(text: str, lsn: int) -> bool:
    plan = plans.parse(text)
    return isinstance(plan, Stream) and plan.end > lsn
