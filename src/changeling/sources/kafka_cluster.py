"""Queries the topics of a Kafka cluster with the Java client in Spark's JVM: the same settings serve Changeling and Spark."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from changeling.model.errors import ChangelingError
from changeling.sources.kafka_plan import Span, Topic
from changeling.spark.errors import causes, is_instance
from changeling.spark.gateway import JavaNames

_API_SECONDS = 12
# Long enough for a slow network; with Kafka's own 60 s a wrong address would look like a hang.
_PATIENCE = {"default.api.timeout.ms": str(_API_SECONDS * 1000), "request.timeout.ms": "8000"}
_TRIES = 3
_KAFKA = "org.apache.kafka.common.errors"
_UNANSWERED = "there was no answer in time: check the address, that it runs, and security.protocol"
# Messages of Java exceptions may quote settings, and settings contain secrets: only their classes are reported.
_REASONS = {
    f"{_KAFKA}.SaslAuthenticationException": "the login was refused: check sasl.mechanism, sasl.jaas.config and the password there",
    f"{_KAFKA}.UnsupportedSaslMechanismException": "it does not offer this sasl.mechanism",
    f"{_KAFKA}.SslAuthenticationException": "the TLS handshake failed: check security.protocol, ssl.truststore.location and "
    "that its certificate is for this address",
    f"{_KAFKA}.TopicAuthorizationException": "the user may not see or read these topics",
    f"{_KAFKA}.ClusterAuthorizationException": "the user may not see the topics of this cluster",
    "java.nio.file.NoSuchFileException": "a file that the settings name does not exist: check ssl.truststore.location and ssl.keystore.location",
    "java.io.FileNotFoundException": "a file that the settings name does not exist: check ssl.truststore.location and ssl.keystore.location",
    "java.security.UnrecoverableKeyException": "a key store cannot be opened: check ssl.truststore.password and ssl.keystore.password",
    "javax.security.auth.login.LoginException": "the settings do not form a login: check sasl.jaas.config",
    f"{_KAFKA}.TimeoutException": _UNANSWERED,
    "java.util.concurrent.TimeoutException": _UNANSWERED,
}
_UNKNOWN_TOPIC = f"{_KAFKA}.UnknownTopicOrPartitionException"


class Cluster:
    """The cluster of a source. A connection is opened for each query, and closed after it."""

    def __init__(self, spark: SparkSession, source: str, servers: str, settings: Mapping[str, str]) -> None:
        jvm = JavaNames.of(spark.sparkContext)
        self._called = f"source {source!r}: Kafka at {servers}"
        self._servers = servers
        self._settings = dict(settings)
        self._kafka = jvm.org.apache.kafka
        self._java = jvm.java
        log4j = jvm.org.apache.logging.log4j
        # What the clients log as errors, such as a wrong password, is raised here as well, and reported once.
        log4j.core.config.Configurator.setLevel("org.apache.kafka", log4j.Level.OFF)

    def setting_names(self) -> list[str]:
        """The names of all settings that Kafka's clients know."""
        clients = self._kafka.clients
        known = (clients.consumer.ConsumerConfig.configNames(), clients.admin.AdminClientConfig.configNames())
        return [name for names in known for name in self._texts(names)]

    def topics(self, wanted: Callable[[str], bool]) -> dict[str, Topic]:
        """The wanted topics as they are now: where partitions begin, and where their committed records end.

        Internal topics are excluded. Raises `ChangelingError` where the cluster cannot be queried.
        """
        with self._translated_errors(), self._admin() as admin:
            for _ in range(_TRIES):
                names = [name for name in self._texts(admin.listTopics().names().get()) if wanted(name)]
                try:
                    return self._describe(admin, names) if names else {}
                except Py4JJavaError as error:
                    # One of them was deleted since it was listed.
                    if not any(is_instance(cause, _UNKNOWN_TOPIC) for cause in causes(error)):
                        raise
        raise ChangelingError(f"{self._called}: topics are created and deleted too quickly to be listed; try again")

    def _describe(self, admin: Any, names: Iterable[str]) -> dict[str, Topic]:
        described = admin.describeTopics(self._list(names)).allTopicNames().get()
        kind = self._kafka.common.TopicPartition
        places = {
            (name, partition): kind(name, partition)
            for name in names
            for partition in range(described.get(name).partitions().size())
        }
        specs = self._kafka.clients.admin.OffsetSpec
        begins = self._offsets(admin, places.values(), specs.earliest())
        ends = self._offsets(admin, places.values(), specs.latest())
        topics = {name: Topic(self._id(described.get(name).topicId()), {}) for name in names}
        for (name, partition), begin, end in zip(places, begins, ends, strict=True):
            # Records may be deleted up to a point inside a transaction that is still open.
            topics[name].partitions[partition] = Span(begin, max(begin, end))
        return topics

    def _offsets(self, admin: Any, places: Iterable[Any], spec: Any) -> list[int]:
        asked = self._java.util.HashMap()
        for place in places:
            asked.put(place, spec)
        committed = self._kafka.common.IsolationLevel.READ_COMMITTED
        options = self._kafka.clients.admin.ListOffsetsOptions(committed)
        found = admin.listOffsets(asked, options).all().get()
        return [found.get(place).offset() for place in places]

    def _id(self, id: Any) -> str | None:
        return None if id.equals(self._kafka.common.Uuid.ZERO_UUID) else str(id.toString())

    def _texts(self, texts: Any) -> list[str]:
        """Texts of a Java collection in one call: names of topics and settings have no commas."""
        joined: str = self._java.lang.String.join(",", texts)
        return joined.split(",") if joined else []

    def _list(self, texts: Iterable[str]) -> Any:
        joined = self._java.util.ArrayList()
        for text in texts:
            joined.add(text)
        return joined

    @contextmanager
    def _admin(self) -> Iterator[Any]:
        patience = {} if _PATIENCE.keys() & self._settings.keys() else _PATIENCE
        given = self._java.util.HashMap()
        for name, value in {**patience, **self._settings, "bootstrap.servers": self._servers}.items():
            given.put(name, value)
        admin = self._kafka.clients.admin.AdminClient.create(given)
        try:
            yield admin
        finally:
            admin.close(self._java.time.Duration.ZERO)

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except (Py4JJavaError, CapturedException) as error:
            raise ChangelingError(f"{self._called}: {self._reason(causes(error))}") from None

    def _reason(self, thrown: Sequence[Any]) -> str:
        for kind, reason in _REASONS.items():
            if any(is_instance(cause, kind) for cause in thrown):
                return reason
        # A setting that cannot be used is a ConfigException, whose message alone says which one.
        messages = " ".join(str(cause.getMessage()) for cause in thrown)
        if "bootstrap" in messages:
            return "there is no such address: `servers` lists hosts and ports, host:9092,other:9092"
        named = [
            name for name in self._settings if name in messages or ("JAAS" in messages and name == "sasl.jaas.config")
        ]
        if named:
            return f"the client settings cannot be used: check {', '.join(named)}"
        return f"it cannot be queried ({thrown[-1].getClass().getSimpleName()})"
