"""The data files of a snapshot: listed with their bounds and deletion vectors, and read by the ids of their columns."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from changeling.iceberg import deletion_vectors
from changeling.iceberg.conditions import EVERYTHING, Condition
from changeling.iceberg.deletion_vectors import Vector
from changeling.iceberg.parquet_files import filesystem

FIELD_ID = b"PARQUET:field_id"


class DataFile(msgspec.Struct, frozen=True):
    """One data file of a table."""

    path: str
    rows: int
    size: int
    lower: dict[int, bytes] = {}
    """The least value of columns, by their ids, as Iceberg serialises single values. A missing bound says nothing."""
    upper: dict[int, bytes] = {}
    vector: Vector | None = None
    spec: int = 0
    """The partition spec that it was written with."""
    json: str = ""
    """All of it as Iceberg's library prints it; empty for a file of an unpartitioned table that we wrote."""


def plan_files(iceberg_table: Any, jvm: Any, snapshot: int | None, where: Condition = EVERYTHING) -> list[DataFile]:
    """The files of a snapshot of a table that Iceberg's library has loaded; only those that may have rows that meet a condition."""
    if snapshot is None:
        return []
    iceberg = jvm.org.apache.iceberg
    scan = iceberg_table.newScan().useSnapshot(snapshot).includeColumnStats()
    if where != EVERYTHING:
        scan = scan.filter(iceberg.expressions.ExpressionParser.fromJson(where.model_dump_json()))
    specs = iceberg_table.specs()
    only = iceberg_table.spec() if len(specs) == 1 else None
    tasks = scan.planFiles()
    found = []
    # Each call to Java costs most of a millisecond, and there may be thousands of files: as few calls as possible.
    try:
        rest, to_json = tasks.iterator(), iceberg.ContentFileParser.toJson
        while rest.hasNext():
            task = rest.next()
            file = task.file()
            spec = only or specs.get(file.specId())
            # By index: an iteration ends with a Java exception, which costs 20 ms over Py4J.
            vectors = [to_json(task.deletes().get(place), spec) for place in range(task.filesCount() - 1)]
            found.append(data_file_from_json(to_json(file, spec), vectors))
    finally:
        tasks.close()
    return found


def data_file_from_json(text: str, deletes: Sequence[str] = ()) -> DataFile:
    """A data file, and the vector it has, as Iceberg's library prints them."""
    known = msgspec.json.decode(text)
    return DataFile(
        path=known["file-path"],
        rows=known["record-count"],
        size=known["file-size-in-bytes"],
        lower=_bounds(known.get("lower-bounds")),
        upper=_bounds(known.get("upper-bounds")),
        vector=_vector(deletes),
        spec=known["spec-id"],
        json=text,
    )


def _bounds(encoded: dict[str, list[Any]] | None) -> dict[int, bytes]:
    if encoded is None:
        return {}
    return {number: bytes.fromhex(value) for number, value in zip(encoded["keys"], encoded["values"], strict=True)}


def _vector(deletes: Sequence[str]) -> Vector | None:
    if not deletes:
        return None
    (text,) = deletes
    known = msgspec.json.decode(text)
    return Vector(
        known["file-path"],
        known["content-offset"],
        known["content-size-in-bytes"],
        known["record-count"],
        known["file-size-in-bytes"],
    )


class OpenFile:
    """A data file while it is read."""

    def __init__(self, file: DataFile) -> None:
        self.file = file
        store, path = filesystem(file.path)
        self._parquet = pq.ParquetFile(store.open_input_file(path))
        self._names = {
            int(field.metadata[FIELD_ID]): field.name
            for field in self._parquet.schema_arrow
            if field.metadata and FIELD_ID in field.metadata
        }

    def __enter__(self) -> "OpenFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._parquet.close(force=True)

    def columns(self, wanted: pa.Schema) -> pa.Table:
        """All rows, deleted ones included, with the columns whose ids the schema gives; promoted, NULL where it has none."""
        return self._conformed(self._parquet.read(self._there(wanted)), wanted)

    def groups(self, wanted: pa.Schema, part: int = 0, parts: int = 1) -> Iterator[pa.Table]:
        """The rows that are not deleted, a row group at a time; only those of one of `parts` parts of neighbouring groups."""
        count = self._parquet.num_row_groups
        sizes = [self._parquet.metadata.row_group(group).num_rows for group in range(count)]
        starts = [0, *accumulate(sizes)]
        alive = None if self.file.vector is None else self.live()
        for group in range(count * part // parts, count * (part + 1) // parts):
            rows = self._conformed(self._parquet.read_row_group(group, self._there(wanted)), wanted)
            yield rows if alive is None else rows.filter(pa.array(alive[starts[group] : starts[group + 1]]))

    def rows(self, positions: np.ndarray, wanted: pa.Schema) -> pa.Table:
        """The rows at some positions, which ascend."""
        counts = [self._parquet.metadata.row_group(group).num_rows for group in range(self._parquet.num_row_groups)]
        starts = np.concatenate([[0], np.cumsum(counts)])
        groups = np.unique(np.searchsorted(starts, positions, "right") - 1)
        parts = []
        for group in groups.tolist():
            inside = positions[(positions >= starts[group]) & (positions < starts[group + 1])] - starts[group]
            parts.append(self._parquet.read_row_group(group, self._there(wanted)).take(pa.array(inside)))
        if not parts:
            return wanted.empty_table()
        return self._conformed(pa.concat_tables(parts), wanted)

    def live(self) -> np.ndarray:
        """Which rows are not deleted."""
        alive = np.ones(self.file.rows, bool)
        if self.file.vector is not None:
            alive[deletion_vectors.read(self.file.vector)] = False
        return alive

    def _there(self, wanted: pa.Schema) -> list[str]:
        return [self._names[number] for number in map(field_id, wanted) if number in self._names]

    def _conformed(self, rows: pa.Table, wanted: pa.Schema) -> pa.Table:
        columns = []
        for field in wanted:
            name = self._names.get(field_id(field))
            columns.append(pa.nulls(rows.num_rows, field.type) if name is None else _promoted(rows.column(name), field))
        if not columns:
            return rows
        return pa.table(columns, schema=wanted)


def field_id(field: pa.Field) -> int:
    """The id by which Iceberg knows a column."""
    return int(field.metadata[FIELD_ID])


def _promoted(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    return column if column.type == field.type else pc.cast(column, field.type)
