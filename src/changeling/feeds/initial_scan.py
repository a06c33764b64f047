"""The rows of an initial scan, in buckets of their keys: each is published once, by the scan or before its first change."""

from collections.abc import Mapping

from changeling.feeds.row_values import Row, digest
from changeling.feeds.topic import ScanState

BUCKET_ROWS = 50_000
"""About how many rows are published at once."""


class ScannedRows:
    """The rows at the start of a feed, and which of them changed since."""

    def __init__(self, rows: Mapping[str, Row], touched: set[str], partitions: int) -> None:
        self.rows, self._touched, self._partitions = rows, touched, partitions

    def buckets(self) -> int:
        """Into how many buckets the rows are divided."""
        return max(1, -(-len(self.rows) // BUCKET_ROWS))

    def bucket(self, number: int, buckets: int) -> dict[str, Row]:
        """The rows of one bucket that did not change since the start."""
        return {
            key: row
            for key, row in self.rows.items()
            if key not in self._touched and self._number(key) % buckets == number
        }

    def touch(self, key: str, state: ScanState) -> bool:
        """Notes that a row changed; returns whether it did so for the first time, and before the scan reached it."""
        if key in self._touched:
            return False
        self._touched.add(key)
        return not state.buckets or self._number(key) % state.buckets >= state.next

    def _number(self, key: str) -> int:
        # Not what the partition is found by: every bucket has rows of all partitions.
        return digest(key) // self._partitions
