"""Client settings of Kafka: users write them as for Kafka's Java clients, and librdkafka takes them under its own names."""

import re
from collections.abc import Callable, Mapping

from changeling.feeds.feed import Setting
from changeling.model.errors import UsageError, nearest

_ONCE = "every record is sent exactly once, which depends on it"
_REFUSED = {
    "bootstrap.servers": "`servers` says it",
    "transactional.id": _ONCE,
    "enable.idempotence": _ONCE,
    "acks": _ONCE,
    "max.in.flight.requests.per.connection": _ONCE,
    "isolation.level": _ONCE,
    "retries": _ONCE,
    "key.serializer": "the feed's format encodes the records",
    "value.serializer": "the feed's format encodes the records",
    "partitioner.class": "the feed says which partition a record goes to",
    "interceptor.classes": "an interceptor may change or drop records",
}
_NAMES = {
    "client.id": "client.id",
    "client.dns.lookup": "client.dns.lookup",
    "compression.type": "compression.type",
    "batch.size": "batch.size",
    "linger.ms": "linger.ms",
    "max.request.size": "message.max.bytes",
    "delivery.timeout.ms": "delivery.timeout.ms",
    "request.timeout.ms": "request.timeout.ms",
    "transaction.timeout.ms": "transaction.timeout.ms",
    "metadata.max.age.ms": "metadata.max.age.ms",
    "connections.max.idle.ms": "connections.max.idle.ms",
    "reconnect.backoff.ms": "reconnect.backoff.ms",
    "reconnect.backoff.max.ms": "reconnect.backoff.max.ms",
    "retry.backoff.ms": "retry.backoff.ms",
    "security.protocol": "security.protocol",
    "ssl.cipher.suites": "ssl.cipher.suites",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.key.password": "ssl.key.password",
}
"""Settings with one counterpart in librdkafka, and its name there."""
_JAVA_NAMES = {
    **{ours: java for java, ours in _NAMES.items()},
    "queue.buffering.max.ms": "linger.ms",
    "message.timeout.ms": "delivery.timeout.ms",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.certificate.location": "ssl.keystore.location",
    "ssl.key.location": "ssl.keystore.location",
    "sasl.username": "sasl.jaas.config",
    "sasl.password": "sasl.jaas.config",
}
_CONNECTING = ("security.", "sasl.", "ssl.", "client.id", "client.dns.lookup")
"""What the names of settings begin with that say how to connect."""
_LOGINS = {"PLAIN": "PlainLoginModule", "SCRAM-SHA-256": "ScramLoginModule", "SCRAM-SHA-512": "ScramLoginModule"}
_VALUE = r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"'=]+)"""
_JAAS = re.compile(
    rf"\s*([\w.$-]+)\s+(?i:required|requisite|sufficient|optional)((?:\s+[\w.-]+\s*=\s*{_VALUE})*)\s*;\s*"
)
_OPTION = re.compile(rf"([\w.-]+)\s*=\s*({_VALUE})")


def librdkafka_settings(settings: Mapping[str, Setting], where: str) -> dict[str, str]:
    """The settings under librdkafka's names; raises `UsageError` for those that are unknown or cannot be set, with the reason.

    Values are never part of a message: they may be secrets.
    """
    given = {name: _text(value) for name, value in settings.items()}
    found: dict[str, str] = {}
    for name in given:
        if name in _REFUSED:
            raise UsageError(f"{where}: the Kafka setting {name!r} cannot be set: {_REFUSED[name]}")
        if name.startswith("kafka."):
            raise UsageError(f"{where}: write the Kafka setting {name!r} without 'kafka.' in front")
        if name in _NAMES:
            found[_NAMES[name]] = given[name]
        elif name not in _TRANSLATED:
            raise UsageError(
                f"{where}: there is no Kafka setting {name!r} here; {nearest(name, [*_NAMES, *_TRANSLATED])}"
            )
    for translate in dict.fromkeys(_TRANSLATED[name] for name in given if name in _TRANSLATED):
        try:
            found |= translate(given)
        except ValueError as error:
            raise UsageError(f"{where}: {error}") from None
    return found


def connection_settings(settings: Mapping[str, Setting], where: str) -> dict[str, str]:
    """The settings that a connection needs, under librdkafka's names; raises `UsageError` where it has no counterpart."""
    needed = {name: value for name, value in settings.items() if name.startswith(_CONNECTING)}
    return librdkafka_settings(needed, where)


def java_name(setting: str) -> str:
    """The setting that users know a setting of librdkafka by."""
    return _JAVA_NAMES.get(setting, setting)


def _login(given: Mapping[str, str]) -> dict[str, str]:
    mechanism = given.get("sasl.mechanism", "")
    if mechanism not in _LOGINS:
        raise ValueError(f"the Kafka setting 'sasl.mechanism' can be {', '.join(_LOGINS)}")
    parsed = _JAAS.fullmatch(given.get("sasl.jaas.config", ""))
    options = {} if parsed is None else {name: _unquoted(value) for name, value in _OPTION.findall(parsed[2])}
    module = _LOGINS[mechanism]
    if parsed is None or parsed[1].rpartition(".")[2] != module or not {"username", "password"} <= options.keys():
        raise ValueError(
            f"the Kafka setting 'sasl.jaas.config' must be as {mechanism} has it: ….{module} required "
            'username="…" password="…";'
        )
    return {"sasl.mechanism": mechanism, "sasl.username": options["username"], "sasl.password": options["password"]}


def _truststore(given: Mapping[str, str]) -> dict[str, str]:
    kind = given.get("ssl.truststore.type", "JKS").upper()
    if kind != "PEM":
        raise ValueError(
            f"a trust store of type {kind} cannot be read here: set ssl.truststore.type to PEM, and ssl.truststore.location to "
            "the certificates as PEM (keytool -exportcert -rfc writes them)"
        )
    if "ssl.truststore.password" in given:
        raise ValueError("a trust store of type PEM has no password: leave out ssl.truststore.password")
    return {"ssl.ca.location": given["ssl.truststore.location"]} if "ssl.truststore.location" in given else {}


def _keystore(given: Mapping[str, str]) -> dict[str, str]:
    kind = given.get("ssl.keystore.type", "JKS").upper()
    location = given.get("ssl.keystore.location")
    if kind == "PEM":
        # One file with both, as Kafka's Java clients want it.
        return {} if location is None else {"ssl.certificate.location": location, "ssl.key.location": location}
    if kind != "PKCS12":
        raise ValueError(
            f"a key store of type {kind} cannot be read here: set ssl.keystore.type to PKCS12 or PEM "
            "(keytool -importkeystore -deststoretype PKCS12 converts one)"
        )
    if location is None or "ssl.keystore.password" not in given:
        raise ValueError("a key store of type PKCS12 needs ssl.keystore.location and ssl.keystore.password")
    return {"ssl.keystore.location": location, "ssl.keystore.password": given["ssl.keystore.password"]}


def _identification(given: Mapping[str, str]) -> dict[str, str]:
    name = "ssl.endpoint.identification.algorithm"
    return {name: given[name] or "none"}


_TRANSLATED: dict[str, Callable[[Mapping[str, str]], dict[str, str]]] = {
    "sasl.mechanism": _login,
    "sasl.jaas.config": _login,
    "ssl.truststore.type": _truststore,
    "ssl.truststore.location": _truststore,
    "ssl.truststore.password": _truststore,
    "ssl.keystore.type": _keystore,
    "ssl.keystore.location": _keystore,
    "ssl.keystore.password": _keystore,
    "ssl.endpoint.identification.algorithm": _identification,
}
"""Settings that are translated together with others."""


def _unquoted(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value[0] in "\"'" else value


def _text(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
