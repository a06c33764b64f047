"""Reads small tables in this process, where Spark runs: Iceberg's library says which files to read, Arrow reads them without a job."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions.visitors import bind
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.schema import Schema

from changeling.iceberg.conditions import EVERYTHING, Condition, all_of, columns_in, is_set
from changeling.iceberg.data_files import FIELD_ID, DataFile, OpenFile, plan_files
from changeling.iceberg.file_parts import FileParts, shared_out
from changeling.iceberg.measured_scan import NeedsSpark
from changeling.iceberg.parquet_files import numbered
from changeling.iceberg.table_definition import TableDefinition

MAX_BYTES = 4 * 1024 * 1024
"""Size of the files that are read in this process: above it, the start of a Spark job is the smaller part of the work."""
MAX_FILES = 64


@dataclass(frozen=True)
class PlannedTable:
    """A table at its current snapshot, loaded by Iceberg's library."""

    iceberg_table: Any
    jvm: Any
    table: TableDefinition
    unbounded: bool = False
    """Everything is read here, whatever its size."""

    def rows(self, where: Condition = EVERYTHING, columns: Sequence[str] = ("*",)) -> pa.Table:
        """The rows that meet a condition; raises `NeedsSpark` where that is too much."""
        names = self.table.columns.names if "*" in columns else list(columns)
        files = self._files(where)
        size = sum(file.size for file in files)
        if not self.unbounded and (size > MAX_BYTES or len(files) > MAX_FILES):
            raise NeedsSpark(f"{len(files):,} files of {size / 1e6:,.1f} MB have to be read")
        read = self._columns({*names, *columns_in(where)})
        found = [read.empty_table(), *(_live_rows(file, read) for file in files)]
        return self.matching(pa.concat_tables(found), where).select(names)

    def parts(self, where: Condition, columns: Sequence[str], cores: int) -> FileParts:
        """The same rows, divided among the tasks of `cores` cores."""
        tasks = shared_out(self._files(where), cores)
        wanted = self._columns({*columns, *columns_in(where)})
        return FileParts(tasks, wanted, None if where == EVERYTHING else self._expression(where))

    def first(self, where: Condition, column: str) -> pa.Table:
        """One row that meets a condition and has a value in a column, with that column alone; none where there is none."""
        wanted = all_of([where, is_set(column)])
        return self.rows(wanted, [column]).slice(0, 1)

    def matching(self, rows: pa.Table, where: Condition) -> pa.Table:
        """Filters rows of the table by a condition."""
        return rows if where == EVERYTHING else rows.filter(self._expression(where))

    def _expression(self, where: Condition) -> pc.Expression:
        return expression_to_pyarrow(bind(self._schema, where, case_sensitive=True), self._schema)

    def _files(self, where: Condition) -> list[DataFile]:
        snapshot = self.iceberg_table.currentSnapshot()
        return plan_files(self.iceberg_table, self.jvm, None if snapshot is None else snapshot.snapshotId(), where)

    def _columns(self, names: set[str]) -> pa.Schema:
        schema = msgspec.json.decode(self._schema_json)
        # A table of an older layout lacks columns: an id that does not exist makes them NULL.
        there = {field["name"] for field in schema["fields"]}
        own = TableDefinition(
            self.table.name, pa.schema([field for field in self.table.columns if field.name in there])
        )
        known = {field.name: field for field in numbered(own, schema)}
        return pa.schema(
            [
                known.get(field.name, field.with_metadata({FIELD_ID: b"0"}))
                for field in self.table.columns
                if field.name in names
            ]
        )

    @cached_property
    def _schema_json(self) -> str:
        return str(self.jvm.org.apache.iceberg.SchemaParser.toJson(self.iceberg_table.schema()))

    @cached_property
    def _schema(self) -> Schema:
        return Schema.model_validate_json(self._schema_json)


def _live_rows(file: DataFile, columns: pa.Schema) -> pa.Table:
    with OpenFile(file) as opened:
        rows = opened.columns(columns)
        return rows if file.vector is None else rows.filter(pa.array(opened.live()))
