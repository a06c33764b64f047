"""Sources that are servers, as a pipeline file has them: the captures of PostgreSQL, and Kafka's clusters and topics, looked at without Spark."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from changeling.model.errors import UsageError
from changeling.model.table import TableName
from changeling.pipelines.definition import KafkaSource, PostgresSource
from changeling.pipelines.lakehouse import lock_file
from changeling.pipelines.loading import LoadedPipeline
from changeling.postgres.column_rules import ColumnRules
from changeling.sources import kafka_settings
from changeling.sources.kafka_plan import is_pattern, is_wanted
from changeling.sources.postgres_settings import CaptureSettings, Requests

if TYPE_CHECKING:
    from changeling.feeds.kafka_cluster import Cluster
    from changeling.iceberg.lake import Lake

_LONGEST = 63
"""Maximum length of names of slots and publications."""


def postgres_sources(loaded: LoadedPipeline) -> list[PostgresSource]:
    """The PostgreSQL sources of the pipeline."""
    return [source for source in loaded.definition.sources if isinstance(source, PostgresSource)]


def check_has_database(loaded: LoadedPipeline, what: str) -> None:
    """Raises `UsageError` where a command that works on databases, named by `what`, has none to work on."""
    if not postgres_sources(loaded):
        raise UsageError(f"{what}: the pipeline has no source of type postgres")


def requests_of(loaded: LoadedPipeline, source: PostgresSource) -> Requests:
    """The requested snapshots of a source."""
    return Requests(lock_file(loaded).with_suffix(f".{source.name}.snapshots"))


def capture_settings(loaded: LoadedPipeline, source: PostgresSource, lake: "Lake | None" = None) -> CaptureSettings:
    """The settings of a source: its names on the server, and the column rules and filters of its tables.

    A caller that writes the log passes `lake`, so that no other log reads the same slot.
    """
    slot = source.slot or f"changeling_{loaded.definition.name}_{source.name}".lower()[:_LONGEST]
    rules, filters = [], []
    for rule in loaded.rules(source.name):
        pattern = TableName.parse(rule.name).spelled()
        if rule.include or rule.exclude or rule.mask or rule.hash:
            columns = ColumnRules(rule.include, rule.exclude, rule.mask, rule.hash, source.salt)
            rules.append((pattern, columns))
        if rule.where is not None:
            filters.append((pattern, rule.where))
    reader = ""
    if lake is not None:
        from changeling.log import log_tables

        reader = lake.load(log_tables.CHANGES).uuid().toString()
    return CaptureSettings(
        name=source.name,
        url=source.url,
        tables=source.tables,
        slot=slot,
        publication=source.publication or slot,
        batch_bytes=source.batch_bytes,
        without_identity=source.without_identity,
        lag_alarm=source.lag_alarm,
        rules=tuple(rules),
        filters=tuple(filters),
        reader=reader,
    )


def cluster_of(source: KafkaSource) -> "AbstractContextManager[Cluster] | None":
    """The cluster of a source; None where only Kafka's Java client can connect with its settings.

    Raises `UsageError` for topics and settings that a source cannot have.
    """
    from changeling.feeds.kafka_settings import connection_settings

    kafka_settings.checked_topics(source.topics, source.name)
    checked = kafka_settings.checked(source.kafka, source.name)
    try:
        return _opened(source.servers, connection_settings(checked, source.name))
    except UsageError:
        return None


@contextmanager
def _opened(servers: str, settings: dict[str, str]) -> "Iterator[Cluster]":
    from changeling.feeds.kafka_cluster import Cluster

    cluster = Cluster(servers, settings)
    try:
        yield cluster
    finally:
        cluster.close()


def topics_of(source: KafkaSource, cluster: "Cluster") -> tuple[dict[str, int], list[str]]:
    """The topics of a source that exist, each with the number of its partitions, and the names that do not exist."""
    topics = cluster.topics()
    missing = [name for name in source.topics if not is_pattern(name) and name not in topics]
    return {name: count for name, count in topics.items() if is_wanted(name, source.topics)}, missing
