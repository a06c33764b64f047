"""Topics on a broker under test: making, filling, cutting and deleting them."""

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.brokers.broker import Broker

Headers = tuple[tuple[str, bytes | None], ...]


class Sent(NamedTuple):
    """A record where it came to lie."""

    topic: str
    partition: int
    offset: int
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()


@dataclass(frozen=True)
class Topics:
    """The topics of a broker."""

    broker: Broker
    _admins: list[AdminClient] = field(default_factory=list)

    def make(self, name: str, partitions: int = 1) -> str:
        """A new topic; returns its name when it can be written to."""
        self._admin.create_topics([NewTopic(name, partitions, 1)])[name].result(10)
        self._until(name, partitions)
        return name

    def widen(self, name: str, partitions: int) -> None:
        """More partitions than before."""
        self._admin.create_partitions([NewPartitions(name, partitions)])[name].result(10)
        self._until(name, partitions)

    def delete(self, name: str) -> None:
        """Ends a topic."""
        self._admin.delete_topics([name])[name].result(10)
        self._until(name, 0)

    def cut(self, name: str, partition: int, begin: int) -> None:
        """Deletes the records before an offset, as retention does."""
        place = TopicPartition(name, partition, begin)
        next(iter(self._admin.delete_records([place]).values())).result(10)

    def send(self, name: str, *values: bytes | None, partition: int = 0) -> list[Sent]:
        """Writes values only."""
        return self.send_all([Sent(name, partition, -1, value) for value in values])

    def send_all(self, records: Iterable[Sent]) -> list[Sent]:
        """Writes records; returns them with their offsets, in the same order."""
        with _Writing(Producer(self._settings())) as writing:
            for record in records:
                writing.send(record)
        return writing.sent

    def transaction(self, id: str) -> "Writing":
        """A transaction that is open: `send`, then `commit` or `abort`."""
        producer = Producer({**self._settings(), "transactional.id": id})
        producer.init_transactions(10)
        producer.begin_transaction()
        return Writing(producer)

    @property
    def _admin(self) -> AdminClient:
        if not self._admins:
            self._admins.append(AdminClient(self._settings()))
        return self._admins[0]

    def _settings(self) -> dict[str, str | int | float | bool]:
        return {"bootstrap.servers": self.broker.servers, "log_level": 0, "linger.ms": 0}

    def _until(self, name: str, partitions: int) -> None:
        until = time.monotonic() + 10
        while time.monotonic() < until:
            with suppress(KafkaException):
                found = self._admin.list_topics(timeout=5).topics.get(name)
                leaders = [part for part in found.partitions.values() if part.leader >= 0] if found else []
                if len(leaders) == partitions:
                    return
            time.sleep(0.02)
        raise RuntimeError(f"topic {name} did not come to have {partitions} partitions")


class Writing:
    """Records on their way."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._sent: dict[int, Sent] = {}
        self._count = 0

    @property
    def sent(self) -> list[Sent]:
        """What was written so far, in order, with offsets."""
        return [self._sent[place] for place in sorted(self._sent)]

    def send(self, record: Sent) -> None:
        """Writes a record; its offset is given by the broker."""
        place, self._count = self._count, self._count + 1

        def delivered(error: object, message: Message) -> None:
            assert error is None, error
            offset = message.offset()
            assert offset is not None
            self._sent[place] = record._replace(offset=offset)

        self._producer.produce(
            record.topic,
            record.value,
            record.key,
            record.partition,
            headers=list(record.headers),
            on_delivery=delivered,
        )

    def flush(self) -> None:
        """Waits until all that was sent lies at the broker."""
        assert self._producer.flush(10) == 0

    def commit(self) -> list[Sent]:
        """Ends the transaction; returns its records."""
        self.flush()
        self._producer.commit_transaction(10)
        return self.sent

    def abort(self) -> list[Sent]:
        """Takes the transaction back; returns where its records lie all the same."""
        self.flush()
        self._producer.abort_transaction(10)
        return self.sent


class _Writing(Writing):
    def __enter__(self) -> "_Writing":
        return self

    def __exit__(self, *about: object) -> None:
        self.flush()
