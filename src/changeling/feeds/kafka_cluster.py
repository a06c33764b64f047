"""The cluster that a feed is copied to: its topics described, made and altered, and what went wrong, in a sentence."""

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from changeling.model.errors import ChangelingError

PATIENCE = 12.0
"""Seconds: long enough for a slow network; with librdkafka's own 60 a wrong address would look like a hang."""
_OFFSET_BEGINNING = -2
_UNANSWERED = "there was no answer in time: check the address, that it runs, and security.protocol"
_LOGIN = "the login was refused: check sasl.mechanism, sasl.jaas.config and the password there"
_REASONS = {
    KafkaError._AUTHENTICATION: _LOGIN,
    KafkaError.SASL_AUTHENTICATION_FAILED: _LOGIN,
    KafkaError.UNSUPPORTED_SASL_MECHANISM: "it does not offer this sasl.mechanism",
    KafkaError._SSL: "the TLS handshake failed: check security.protocol, ssl.truststore.location and that its certificate is "
    "for this address",
    KafkaError._RESOLVE: "there is no such address: `servers` lists hosts and ports, host:9092,other:9092",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "the user may not create, describe, read and write the topic and its progress topic",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "the user may not create topics",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "the user may not use transactional ids that begin with 'changeling.'",
    KafkaError.MSG_SIZE_TOO_LARGE: "a record is larger than the topic allows: raise max.message.bytes of the topic",
    KafkaError._TIMED_OUT: _UNANSWERED,
    KafkaError._TRANSPORT: _UNANSWERED,
    KafkaError._ALL_BROKERS_DOWN: _UNANSWERED,
}
_FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
_LASTING = _REASONS.keys() - {KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}
_PROPERTY = re.compile(r'(?:property "|producer: |client: |consumer: )`?([a-z][a-z0-9._]+)')


class Interrupted(ChangelingError):
    """What was sent may not have arrived; it is worth another try, after progress was read again."""


@dataclass(frozen=True)
class Description:
    """A topic that exists."""

    id: str
    """Distinguishes it from every other topic that ever had its name."""
    partitions: int


class Cluster:
    """A Kafka cluster. `settings` are librdkafka's; connections are opened when something is asked for."""

    def __init__(self, servers: str, settings: Mapping[str, str]) -> None:
        self.settings: dict[str, Any] = {
            **settings,
            "bootstrap.servers": servers,
            # What librdkafka would write to stderr is raised here as well.
            "log_level": 0,
            "error_cb": self._heard,
        }
        self._called = f"Kafka at {servers}"
        self._cause: int | None = None
        """The last lasting reason why connections fail: requests only tell that time is over."""
        self._opened: AdminClient | None = None

    def close(self) -> None:
        """Closes its connections; they are opened again when needed."""
        self._opened = None

    def describe(self, topic: str) -> Description | None:
        """The topic; None where there is none."""
        with self.translated_errors():
            try:
                found = self._admin.describe_topics(TopicCollection([topic]), request_timeout=PATIENCE)[topic].result()
            except KafkaException as error:
                if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    return None
                raise
            return Description(str(found.topic_id), len(found.partitions))

    def create(self, topic: str, partitions: int, configuration: Mapping[str, str]) -> Description:
        """Makes a topic, with as many replicas as the cluster gives by default; one that was made meanwhile is as good."""
        new = NewTopic(topic, partitions, -1, config=dict(configuration))
        with self.translated_errors():
            made: Future[None] = self._admin.create_topics([new], operation_timeout=PATIENCE, request_timeout=PATIENCE)[
                topic
            ]
            try:
                made.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
        until = monotonic() + PATIENCE
        # Other brokers learn of it a little later.
        while (found := self.describe(topic)) is None:
            if monotonic() > until:
                raise Interrupted(f"{self._called}: the topic {topic!r} did not appear after it was made")
            sleep(0.05)
        return found

    def configuration(self, topic: str) -> dict[str, str]:
        """The settings of a topic, the cluster's defaults included."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        with self.translated_errors():
            found = self._admin.describe_configs([resource], request_timeout=PATIENCE)[resource].result()
        return {name: str(entry.value) for name, entry in found.items()}

    def configure(self, topic: str, changes: Mapping[str, str]) -> None:
        """Alters settings of a topic."""
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in changes.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        with self.translated_errors():
            self._admin.incremental_alter_configs([resource], request_timeout=PATIENCE)[resource].result()

    def spans(self, topic: str, partitions: int) -> list[tuple[int, int]]:
        """Where each partition begins and ends, transactions that are open or were aborted included."""
        with self.translated_errors():
            begins = self._offsets(topic, partitions, OffsetSpec.earliest())
            ends = self._offsets(topic, partitions, OffsetSpec.latest())
        return list(zip(begins, ends, strict=True))

    def committed(self, topic: str, partitions: int) -> Iterator[Message]:
        """All records of a topic up to its present end, without those of transactions that were aborted.

        Raises `Interrupted` where a transaction that began before stays open.
        """
        ends = {place: end for place, (begin, end) in enumerate(self.spans(topic, partitions)) if end > begin}
        reader = {"group.id": "changeling", "enable.auto.commit": False, "auto.offset.reset": "error"}
        reader |= {"isolation.level": "read_committed", "enable.partition.eof": True}
        until = monotonic() + PATIENCE
        with self.translated_errors():
            consumer = Consumer({**self.settings, **reader})
            try:
                consumer.assign([TopicPartition(topic, place, _OFFSET_BEGINNING) for place in ends])
                while ends:
                    for message in consumer.consume(1000, 0.5):
                        error = message.error()
                        if error is None:
                            yield message
                        elif error.code() != KafkaError._PARTITION_EOF:
                            raise KafkaException(error)
                        elif (message.offset() or 0) >= ends.get(message.partition() or 0, 0):
                            ends.pop(message.partition() or 0, None)
                    if ends and monotonic() > until:
                        raise Interrupted(f"{self._called}: the end of the topic {topic!r} cannot be read in time")
            finally:
                consumer.close()

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Raises what Kafka reports as `ChangelingError`, and as `Interrupted` where another try may help."""
        try:
            yield
        except KafkaException as raised:
            error: KafkaError = raised.args[0]
            if error.code() in _FENCED:
                raise ChangelingError(
                    f"{self._called}: another process copies to the same topic, and has taken over; nothing was sent twice"
                ) from None
            lasting = error.code() in _LASTING or self._cause is not None
            kind = Interrupted if not lasting and (error.retriable() or error.txn_requires_abort()) else ChangelingError
            raise kind(f"{self._called}: {self._reason(error)}") from None

    @property
    def _admin(self) -> AdminClient:
        if self._opened is None:
            self._cause = None
            self._opened = AdminClient(self.settings)
        return self._opened

    def _offsets(self, topic: str, partitions: int, spec: OffsetSpec) -> Sequence[int]:
        places = [TopicPartition(topic, place) for place in range(partitions)]
        asked = self._admin.list_offsets(
            dict.fromkeys(places, spec), isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=PATIENCE
        )
        return [int(asked[place].result().offset) for place in places]

    def _heard(self, error: KafkaError) -> None:
        if error.code() in _LASTING:
            self._cause = error.code()

    def _reason(self, error: KafkaError) -> str:
        if error.code() == KafkaError._INVALID_ARG:
            # Its text quotes values, which may be secrets.
            named = _PROPERTY.search(error.str())
            return f"the client settings cannot be used{f': check {named[1]}' if named else ''}"
        code = error.code()
        if _REASONS.get(code) == _UNANSWERED and self._cause is not None:
            code = self._cause
        return _REASONS.get(code, f"{error.str()} ({error.name()})")
