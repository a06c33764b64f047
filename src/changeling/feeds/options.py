"""The options of a changefeed, from SQL, the pipeline file or the command line: checked, with every default filled in."""

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from changeling.feeds.feed import DAY, Feed, Setting
from changeling.feeds.option_values import ALIASES, READERS, YDB_NAMES, Value
from changeling.formats import registry
from changeling.formats.format import write_options
from changeling.formats.options import WriteOptions
from changeling.model.errors import UsageError, nearest
from changeling.model.table import TableName
from changeling.model.types import INTEGER_RANGES
from changeling.replicas.shape import Shape

MAX_PARTITIONS = 10_000
_YDB = frozenset(YDB_NAMES.values())
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_ALTERABLE = ("RETENTION_PERIOD", "BARRIERS_INTERVAL", "AWS_REGION")
_OPTIONS_OF_FEEDS = {"mode": "MODE", "virtual_timestamps": "VIRTUAL_TIMESTAMPS", "region": "AWS_REGION"}
"""Options of YDB's formats that a feed has under another name."""


class OptionError(UsageError):
    """An option of a feed is wrong. `option` is the one to look at, None where one is missing.

    `is_about_name`: whatever its value is, it is refused.
    """

    def __init__(self, problem: str, option: str | None = None, *, is_about_name: bool = False) -> None:
        super().__init__(problem)
        self.option, self.is_about_name = option, is_about_name


class FormatOptionError(UsageError):
    """An option of a feed's format is wrong."""


class DeclaredTopic(NamedTuple):
    """Where a feed is published, as it is declared."""

    kind: Literal["table", "kafka", "files"] = "table"
    partitions: int | None = None
    """Its partitions, where it names a number itself."""


_TABLE = DeclaredTopic()


def new_feed(
    name: str,
    table: TableName,
    settings: Mapping[str, Value],
    *,
    source: str | None = None,
    options: Mapping[str, Setting] | None = None,
    topic: DeclaredTopic = _TABLE,
) -> Feed:
    """A feed with checked options; raises `OptionError` that says which one is refused, and why.

    `options` are those of its format, `FormatOptionError` says what is wrong with them.
    """
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"{name!r} cannot be the name of a feed: a letter, then letters, digits and underscores, at most 63 in all"
        )
    found = _read(settings)
    for required in ("FORMAT", "MODE"):
        if required not in found:
            raise OptionError(f"{required} is missing: a feed needs FORMAT and MODE")
    feed = Feed(
        name=name,
        id="",
        source=source,
        table=table,
        format=found["FORMAT"],
        mode=found["MODE"],
        virtual_timestamps=found.get("VIRTUAL_TIMESTAMPS", False),
        barriers_interval=found.get("BARRIERS_INTERVAL"),
        schema_changes=found.get("SCHEMA_CHANGES", False),
        user_sids=found.get("USER_SIDS", False),
        initial_scan=found.get("INITIAL_SCAN", False),
        retention=found.get("RETENTION_PERIOD", None if topic.kind == "files" else DAY),
        partitions=_partitions(found, topic.partitions),
        aws_region=found.get("AWS_REGION"),
        options=dict(options or {}),
        topic=topic.kind,
    )
    _check(feed)
    _check_format_options(feed)
    return feed


def altered(feed: Feed, settings: Mapping[str, Value]) -> Feed:
    """The feed after `SET (…)`; raises `OptionError` for an option that is fixed for a feed's life."""
    for spelled in settings:
        name = spelled.upper()
        if name in READERS and name not in _ALTERABLE:
            raise OptionError(
                f"{name} is fixed for a feed's life: add another feed; {', '.join(_ALTERABLE)} can be set",
                spelled,
                is_about_name=True,
            )
    found = _read(settings)
    changed = msgspec.structs.replace(
        feed,
        retention=found.get("RETENTION_PERIOD", feed.retention),
        barriers_interval=found.get("BARRIERS_INTERVAL", feed.barriers_interval),
        aws_region=found.get("AWS_REGION", feed.aws_region),
    )
    _check(changed)
    return changed


def check_table(feed: Feed, shape: Shape, mode: str, *, behind: bool = False) -> None:
    """Raises `UsageError` where a table cannot have the feed.

    `mode` is that of the table's rule; `behind`: its replica missed changes, so that it is no base.
    """
    refused = None
    key = shape.key_columns
    if mode in ("append", "typed"):
        refused = "has the mode append, and therefore no rows: feeds need the mode merge or history"
    elif not key:
        refused = "has no key: its changes cannot be sharded by row; declare one under `tables`"
    elif behind:
        refused = "has a replica that missed changes: run `changeling replica --rebuild` for it first"
    elif len(key) > 1 and "composite-key" not in registry.get(feed.format).carries:
        refused = f"has a key of {len(key)} columns: records of {feed.format} have a key of one"
    elif feed.format == "ydb-dynamodb" and len(key) > 2:
        refused = f"has a key of {len(key)} columns: a document table (DynamoDB) has one or two"
    elif feed.format in _YDB and feed.partitions > 1 and key[0].kind.kind not in INTEGER_RANGES:
        refused = (
            f"has the key column {key[0].source_name!r} of type {key[0].type} first: in YDB's formats, "
            f"TOPIC_MIN_ACTIVE_PARTITIONS = {feed.partitions} needs an integer there"
        )
    if refused is not None:
        raise UsageError(f"feed {feed.name}: table {feed.table} {refused}")


def _read(settings: Mapping[str, Value]) -> dict[str, Any]:
    """The values of options by their names in upper case, aliases resolved."""
    found: dict[str, Any] = {}
    given: dict[str, str] = {}
    for spelled, value in settings.items():
        name = spelled.upper()
        if name not in READERS and name not in ALIASES:
            raise OptionError(
                f"there is no option {spelled!r}; {nearest(name, [*READERS, *ALIASES])}", spelled, is_about_name=True
            )
        known = ALIASES.get(name, name)
        if known in given:
            other = given[known]
            raise OptionError(
                f"{name} is given twice" if other == name else f"{other} and {name} are the same option: give one",
                spelled,
                is_about_name=True,
            )
        given[known] = name
        try:
            found[known] = READERS[known](value)
        except ValueError as error:
            raise OptionError(f"{name}: {error}", spelled) from None
    return found


def _partitions(found: Mapping[str, Any], declared: int | None) -> int:
    least: int = found.get("TOPIC_MIN_ACTIVE_PARTITIONS", declared or 1)
    if declared is not None and declared != least:
        raise OptionError(
            f"TOPIC_MIN_ACTIVE_PARTITIONS is {least}, but the topic has {declared} partitions: give one of them",
            "TOPIC_MIN_ACTIVE_PARTITIONS",
        )
    if least > MAX_PARTITIONS:
        raise OptionError(
            f"{least:,} partitions are too many: at most {MAX_PARTITIONS:,}", "TOPIC_MIN_ACTIVE_PARTITIONS"
        )
    most = found.get("TOPIC_MAX_ACTIVE_PARTITIONS", least)
    if most < least:
        raise OptionError(
            f"TOPIC_MAX_ACTIVE_PARTITIONS is {most}, below the {least} partitions of the topic",
            "TOPIC_MAX_ACTIVE_PARTITIONS",
        )
    return least


def _check(feed: Feed) -> None:
    """Which options go together."""
    modes = registry.get(feed.format).feed_modes
    if feed.mode not in modes:
        raise OptionError(f"MODE = '{feed.mode}': records of {feed.format} need {' or '.join(modes)}", "MODE")
    of_json = {
        "VIRTUAL_TIMESTAMPS": feed.virtual_timestamps,
        "BARRIERS_INTERVAL": feed.barriers_interval is not None,
        "SCHEMA_CHANGES": feed.schema_changes,
    }
    for name, asked in of_json.items():
        if asked and feed.format != "ydb-json":
            raise OptionError(f"{name}: records of {feed.format} have no place for it; FORMAT = 'JSON' has", name)
    if feed.user_sids and feed.format not in _YDB:
        raise OptionError(f"USER_SIDS: records of {feed.format} have no place for it; YDB's formats have", "USER_SIDS")
    if feed.aws_region is not None and feed.format != "ydb-dynamodb":
        problem = f"AWS_REGION: records of {feed.format} have no place for it; FORMAT = 'DYNAMODB_STREAMS_JSON' has"
        raise OptionError(problem, "AWS_REGION")


def _check_format_options(feed: Feed) -> None:
    form = registry.get(feed.format)
    shared = {field.name for field in msgspec.structs.fields(WriteOptions)}
    for name in feed.options:
        if feed.format in _YDB and name in _OPTIONS_OF_FEEDS:
            raise FormatOptionError(f"{name} is not an option of the format here: write {_OPTIONS_OF_FEEDS[name]}")
        if name in shared or (feed.format in _YDB and name == "feed"):
            raise FormatOptionError(f"{name} is not an option of feeds: it follows from the topic")
    try:
        form.writer(write_options(form, feed.options))
    except UsageError as error:
        raise FormatOptionError(str(error)) from None
    if form.name.startswith("arcion-"):
        _check_arcion(feed)


def _check_arcion(feed: Feed) -> None:
    wanted = [name for name in ("before_image", "after_image") if feed.options.get(name) == "ALL"]
    if wanted and feed.mode != "NEW_AND_OLD_IMAGES":
        raise FormatOptionError(f"{wanted[0]}: ALL needs MODE = 'NEW_AND_OLD_IMAGES', not '{feed.mode}'")
    if feed.options.get("mode") in ("snapshot", "full") and not feed.initial_scan:
        raise FormatOptionError(
            f"mode: {feed.options['mode']} begins with the rows of the table: it needs INITIAL_SCAN = TRUE"
        )
