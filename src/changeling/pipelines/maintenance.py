"""Maintains all tables of a pipeline: its log, its replicas, the topics of its feeds."""

from datetime import timedelta

from changeling.feeds import retention as feeds_retention
from changeling.log import layout
from changeling.log import maintenance as log_maintenance
from changeling.log.maintenance import Done
from changeling.model.times import span_millis
from changeling.pipelines.feed_sync import definitions_of
from changeling.pipelines.lakehouse import lake_of, tables_of
from changeling.pipelines.loading import Loaded
from changeling.replicas import maintenance as replicas_maintenance


def maintain(loaded: Loaded) -> list[Done]:
    """What was done to each table; nothing where the pipeline has no log yet."""
    tables = tables_of(loaded)
    if tables.load(layout.CHANGES.name) is None:
        return []
    lake, feeds = lake_of(loaded), definitions_of(loaded).all()
    retention = span_millis(loaded.definition.retention)
    needed = feeds_retention.needed_points(tables, loaded.definition.name, feeds)
    kept = replicas_maintenance.merged_until(lake, needed)
    replicas = replicas_maintenance.maintain(lake, timedelta(milliseconds=retention), needed=needed)
    topics = feeds_retention.maintain(lake, feeds)
    return [*log_maintenance.maintain(lake, retention, keep_changes=kept), *replicas, *topics]
