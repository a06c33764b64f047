"""A table as the code declares it: its name and columns, and how its files are laid out."""

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True)
class Table:
    """One table."""

    name: str
    columns: pa.Schema
    days: str | None = None
    """The timestamp by whose day it is partitioned: retention drops whole days."""
    sort: tuple[str, ...] = ()
    """What files are sorted by when they are compacted."""


class StoredTables(Protocol):
    """The tables of a pipeline, with Spark or without it."""

    def names(self) -> list[str]:
        """The existing tables."""

    def rows(self, table: Table) -> pa.Table:
        """All rows of a small table."""
