"""The files of a table, shared out to Spark's tasks, which read them by themselves: rows do not cross the JVM."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero
from pyspark.sql import DataFrame, SparkSession

from changeling.iceberg.data_files import DataFile, OpenFile

PART_BYTES = 64 * 1024 * 1024
"""What one task reads at most, as it is stored."""
_MIN_BYTES = 4 * 1024 * 1024
"""Less is not worth a task."""


class FilePart(msgspec.Struct, frozen=True):
    """One of several parts of a file, of neighbouring row groups each."""

    file: DataFile
    part: int = 0
    parts: int = 1


@dataclass(frozen=True)
class FileParts:
    """Which rows of a table the tasks of a job read: it is sent to them."""

    tasks: list[list[FilePart]]
    columns: pa.Schema
    """With the ids that Iceberg knows the columns by."""
    where: pc.Expression | None
    """The condition that rows have to meet."""

    @property
    def size(self) -> int:
        """The size of the parts, as they are stored."""
        return sum(part.file.size // part.parts for task in self.tasks for part in task)

    def frame(self, spark: SparkSession) -> DataFrame:
        """The numbers of the tasks, each in a partition of its own."""
        return spark.range(0, len(self.tasks), 1, max(1, len(self.tasks)))

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """The rows of the tasks whose numbers the batches of the frame have, a row group at a time."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for part in self.tasks[number]:
                    with OpenFile(part.file) as opened:
                        for rows in opened.groups(self.columns, part.part, part.parts):
                            yield rows if self.where is None else _meeting(rows, self.where)


def _meeting(rows: pa.Table, where: pc.Expression) -> pa.Table:
    """The rows that meet a condition; mostly all of them do, and none is copied."""
    given = acero.Declaration("table_source", acero.TableSourceNodeOptions(rows))
    asked = acero.Declaration("project", acero.ProjectNodeOptions([where], ["met"]), [given])
    met = asked.to_table(use_threads=False).column("met")
    return rows if not met.null_count and pc.all(met).as_py() else rows.filter(where)


def shared_out(files: Sequence[DataFile], cores: int) -> list[list[FilePart]]:
    """The parts of files that each task reads: two tasks a core, or more where one would read too much."""
    share = sum(file.size for file in files) // (2 * cores)
    limit = max(PART_BYTES, _MIN_BYTES)
    most = max(min(share, PART_BYTES), _MIN_BYTES)
    tasks: list[list[FilePart]] = []
    taken = 0
    for file in files:
        # Bounds and the like have served their purpose when the file was chosen.
        bare = msgspec.structs.replace(file, lower={}, upper={}, json="")
        parts = -(-file.size // most)
        for part in range(parts):
            size = file.size // parts
            # To the nearest part: a task that is left over at the end would occupy one core alone.
            if not tasks or taken + size // 2 > most or taken + size > limit:
                tasks.append([])
                taken = 0
            tasks[-1].append(FilePart(bare, part, parts))
            taken += size
    return tasks
