"""The feeds of a pipeline file, with their options checked."""

from string import Formatter
from typing import Literal

import msgspec

from changeling.feeds.feed import Feed
from changeling.feeds.options import DeclaredTopic, new_feed
from changeling.model.errors import UsageError, nearest
from changeling.model.table import TableName
from changeling.pipelines import definition
from changeling.pipelines.definition import FilesTopic, KafkaTopic, setting_texts

_TEMPLATE = ("prefix", "schema", "table", "feed")


def declared_feed(feed: definition.Feed) -> Feed:
    """A feed as the file declares it, not yet on its table; raises `OptionError` or `FormatOptionError` for a wrong option."""
    found = new_feed(
        feed.name,
        TableName.parse(feed.table),
        feed.settings,
        source=feed.source,
        options=setting_texts(feed.options),
        topic=DeclaredTopic(_kind(feed), feed.topic.partitions),
    )
    return msgspec.structs.replace(found, in_file=True)


def check_template(template: str) -> None:
    """Raises `UsageError` where the name of a Kafka topic is no template that can be filled in."""
    try:
        names = [name for _, name, _, _ in Formatter().parse(template) if name is not None]
    except ValueError as error:
        raise UsageError(f"{template!r} is not a template: {error}") from None
    for name in names:
        if name not in _TEMPLATE:
            raise UsageError(f"a topic's name has no part {{{name}}}; {nearest(name, _TEMPLATE)}")


def _kind(feed: definition.Feed) -> Literal["table", "kafka", "files"]:
    if isinstance(feed.topic, KafkaTopic):
        return "kafka"
    return "files" if isinstance(feed.topic, FilesTopic) else "table"
