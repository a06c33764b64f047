"""The cluster that a feed is copied to: its topics described, made and altered, and what went wrong, in a sentence."""

import re
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any, TypeVar

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

from changeling.feeds.kafka_settings import java_name
from changeling.model.errors import ChangelingError

Answer = TypeVar("Answer")
PATIENCE = 12.0
"""Seconds: long enough for a slow network; with librdkafka's own 60 a wrong address would look like a hang."""
_FETCHED = 1000
"""Records that are taken from librdkafka at once."""
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
_PASSING = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION,
}
"""Answers that are other ones a little later; where they come from requests of administration, librdkafka does not say so."""
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
        """The last lasting reason why connections fail: requests report only a timeout."""
        self._opened: AdminClient | None = None

    def close(self) -> None:
        """Closes its connections; they are opened again when needed."""
        self._opened = None

    def describe(self, topic: str) -> Description | None:
        """The topic; None where there is none."""
        with self.translated_errors():
            try:
                asked = self._admin.describe_topics(TopicCollection([topic]), request_timeout=PATIENCE)
                found = self._answer(asked[topic])
            except KafkaException as error:
                if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    return None
                raise
            return Description(str(found.topic_id), len(found.partitions))

    def topics(self) -> dict[str, int]:
        """The names of all topics that the user may see, sorted, and how many partitions each has."""
        with self.translated_errors():
            # Connections that fail are noticed while an answer is waited for, which listing topics does not do.
            self._answer(self._admin.describe_cluster(request_timeout=PATIENCE))
            found = self._admin.list_topics(timeout=PATIENCE).topics
        return {name: len(topic.partitions) for name, topic in sorted(found.items())}

    def first_times(self, places: Mapping[tuple[str, int], int]) -> list[int]:
        """The times, in milliseconds since 1970, of the first committed records from an offset on, of each partition that has one."""
        reader = {"group.id": "changeling", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        reader |= {"isolation.level": "read_committed", "enable.partition.eof": True, "fetch.wait.max.ms": 10}
        found, waiting, until = [], set(places), monotonic() + PATIENCE
        with self.translated_errors():
            consumer = Consumer({**self.settings, **reader})
            try:
                consumer.assign([TopicPartition(topic, place, offset) for (topic, place), offset in places.items()])
                while waiting and monotonic() < until:
                    message = consumer.poll(0.2)
                    if message is None:
                        continue
                    error, place = message.error(), (message.topic() or "", message.partition() or 0)
                    if error is None and place in waiting:
                        found.append(message.timestamp()[1])
                    elif error is not None and error.code() != KafkaError._PARTITION_EOF:
                        raise KafkaException(error)
                    waiting.discard(place)
            finally:
                consumer.close()
        return found

    def create(self, topic: str, partitions: int, configuration: Mapping[str, str]) -> Description:
        """Makes a topic, with as many replicas as the cluster gives by default; an existing topic is accepted."""
        new = NewTopic(topic, partitions, -1, config=dict(configuration))
        with self.translated_errors():
            asked = self._admin.create_topics([new], operation_timeout=PATIENCE, request_timeout=PATIENCE)
            try:
                self._answer(asked[topic])
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
        until = monotonic() + PATIENCE
        while True:
            # Partitions get their leaders a little later.
            try:
                found = self.describe(topic)
                if found is not None:
                    self.spans(topic, found.partitions)
                    return found
            except Interrupted:
                if monotonic() > until:
                    raise
            if monotonic() > until:
                raise Interrupted(f"{self._called}: the topic {topic!r} did not appear after it was made")
            sleep(0.02)

    def configuration(self, topic: str) -> dict[str, str]:
        """The settings of a topic, the cluster's defaults included."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        with self.translated_errors():
            found = self._answer(self._admin.describe_configs([resource], request_timeout=PATIENCE)[resource])
        return {name: str(entry.value) for name, entry in found.items()}

    def configure(self, topic: str, changes: Mapping[str, str]) -> None:
        """Alters settings of a topic."""
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in changes.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        with self.translated_errors():
            self._answer(self._admin.incremental_alter_configs([resource], request_timeout=PATIENCE)[resource])

    def spans(self, topic: str, partitions: int, *, committed: bool = False) -> list[tuple[int, int]]:
        """Where each partition begins and ends; open transactions are part of it, unless only what is committed is asked for."""
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        places = [TopicPartition(topic, place) for place in range(partitions)]
        with self.translated_errors():
            begins, ends = (
                self._admin.list_offsets(dict.fromkeys(places, spec), isolation_level=level, request_timeout=PATIENCE)
                for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
            )
            return [(self._answer(begins[place]).offset, self._answer(ends[place]).offset) for place in places]

    def committed(self, topic: str, partitions: int) -> Iterator[Message]:
        """The records of a topic up to the first transaction that is open now, without those that were aborted."""
        spans = self.spans(topic, partitions, committed=True)
        return self.records(topic, {place: span for place, span in enumerate(spans) if span[0] < span[1]})

    def records(self, topic: str, spans: Mapping[int, tuple[int, int]]) -> Iterator[Message]:
        """The records of committed transactions from the first offset up to, not including, the second one of each partition."""
        ends = {place: end for place, (_, end) in spans.items()}
        reader = {"group.id": "changeling", "enable.auto.commit": False, "auto.offset.reset": "error"}
        # At the end of a partition the broker would wait for more before it reports the end.
        reader |= {"isolation.level": "read_committed", "enable.partition.eof": True, "fetch.wait.max.ms": 10}
        until = monotonic() + PATIENCE
        with self.translated_errors():
            consumer = Consumer({**self.settings, **reader})
            try:
                consumer.assign([TopicPartition(topic, place, spans[place][0]) for place in ends])
                while ends:
                    found = consumer.consume(_FETCHED, 0.2)
                    if found:
                        until = monotonic() + PATIENCE
                    elif monotonic() > until:
                        raise Interrupted(f"{self._called}: the end of the topic {topic!r} cannot be read in time")
                    for message in found:
                        error, place, offset = message.error(), message.partition() or 0, message.offset() or 0
                        if error is not None and error.code() != KafkaError._PARTITION_EOF:
                            raise KafkaException(error)
                        end = ends.get(place, 0)
                        if error is None and offset < end:
                            yield message
                        # The last offsets of a span may have no record: a marker of a transaction, an aborted record.
                        if offset >= end - (error is None):
                            ends.pop(place, None)
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
            passing = error.code() in _PASSING or error.retriable() or error.txn_requires_abort()
            lasting = error.code() in _LASTING or self._cause is not None
            kind = Interrupted if passing and not lasting else ChangelingError
            raise kind(f"{self._called}: {self._reason(error)}") from None

    @property
    def _admin(self) -> AdminClient:
        if self._opened is None:
            self._cause = None
            self._opened = AdminClient(self.settings)
        return self._opened

    def _answer(self, asked: Future[Answer]) -> Answer:
        while not asked.done():
            self._admin.poll(0.02)
            if self._cause is not None:
                raise KafkaException(KafkaError(self._cause))
        return asked.result()

    def _heard(self, error: KafkaError) -> None:
        if error.code() in _LASTING:
            self._cause = error.code()

    def _reason(self, error: KafkaError) -> str:
        if error.code() == KafkaError._INVALID_ARG:
            # Only its text says which setting it is about; it also quotes values, which may be secrets.
            named = _PROPERTY.search(error.str())
            return f"the client settings cannot be used{f': check {java_name(named[1])}' if named else ''}"
        code = error.code()
        if _REASONS.get(code) == _UNANSWERED and self._cause is not None:
            code = self._cause
        return _REASONS.get(code, f"{error.str()} ({error.name()})")
