"""Ranges in which captured tables are unknown, by the plans of their source: before their snapshot, and after a lost slot."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from changeling.iceberg.table_definition import StoredTables
from changeling.log.batch_plans import READ, last_attempts, stored_plans
from changeling.model.position import encode
from changeling.model.table import TableName
from changeling.pipelines.loading import LoadedPipeline
from changeling.pipelines.server_sources import postgres_sources
from changeling.replicas.gaps import Unknown
from changeling.replicas.points import points_of
from changeling.replicas.replica_reader import Identity
from changeling.sources import postgres_plan
from changeling.sources.postgres_plan import PostgresPlan, Snapshot


def unknown_of(loaded: LoadedPipeline, tables: StoredTables) -> Callable[[Identity], Sequence[Unknown]]:
    """A function that returns the unknown ranges of a table, as far as the replicas are."""
    captured = {source.name for source in postgres_sources(loaded)}

    def of(identity: Identity) -> Sequence[Unknown]:
        if identity.source not in captured:
            return ()
        stored = points_of(tables).last.of(identity.source).batch
        own = last_attempts(plan for source, plan in stored_plans(tables) if source == identity.source)
        plans = (one for one in own if one.kind == READ and one.batch <= stored)
        return tuple(_unknown_ranges((postgres_plan.parse_plan(one.text) for one in plans), identity.table))

    return of


def _unknown_ranges(plans: Iterable[PostgresPlan], table: TableName) -> Iterator[Unknown]:
    known, start, end = False, "", 0
    for plan in plans:
        if not isinstance(plan, Snapshot):
            end = plan.end
            continue
        if plan.slot_recreated:
            known, start = False, encode(end)
        end = plan.start
        if not known and table.spelled() in plan.prints:
            known = True
            yield Unknown(start, encode(plan.point, 1), plan.moment)
