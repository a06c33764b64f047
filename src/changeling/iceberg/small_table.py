"""A small table that is written without Spark and without the pipeline's lock: several processes may do so at once.

PyIceberg writes no format version 3 yet: these tables have version 2.
"""

import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    TableAlreadyExistsError,
    ValidationException,
)
from pyiceberg.table import Table as IcebergTable

from changeling.iceberg.reader import Tables
from changeling.iceberg.table_definition import TableDefinition
from changeling.model.errors import ChangelingError

Result = TypeVar("Result")
_CONFLICTS = (
    CommitFailedException,
    ValidationException,
    NamespaceAlreadyExistsError,
    TableAlreadyExistsError,
)
_PATIENCE = 30.0
"""For how many seconds a write is tried again where others write at the same time."""
_PROPERTIES = {
    "format-version": "2",
    # A refused commit is decided again here: PyIceberg would append the same rows to others that nobody has looked at.
    "commit.retry.num-retries": "0",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
}


class SmallTable:
    """One such table; it is created with its first rows."""

    def __init__(self, tables: Tables, table: TableDefinition) -> None:
        self._tables, self._table = tables, table

    def rows(self) -> list[dict[str, Any]]:
        """All rows, in no order."""
        found: list[dict[str, Any]] = self._tables.rows(self._table).to_pylist()
        return found

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Adds rows."""
        added = pa.Table.from_pylist(list(rows), self._table.columns)
        self._written(lambda table: table.append(added))

    def extend(self, decide: Callable[[list[dict[str, Any]]], tuple[Sequence[Mapping[str, Any]], Result]]) -> Result:
        """Adds the rows that `decide` returns for those that are there; returns what else it returns.

        If others write at the same time, `decide` is called again with their rows as well. Without rows nothing is written.
        """

        def write() -> Result:
            table = self._tables.load(self._table.name)
            rows, result = decide([] if table is None else table.scan().to_arrow().to_pylist())
            if rows:
                (table or self._created()).append(pa.Table.from_pylist(list(rows), self._table.columns))
            return result

        return self._repeated(write)

    def rewrite(self, change: Callable[[list[dict[str, Any]]], Sequence[Mapping[str, Any]]]) -> None:
        """Replaces all rows by what `change` makes of them, and forgets what the table was before.

        If others write at the same time, `change` gets their rows as well.
        """

        def overwrite(table: IcebergTable) -> None:
            there = table.scan().to_arrow()
            made = pa.Table.from_pylist(list(change(there.to_pylist())), self._table.columns)
            table.overwrite(made)
            # Every commit writes their list.
            current = table.current_snapshot()
            others = [one.snapshot_id for one in table.snapshots() if current is None or one != current]
            table.maintenance.expire_snapshots().by_ids(others).commit()

        self._written(overwrite)

    def _written(self, write: Callable[[IcebergTable], Result]) -> Result:
        return self._repeated(lambda: write(self._tables.load(self._table.name) or self._created()))

    def _repeated(self, write: Callable[[], Result]) -> Result:
        """Tries a write again as long as others write at the same time."""
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                return write()
            except ChangelingError:
                raise
            except Exception as error:  # each catalog and store raises its own kinds
                if not _is_conflict(error):
                    raise self._failed(error) from error
                if time.monotonic() > end:
                    raise self._failed(error) from None
            time.sleep(random.uniform(0.02, 0.2))

    def _created(self) -> IcebergTable:
        """The new table; a conflict where another process creates it at the same time."""
        catalog = self._tables.catalog()
        catalog.create_namespace_if_not_exists(self._tables.namespace)
        return catalog.create_table(
            (self._tables.namespace, self._table.name), self._table.columns, properties=_PROPERTIES
        )

    def _failed(self, error: Exception) -> ChangelingError:
        return ChangelingError(f"table {self._tables.namespace}.{self._table.name} cannot be written: {error}")


def _is_conflict(error: Exception) -> bool:
    """Whether others wrote at the same time."""
    if isinstance(error, _CONFLICTS):
        return True
    # Whoever raised one of these has imported it; readers do without.
    raised = sys.modules.get("sqlalchemy.exc")
    return raised is not None and isinstance(error, raised.IntegrityError | raised.OperationalError)
