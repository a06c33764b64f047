"""Quarantine: the rows of a replica that PostgreSQL cannot store, as JSON, each with the reason."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from changeling.replicas.json_output import lines
from changeling.replicas.shape import Shape
from changeling.replicas.staged_rows import column_name
from changeling.spark.adapter import run
from changeling.spark.errors import translated_errors
from changeling.targets.unsupported_values import any_of, find_unsupported

_LISTED = 1_000
"""How many rows of a table are listed; all of them are counted."""
_REASONS = 3
"""How many reasons a warning has, the most frequent ones."""
_FOUND = pa.schema([("reason", pa.string()), ("row", pa.string())])


@dataclass(frozen=True)
class QuarantinedRows:
    """Rows that are left out of the table."""

    count: int
    listed: list[tuple[str, str]]
    """Reason and row of the first of them."""

    def reasons(self) -> str:
        """The reasons in short: if there are several, with the number of listed rows for each."""
        counted = Counter(reason for reason, _ in self.listed)
        if len(counted) == 1:
            return next(iter(counted))
        parts = [f"{rows:,} for {reason}" for reason, rows in counted.most_common(_REASONS)]
        if rest := counted.total() - sum(rows for _, rows in counted.most_common(_REASONS)):
            parts.append(f"{rest:,} for others")
        first = "" if self.count == len(self.listed) else f"of the first {len(self.listed):,}: "
        return first + "; ".join(parts)


def find_quarantined(rows: DataFrame, shape: Shape) -> QuarantinedRows:
    """Finds them among all rows of a replica, whose columns are named by index."""
    with translated_errors():
        found = run(rows, QuarantineKernel(shape), _FOUND)
        listed = [(str(row["reason"]), str(row["row"])) for row in found.limit(_LISTED + 1).toArrow().to_pylist()]
        return QuarantinedRows(len(listed) if len(listed) <= _LISTED else found.count(), listed[:_LISTED])


@dataclass(frozen=True)
class QuarantineKernel:
    """Finds the rows that PostgreSQL cannot store."""

    shape: Shape

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Their reasons and their JSON."""
        for batch in batches:
            yield from self._quarantined(batch)

    def _quarantined(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        found = [
            (column.source_name, one)
            for place, column in enumerate(self.shape.columns)
            for one in find_unsupported(
                batch.column(column_name(place)), column.kind, in_key=column.id in self.shape.key
            )
        ]
        where = any_of([one for _, one in found], batch.num_rows)
        if where is None:
            return
        wrong = batch.filter(where)
        columns = [column.source_name for column in self.shape.columns]
        texts = lines(
            pa.Table.from_arrays(wrong.columns, names=columns),
            {one.source_name: one.kind for one in self.shape.columns},
        )
        reasons = []
        for place in (number for number, is_wrong in enumerate(where.to_pylist()) if is_wrong):
            name, one = next((name, one) for name, one in found if one.where[place].as_py())
            reasons.append(f"{name}: {one.why}")
        yield pa.record_batch([reasons, [text.decode() for text in texts]], schema=_FOUND)
