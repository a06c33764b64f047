"""What a run looks at before it starts Spark: whether its servers can be reached, with these passwords. Alters nothing."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from changeling.iceberg.lock import Lock
from changeling.model.errors import ChangelingError, UsageError
from changeling.pipelines.definition import KafkaSource, PostgresSource, PostgresTarget
from changeling.pipelines.listener import Listener
from changeling.pipelines.loading import LoadedPipeline
from changeling.pipelines.server_sources import capture_settings, cluster_of


def check_servers(loaded: LoadedPipeline, lock: Lock, listener: Listener, *, once: bool) -> None:
    """Reports what cannot be reached: sources with `once` as an error; else as warnings, since they are tried again.

    A target that cannot be reached holds up neither the replicas nor other targets.
    """
    sources, targets = list(_sources(loaded)), list(_targets(loaded))
    failed: list[ChangelingError] = []
    errors = _errors([look for _, look in (*sources, *targets)])
    for place, ((name, _), error) in enumerate(zip((*sources, *targets), errors, strict=True)):
        if error is None:
            continue
        text = loaded.redacted(str(error))
        lock.failed(text, name)
        if isinstance(error, UsageError):
            raise error
        if once and place < len(sources):
            failed.append(error)
        else:
            listener.on_warning(name, f"{text}; it is tried again once Spark has started")
    if failed:
        raise failed[0] if len(failed) == 1 else ChangelingError("\n".join(map(str, failed)))


def _errors(looks: Sequence[Callable[[], None]]) -> Iterator[ChangelingError | None]:
    """What each of them raises. All are done at the same time: a server that does not answer holds up no other."""

    def error_of(look: Callable[[], None]) -> ChangelingError | None:
        try:
            look()
        except ChangelingError as error:
            return error
        return None

    with ThreadPoolExecutor(max(1, len(looks)), "look") as pool:
        yield from pool.map(error_of, looks)


def _sources(loaded: LoadedPipeline) -> Iterator[tuple[str, Callable[[], None]]]:
    for source in loaded.definition.sources:
        if isinstance(source, PostgresSource):
            yield source.name, partial(_reach_database, loaded, source)
        elif isinstance(source, KafkaSource):
            yield source.name, partial(_reach_cluster, source)


def _targets(loaded: LoadedPipeline) -> Iterator[tuple[str, Callable[[], None]]]:
    for target in loaded.definition.targets:
        yield target.name, partial(reach_target, target)


def _reach_database(loaded: LoadedPipeline, source: PostgresSource) -> None:
    from changeling.sources.postgres_probe import check_ready

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
