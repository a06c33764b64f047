"""Looks at all that a run needs before it starts: Java, the catalog, sources, feeds and targets. Starts no Spark, alters nothing."""

import dataclasses
import os
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Literal
from uuid import uuid4

from changeling.files import paths, s3
from changeling.files.paths import NoFileFound
from changeling.log import log_tables
from changeling.log.source_state import stored_state
from changeling.model.errors import ChangelingError, nearest
from changeling.model.extras import naming_extras
from changeling.model.printable import counted, printable, sized
from changeling.pipelines.definition import (
    Feed,
    FilesSource,
    FilesTopic,
    KafkaSource,
    KafkaTopic,
    PostgresSource,
    PostgresTarget,
    Source,
)
from changeling.pipelines.lakehouse import missing_jars, tables_of
from changeling.pipelines.loading import LoadedPipeline, WrongPipelineFile, load
from changeling.pipelines.preflight import reach_target
from changeling.pipelines.record_samples import Sample, sample_of_files, sample_of_topics
from changeling.pipelines.server_sources import capture_settings, cluster_of, topics_of

_LISTED = 5


@dataclass(frozen=True)
class Finding:
    """What was found out about one thing that a run needs."""

    text: str
    status: Literal["ok", "warning", "failed"] = "ok"
    code: int = 0
    """The exit code that a run would have for it."""


@dataclass(frozen=True)
class Check:
    """One thing to look at."""

    subject: str
    look: Callable[[], Finding]


def checks(path: str | Path) -> list[Check]:
    """All checks of a pipeline file; where the file has problems, these alone.

    Each is made when it is called, and reports every error as a finding, without secrets.
    """
    try:
        loaded = load(path)
    except WrongPipelineFile as wrong:
        return [Check("file", partial(Finding, problem, "failed", wrong.exit_code)) for problem in wrong.problems]
    definition = loaded.definition
    looks: dict[str, Callable[[], Finding]] = {
        "file": partial(_file, loaded),
        "java": partial(_java, loaded),
        "lake": partial(_lake, loaded),
        **{f"source {one.name}": partial(_source, loaded, one) for one in definition.sources},
        **{f"feed {one.name}": partial(_feed, loaded, one) for one in definition.feeds},
        **{f"target {one.name}": partial(_target, loaded, one) for one in definition.targets},
    }
    return [Check(subject, partial(_found, loaded, look)) for subject, look in looks.items()]


def _found(loaded: LoadedPipeline, look: Callable[[], Finding]) -> Finding:
    try:
        with naming_extras():
            found = look()
    except ChangelingError as error:
        found = Finding(str(error), "failed", error.exit_code)
    except OSError as error:
        found = Finding(f"{error.filename or ''}: {error.strerror or error}".removeprefix(": "), "failed", 1)
    return dataclasses.replace(found, text=loaded.redacted(found.text))


def _file(loaded: LoadedPipeline) -> Finding:
    definition = loaded.definition
    counts = {
        "source": len(definition.sources),
        "table": len(definition.tables),
        "feed": len(definition.feeds),
        "target": len(definition.targets),
    }
    parts = [counted(count, name) for name, count in counts.items() if count]
    return Finding(f"{loaded.path.name}: {', '.join(parts)}")


def _java(loaded: LoadedPipeline) -> Finding:
    from changeling.spark.java import find_java

    # PySpark itself takes longer to import than all checks take.
    if find_spec("pyspark") is None:
        raise ModuleNotFoundError(name="pyspark")
    java, version = find_java()
    missing = missing_jars(loaded)
    fetched = f"; the first run fetches {counted(missing, 'jar')}" if missing else ""
    return Finding(f"{'Java' if version is None else f'Java {version}'} at {java}{fetched}")


def _lake(loaded: LoadedPipeline) -> Finding:
    place = loaded.definition.warehouse
    if loaded.warehouse.startswith(s3.SCHEME) and not loaded.definition.catalog:
        s3.check_bucket(s3.bucket_and_key(loaded.warehouse)[0])
    elif "://" not in loaded.warehouse:
        _check_writable(Path(loaded.warehouse))
    tables = tables_of(loaded)
    if tables.load(log_tables.CHANGES.name) is None:
        return Finding(f"{place}: the first run makes its tables")
    count = len(tables.names()) + len(tables.in_namespace(f"{loaded.definition.name}_replica").names())
    return Finding(f"{place}: {counted(count, 'table')}")


def _check_writable(folder: Path) -> None:
    """Raises `ChangelingError` where the user may not write the folder, or make it."""
    existing = next(one for one in (folder, *folder.parents) if one.exists())
    if not existing.is_dir():
        raise ChangelingError(f"{existing} is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ChangelingError(f"{existing} is not writable: change its rights, or the warehouse")


def _source(loaded: LoadedPipeline, source: Source) -> Finding:
    if isinstance(source, PostgresSource):
        return _database(loaded, source)
    return _files(loaded, source) if isinstance(source, FilesSource) else _topics(loaded, source)


def _files(loaded: LoadedPipeline, source: FilesSource) -> Finding:
    skipped: list[str] = []
    try:
        places = paths.expand([loaded.resolve(source.path)], skipped.append)
    except NoFileFound as error:
        return Finding(f"{error}; files are read once they are there", "warning")
    size = sum(place.size or 0 for place in places)
    count = f"{counted(len(places), 'file')}, {sized(size)}"
    found = _of_sample(source, sample_of_files(source, loaded.read_options(source), places), count)
    if skipped and found.status == "ok":
        return Finding(f"{found.text}; skipped: {'; '.join(skipped[:_LISTED])}", "warning")
    return found


def _topics(loaded: LoadedPipeline, source: KafkaSource) -> Finding:
    cluster = cluster_of(source)
    if cluster is None:
        return Finding("cannot be checked without Spark: the settings are for Kafka's Java client alone", "warning")
    with cluster as opened:
        topics, missing = topics_of(source, opened)
        spans = {name: opened.spans(name, partitions, committed=True) for name, partitions in topics.items()}
        records = sum(end - begin for parts in spans.values() for begin, end in parts)
        listed = _listed(topics)
        if missing:
            absent = "; ".join(f"there is no topic {name!r} yet; {nearest(name, opened.topics())}" for name in missing)
            return Finding("; ".join(filter(None, [absent, listed])), "warning")
        if not topics:
            known = f"; the cluster has {_listed(sorted(opened.topics()))}" if opened.topics() else ""
            return Finding(
                f"no topic matches {', '.join(source.topics)} yet: it is read once it is there{known}", "warning"
            )
        sample = sample_of_topics(source, loaded.read_options(source), opened, topics)
    return _of_sample(source, sample, f"{listed}: {counted(records, 'record')}")


def _of_sample(source: FilesSource | KafkaSource, sample: Sample, what: str) -> Finding:
    if not sample.records:
        return Finding(f"{what}; no records yet")
    if not sample.reasons:
        tables = f", changes of {_listed(sample.tables)}" if sample.tables else ""
        return Finding(f"{what}; the first {sample.records:,} can be read{tables}")
    reasons = "".join(f"\n{count:,}: {reason}" for reason, count in Counter(sample.reasons).most_common(_LISTED))
    hint = f"\nthey look like {' or '.join(sample.resembles)}: `format:` says so" if sample.resembles else ""
    text = f"{what}; of the first {sample.records:,} records {len(sample.reasons):,} cannot be read{reasons}{hint}"
    return Finding(text, "failed", 1) if source.on_error == "fail" else Finding(text, "warning", 3)


def _database(loaded: LoadedPipeline, source: PostgresSource) -> Finding:
    from changeling.sources.postgres_probe import check_capture

    tables = tables_of(loaded)
    log = tables.load(log_tables.CHANGES.name)
    begun = stored_state(tables, log_tables.CHANGES).batch(source.name) > 0
    # A log that does not exist yet is not the one that has claimed a slot.
    reader = str(uuid4()) if log is None else str(log.metadata.table_uuid)
    found = check_capture(dataclasses.replace(capture_settings(loaded, source), reader=reader), begun=begun)
    text = f"{_listed([f'{one.schema}.{one.name}' for one in found.tables])}; {counted(found.rows, 'row')} read"
    if found.left_out:
        reasons = "".join(f"\nleft out: {table}: {why}" for table, why in found.left_out.items())
        return Finding(text + reasons, "warning", 3)
    if not found.tables or found.warnings:
        warnings = found.warnings or ["no table matches yet"]
        return Finding("\n".join([*warnings, *([text] if found.tables else [])]), "warning")
    return Finding(text)


def _feed(loaded: LoadedPipeline, feed: Feed) -> Finding:
    if isinstance(feed.topic, KafkaTopic):
        from changeling.feeds.kafka_cluster import Cluster
        from changeling.feeds.kafka_settings import librdkafka_settings

        cluster = Cluster(feed.topic.servers, librdkafka_settings(feed.topic.kafka, f"feed {feed.name!r}"))
        try:
            return Finding(f"Kafka at {feed.topic.servers}: {counted(len(cluster.topics()), 'topic')}")
        finally:
            cluster.close()
    if not isinstance(feed.topic, FilesTopic):
        return Finding(f"a table of the lake, with the changes of {feed.table}")
    place = loaded.resolve(feed.topic.path)
    if place.startswith(s3.SCHEME):
        s3.check_bucket(s3.bucket_and_key(place)[0])
    else:
        _check_writable(Path(place))
    return Finding(f"files in {feed.topic.path}")


def _target(loaded: LoadedPipeline, target: PostgresTarget) -> Finding:
    reach_target(target)
    return Finding("can be reached")


def _listed(names: Collection[str]) -> str:
    """The first names, and how many more there are."""
    first = [printable(name) for name in list(names)[:_LISTED]]
    more = len(names) - len(first)
    return ", ".join([*first, *([f"and {more:,} more"] if more > 0 else [])])
