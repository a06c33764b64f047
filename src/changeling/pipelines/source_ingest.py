"""The sources of a pipeline as ingests: what the pipeline file says of a source becomes its ingest into the log."""

from dataclasses import dataclass, field
from functools import partial

from changeling.files.reading import Carrier
from changeling.formats.options import ReadOptions
from changeling.iceberg.lake import Lake
from changeling.log.change_log import Log
from changeling.log.ingest import Ingest
from changeling.pipelines.definition import FilesSource, KafkaSource, PostgresSource, RecordSource, TableRule
from changeling.pipelines.definition import Source as Declared
from changeling.pipelines.failures import Retry
from changeling.pipelines.loading import LoadedPipeline
from changeling.sources.files import FilesSource as Files
from changeling.sources.source import Records, Source


@dataclass(frozen=True)
class SourceIngest:
    """The ingest of one source, and all that it was made from: one whose settings stay continues when the pipeline file changes."""

    declared: Declared
    rules: list[TableRule]
    options: ReadOptions | None
    ingest: Ingest
    retry: Retry = field(default_factory=Retry)
    """When it is tried again after a failure."""

    def is_of(self, loaded: LoadedPipeline, source: Declared) -> bool:
        """Whether the pipeline file says the same of the source."""
        options = loaded.read_options(source) if isinstance(source, RecordSource) else None
        return (self.declared, self.rules, self.options) == (source, loaded.rules(source.name), options)

    @staticmethod
    def of(loaded: LoadedPipeline, log: Log, source: Declared, *, resnapshot: bool = False) -> "SourceIngest":
        """The ingest of a source of the pipeline file."""
        ingest = ingest_of(loaded, log, source, resnapshot=resnapshot)
        options = ingest.source.options if isinstance(source, RecordSource) else None
        return SourceIngest(source, loaded.rules(source.name), options, ingest)


def record_sources(loaded: LoadedPipeline) -> list[RecordSource]:
    """The sources of records of the pipeline."""
    return [source for source in loaded.definition.sources if isinstance(source, FilesSource | KafkaSource)]


def ingest_of(loaded: LoadedPipeline, log: Log, source: Declared, *, resnapshot: bool = False) -> Ingest:
    """The ingest of a source into the log. `resnapshot`: tables of a database are snapshotted again."""
    policy = partial(loaded.policy, source.name)
    if isinstance(source, PostgresSource):
        from changeling.pipelines.server_sources import capture_settings, requests_of
        from changeling.sources.postgres import PostgresSource as Postgres

        settings, requests = capture_settings(loaded, source, log.lake), requests_of(loaded, source)
        state = log.state.of(source.name)
        postgres = Postgres(settings, requests, stored=state.position, own_state=state.own_state, resnapshot=resnapshot)
        return Ingest(log, postgres, policy=policy)
    records = _source(loaded, log.lake, source)
    return Ingest(log, records, policy=policy, fail_on_reject=source.on_error == "fail")


def carrier_of(source: RecordSource) -> Carrier:
    """How records are framed in the input of the source."""
    return source.carrier if isinstance(source, FilesSource) else "plain"


def _source(loaded: LoadedPipeline, lake: Lake, source: RecordSource) -> Source:
    records = Records(source.name, source.format, loaded.read_options(source))
    if isinstance(source, FilesSource):
        return Files(
            records,
            source.path,
            loaded.folder,
            carrier=source.carrier,
            batch_bytes=source.batch_bytes,
            batch_files=source.batch_files,
        )
    # The Kafka classes of the JVM are loaded only when needed.
    from changeling.sources.kafka import KafkaSource as Kafka
    from changeling.sources.kafka_planner import Subscription

    subscription = Subscription(source.topics, source.batch_records, source.start, source.on_gap)
    return Kafka(lake.spark, records, source.servers, source.kafka, subscription)
