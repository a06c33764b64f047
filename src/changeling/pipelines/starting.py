"""What a run looks at before it starts Spark: whether its servers can be reached, with these passwords. Alters nothing."""

from collections.abc import Callable, Iterator
from functools import partial

from changeling.iceberg.lock import Lock
from changeling.model.errors import ChangelingError, UsageError
from changeling.pipelines.definition import KafkaSource, PostgresSource, PostgresTarget
from changeling.pipelines.kafka_sources import cluster_of
from changeling.pipelines.listener import Listener
from changeling.pipelines.loading import Loaded
from changeling.pipelines.postgres_sources import capture_settings


def check_servers(loaded: Loaded, lock: Lock, listener: Listener, *, once: bool) -> None:
    """Reports what cannot be reached: sources with `once` as an error; else as warnings, since they are tried again.

    A target that cannot be reached holds up neither the replicas nor other targets.
    """
    failed: list[ChangelingError] = []
    for name, reach in (*_sources(loaded), *_targets(loaded)):
        try:
            reach()
        except ChangelingError as error:
            text = loaded.redacted(str(error))
            lock.failed(text, name)
            if isinstance(error, UsageError):
                raise
            if once and any(name == source.name for source in loaded.definition.sources):
                failed.append(error)
            else:
                listener.warns(name, f"{text}; it is tried again once Spark has started")
    if failed:
        raise failed[0] if len(failed) == 1 else ChangelingError("\n".join(map(str, failed)))


def _sources(loaded: Loaded) -> Iterator[tuple[str, Callable[[], None]]]:
    for source in loaded.definition.sources:
        if isinstance(source, PostgresSource):
            yield source.name, partial(_reach_database, loaded, source)
        elif isinstance(source, KafkaSource):
            yield source.name, partial(_reach_cluster, source)


def _targets(loaded: Loaded) -> Iterator[tuple[str, Callable[[], None]]]:
    for target in loaded.definition.targets:
        yield target.name, partial(reach_target, target)


def _reach_database(loaded: Loaded, source: PostgresSource) -> None:
    from changeling.sources.postgres_check import check_ready

    check_ready(capture_settings(loaded, source))


def _reach_cluster(source: KafkaSource) -> None:
    cluster = cluster_of(source)
    if cluster is None:
        return
    try:
        with cluster as opened:
            opened.topics()
    except ChangelingError as error:
        raise ChangelingError(f"source {source.name!r}: {error}") from None


def reach_target(target: PostgresTarget) -> None:
    """Raises `ChangelingError` where the server of a target cannot be reached."""
    from changeling.postgres.connection import connect

    connect(target.url).close()
