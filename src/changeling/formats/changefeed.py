"""What the three forms of YDB's changefeeds share: their modes and options, and their topics, whose paths name the table."""

from enum import StrEnum
from typing import NamedTuple

from changeling.formats.options import ReadOptions, WriteOptions
from changeling.formats.time_counts import MILLI
from changeling.model import times
from changeling.model.errors import Rejected, nearest
from changeling.model.table import TableName

CARRIED = (
    *("delete", "before", "after", "keys-only", "composite-key", "position", "commit_time"),
    # A record names no table at all: its full name comes from the topic's path or from the reader's options.
    *("catalog", "schema"),
    *("null", "null-text", "types", "binary"),
)
"""What all forms carry."""
NAMELESS = "the record names no table, and neither does a topic path/to/table/feed; give --table"
UINT64_END = 2**64
"""What the step and the txId of a virtual timestamp are below."""


class Mode(StrEnum):
    """What a changefeed's records contain of the row."""

    KEYS_ONLY = "KEYS_ONLY"
    UPDATES = "UPDATES"
    NEW_IMAGE = "NEW_IMAGE"
    OLD_IMAGE = "OLD_IMAGE"
    NEW_AND_OLD_IMAGES = "NEW_AND_OLD_IMAGES"

    @staticmethod
    def named(name: str | None) -> "Mode | None":
        """The mode of that name in any case, None for none; raises ValueError with the closest known name."""
        if name is None:
            return None
        found = Mode.__members__.get(name.upper())
        if found is None:
            raise ValueError(f"there is no mode {name!r}; {nearest(name.upper(), Mode.__members__)}")
        return found

    @property
    def has_new_image(self) -> bool:
        """Its records show the row after the change."""
        return self in (Mode.NEW_IMAGE, Mode.NEW_AND_OLD_IMAGES)

    @property
    def has_old_image(self) -> bool:
        """Its records show the row before the change."""
        return self in (Mode.OLD_IMAGE, Mode.NEW_AND_OLD_IMAGES)


class ChangefeedRead(ReadOptions, frozen=True, kw_only=True):
    """Options of readers to which the mode of a changefeed says what its records leave open."""

    mode: str | None = None
    """The changefeed's MODE: it distinguishes an empty update from one that shows nothing, and inserts from updates."""

    def __post_init__(self) -> None:
        Mode.named(self.mode)

    def table_of(self, topic: str | None) -> TableName | None:
        """The table of all records, or that of the topic's path."""
        return table_of(topic) if self.table is None else self.table


class ChangefeedWrite(WriteOptions, frozen=True, kw_only=True):
    """Options that writers of all forms of changefeeds have."""

    mode: str | None = None
    """The changefeed's MODE; without one each record shows what its change has."""
    feed: str | None = None
    """The changefeed's name, the last part of the topic's path; without one records keep their topic, and others get `feed`."""

    def __post_init__(self) -> None:
        Mode.named(self.mode)

    @property
    def names_topic(self) -> bool:
        """A feed was named."""
        return self.feed is not None

    def topic_of(self, table: TableName | None) -> str | None:
        """The topic of a table's feed; a catalog without a schema leaves an empty folder between, so that it reads back."""
        if table is None:
            return None
        feed = self.feed or "feed"
        if table.catalog is not None:
            return f"{table.catalog}/{table.schema or ''}/{table.name}/{feed}"
        return "/".join(part for part in (table.schema, table.name, feed) if part is not None)


class KnownTable(NamedTuple):
    """A table, and what the user said of it."""

    name: TableName
    key: tuple[str, ...]
    schema: str | None


def table_of(topic: str | None) -> TableName | None:
    """The table of `path/to/table/feed`: the folder before it is its schema, all before that its catalog."""
    path = (topic or "").removeprefix("/").split("/")[:-1]
    if not path or not path[-1]:
        return None
    schema = path[-2] if len(path) > 1 else None
    return TableName("/".join(path[:-2]) or None, schema or None, path[-1])


def time_of_step(step: int) -> int | None:
    """The coordinator's milliseconds as nanoseconds; None for a step too far off to be a time."""
    try:
        return times.from_units(step, MILLI)
    except Rejected:
        return None
