"""Data files for tests: written as tasks write them, with bounds and vectors as Iceberg's manifests have them. No Spark."""

import struct
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.iceberg import deletion_vectors
from changeling.iceberg.data_files import DataFile, OpenFile, field_id
from changeling.iceberg.parquet_files import Writer, WriteSpec


def numbered(columns: pa.Schema) -> pa.Schema:
    """The columns with ids from 1 on."""
    return pa.schema(
        [field.with_metadata({"PARQUET:field_id": str(place)}) for place, field in enumerate(columns, start=1)]
    )


def data_file(folder: Path, rows: pa.Table, deleted: np.ndarray | None = None) -> DataFile:
    """One file with these rows, of which some are deleted."""
    writer = Writer(WriteSpec(str(folder), rows.schema))
    for batch in rows.to_batches():
        writer.write(batch)
    (written,) = writer.close()
    lower, upper = {}, {}
    for field in rows.schema:
        least, most = (bound(pc.min_max(rows.column(field.name))[end].as_py()) for end in ("min", "max"))
        if least is not None and most is not None:
            lower[field_id(field)], upper[field_id(field)] = least, most
    vector = None
    if deleted is not None and len(deleted):
        vector = deletion_vectors.write(str(folder), {written.path: deleted})[written.path]
    return DataFile(written.path, written.rows, written.bytes, lower, upper, vector)


def bound(value: Any) -> bytes | None:
    if isinstance(value, bool) or value is None:
        return None
    return struct.pack("<q", value) if isinstance(value, int) else str(value).encode()


def live_rows(files: list[DataFile], columns: pa.Schema) -> list[tuple]:
    """All rows that are not deleted, as tuples."""
    found: list[tuple] = []
    for file in files:
        with OpenFile(file) as opened:
            rows = opened.columns(columns).filter(pa.array(opened.live()))
            found += [tuple(row.values()) for row in rows.to_pylist()]
    return found


def folder(root: Path) -> Path:
    return root / str(uuid4())
