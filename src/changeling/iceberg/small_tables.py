"""Small tables that any process writes without Spark and without the pipeline's lock, a few rows at a time.

Nobody overwrites what another process wrote meanwhile: a commit on top of other rows than those that were read is refused, and
decided again.
"""

import random
import time
from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa
from pyiceberg.catalog import Catalog as PyIcebergCatalog
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table as IcebergTable

from changeling.iceberg.catalog import NAME, check_place, prepare
from changeling.iceberg.reader import Tables
from changeling.iceberg.table import Table
from changeling.model.errors import ChangelingError

Result = TypeVar("Result")
_ATTEMPTS = 20
_PAUSE = 0.05
_PROPERTIES = {
    # PyIceberg does not write version 3.
    "format-version": "2",
    # It would repeat a refused append on top of rows that nobody has looked at.
    "commit.retry.num-retries": "0",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "50",
}


class SmallTable:
    """One small table of a pipeline; it is created when it is first written."""

    def __init__(self, tables: Tables, table: Table) -> None:
        self._tables, self._table = tables, table

    def rows(self) -> pa.Table:
        """All rows; none where there is no such table yet."""
        return self._tables.rows(self._table).select(self._table.columns.names).cast(self._table.columns)

    def append(self, decide: Callable[[pa.Table], tuple[pa.Table, Result]]) -> Result:
        """Appends the rows that `decide` gives for those that are there, and returns what else it gives.

        Where another process writes at the same time, `decide` is called again with the new rows. Without rows nothing is
        written.
        """
        for attempt in range(_ATTEMPTS):
            stored = self._load()
            current = self._table.columns.empty_table() if stored is None else stored.scan().to_arrow()
            rows, result = decide(current.select(self._table.columns.names).cast(self._table.columns))
            if not rows.num_rows:
                return result
            try:
                (stored or self._create()).append(rows)
                return result
            except CommitFailedException:
                time.sleep(_PAUSE * (attempt + random.random()))
            except ChangelingError:
                raise
            except Exception as error:  # each catalog and store raises its own kinds
                raise self._failed(error) from error
        raise ChangelingError(f"{self._name}: other processes write all the time; try again")

    @property
    def _name(self) -> str:
        return f"{NAME}.{self._tables.namespace}.{self._table.name}"

    def _load(self) -> IcebergTable | None:
        return self._tables.load(self._table.name)

    def _create(self) -> IcebergTable:
        """The table, empty, from this process or another one that creates it at the same time."""
        catalog = self._writable()
        try:
            catalog.create_namespace_if_not_exists(self._tables.namespace)
            return catalog.create_table(
                (self._tables.namespace, self._table.name), self._table.columns, properties=_PROPERTIES
            )
        except Exception as error:
            # Whoever comes second gets an error of the catalog's own kind, and must look at what the first one wrote.
            if self._load() is None:
                raise self._failed(error) from error
            raise CommitFailedException("created meanwhile") from error

    def _writable(self) -> PyIcebergCatalog:
        settings = self._tables.catalog
        if settings.database is not None:
            prepare(settings.database)
            check_place(settings, self._tables.namespace)
        return load_catalog(NAME, **settings.pyiceberg)

    def _failed(self, error: Exception) -> ChangelingError:
        return ChangelingError(f"{self._name} cannot be written: {error}")
