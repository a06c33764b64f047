"""How far a pipeline is behind its sources now: the age of the oldest change that is not in the log, and how much waits. No Spark."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from changeling.files import paths
from changeling.files.paths import NoFileFound
from changeling.log.batch_plans import READ, BatchPlan, last_attempts
from changeling.model.errors import ChangelingError
from changeling.model.extras import naming_extras
from changeling.pipelines.definition import FilesSource, KafkaSource, PostgresSource, Source
from changeling.pipelines.loading import LoadedPipeline
from changeling.pipelines.server_sources import cluster_of, topics_of
from changeling.replicas.points import Points
from changeling.sources import files_plan, kafka_plan
from changeling.sources.files_plan import File
from changeling.sources.kafka_plan import Progress, Span, Topic

if TYPE_CHECKING:
    from changeling.feeds.kafka_cluster import Cluster

_NANOS = 1_000_000_000
_EVERYTHING = 2**62


class Lag(msgspec.Struct, frozen=True):
    """The part of a source that is not in the log."""

    seconds: float | None = None
    """The age of the oldest change that is not in the log, at most; 0 where nothing is missing, None where that is not known."""
    records: int | None = None
    """Of Kafka: records that wait, markers of transactions included."""
    files: int | None = None
    bytes: int | None = None
    """Of files: their size; of a database: what the server retains of its log for the slot."""
    error: str | None = None
    """Why it is not known, or why the source cannot continue."""


class Reading(msgspec.Struct, frozen=True):
    """How far a source was read."""

    plans: Sequence[str]
    """Of the batches that are in the log."""
    complete: datetime | None
    """The time up to which all that it had is in the log."""
    running: bool
    """A run reads it at present."""

    @staticmethod
    def of(plans: Iterable[BatchPlan], batch: int, complete: datetime | None, *, running: bool) -> "Reading":
        """By all plans of a source, of which those up to a batch are in the log."""
        texts = [plan.text for plan in last_attempts(plans) if plan.kind == READ and plan.batch <= batch]
        return Reading(texts, complete, running)


def lag_of(loaded: LoadedPipeline, source: Source, reading: Reading) -> Lag:
    """The lag of a source now; where it cannot be asked, the error says why."""
    try:
        if isinstance(source, FilesSource):
            return _files_lag(loaded, source, reading)
        with naming_extras():
            if isinstance(source, KafkaSource):
                return _kafka_lag(source, reading)
            return _slot_lag(loaded, source, reading)
    except (ChangelingError, OSError) as error:
        return Lag(_since(reading.complete), error=loaded.redacted(str(error)))


def _files_lag(loaded: LoadedPipeline, source: FilesSource, reading: Reading) -> Lag:
    try:
        found = paths.expand([files_plan.absolute(source.path, loaded.folder)], lambda skipped: None)
    except NoFileFound:
        found = []
    listed = [File(files_plan.relative(place.path, loaded.folder), place.size, place.tag) for place in found]
    waiting = files_plan.unread(listed, reading.plans)
    changed = [int(file.tag) for file in waiting if file.tag is not None]
    age = _since(datetime.fromtimestamp(min(changed) / _NANOS, UTC)) if changed else 0.0 if not waiting else None
    return Lag(age, files=len(waiting), bytes=sum(file.size or 0 for file in waiting))


def _kafka_lag(source: KafkaSource, reading: Reading) -> Lag:
    opened = cluster_of(source)
    if opened is None:
        return Lag(_since(reading.complete), error="its settings are for Kafka's Java client alone")
    with opened as cluster:
        return _backlog(source, reading, cluster)


def _backlog(source: KafkaSource, reading: Reading, cluster: "Cluster") -> Lag:
    progress = Progress()
    for text in reading.plans:
        progress.remember(kafka_plan.KafkaPlan.parse(text))
    topics, _ = topics_of(source, cluster)
    current = {
        name: Topic(None, dict(enumerate(Span(*span) for span in cluster.spans(name, partitions, committed=True))))
        for name, partitions in topics.items()
    }
    if source.start == "latest" and not reading.plans:
        return Lag(0.0, records=0)
    skipped = progress.gaps(current, [name for name in progress.known() if name in current])
    plan = progress.plan_next(current, skipped, _EVERYTHING, source.start)
    places = {} if plan is None else {(topic, place): span.start for topic, place, span in plan.spans()}
    times = cluster.first_times(places) if places else []
    age = _since(datetime.fromtimestamp(min(times) / 1000, UTC)) if times else 0.0
    return Lag(age, records=0 if plan is None else plan.records)


def _slot_lag(loaded: LoadedPipeline, source: PostgresSource, reading: Reading) -> Lag:
    # Loaded only where it is needed.
    from changeling.pipelines.server_sources import capture_settings
    from changeling.sources import postgres_plan
    from changeling.sources.postgres_capture import Capture

    settings = capture_settings(loaded, source)
    capture = Capture(settings)
    status = capture.fresh_status()
    if status is None:
        return Lag(_since(reading.complete), error="there is no such slot")
    lost = status.lost and f"the server invalidated it: {status.lost}"
    alarm = f"more than {settings.lag_alarm:,} bytes behind" if status.retained > settings.lag_alarm else None
    if reading.running or lost or not reading.plans:
        # The run reads the slot, and nobody else can meanwhile.
        return Lag(_since(reading.complete), bytes=status.retained, error=lost or alarm)
    last = postgres_plan.parse_plan(reading.plans[-1])
    oldest = capture.oldest_unread(last.end if isinstance(last, postgres_plan.Stream) else last.start)
    return Lag(0.0 if oldest is None else _since(oldest), bytes=status.retained, error=alarm)


def unmerged_seconds(plans: Iterable[BatchPlan], logged: int, merged: int) -> float:
    """How long ago the first batch was planned that is in the log and not in the replicas; 0 where they have all."""
    waiting = [plan.planned_at for plan in plans if merged < plan.batch <= logged and plan.planned_at is not None]
    return _since(min(waiting)) or 0.0 if waiting else 0.0


class RunState(msgspec.Struct, frozen=True):
    """Where a run is now."""

    point: int
    """The newest point of the replicas."""
    sources: dict[str, Lag]
    replicas: dict[str, float]
    """By source, how long ago the first batch was planned that the replicas do not have."""
    feeds: dict[str, tuple[int, float]]
    """How many points each is behind, and how long ago the first of them was made."""
    targets: dict[str, tuple[int, float]]


def _since(moment: datetime | None) -> float | None:
    """Seconds; clocks of other machines may be ahead."""
    return None if moment is None else max(0.0, (datetime.now(UTC) - moment).total_seconds())


def behind(points: Points, reached: int) -> tuple[int, float]:
    """How many points are after the one that was reached, and how long ago the first of them was made."""
    missing = [point.made_at for point in points.after(reached)]
    return max(0, points.last.number - reached), _since(min(missing)) or 0.0 if missing else 0.0
