"""The interface of sources: a source plans its next batch, remembers earlier plans, and lets Spark tasks read a plan."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from changeling.formats.options import ReadOptions
from changeling.model.printable import counted, sized
from changeling.model.table import TableName

Reader: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]]
"""Runs in a task over its part of the frame, and returns records and rejected input, in the layouts `RECORDS` and `REJECTS`; the
reader of a source without a format returns changes instead of records. It is sent to the tasks, so it must be picklable. If it
has a list `notes`, its content after the read is passed to the source, which is then a `StatefulSource`."""


@dataclass(frozen=True)
class Input:
    """A planned batch as Spark reads it."""

    frame: DataFrame
    reader: Reader
    topics: dict[str, int] | None = None
    """Numbers of the topics, where there are several: partition and offset alone do not identify a record then."""
    driver_rows: pa.RecordBatch | None = None
    """All rows of the frame, where reading them is too little work for a Spark job: the driver does it."""


@dataclass(frozen=True)
class Records:
    """The records of a source, and how they are decoded."""

    source: str
    """The source's name."""
    format: str
    options: ReadOptions


class KnownSchema(msgspec.Struct, frozen=True):
    """A schema that the changes of a plan will carry."""

    table: TableName
    schema: str
    position: str
    """The position from which it applies."""


class SnapshotShare(msgspec.Struct, frozen=True):
    """Which of the tables of a snapshot a plan reads, counted from 1."""

    first: int
    last: int
    of: int

    def __str__(self) -> str:
        tables = f"table {self.first}" if self.first == self.last else f"tables {self.first} to {self.last}"
        return f"snapshot of {tables} of {self.of}"


class PlanSize(msgspec.Struct, frozen=True):
    """The size of a plan, for progress reports."""

    records: int | None = None
    bytes: int | None = None
    files: int | None = None
    snapshot: SnapshotShare | None = None

    def __str__(self) -> str:
        parts = [
            None if self.snapshot is None else str(self.snapshot),
            None if self.files is None else counted(self.files, "file"),
            None if self.bytes is None else sized(self.bytes),
            None if self.records is None else counted(self.records, "record"),
        ]
        return ", ".join(part for part in parts if part) or "rejects"


@runtime_checkable
class StatefulSource(Protocol):
    """A source that needs what the readers of a batch noted, also after a restart."""

    def state_after(self, plan: str, notes: Sequence[str]) -> str:
        """Its state after all batches up to this one; it is stored with the batch, and passed to the source after a restart."""


@runtime_checkable
class SkippingSource(Protocol):
    """A source that continues without the tables that cannot be captured."""

    def left_out(self) -> dict[str, str]:
        """These tables and the reasons, as of its last poll."""


class Source(Protocol):
    """One stream of records. A plan is a JSON text: the same plan read again gives the same records."""

    name: str
    options: ReadOptions

    @property
    def format(self) -> str | None:
        """The dialect of its records; None where it returns changes."""

    def remember(self, plan: str) -> None:
        """Adds an earlier plan, in the order of batches: its records are not planned again."""

    def plan_next(self) -> str | None:
        """The plan of the next batch, bounded; None where there is nothing new. The plan is not remembered yet."""

    @property
    def has_more(self) -> bool:
        """Whether there may be more than the last plan of `next`, which is bounded."""

    @property
    def took_all(self) -> bool:
        """Whether the last plan of `next` has all that there was then, or there was nothing."""

    def stop_at_present(self) -> None:
        """From now on only what exists at this time is planned, so that a source that keeps growing has an end."""

    def stop_at(self, position: int) -> None:
        """The same for everything before a position of the server's log; for sources that have one."""

    def nothing(self) -> str:
        """A plan of an empty batch: it replaces one that can no longer be read."""

    def broken(self, plan: str) -> str | None:
        """Why a plan can no longer be read as it was created (a file changed, offsets are gone), or None."""

    def input(self, spark: SparkSession, plan: str) -> Input:
        """The batch of a plan."""

    def known_schemas(self, plan: str) -> list[KnownSchema]:
        """Schemas that are known before the plan is read: a batch with others is read twice."""

    def plan_size(self, plan: str) -> PlanSize:
        """The size of a plan."""

    def warnings(self) -> list[str]:
        """What a user should know, such as files that changed after they were read. Each is returned once."""

    def close(self) -> None:
        """Releases everything at the end of a run."""
