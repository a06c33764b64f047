"""What a source is: it plans its next batch, remembers what was planned before, and lets Spark's tasks read a plan."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from changeling.formats.options import ReadOptions
from changeling.model.table import TableName

Reader: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]]
"""Runs in a task over its part of the frame, and gives records and what is no record at all, in the layouts `RECORDS` and
`REJECTS`; the reader of a source without a format gives changes in place of records. It is sent to the tasks, so it must be
picklable. Where it has a list `notes`, what is in it when all is read is given to the source, which is a `NotedSource` then."""


@dataclass(frozen=True)
class Input:
    """A planned batch as Spark reads it."""

    frame: DataFrame
    reader: Reader
    topics: dict[str, int] | None = None
    """Numbers of the topics, where there are several: partition and offset alone do not tell their records apart."""


class Foreseen(msgspec.Struct, frozen=True):
    """A schema that the changes of a plan will carry."""

    table: TableName
    schema: str
    position: str
    """From where on it holds."""


class Spread(msgspec.Struct, frozen=True):
    """How large a plan is, for progress and for people."""

    records: int | None = None
    bytes: int | None = None
    files: int | None = None


@runtime_checkable
class NotedSource(Protocol):
    """A source that has to know of a batch what its readers noted, also after a restart."""

    def kept(self, plan: str, notes: Sequence[str]) -> str:
        """What is to be kept of all batches up to this one; it is written with the batch, and given to the source again."""


@runtime_checkable
class LeavingSource(Protocol):
    """A source that goes on without tables that cannot be captured."""

    def left_out(self) -> dict[str, str]:
        """Those tables, and why; as far as it has looked."""


class Source(Protocol):
    """One stream of records. A plan is a JSON text: the same plan read again gives the same records."""

    name: str
    options: ReadOptions

    @property
    def format(self) -> str | None:
        """The dialect of its records; None where it gives changes."""

    def remember(self, plan: str) -> None:
        """Takes in a plan that was made before, in the order of batches: its records are not planned again."""

    def next(self) -> str | None:
        """The plan of the next batch, bounded; None where there is nothing new. Nothing is remembered yet."""

    @property
    def has_more(self) -> bool:
        """Whether there may be more than the plan that `next` gave last, which is bounded."""

    def stop_at_present(self) -> None:
        """From now on only what is there at this moment is planned: a source that grows all the time has an end then."""

    def stop_at(self, place: int) -> None:
        """The same for what is there up to a place of the server's log; for sources that have one."""

    def nothing(self) -> str:
        """A plan of an empty batch: it takes the place of one that can no longer be read."""

    def broken(self, plan: str) -> str | None:
        """Why a plan can no longer be read as it was made (a file changed, offsets are gone), or None."""

    def input(self, spark: SparkSession, plan: str) -> Input:
        """The batch of a plan."""

    def foreseen(self, plan: str) -> list[Foreseen]:
        """Schemas that are known before the plan is read: a batch with others is read twice."""

    def spread(self, plan: str) -> Spread:
        """How large it is."""

    def warnings(self) -> list[str]:
        """What a user should know, such as files that changed after they were read. Each is told once."""

    def close(self) -> None:
        """The run ends: what it holds is let go."""
