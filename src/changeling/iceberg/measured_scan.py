"""Reads tables in this process as long as they are small: what is to be read is measured before it is."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyiceberg.expressions.visitors import bind
from pyiceberg.io.pyarrow import ArrowScan, expression_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask
from pyiceberg.table import Table as IcebergTable

from changeling.iceberg.conditions import EVERYTHING, Condition, all_of, is_set
from changeling.iceberg.parquet_files import filesystem

MAX_BYTES = 256 * 1024 * 1024
"""What is read in this process: uncompressed, and only the columns that are needed."""
MAX_FILES = 1_000
_OPENED_AT_ONCE = 8


class NeedsSpark(Exception):
    """Why something is not read in this process."""


class Budget:
    """Counts what is read in this process for one answer."""

    def __init__(self) -> None:
        self._taken = 0

    def take(self, size: int) -> None:
        """Counts bytes that are to be read; raises `NeedsSpark` where they become too many."""
        self._taken += size
        if self._taken > MAX_BYTES:
            raise NeedsSpark(f"{self._taken / 1e6:,.1f} MB have to be read")


class BoundedReads(Protocol):
    """A table that is read in this process up to a size limit; beyond it, `NeedsSpark` is raised."""

    def rows(self, where: Condition, columns: Sequence[str]) -> pa.Table:
        """Some columns of the rows that meet a condition."""

    def first(self, where: Condition, column: str) -> pa.Table:
        """One row that meets a condition and has a value in a column, with that column alone; none where there is none."""

    def matching(self, rows: pa.Table, where: Condition) -> pa.Table:
        """Filters rows of the table by a condition."""


@dataclass(frozen=True)
class MeasuredTable:
    """A table that is read within a budget."""

    table: IcebergTable
    budget: Budget

    def rows(
        self, where: Condition = EVERYTHING, columns: Sequence[str] = ("*",), snapshot: int | None = None
    ) -> pa.Table:
        """The rows of a snapshot, or the current ones, that meet a condition; raises `NeedsSpark` where that is too much."""
        scan = self.table.scan(row_filter=where, selected_fields=tuple(columns), snapshot_id=snapshot)
        tasks = list(scan.plan_files())
        if len(tasks) > MAX_FILES:
            raise NeedsSpark(f"{len(tasks):,} files have to be read")
        self.budget.take(self._size(tasks, where, None if "*" in columns else set(columns)))
        return self._scan(scan.projection(), where).to_table(tasks)

    def first(self, where: Condition, column: str) -> pa.Table:
        """One row that meets a condition and has a value in a column, with that column alone; none where there is none.

        Files are read one after another until one has such a row.
        """
        wanted = all_of([where, is_set(column)])
        scan = self.table.scan(row_filter=wanted, selected_fields=(column,))
        found = scan.projection().as_arrow().empty_table()
        for task in scan.plan_files():
            found = self._scan(scan.projection(), wanted, 1).to_table([task])
            if found.num_rows:
                break
        return found

    def matching(self, rows: pa.Table, where: Condition) -> pa.Table:
        """Filters rows of the table by a condition."""
        return rows.filter(self._expression(where))

    def _scan(self, wanted: Schema, where: Condition, limit: int | None = None) -> ArrowScan:
        return ArrowScan(self.table.metadata, self.table.io, wanted, where, limit=limit)

    def _expression(self, where: Condition) -> pc.Expression:
        schema = self.table.schema()
        return expression_to_pyarrow(bind(schema, where, case_sensitive=True), schema)

    def _size(self, tasks: Sequence[FileScanTask], where: Condition, columns: set[str] | None) -> int:
        wanted = None if where == EVERYTHING else self._expression(where)
        with ThreadPoolExecutor(_OPENED_AT_ONCE, "changeling-measure") as pool:
            return sum(pool.map(lambda task: _bytes_read(task.file.file_path, wanted, columns), tasks))


def _bytes_read(path: str, where: pc.Expression | None, columns: set[str] | None) -> int:
    """The size of columns, uncompressed, in the row groups of a file that may meet a condition."""
    store, inner = filesystem(path)
    fragment = ds.ParquetFileFormat().make_fragment(inner, store)
    try:
        groups = fragment.row_groups if where is None else fragment.subset(where).row_groups
    except pa.ArrowInvalid:
        # The file is older than a column of the condition.
        groups = fragment.row_groups
    found = 0
    for group in groups:
        parts = fragment.metadata.row_group(group.id)
        for place in range(parts.num_columns):
            part = parts.column(place)
            if columns is None or part.path_in_schema.partition(".")[0] in columns:
                found += part.total_uncompressed_size
    return found
