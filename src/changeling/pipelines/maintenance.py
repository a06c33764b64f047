"""Maintains all tables of a pipeline, or removes what it has: on database servers, and then its tables."""

from datetime import timedelta

from changeling.feeds import retention as feeds_retention
from changeling.log import log_tables
from changeling.log import maintenance as log_maintenance
from changeling.log.maintenance import Done
from changeling.model.errors import NotAllDropped
from changeling.model.times import span_millis
from changeling.pipelines.feed_sync import definitions_of
from changeling.pipelines.lakehouse import lake_of, tables_of
from changeling.pipelines.loading import LoadedPipeline
from changeling.pipelines.server_sources import capture_settings, postgres_sources
from changeling.pipelines.target_sync import targets_of
from changeling.replicas import maintenance as replicas_maintenance


def maintain(loaded: LoadedPipeline) -> list[Done]:
    """What was done to each table; nothing where the pipeline has no log yet."""
    tables = tables_of(loaded)
    if tables.load(log_tables.CHANGES.name) is None:
        return []
    lake, feeds = lake_of(loaded), definitions_of(loaded).all()
    retention = span_millis(loaded.definition.retention)
    needed = feeds_retention.needed_points(tables, loaded.definition.name, feeds)
    kept = replicas_maintenance.merged_until(lake, needed)
    replicas = replicas_maintenance.maintain(lake, timedelta(milliseconds=retention), needed=needed)
    topics = feeds_retention.maintain(lake, feeds)
    return [*log_maintenance.maintain(lake, retention, keep_changes=kept), *replicas, *topics]


def remove(loaded: LoadedPipeline) -> list[str]:
    """Drops all that a pipeline has, and returns the names; raises `NotAllDropped` where something remains on a server."""
    dropped, left = [], []
    lake = lake_of(loaded)
    written = lake if lake.has(log_tables.CHANGES) else None
    for source in postgres_sources(loaded):
        # PostgreSQL's driver is an extra.
        from changeling.sources import postgres_removal

        removed = postgres_removal.remove(capture_settings(loaded, source, written))
        dropped += removed.dropped
        left += removed.left
    for target in targets_of(loaded, lake):
        dropped += [f"{name} of target {target.name}" for name in target.remove()]
    for part in ("replica", "feeds"):
        dropped += lake.in_namespace(f"{loaded.definition.name}_{part}").remove()
    dropped += lake.remove()
    if left:
        lines = [f"dropped {', '.join(dropped) or 'nothing'}; let an administrator of the server run:", *left]
        raise NotAllDropped("\n  ".join(lines))
    return dropped
