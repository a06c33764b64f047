"""Parquet files of a table, written in Spark's tasks and handed over to the driver by name: it commits them, all or none."""

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from typing import Any
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from changeling.files import s3
from changeling.iceberg.table_definition import TableDefinition

_GROUP_ROWS, _GROUP_BYTES = 128_000, 128 * 1024 * 1024
_FILE_BYTES = 512 * 1024 * 1024
_PAGE_BYTES = 8 * 1024 * 1024
# Larger pages compress better: with pages of 1 MB and zstd level 1, a change of XTDB took 64 bytes instead of 49.
_ZSTD_LEVEL = 3
_DISTINCT = {
    *("id", "key", "before", "after", "position", "commit_time", "order", "total", "raw", "schema", "plan"),
    *("value", "record", "offset"),
}
"""Columns with mostly distinct values: a dictionary of them is useless."""


class WrittenFile(msgspec.Struct, frozen=True):
    """One file that is complete, and not yet in its table."""

    path: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class WriteSpec:
    """Where files of a table are written: it is sent to the tasks."""

    location: str
    columns: pa.Schema
    """With the ids that Iceberg knows the columns by."""
    sort: tuple[str, ...] = ()
    partition: str | None = None
    """The part of the path that Iceberg reads the partition from."""
    without_bounds: frozenset[str] = frozenset()
    """Columns of which files keep no bounds."""


def numbered(table: TableDefinition, iceberg: dict[str, Any]) -> pa.Schema:
    """The columns of a table with the ids of its Iceberg schema, given as the JSON of Iceberg's specification."""
    return pa.schema(_fields(list(table.columns), iceberg["fields"]))


def _fields(fields: list[pa.Field], known: list[dict[str, Any]]) -> list[pa.Field]:
    by_name = {field["name"]: field for field in known}
    return [_field(field, by_name[field.name]["id"], by_name[field.name]["type"]) for field in fields]


def _field(field: pa.Field, number: int, known: Any) -> pa.Field:
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct(_fields(list(kind), known["fields"]))
    elif pa.types.is_list(kind):
        kind = pa.list_(_field(kind.value_field, known["element-id"], known["element"]).with_name("element"))
    return pa.field(field.name, kind, metadata={"PARQUET:field_id": str(number)})


def filesystem(location: str) -> tuple[fs.FileSystem, str]:
    """The store of a location, and the location's path in it."""
    if location.startswith(("s3://", "s3a://")):
        return s3.filesystem(), location.partition("://")[2]
    if location.startswith("file:"):
        return fs.LocalFileSystem(), "/" + location.removeprefix("file:").lstrip("/")
    if "://" not in location:
        return fs.LocalFileSystem(), location
    store, path = fs.FileSystem.from_uri(location)
    return store, str(path)


class Writer:
    """Writes batches to one file after another, while the next batches are prepared; no file exists before something is written."""

    def __init__(self, spec: WriteSpec) -> None:
        self._spec = spec
        self.columns = spec.columns
        self._open: tuple[str, Any, pq.ParquetWriter] | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._waiting_rows = self._waiting_bytes = 0
        self._done: list[WrittenFile] = []
        self._thread: ThreadPoolExecutor | None = None
        self._writing: Future[None] | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Adds a batch with the spec's columns; it may be buffered until there is enough for a row group."""
        if not batch.num_rows:
            return
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self._waiting_bytes += batch.nbytes
        if self._waiting_rows >= _GROUP_ROWS or self._waiting_bytes >= _GROUP_BYTES:
            self._flush()

    def close(self) -> list[WrittenFile]:
        """The files, complete."""
        self._flush()
        self._await_write()
        self._end()
        return self._done

    def abandon(self) -> None:
        """Discards what was written; maintenance removes what cannot be removed now."""
        self._waiting = []
        with suppress(OSError, pa.ArrowException):
            self._await_write()
        self._end()
        discard(self._done)
        self._done = []

    def _flush(self) -> None:
        if not self._waiting:
            return
        batches = self._waiting
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
        self._await_write()
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "changeling-write")
        self._writing = self._thread.submit(self._write_group, batches)

    def _await_write(self) -> None:
        """Waits for what is being written; raises what went wrong with it."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _write_group(self, batches: list[pa.RecordBatch]) -> None:
        table = pa.Table.from_batches([_cast(batch, self._spec.columns) for batch in batches])
        _, sink, writer = self._open or self._start()
        writer.write_table(_sorted(table, self._spec.sort), row_group_size=_group_size(table.num_rows))
        self._rows += table.num_rows
        if sink.tell() >= _FILE_BYTES:
            self._finish()

    def _start(self) -> tuple[str, Any, pq.ParquetWriter]:
        parts = [self._spec.location.rstrip("/"), "data", self._spec.partition, f"{uuid4()}.parquet"]
        path = "/".join(part for part in parts if part)
        store, place = filesystem(path)
        if isinstance(store, fs.LocalFileSystem):
            store.create_dir(place.rpartition("/")[0], recursive=True)
        sink = store.open_output_stream(place)
        leaves = _leaves(self._spec.columns)
        writer = pq.ParquetWriter(
            sink,
            self._spec.columns,
            compression="zstd",
            compression_level=_ZSTD_LEVEL,
            data_page_size=_PAGE_BYTES,
            use_dictionary=[leaf for leaf in leaves if leaf.rpartition(".")[2] not in _DISTINCT],
            write_statistics=[leaf for leaf in leaves if leaf not in self._spec.without_bounds],
            store_schema=False,
        )
        self._open = (path, sink, writer)
        return self._open

    def _end(self) -> None:
        if self._thread is not None:
            self._thread.shutdown()
        self._finish()

    def _finish(self) -> None:
        if self._open is None:
            return
        path, sink, writer = self._open
        writer.close()
        size = sink.tell()
        sink.close()
        self._done.append(WrittenFile(path, self._rows, size))
        self._open, self._rows = None, 0


def discard(files: list[WrittenFile]) -> None:
    """Removes files that are in no table."""
    for written in files:
        store, path = filesystem(written.path)
        store.delete_file(path)


def _group_size(rows: int) -> int:
    """Rows of a row group: as a rule all that were waiting. Many of them, as one large batch has, are shared out evenly."""
    return ceil(rows / max(1, rows // _GROUP_ROWS))


def _leaves(schema: pa.Schema) -> list[str]:
    found: list[str] = []

    def walk(field: pa.Field, path: str) -> None:
        if pa.types.is_struct(field.type):
            for child in field.type:
                walk(child, f"{path}.{child.name}")
        elif pa.types.is_list(field.type):
            walk(field.type.value_field, f"{path}.list.element")
        else:
            found.append(path)

    for field in schema:
        walk(field, field.name)
    return found


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.record_batch([_renamed(batch.column(field.name), field.type) for field in schema], schema=schema)


def _renamed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The column with the ids of the spec in its nested fields; its values stay where they are."""
    return column if column.type.equals(kind, check_metadata=True) else column.cast(kind)


def _sorted(table: pa.Table, by: tuple[str, ...]) -> pa.Table:
    """The rows sorted within each row group: what was sorted already is not copied."""
    if not by:
        return table
    keys = pa.table({name: _leaf(table, name) for name in by})
    *leading, last = (keys.column(name).combine_chunks() for name in by)
    constant = all(len(pc.unique(column)) <= 1 for column in leading)
    if constant and pc.all(pc.less_equal(last.slice(0, max(0, len(last) - 1)), last.slice(1))).as_py():
        return table
    return table.take(pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in by]))


def _leaf(table: pa.Table, name: str) -> pa.ChunkedArray:
    first, _, rest = name.partition(".")
    column = table.column(first)
    return pc.struct_field(column, rest.split(".")) if rest else column
