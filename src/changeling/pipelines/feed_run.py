"""The feeds of a run: after each merge they publish up to the newest point, and are copied on, independently of each other."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from changeling.feeds.draft import Draft
from changeling.feeds.feed import Feed
from changeling.feeds.files_topic import FilesTopicWriter
from changeling.feeds.publish import FeedPublisher
from changeling.feeds.retention import expire, needed_points
from changeling.feeds.shared_reads import SharedReads
from changeling.feeds.topic import Topic, is_of_another, namespace_of, topic_table
from changeling.iceberg.lock import Lock
from changeling.log.change_log import Log
from changeling.model.errors import ChangelingError
from changeling.model.table import TableName
from changeling.model.times import span_millis
from changeling.pipelines.definition import FilesTopic, KafkaTopic
from changeling.pipelines.failures import Failures, Retry
from changeling.pipelines.feed_sync import definitions_of, known_tables, sync_declared
from changeling.pipelines.lakehouse import tables_of
from changeling.pipelines.listener import Listener
from changeling.pipelines.loading import LoadedPipeline
from changeling.replicas.merge import Merge
from changeling.replicas.points import Points
from changeling.replicas.replica_reader import Identity
from changeling.replicas.schema_inference import Policies
from changeling.replicas.tables import ReplicaTables
from changeling.spark.errors import translated_errors

_EXPIRE_EVERY = 60.0
"""Seconds between two looks for expired records."""


class FeedRun:
    """All feeds of one run: those of the pipeline file, and those that statements create at any time."""

    def __init__(self, loaded: LoadedPipeline, log: Log, lock: Lock, listener: Listener, policy: Policies) -> None:
        self._loaded, self._log, self._listener, self._policy = loaded, log, listener, policy
        self._failures = Failures(loaded, lock, listener)
        self._tables = tables_of(loaded)
        self._definitions = definitions_of(loaded)
        sync_declared(self._definitions, loaded)
        self._shared: SharedReads | None = None
        self._publishers: dict[str, FeedPublisher] = {}
        self._copies: dict[str, _Copy] = {}
        self._retries: dict[str, Retry] = {}
        self.reached: dict[str, int] = {}
        """The point that each feed is at."""
        self._removed: set[str] = set()
        """The ids of dropped feeds whose topics are gone."""
        self._expired = monotonic()
        self._dropped = {(one.source, one.table) for one in self._definitions.dropped_tables()}

    def step(self, merge: Merge, *, once: bool) -> None:
        """Publishes what is new. A feed that fails is retried later; with `once`, it is an error, after the others were published."""
        now = self._definitions.current()
        self._remove_dropped(now, merge.tables)
        failed: list[ChangelingError] = []
        for feed in now.feeds():
            retry = self._retries.setdefault(feed.name, Retry())
            if feed.status not in ("pending", "enabled") or (not once and not retry.due()):
                continue
            try:
                with translated_errors():
                    placed = self._placed(feed, merge)
                    if placed.status == "enabled":
                        self._publish(placed, merge, once)
            except (ChangelingError, OSError) as error:
                self._publishers.pop(feed.name, None)
                self._failures.failed(feed.name, error, None if once else retry)
                failed.append(error if isinstance(error, ChangelingError) else ChangelingError(str(error)))
                continue
            self._failures.succeeded(feed.name, retry)
        self._expire(once)
        if once and failed:
            raise failed[0]

    def mode(self, source: str, table: TableName) -> str:
        """What the replica of a table contains: one that was dropped has none."""
        return "append" if (source, table) in self._dropped else self._loaded.mode(source, table)

    def needed_points(self) -> set[int]:
        """The points that feeds stand on."""
        return needed_points(self._tables, self._loaded.definition.name, self._definitions.all())

    def close(self) -> None:
        """Closes the connections of copies."""
        for copy in self._copies.values():
            copy.close()

    def _placed(self, feed: Feed, merge: Merge) -> Feed:
        """The feed; one whose table has appeared publishes it from now on."""
        if feed.status != "pending" or not merge.points.last.number:
            return feed
        placed = known_tables(self._loaded, self._definitions).placed(feed)
        if placed.status != "enabled" or placed.source is None:
            return feed
        start = _before_first(merge.points, merge.tables, placed.source, placed.table)
        return self._definitions.activate(feed.name, placed.source, placed.table, start)

    def _publish(self, feed: Feed, merge: Merge, once: bool) -> None:
        for report in self._publisher(feed, merge).step(merge.points, drain=once):
            self._listener.on_feed_published(report)
        self.reached[feed.name] = self._publishers[feed.name].state.point
        copy = self._copy(feed)
        if copy is not None:
            for records, place, warnings in copy.step(once):
                if records:
                    self._listener.on_feed_copied(feed.name, records, place)
                for text in warnings:
                    self._listener.on_warning(feed.name, self._loaded.redacted(text))

    def _publisher(self, feed: Feed, merge: Merge) -> FeedPublisher:
        if self._shared is None or self._shared.replicas is not merge.tables:
            # After a failure, a merge reads the replicas again.
            self._shared = SharedReads(
                self._log, self._tables, self._policy, merge.tables, merge.points, self.needed_points
            )
            self._publishers = {}
        known = self._publishers.get(feed.name)
        if known is None or known.feed.id != feed.id:
            if is_of_another(self._tables, self._loaded.definition.name, feed):
                # It was dropped, and its name given to another one, since the last step.
                self._remove_topic(feed.name)
            self._publishers[feed.name] = known = FeedPublisher(self._shared, feed)
        known.alter(feed)
        return known

    def _copy(self, feed: Feed) -> "_Copy | None":
        if feed.topic == "table":
            return None
        known = self._copies.get(feed.name)
        if known is None or known.feed != feed:
            if known is not None:
                known.close()
            known = self._copies[feed.name] = _Copy(
                self._loaded, feed, Topic(self._tables, self._loaded.definition.name, feed)
            )
        return known

    def _remove_dropped(self, now: Draft, replicas: ReplicaTables) -> None:
        """Removes the topics of dropped feeds, and the replicas of dropped tables."""
        for feed in now.dropped():
            if feed.id not in self._removed:
                self._remove_topic(feed.name)
                self._removed.add(feed.id)
        self._dropped = {(one.source, one.table) for one in now.dropped_tables()}
        for source, table in self._dropped:
            for kind in ("rows", "history", "changes"):
                replica = replicas.known.get(Identity(source, table, kind))
                if replica is not None:
                    replicas.drop(replica)

    def _remove_topic(self, name: str) -> None:
        self._publishers.pop(name, None)
        topics = self._log.lake.in_namespace(namespace_of(self._log.lake.namespace))
        if topics.has(topic_table(name)):
            topics.sql(f"DROP TABLE {topics.name(topic_table(name))} PURGE")

    def _expire(self, once: bool) -> None:
        if not once and monotonic() - self._expired < _EXPIRE_EVERY:
            return
        self._expired = monotonic()
        for feed in self._definitions.all():
            with _warned(self._listener, feed.name):
                expire(self._log.lake, feed)


@contextmanager
def _warned(listener: Listener, feed: str) -> Iterator[None]:
    try:
        yield
    except ChangelingError as error:
        listener.on_warning(feed, f"expired records could not be deleted: {error}")


def _before_first(points: Points, replicas: ReplicaTables, source: str, table: TableName) -> int:
    """The point before the first one that has a table."""
    replica = replicas.known.get(Identity(source, table))
    for point in points.all():
        if replica is not None and replica.snapshot_in(point.tables) is not None:
            return point.number - 1
    return points.last.number


class _Copy:
    """What copies a feed to the place that the pipeline file names."""

    def __init__(self, loaded: LoadedPipeline, feed: Feed, topic: Topic) -> None:
        self.feed = feed
        self._files: FilesTopicWriter | None = None
        self._kafka = None
        declared = next((one.topic for one in loaded.definition.feeds if one.name == feed.name), None)
        if isinstance(declared, FilesTopic):
            self.place = loaded.resolve(declared.path)
            self._files = FilesTopicWriter(
                feed,
                topic,
                self.place,
                max_bytes=declared.file_bytes,
                max_seconds=span_millis(declared.file_time) / 1000,
            )
        elif isinstance(declared, KafkaTopic):
            # Loaded only where it is needed.
            from changeling.feeds.kafka_topic import KafkaTopicSettings, KafkaTopicWriter

            settings = KafkaTopicSettings(declared.servers, declared.name, declared.prefix, declared.kafka)
            self._kafka = KafkaTopicWriter(feed, topic, settings)
            self.place = self._kafka.name

    def step(self, drain: bool) -> Iterator[tuple[int, str, list[str]]]:
        """Copies what is due: how many records went where, and warnings."""
        if self._files is not None:
            written = self._files.step(drain=drain)
            if written is not None:
                yield written.records, self.place, []
        elif self._kafka is not None:
            copied = self._kafka.step()
            if copied is not None:
                yield copied.records, f"topic {copied.topic}", copied.warnings

    def close(self) -> None:
        """Closes connections."""
        if self._kafka is not None:
            self._kafka.close()
