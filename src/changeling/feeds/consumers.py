"""Where the consumers of feeds are: the table `consumers`, written without Spark and without the pipeline's lock."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from changeling.iceberg.reader import Tables
from changeling.iceberg.small_table import SmallTable
from changeling.iceberg.table_definition import TableDefinition

CONSUMERS = TableDefinition(
    "consumers",
    pa.schema(
        [
            ("consumer", pa.string()),
            ("feed", pa.string()),
            ("partition", pa.int32()),
            ("next_offset", pa.int64()),
            ("moved_at", pa.timestamp("us", "UTC")),
        ]
    ),
)
"""`feed` is the id of a feed. Of several rows for one partition the newest holds."""
_MANY_ROWS = 200
"""More rows than this, and at least as many outdated ones as others, are rewritten."""


class Consumers:
    """The places of all consumers of a pipeline."""

    def __init__(self, tables: Tables) -> None:
        self._stored = SmallTable(tables, CONSUMERS)

    def places(self, consumer: str, feed: str) -> dict[int, int]:
        """The next offset that a consumer wants of each partition of a feed; a partition that it never read is missing."""
        rows = _newest(self._stored.rows()).values()
        return {
            row["partition"]: row["next_offset"] for row in rows if (row["consumer"], row["feed"]) == (consumer, feed)
        }

    def move(self, consumer: str, feed: str, places: Mapping[int, int]) -> None:
        """Stores new places."""
        now = datetime.now(UTC)
        self._stored.append(
            [
                {"consumer": consumer, "feed": feed, "partition": partition, "next_offset": offset, "moved_at": now}
                for partition, offset in places.items()
            ]
        )
        rows = self._stored.rows()
        if len(rows) > _MANY_ROWS and len(rows) > 2 * len(_newest(rows)):
            self._stored.rewrite(lambda there: list(_newest(there).values()))


def _newest(rows: Iterable[dict[str, Any]]) -> dict[tuple[str, str, int], dict[str, Any]]:
    ordered = sorted(rows, key=lambda row: row["moved_at"])
    return {(row["consumer"], row["feed"], row["partition"]): row for row in ordered}
