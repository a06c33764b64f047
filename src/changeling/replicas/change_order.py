"""The order of a table's changes: by position, which contains all tie-breakers of the record, then by arrival."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from changeling.iceberg.conditions import Condition, above, at_least

ARRIVAL = ("batch", "ordinal", "partition", "record")
"""Where a change arrived, in order: of equal positions the earlier one comes first. Files have no partition."""
_FILES = -1
"""In place of a partition: files come before topics."""
_END = 2**62
"""In place of a batch: after every arrival."""


class Rank(NamedTuple):
    """A change's sort key, or the end of a position, behind every change that has it."""

    position: str = ""
    batch: int = _END
    ordinal: int = 0
    partition: int = 0
    record: int = 0

    @staticmethod
    def end_of(position: str) -> "Rank":
        """Behind all changes that have a position."""
        return Rank(position)

    @property
    def is_end(self) -> bool:
        """Whether no change of the position comes after it."""
        return self.batch == _END

    def at_or_after(self) -> Condition:
        """The changes that may come after it. Those of its own position are among them, where it is a change.

        They are needed to recognise repetitions.
        """
        return above("position", self.position) if self.is_end else at_least("position", self.position)


START = Rank.end_of("")
"""Before every change."""


class Truncate(NamedTuple):
    """A truncate of a table; a further one at the same position is a repetition."""

    rank: Rank
    commit_time: int | None
    repeated: tuple[Rank, ...] = ()


def truncates_in_order(found: Iterable[Truncate]) -> tuple[Truncate, ...]:
    """The truncates of a table in order, each with its repetitions."""
    known: dict[str, Truncate] = {}
    for truncate in sorted(found, key=lambda one: one.rank):
        position = truncate.rank.position
        first = known.get(position)
        known[position] = truncate if first is None else first._replace(repeated=(*first.repeated, truncate.rank))
    return tuple(known.values())


def rank_of(position: str, batch: int, ordinal: int, partition: int | None, record: int) -> Rank:
    """The place of a change, by its position and `ARRIVAL`."""
    return Rank(position, batch, ordinal, _FILES if partition is None else partition, record)


def arrivals(rows: pa.Table) -> list[pa.ChunkedArray]:
    """`ARRIVAL`, given `batch` and `origin` of rows of the log."""
    ordinal, partition, offset, record = (
        pc.struct_field(rows.column("origin"), name) for name in ("ordinal", "partition", "offset", "record")
    )
    values = (
        rows.column("batch"),
        pc.fill_null(ordinal, 0),
        pc.if_else(pc.is_valid(offset), pc.fill_null(partition, 0), None),
        pc.coalesce(offset, record, 0),
    )
    return [value.cast(pa.int64()) for value in values]


def ranks(rows: pa.Table) -> Iterator[Rank]:
    """The places of changes, given `position` and `ARRIVAL`."""
    return map(rank_of, *(rows.column(name).to_pylist() for name in ("position", *ARRIVAL)))


def log_ranks(rows: pa.Table) -> Iterator[Rank]:
    """The places of changes, given `position`, `batch` and `origin` of rows of the log."""
    return map(rank_of, *(column.to_pylist() for column in (rows.column("position"), *arrivals(rows))))
