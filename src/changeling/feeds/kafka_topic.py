"""Copies the topic of a feed to Kafka, each record once, in the partition and order that it has.

All that is known about the copy is in Kafka: next to every topic, a compacted topic has the progress of each partition. So
whatever is interrupted continues after the last transaction that was committed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from string import Formatter
from time import sleep
from typing import TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.feeds.feed import Feed, Setting
from changeling.feeds.kafka_cluster import Cluster, Description, Interrupted
from changeling.feeds.kafka_sender import Progress, Sender, progress_topic
from changeling.feeds.kafka_settings import librdkafka_settings
from changeling.feeds.topic import Topic
from changeling.model.errors import ChangelingError, UsageError, nearest

Part = TypeVar("Part")
_READ_RECORDS = 200_000
_THREADS = 2
"""One sends while the other waits for its transaction; more of them wait for Python's lock."""
_PAUSES = (0.2, 1.0, 3.0)
_NAME = re.compile(r"[A-Za-z0-9._-]{1,229}")
"""Kafka allows 249 characters; the rest is for the name of the progress topic."""
_LONGEST_SEGMENT = 7 * 86_400_000
_PROGRESS_CONFIGURATION = {
    "cleanup.policy": "compact",
    # Only complete segments are compacted, and all that is not compacted is read at each start.
    "segment.bytes": str(1024 * 1024),
}


@dataclass(frozen=True)
class KafkaTopicSettings:
    """Where in Kafka a feed goes."""

    servers: str
    """The brokers: host:port, separated by commas."""
    name: str = "{prefix}{table}"
    """The name of the topic: a template with `{prefix}`, `{schema}`, `{table}` and `{feed}`."""
    prefix: str = ""
    client: Mapping[str, Setting] = field(default_factory=dict)
    """Settings of the client, as Kafka's Java clients call them."""


@dataclass(frozen=True)
class Copied:
    """The result of a step."""

    topic: str
    records: int
    warnings: list[str]
    """Records that were deleted before they were copied, a sentence for each gap."""


class KafkaTopicWriter:
    """Copies one feed to one Kafka topic. `topic` is the feed's own, in the lake."""

    def __init__(self, feed: Feed, topic: Topic, settings: KafkaTopicSettings) -> None:
        self._feed, self._topic = feed, topic
        self.name = topic_name(feed, settings)
        self._cluster = Cluster(settings.servers, librdkafka_settings(settings.client, f"feed {feed.name!r}"))
        self._senders: list[Sender] | None = None
        """One a partition; None until they are made, and after an error."""

    def step(self) -> Copied | None:
        """Copies what is new; None if nothing is. The first step makes the topic, or checks the one that exists.

        Raises `ChangelingError` that names the feed; the next step continues where the last transaction ended.
        """
        with self._named():
            before: list[Progress] = []
            warnings: dict[str, None] = {}
            for pause in (*_PAUSES, None):
                try:
                    senders = self._senders or self._open()
                    before = before or [sender.progress for sender in senders]
                    self._copy(senders, warnings)
                    break
                except Interrupted:
                    self.close()
                    if pause is None:
                        raise
                    sleep(pause)
                except BaseException:
                    self.close()
                    raise
            records = sum(
                (sender.progress.next - old.next) - (sender.progress.lost - old.lost)
                for sender, old in zip(senders, before, strict=True)
            )
            return Copied(self.name, records, list(warnings)) if records or warnings else None

    def close(self) -> None:
        """Closes all connections; the next step opens them again."""
        senders, self._senders = self._senders, None
        for sender in senders or ():
            sender.close()
        self._cluster.close()

    def _open(self) -> list[Sender]:
        """Makes sure of the topic, fences other writers, and reads how far the copy is."""
        partitions = range(self._feed.partitions)
        described = self._prepare()
        with ThreadPoolExecutor(len(partitions)) as threads:
            senders = list(threads.map(lambda place: Sender(self._cluster, self.name, place), partitions))
        self._senders = senders
        # Only what is read now is final: others may have written until they were fenced.
        stored = self._checked(described)
        unwritten = Progress(feed=self._feed.id, name=self._feed.name, topic=described.id)
        for place, sender in enumerate(senders):
            if place in stored:
                sender.resume(stored[place])
            else:
                sender.claim(unwritten)
        self._configure()
        return senders

    def _prepare(self) -> Description:
        """The topic, which is made if there is none; next to it, the progress topic. Raises `UsageError` where it cannot be used."""
        partitions, progress_name = self._feed.partitions, progress_topic(self.name)
        described, progress = self._cluster.describe(self.name), self._cluster.describe(progress_name)
        for name, found in ((self.name, described), (progress_name, progress)):
            if found is not None and found.partitions != partitions:
                raise UsageError(
                    f"the Kafka topic {name!r} has {found.partitions} partitions, the feed has {partitions}: choose another "
                    "name, or delete the topic"
                )
        if progress is None:
            self._cluster.create(progress_name, partitions, _PROGRESS_CONFIGURATION)
        # Refused, if it must be, before other writers are disturbed.
        self._checked(described)
        return described or self._cluster.create(self.name, partitions, self._configuration())

    def _checked(self, described: Description | None) -> dict[int, Progress]:
        """The progress of each partition that has any; raises `UsageError` where the topic is not this feed's."""
        found: dict[int, Progress] = {}
        for message in self._cluster.committed(progress_topic(self.name), self._feed.partitions):
            progress = msgspec.json.decode(message.value() or b"", type=Progress)
            if progress.feed != self._feed.id:
                raise UsageError(
                    f"the Kafka topic {self.name!r} belongs to another feed, {progress.name!r} with the id {progress.feed}: "
                    "choose another name"
                )
            found[message.partition() or 0] = progress
        if any(described is None or progress.topic != described.id for progress in found.values()):
            raise UsageError(
                f"the Kafka topic {self.name!r} was deleted after the feed had been copied to it: delete "
                f"{progress_topic(self.name)!r} as well, and all that the feed still has is copied again"
            )
        spans = [] if described is None else self._cluster.spans(self.name, described.partitions)
        if any(begin < end and place not in found for place, (begin, end) in enumerate(spans)):
            raise UsageError(
                f"the Kafka topic {self.name!r} has records that are not this feed's: choose another name, or delete the topic"
            )
        return found

    def _configuration(self) -> dict[str, str]:
        retention = self._feed.retention
        configuration = {"cleanup.policy": "delete", "message.timestamp.type": "LogAppendTime", "retention.ms": "-1"}
        if retention is not None:
            configuration["retention.ms"] = str(retention * 1000)
            configuration["segment.ms"] = str(min(retention * 250, _LONGEST_SEGMENT))
        return configuration

    def _configure(self) -> None:
        found = self._cluster.configuration(self.name)
        changes = {name: value for name, value in self._configuration().items() if found.get(name) != value}
        if changes:
            self._cluster.configure(self.name, changes)

    def _copy(self, senders: list[Sender], warnings: dict[str, None]) -> None:
        state = self._topic.state()
        ends = [0] * len(senders) if state is None else state.offsets
        for place, (sender, end) in enumerate(zip(senders, ends, strict=True)):
            if sender.progress.next > end:
                raise ChangelingError(
                    f"{sender.progress.next} records of partition {place} were copied to the Kafka topic {self.name!r}, and the "
                    f"feed's table has only {end}: was an older state of the lake restored?"
                )
        with ThreadPoolExecutor(_THREADS, "changeling-kafka") as threads:
            for rows, untils in _ahead(self._parts([sender.progress.next for sender in senders], ends)):
                tasks = {
                    place: threads.submit(_send, sender, rows.filter(pc.equal(rows.column("partition"), place)), until)
                    for place, (sender, until) in enumerate(zip(senders, untils, strict=True))
                    if sender.progress.next < until
                }
                for place, task in tasks.items():
                    for first, last in task.result():
                        gone = f"partition {place}: the records from offset {first} to {last} were deleted from the feed's table "
                        warnings[f"{gone}before they were copied to the Kafka topic {self.name!r}"] = None

    def _parts(self, firsts: Sequence[int], ends: Sequence[int]) -> Iterator[tuple[pa.Table, list[int]]]:
        """What is there of the records of all partitions, in parts, each with the offsets after it."""
        while any(first < end for first, end in zip(firsts, ends, strict=True)):
            share = _READ_RECORDS // sum(first < end for first, end in zip(firsts, ends, strict=True))
            untils = [min(first + max(1, share), end) for first, end in zip(firsts, ends, strict=True)]
            rows = self._topic.spans(firsts, untils)
            if not rows.num_rows:
                # Deleted, perhaps very many: continues where there is something.
                untils = self._topic.kept(firsts, ends)
            yield rows, untils
            firsts = untils

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except ChangelingError as error:
            raise type(error)(f"feed {self._feed.name!r}: {error}") from None


def topic_name(feed: Feed, settings: KafkaTopicSettings) -> str:
    """The name of a feed's Kafka topic; raises `UsageError` where the template gives none."""
    where = f"feed {feed.name!r}: the name of its Kafka topic, {settings.name!r},"
    values = {"prefix": settings.prefix, "schema": feed.table.schema, "table": feed.table.name, "feed": feed.name}
    name = ""
    try:
        parts = list(Formatter().parse(settings.name))
    except ValueError:
        raise UsageError(f"{where} has a brace without its pair") from None
    for literal, placeholder, _, _ in parts:
        name += literal
        if placeholder is None:
            continue
        if placeholder not in values:
            raise UsageError(f"{where} has an unknown placeholder {placeholder!r}; {nearest(placeholder, values)}")
        value = values[placeholder]
        if value is None:
            raise UsageError(f"{where} needs a schema, and the table {feed.table} has none")
        name += value
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise UsageError(
            f"{where} gives {name!r}: names have letters, digits, '.', '_' and '-', and at most 229 of them; write one without "
            "placeholders"
        )
    return name


def _send(sender: Sender, rows: pa.Table, until: int) -> list[tuple[int, int]]:
    """Sends all rows; returns the first and the last offset of what is missing among them."""
    offsets = rows.column("offset").to_numpy()
    around = np.concatenate([[sender.progress.next - 1], offsets, [until]])
    steps = np.diff(around)
    if (steps < 1).any():
        raise ChangelingError("the feed's table has an offset twice: nothing of it is copied")
    while sender.progress.next < until:
        sent = sender.send(rows, until)
        rows = rows.slice(sent)
    return [(int(around[place]) + 1, int(around[place + 1]) - 1) for place in np.flatnonzero(steps > 1)]


def _ahead(parts: Iterator[Part]) -> Iterator[Part]:
    """The same parts; the next one is read while one is used."""
    with ThreadPoolExecutor(1, "changeling-read") as reader:
        coming = reader.submit(next, parts, None)
        while (part := coming.result()) is not None:
            coming = reader.submit(next, parts, None)
            yield part
