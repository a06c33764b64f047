"""The definitions of a pipeline's feeds: the table `lake.<pipeline>.feeds`, read and written without Spark and without its lock."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from changeling.feeds.draft import COLUMNS, Draft, DroppedTable
from changeling.feeds.feed import Feed
from changeling.iceberg.reader import Tables
from changeling.iceberg.small_table import SmallTable
from changeling.iceberg.table_definition import TableDefinition
from changeling.model.table import TableName

FEEDS = TableDefinition("feeds", COLUMNS)
Result = TypeVar("Result")


class Definitions:
    """All feeds of a pipeline. Each call rereads them: other processes may change them at any time."""

    def __init__(self, tables: Tables, pipeline: str) -> None:
        self._table = SmallTable(tables.in_namespace(pipeline), FEEDS)

    def all(self) -> list[Feed]:
        """The feeds that are not dropped, by name."""
        return self.current().feeds()

    def dropped(self) -> list[Feed]:
        """The feeds that were dropped, except those with the name of a later one: their topics are to be removed."""
        return self.current().dropped()

    def dropped_tables(self) -> list[DroppedTable]:
        """The tables that were dropped: their replicas are to be removed, and not to be made again."""
        return self.current().dropped_tables()

    def get(self, name: str) -> Feed:
        """A feed by its name; raises `UsageError` with the closest one where there is none."""
        return self.current().get(name)

    def create(self, feed: Feed) -> Feed:
        """Stores a new feed, and returns it with its id; raises `UsageError` where its name is taken."""
        return self.change(lambda draft: draft.create(feed))

    def alter(self, name: str, change: Callable[[Feed], Feed]) -> Feed:
        """Stores a changed feed. `change` is called again where another process changes it at the same time."""
        return self.change(lambda draft: draft.alter(name, change))

    def drop(self, name: str) -> Feed:
        """Drops a feed."""
        return self.change(lambda draft: draft.drop(name))

    def activate(self, name: str, source: str, table: TableName, start: int) -> Feed:
        """A pending feed publishes a table, which has been found, from behind a point on; one that is not pending stays as it is."""

        def activated(feed: Feed) -> Feed:
            if feed.status != "pending":
                return feed
            return msgspec.structs.replace(feed, source=source, table=table, start=start, status="enabled")

        return self.alter(name, activated)

    def change(self, decide: Callable[[Draft], Result]) -> Result:
        """Several changes in one commit: all or none. `decide` is called again where another process writes at the same time."""

        def decided(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], Result]:
            draft = Draft(rows)
            result = decide(draft)
            return draft.rows, result

        return self._table.extend(decided)

    def current(self) -> Draft:
        """All definitions as they are now, read once for several questions."""
        return Draft(self._table.rows())
