"""The definitions of all feeds as they will be: changed one after another, then committed together."""

import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa

from changeling.feeds.feed import Feed
from changeling.model.errors import UsageError, nearest
from changeling.model.table import TableName
from changeling.replicas.table_lookup import WantedTable

COLUMNS = pa.schema(
    [
        ("kind", pa.string()),
        ("name", pa.string()),
        ("id", pa.string()),
        ("version", pa.int32()),
        ("definition", pa.string()),
        ("changed_at", pa.timestamp("us", "UTC")),
    ]
)
"""One row a version of a definition: of a feed (`kind` is feed), or of a table that was dropped (table)."""


class DroppedTable(msgspec.Struct, frozen=True):
    """A table that DROP TABLE removed: runs do not make it again."""

    source: str
    table: TableName
    dropped_at: str
    """RFC 3339, in UTC."""


class Draft:
    """All definitions, and the rows that what was changed adds to the table `feeds`."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._feeds: dict[str, Feed] = {}
        self._tables: list[DroppedTable] = []
        self._versions: dict[str, int] = {}
        self._rows: list[dict[str, Any]] = []
        for row in sorted(rows, key=lambda row: int(row["version"])):
            if row["kind"] == "table":
                self._tables.append(msgspec.json.decode(row["definition"], type=DroppedTable))
            else:
                self._feeds[row["name"]] = msgspec.json.decode(row["definition"], type=Feed)
                self._versions[row["name"]] = row["version"]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The changed definitions, as rows of the table."""
        return list(self._rows)

    def feeds(self) -> list[Feed]:
        """All feeds that are not dropped, by name."""
        return [feed for _, feed in sorted(self._feeds.items()) if feed.status != "dropped"]

    def dropped(self) -> list[Feed]:
        """The feeds that are dropped, except those with the name of a later one."""
        return [feed for _, feed in sorted(self._feeds.items()) if feed.status == "dropped"]

    def dropped_tables(self) -> list[DroppedTable]:
        """The tables that are dropped."""
        return list(self._tables)

    def get(self, name: str) -> Feed:
        """A feed by its name; raises `UsageError` with the closest one where there is none."""
        found = next((feed for feed in self.feeds() if feed.name == name), None)
        if found is None:
            raise UsageError(f"there is no feed {name!r}; {nearest(name, [feed.name for feed in self.feeds()])}")
        return found

    def create(self, feed: Feed) -> Feed:
        """Adds a feed; raises `UsageError` where its name is taken, or its table was dropped."""
        for other in self.feeds():
            if other.name.lower() == feed.name.lower():
                case = "" if other.name == feed.name else f", which differs from {feed.name} in case only"
                raise UsageError(
                    f"there is a feed {other.name} of table {other.table} already{case}: choose another name"
                )
        self.check_table(feed)
        return self._put(msgspec.structs.replace(feed, id=uuid.uuid4().hex, created_at=_now()))

    def check_table(self, feed: Feed) -> None:
        """Raises `UsageError` where the table of a feed was dropped."""
        for gone in self._tables:
            if self.is_of(feed, gone.source, gone.table):
                raise UsageError(
                    f"feed {feed.name}: table {gone.table} of source {gone.source} was dropped by DROP TABLE"
                )

    def alter(self, name: str, change: Callable[[Feed], Feed]) -> Feed:
        """Changes a feed; nothing is written where it stays the same."""
        feed = self.get(name)
        changed = change(feed)
        return feed if changed == feed else self._put(changed)

    def disable(self, name: str) -> Feed:
        """Stops a feed for good; what it published stays."""
        return self.alter(name, lambda feed: msgspec.structs.replace(feed, status="disabled", disabled_by="statement"))

    def drop(self, name: str) -> Feed:
        """Drops a feed; its name is free afterwards."""
        return self.alter(name, lambda feed: msgspec.structs.replace(feed, status="dropped"))

    def drop_table(self, source: str, table: TableName) -> list[Feed]:
        """Drops a table with its feeds, which are returned."""
        feeds = [feed for feed in self.feeds() if self.is_of(feed, source, table)]
        dropped = DroppedTable(source, table, _now())
        self._tables.append(dropped)
        self._add("table", table.spelled(), uuid.uuid4().hex, len(self._tables), dropped)
        return [self.drop(feed.name) for feed in feeds]

    @staticmethod
    def is_of(feed: Feed, source: str, table: TableName) -> bool:
        """Whether a feed publishes a table, or will if it is waiting for one of that name."""
        if feed.start is not None:
            return (feed.source, feed.table) == (source, table)
        return feed.source in (None, source) and WantedTable(feed.table).among([(source, table)]) is not None

    def _put(self, feed: Feed) -> Feed:
        self._feeds[feed.name] = feed
        self._versions[feed.name] = self._versions.get(feed.name, 0) + 1
        self._add("feed", feed.name, feed.id, self._versions[feed.name], feed)
        return feed

    def _add(self, kind: str, name: str, number: str, version: int, definition: Feed | DroppedTable) -> None:
        self._rows.append(
            {
                "kind": kind,
                "name": name,
                "id": number,
                "version": version,
                "definition": msgspec.json.encode(definition).decode(),
                "changed_at": datetime.now(UTC),
            }
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
