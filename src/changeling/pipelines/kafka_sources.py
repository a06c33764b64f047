"""The clusters and topics of Kafka sources, looked at without Spark."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from changeling.model.errors import UsageError
from changeling.pipelines.definition import KafkaSource
from changeling.sources import kafka_settings
from changeling.sources.kafka_plan import is_pattern, is_wanted

if TYPE_CHECKING:
    from changeling.feeds.kafka_cluster import Cluster


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
