"""Brings the feeds of a pipeline file into the definitions of all feeds."""

from collections.abc import Mapping
from typing import Any

import msgspec

from changeling.feeds.definitions import Definitions
from changeling.feeds.draft import Draft
from changeling.feeds.feed import Feed
from changeling.feeds.known_tables import KnownTables
from changeling.model.errors import UsageError
from changeling.pipelines.declared_feeds import declared_feed
from changeling.pipelines.lakehouse import tables_of
from changeling.pipelines.loading import LoadedPipeline
from changeling.replicas.table_lookup import WantedTable

_ALTERABLE = ("retention", "barriers_interval", "aws_region")
_NAMES = {
    "format": "FORMAT",
    "mode": "MODE",
    "virtual_timestamps": "VIRTUAL_TIMESTAMPS",
    "schema_changes": "SCHEMA_CHANGES",
    "user_sids": "USER_SIDS",
    "initial_scan": "INITIAL_SCAN",
    "partitions": "the number of partitions",
    "topic": "the type of the topic",
    "options": "options",
}
"""What is fixed for a feed's life, and what users call it."""


def declared_feeds(loaded: LoadedPipeline) -> list[Feed]:
    """The feeds of a pipeline file, not yet on their tables."""
    return [declared_feed(feed) for feed in loaded.definition.feeds]


def definitions_of(loaded: LoadedPipeline) -> Definitions:
    """The definitions of all feeds of a pipeline."""
    return Definitions(tables_of(loaded), loaded.definition.name)


def known_tables(loaded: LoadedPipeline, definitions: Definitions) -> KnownTables:
    """The tables that a pipeline has seen, except those that were dropped."""
    return KnownTables(tables_of(loaded), loaded.definition.name, loaded.mode, definitions.dropped_tables())


def sync_declared(definitions: Definitions, loaded: LoadedPipeline) -> None:
    """Makes the definitions agree with the pipeline file, in one commit.

    New feeds are created, and what may be altered is altered. Feeds that the file no longer has are disabled; if they return,
    they are enabled. Raises `UsageError` where the file changes what is fixed for a feed's life.
    """
    declared = {feed.name: feed for feed in declared_feeds(loaded)}
    if not declared and not any(feed.in_file for feed in definitions.all()):
        return
    known = known_tables(loaded, definitions)

    def decide(draft: Draft) -> None:
        stored = {feed.name: feed for feed in draft.feeds()}
        for name, feed in declared.items():
            if name in stored:
                draft.alter(name, lambda there, feed=feed: _agreeing(there, feed))  # type: ignore[misc]
            else:
                draft.create(known.placed(feed))
        for name, feed in stored.items():
            if feed.in_file and name not in declared:
                draft.alter(name, _lost)

    definitions.change(decide)


def _agreeing(stored: Feed, declared: Feed) -> Feed:
    """The stored feed as the file has it."""
    if not _is_of_table(stored, declared):
        raise _fixed(stored, "the table", _table(stored), _table(declared))
    for member, name in _NAMES.items():
        was, now = getattr(stored, member), getattr(declared, member)
        if was != now:
            raise _fixed(stored, name, was, now)
    changes: dict[str, Any] = {name: getattr(declared, name) for name in _ALTERABLE}
    changes["in_file"] = True
    if stored.disabled_by == "file":
        changes |= {"status": stored.enabled_status, "disabled_by": None}
    return msgspec.structs.replace(stored, **changes)


def _lost(feed: Feed) -> Feed:
    """The file no longer has the feed; one that a statement disabled stays as it is otherwise."""
    if feed.status == "disabled":
        return msgspec.structs.replace(feed, in_file=False)
    return msgspec.structs.replace(feed, in_file=False, status="disabled", disabled_by="file")


def _is_of_table(stored: Feed, declared: Feed) -> bool:
    if stored.source is None or declared.source not in (None, stored.source):
        return (stored.source, stored.table) == (declared.source, declared.table)
    return WantedTable(declared.table).among([(stored.source, stored.table)]) is not None


def _table(feed: Feed) -> str:
    return str(WantedTable(feed.table, feed.source))


def _fixed(feed: Feed, what: str, was: Any, now: Any) -> UsageError:
    return UsageError(
        f"feed {feed.name}: {what} is {_shown(was)}, the pipeline file says {_shown(now)}: that is fixed for a feed's life; "
        "declare another feed, under another name"
    )


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {one}" for name, one in sorted(value.items())) or "none"
    return str(value)
