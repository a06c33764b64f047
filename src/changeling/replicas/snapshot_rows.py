"""The rows of snapshots in the log: between which positions they lie, and which attempts their marks delimit."""

from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as f

from changeling.formats import registry
from changeling.iceberg.lake import Lake
from changeling.log import layout
from changeling.model.table import TableName
from changeling.replicas.merge_tasks import between, last_truncate, log_is_whole, of_table
from changeling.replicas.row_events import ARRIVAL, arrival_columns
from changeling.replicas.snapshot_attempts import FIRSTS, LASTS, Attempt, Mark, attempts_of, lane_of


class Reads(NamedTuple):
    """The rows of snapshots of one table."""

    first: str = ""
    """Their first position, and their last."""
    last: str = ""
    attempts: tuple[Attempt, ...] = ()

    @property
    def contain(self) -> str:
        """All changes before this position are in the rows of a complete snapshot; empty where none is complete."""
        return max((attempt.contains for attempt in self.attempts if attempt.contains is not None), default="")

    def completed_since(self, batch: int) -> bool:
        """Whether an attempt became complete after a batch."""
        return any(attempt.contains is not None and attempt.last[0] > batch for attempt in self.attempts)

    def cut_by(self, position: str) -> bool:
        """Whether some attempts lie before a position, and others, which may contain the same rows, after it."""
        return bool(self.attempts) and self.first <= position < self.last


def reads_of(lake: Lake, source: str, table: TableName, before: str | None, batch: int) -> Reads:
    """The rows of snapshots after the last truncate and before a position, of batches up to one."""
    mark = _mark()
    if mark is None:
        return Reads()
    emptied = last_truncate(lake, source, table, "", before, batch)
    reads = of_table(source, table) & between(emptied or "", before, batch) & (f.col("op") == "read")
    rows = lake.frame(layout.CHANGES).where(reads).select("position", mark.alias("mark"), *arrival_columns())
    marked = f.when(f.col("mark").isin(*FIRSTS, *LASTS), f.struct("mark", "position", *ARRIVAL))
    summed = rows.agg(
        f.min("position").alias("first"), f.max("position").alias("last"), f.collect_list(marked).alias("marks")
    ).first()
    if summed is None or summed["first"] is None:
        return Reads()
    marks = [
        Mark(
            lane_of(row.ordinal, row.partition), (row.batch, row.ordinal, row.record), row.mark in FIRSTS, row.position
        )
        for row in summed.marks
    ]
    attempts = attempts_of(marks)
    if not log_is_whole(lake):
        # Of an attempt without its first row, other rows may be past retention too.
        attempts = tuple(one if one.first < one.last else one._replace(contains=None) for one in attempts)
    return Reads(summed["first"], summed["last"], attempts)


def _mark() -> Column | None:
    """The mark of a change's place in a snapshot, read from its record as its dialect has it."""
    found = None
    for name in registry.names():
        path = registry.get(name).snapshot_mark
        if path is not None:
            value = f.get_json_object("meta", path)
            own = f.col("encoding") == name
            found = f.when(own, value) if found is None else found.when(own, value)
    return found
