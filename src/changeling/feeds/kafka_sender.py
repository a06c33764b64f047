"""Sends records to one partition of a Kafka topic, exactly once: every transaction also has the progress that it makes.

The transactional id belongs to the partition of the topic, not to the feed: so of all processes and feeds that would write to
the partition, only the one that came last can.
"""

from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise, repeat
from time import monotonic
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaException, Producer

from changeling.feeds.kafka_cluster import PATIENCE, Cluster, Interrupted
from changeling.iceberg.failpoints import reach

TRANSACTION_RECORDS = 50_000
_TRANSACTION_SECONDS = 20.0
_RECORDS_BETWEEN_LOOKS = 1_000
_TRIES = 3
_ABORT_SECONDS = 5.0
_LARGEST_RECORD = 64 * 1024 * 1024
_QUEUE_PAUSE = 0.002
_SETTINGS: dict[str, Any] = {
    "linger.ms": 20,
    # Enough for a few requests. A longer queue costs up to twice the time, and what waits in it is not seen to be slow.
    "queue.buffering.max.messages": 3_000,
    "queue.buffering.max.kbytes": 2 * _LARGEST_RECORD // 1024,
    # How large records may be is said by the topic, with max.message.bytes.
    "message.max.bytes": _LARGEST_RECORD,
}


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a partition of a feed is copied. It is a record of the progress topic, as JSON."""

    feed: str
    """The id of the feed."""
    name: str
    topic: str
    """The id of the Kafka topic."""
    next: int = 0
    """The offset of the table topic that is copied next."""
    lost: int = 0
    """How many records were deleted there before they were copied, in all."""


def progress_topic(topic: str) -> str:
    """The compacted topic with the progress of a topic, which has as many partitions."""
    return f"{topic}.changeling-progress"


class Sender:
    """The one writer of a partition: those that were made before are fenced.

    It can be used until a method raises; then `close` it, make a new one, and read the progress again.
    """

    def __init__(self, cluster: Cluster, topic: str, partition: int) -> None:
        self._cluster, self._topic, self._partition = cluster, topic, partition
        self._in_transaction = False
        self._known: Progress | None = None
        with cluster.translated_errors():
            self._producer = Producer(
                {**_SETTINGS, **cluster.settings, "transactional.id": f"changeling.{topic}.{partition}"}
            )
            self._producer.init_transactions(PATIENCE)

    @property
    def progress(self) -> Progress:
        """How far the partition is."""
        assert self._known is not None, "the progress is read after a sender is made"
        return self._known

    def resume(self, progress: Progress) -> None:
        """Continues from the progress that was read after this sender was made."""
        self._known = progress

    def claim(self, progress: Progress) -> None:
        """Begins a partition without records."""
        with self._cluster.translated_errors():
            self._begin()
            self._commit(progress)

    def send(self, records: pa.Table, until: int) -> int:
        """Sends records and the new progress in one transaction; returns how many were sent, which may be fewer than all.

        `records` are what there is from the next offset to before `until`; what is missing counts as lost.
        """
        known = self.progress
        with self._cluster.translated_errors():
            self._begin()
            sent = self._produce(records.slice(0, TRANSACTION_RECORDS))
            next = records.column("offset")[sent].as_py() if sent < records.num_rows else until
            lost = next - known.next - sent
            self._commit(msgspec.structs.replace(known, next=next, lost=known.lost + lost))
        return sent

    def close(self) -> None:
        """Ends it; a transaction that is open is aborted."""
        with suppress(KafkaException):
            if self._in_transaction:
                self._producer.abort_transaction(_ABORT_SECONDS)
        with suppress(KafkaException):
            self._producer.purge()

    def _begin(self) -> None:
        self._producer.begin_transaction()
        self._in_transaction = True

    def _produce(self, records: pa.Table) -> int:
        """Hands records over until the time of a transaction is up; returns how many. `_commit` notices those that fail."""
        end = monotonic() + _TRANSACTION_SECONDS
        for place, arguments in enumerate(self._calls(records)):
            if place % _RECORDS_BETWEEN_LOOKS == 0 and place and monotonic() > end:
                return place
            if not self._put(arguments, end):
                if place:
                    return place
                raise self._stuck()
        return int(records.num_rows)

    def _put(self, arguments: tuple[Any, ...], end: float) -> bool:
        """Hands over one record; False where the queue has no place for it in time."""
        while True:
            try:
                self._producer.produce(*arguments)
                return True
            except BufferError:
                if monotonic() > end:
                    return False
                self._producer.poll(_QUEUE_PAUSE)

    def _stuck(self) -> Interrupted:
        return Interrupted(f"nothing can be sent to the Kafka topic {self._topic!r} in {_TRANSACTION_SECONDS:.0f} s")

    def _calls(self, records: pa.Table) -> Iterator[tuple[Any, ...]]:
        """The arguments of `produce` for each record. Headers cost a third more, also where they are empty."""
        values, keys = (records.column(name).to_pylist() for name in ("value", "key"))
        always = (repeat(self._topic), values, keys, repeat(self._partition))
        headers = _headers(records.column("headers"))
        if headers is None:
            return zip(*always, strict=False)
        no_callback, now = repeat(None), repeat(0)
        return zip(*always, no_callback, no_callback, now, headers, strict=False)

    def _commit(self, progress: Progress) -> None:
        key, value = f"{progress.feed}/{self._partition}", msgspec.json.encode(progress)
        if not self._put(
            (progress_topic(self._topic), value, key, self._partition), monotonic() + _TRANSACTION_SECONDS
        ):
            raise self._stuck()
        self._producer.flush(_TRANSACTION_SECONDS)
        reach("kafka.sent")
        for tries_left in reversed(range(_TRIES)):
            try:
                self._producer.commit_transaction()
                break
            except KafkaException as error:
                if not error.args[0].retriable() or not tries_left:
                    raise
        self._in_transaction = False
        self._known = progress
        reach("kafka.committed")


def _headers(column: pa.ChunkedArray) -> list[list[tuple[str, bytes | None]]] | None:
    """The headers of each record; None where no record has any."""
    lists = column.combine_chunks()
    pairs = lists.flatten()
    if not len(pairs):
        return None
    found = list(zip(pairs.field("name").to_pylist(), pairs.field("value").to_pylist(), strict=True))
    counts = pc.fill_null(pc.list_value_length(lists), 0)
    places = np.concatenate([[0], np.cumsum(counts)]).tolist()
    return [found[first:end] for first, end in pairwise(places)]
