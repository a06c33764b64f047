"""A table as the code declares it: its name and columns, and how its files are laid out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from changeling.iceberg.conditions import EVERYTHING, Condition


@dataclass(frozen=True)
class TableDefinition:
    """The definition of one table."""

    name: str
    columns: pa.Schema
    partition_by_day_of: str | None = None
    """The timestamp by whose day it is partitioned: retention drops whole days."""
    sort: tuple[str, ...] = ()
    """What rows are sorted by, within the row groups of a new file and in compacted files."""
    without_bounds: frozenset[str] = frozenset()
    """Columns with long values that nobody looks up: files keep no bounds of them."""


class StoredTables(Protocol):
    """The tables of a pipeline, with Spark or without it."""

    def names(self) -> list[str]:
        """The existing tables."""

    def rows(self, table: TableDefinition, where: Condition = EVERYTHING) -> pa.Table:
        """The rows of a small table, or those that meet a condition."""

    def summaries(self, table: TableDefinition) -> Iterator[Mapping[str, Any]]:
        """The summaries of a table's snapshots from the newest back, as far as they are not expired."""
