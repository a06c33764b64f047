"""The one place that passes a kernel to Spark: Arrow batches in, Arrow batches out, inside the tasks."""

import gc
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from zipimport import zipimporter

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

Kernel: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]
"""What a task runs over the batches of its partition. It is sent to the tasks, so it must be picklable."""

_SPARKS_OWN = ("pyspark", "py4j", "spark-core")


def run(frame: DataFrame, kernel: Kernel, layout: pa.Schema) -> DataFrame:
    """The frame with the kernel applied to its batches; `layout` is that of the result. For batch and streaming frames."""
    return frame.mapInArrow(_Task(kernel), spark_schema(layout))


@dataclass(frozen=True)
class _Task:
    kernel: Kernel

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        _forget_zipped_spark()
        # Between tasks, a worker collects garbage among all that it ever imported: that took a seventh of its time.
        gc.freeze()
        return self.kernel(batches)


def _forget_zipped_spark() -> None:
    """Keeps the next task of this worker from listing Spark's own zip files again, about sixteen times.

    A worker invalidates the import caches before each task; for packages in zip files that took 0.2 s. Importers are
    found again when needed, so dropping those of files that never change is safe.
    """
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter) and Path(importer.archive).name.startswith(_SPARKS_OWN):
            del sys.path_importer_cache[path]


def spark_schema(layout: pa.Schema) -> StructType:
    """The Spark schema of an Arrow layout."""
    return from_arrow_schema(layout)
