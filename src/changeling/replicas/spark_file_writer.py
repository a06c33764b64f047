"""The rows of a frame, written by Spark's tasks to files that belong to no table yet: they are committed with what else changes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame

from changeling.iceberg.parquet_files import Writer, WriteSpec, WrittenFile
from changeling.spark.adapter import run

_FILES = pa.schema([("files", pa.string())])


@dataclass(frozen=True)
class WriteKernel:
    """Writes batches to files; the columns are those of the spec in its order, whatever they are called."""

    spec: WriteSpec

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields one row, the files as JSON."""
        writer = Writer(self.spec)
        try:
            for batch in batches:
                writer.write(pa.record_batch(batch.columns, names=self.spec.columns.names))
            files = writer.close()
        except BaseException:
            writer.abandon()
            raise
        yield pa.record_batch([pa.array([msgspec.json.encode(files).decode()])], schema=_FILES)


def written_files(rows: DataFrame, spec: WriteSpec) -> list[WrittenFile]:
    """The files of a frame's rows."""
    # Spark takes a name such as `a.b` apart.
    placed = rows.toDF(*(f"c{place}" for place in range(len(rows.columns))))
    found = run(placed, WriteKernel(spec), _FILES).toArrow().column("files").to_pylist()
    return [file for text in found for file in msgspec.json.decode(text, type=list[WrittenFile])]
