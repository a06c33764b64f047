"""Client settings of Kafka: which of them a user may set, and how they are passed to Spark's connector."""

import re
from collections.abc import Iterable, Mapping

from changeling.model.errors import UsageError, nearest

_COMMITTED = "read_committed"
_OURS = "which records are read is planned here, so that none is lost or read twice"
_BYTES = "records are read as bytes, and the source's `format` decodes them"
_REFUSED = {
    "bootstrap.servers": "the source's `servers` says it",
    "group.id": f"{_OURS}: no consumer group is used",
    "group.instance.id": f"{_OURS}: no consumer group is used",
    "group.protocol": f"{_OURS}: no consumer group is used",
    "auto.offset.reset": f"{_OURS}: the source's `start` says where it begins",
    "enable.auto.commit": f"{_OURS}: nothing is committed to Kafka",
    "auto.commit.interval.ms": f"{_OURS}: nothing is committed to Kafka",
    "key.deserializer": _BYTES,
    "value.deserializer": _BYTES,
    "interceptor.classes": "an interceptor may change or drop records",
    "allow.auto.create.topics": "reading never creates a topic",
}
# After each poll Spark's connector asks twice where the partition begins and ends; at Kafka's 500 records a poll these
# questions cost more than the records do. What a poll left over stays in memory for a while, so not many more.
_DEFAULTS = {"max.poll.records": "2000"}
_TOPIC = re.compile(r"[A-Za-z0-9._*?\[\]!-]{1,249}")


def checked(settings: Mapping[str, str | int | float | bool], source: str) -> dict[str, str]:
    """The settings as Kafka's Java clients take them; raises `UsageError` for one that cannot be set, with the reason.

    Values are never part of a message: they may be secrets.
    """
    for name, value in settings.items():
        # Spark's options are case-insensitive.
        small = name.lower()
        if small.startswith("kafka."):
            raise UsageError(f"source {source!r}: write the Kafka setting {name!r} without 'kafka.' in front")
        if small in _REFUSED:
            raise UsageError(f"source {source!r}: the Kafka setting {name!r} cannot be set: {_REFUSED[small]}")
        if small == "isolation.level" and str(value).lower() != _COMMITTED:
            raise UsageError(
                f"source {source!r}: the Kafka setting {name!r} can only be {_COMMITTED!r}: "
                "records of transactions that are open or were aborted are never read"
            )
    return {name: _text(value) for name, value in settings.items()}


def checked_topics(topics: Iterable[str], source: str) -> tuple[str, ...]:
    """The names and patterns of topics; raises `UsageError` where there are none, or one that no topic can have."""
    found = tuple(topics)
    if not found:
        raise UsageError(f"source {source!r}: name at least one topic")
    for topic in found:
        if not _TOPIC.fullmatch(topic):
            raise UsageError(
                f"source {source!r}: no topic can be called {topic!r}: names have letters, digits, '.', '_' and '-', "
                "patterns also '*' and '?'"
            )
    return found


def unknown(settings: Iterable[str], known: Iterable[str]) -> list[str]:
    """A sentence for each name that Kafka does not know, and would silently ignore."""
    names = frozenset(known)
    return [f"Kafka has no setting {name!r}; {nearest(name, names)}" for name in settings if name not in names]


def connector_options(servers: str, settings: Mapping[str, str], group: str) -> dict[str, str]:
    """The settings as options of Spark's connector."""
    fixed = {
        "bootstrap.servers": servers,
        "isolation.level": _COMMITTED,
        "allow.auto.create.topics": "false",
        "group.id": group,
    }
    return {f"kafka.{name}": value for name, value in {**_DEFAULTS, **settings, **fixed}.items()}


def _text(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
