"""The tables that a pipeline has seen, without Spark: which of them a feed publishes, and from which point on."""

import functools
from collections.abc import Callable, Iterable

import msgspec
from pyiceberg.expressions import GreaterThanOrEqual

from changeling.feeds.draft import DroppedTable
from changeling.feeds.feed import Feed
from changeling.feeds.options import check_table
from changeling.iceberg.reader import Tables
from changeling.log import log_tables
from changeling.model.errors import UsageError
from changeling.model.table import TableName
from changeling.replicas.replica_reader import Replica, replicas
from changeling.replicas.shape import Shape
from changeling.replicas.table_lookup import WantedTable

Mode = Callable[[str, TableName], str]
"""What the replica of a table of a source contains, by the pipeline's rules: `merge`, `history`, `append` or `typed`."""


class KnownTables:
    """The tables with a replica or a registered schema that are not dropped, as they are when they are first asked for."""

    def __init__(self, tables: Tables, pipeline: str, mode: Mode, dropped: Iterable[DroppedTable] = ()) -> None:
        self._tables, self._pipeline, self._mode = tables, pipeline, mode
        self._dropped = {(one.source, one.table) for one in dropped}

    def find(self, wanted: WantedTable) -> tuple[str, TableName]:
        """The table that is meant, and its source; raises `UsageError` where there is none, or where several fit the name."""
        found = wanted.among(self._names)
        if found is None:
            hint = wanted.nearest(table for _, table in self._names)
            raise UsageError(f"there is no table {wanted}; {hint}")
        return found

    def sources(self) -> set[str]:
        """The sources of these tables."""
        return {source for source, _ in self._names}

    def placed(self, feed: Feed) -> Feed:
        """The feed on its table, from the last point on; pending where the table is not known yet.

        Raises `UsageError` where several tables fit the name, or where the table cannot have the feed.
        """
        found = WantedTable(feed.table, feed.source).among(self._names)
        if found is None:
            return msgspec.structs.replace(feed, status="pending", start=None)
        source, table = found
        named = msgspec.structs.replace(feed, source=source, table=table)
        mode, replica = self._mode(source, table), self._replicas.get(found)
        if mode in ("append", "typed"):
            check_table(named, Shape(()), mode)
        if replica is None:
            return msgspec.structs.replace(named, status="pending", start=None)
        check_table(named, replica.shape, mode, behind=replica.behind)
        return msgspec.structs.replace(named, status="enabled", start=self._last_point)

    @functools.cached_property
    def _replicas(self) -> dict[tuple[str, TableName], Replica]:
        found = (one for one in replicas(self._tables, self._pipeline) if one.identity.kind == "rows")
        return {(one.identity.source, one.identity.table): one for one in found}

    @functools.cached_property
    def _names(self) -> list[tuple[str, TableName]]:
        registered = self._tables.rows(log_tables.SCHEMAS, columns=("source", "table")).to_pylist()
        names = {(row["source"], TableName(**row["table"])) for row in registered} - self._replicas.keys()
        # A rule may name a table by less than its whole name: its schema is registered under that.
        ruled = {
            (source, table)
            for source, table in names
            for own, known in self._replicas
            if own == source and table.fits(known)
        }
        return sorted({*self._replicas, *(names - ruled)} - self._dropped, key=str)

    @functools.cached_property
    def _last_point(self) -> int:
        """A replica may be one point ahead of the table of points, so the last one is at most that far behind."""
        near = max((one.state.point for one in self._replicas.values()), default=0) - 1
        newest = GreaterThanOrEqual("point", near)  # type: ignore[call-arg, arg-type]
        points = self._tables.rows(log_tables.POINTS, newest, ("point",)).column("point").to_pylist()
        return max(points, default=0)
