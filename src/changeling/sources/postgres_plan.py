"""Plans over a database: a range of its log, or ranges of its tables as a snapshot shows them. Asks nobody."""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from changeling.model.table import TableName
from changeling.postgres.catalog import Leaf
from changeling.postgres.fingerprint import ColumnFingerprint, Fingerprint

PART_BYTES = 64 * 1024 * 1024
"""About so much of a table is read by one task."""
BLOCK = 8192


class Part(msgspec.Struct, frozen=True, array_like=True):
    """Blocks of one leaf of a table, from the first up to, not including, the last; None is the end."""

    table: TableName
    leaf: int
    """The place of the leaf among those of its table."""
    schema: str
    name: str
    first: int
    end: int | None
    last: bool
    """With it, the table is done."""


class Altered(msgspec.Struct, frozen=True, array_like=True):
    """A table whose columns are others than the log knows."""

    table: TableName
    schema: str
    columns: tuple[ColumnFingerprint, ...]


class Stream(msgspec.Struct, frozen=True, tag_field="kind", tag="stream"):
    """Transactions that commit from `start` on and before `end`."""

    system: str
    start: int
    end: int
    altered: tuple[Altered, ...] = ()
    """Schemas that hold at the end, where no change may ever say so."""


class Snapshot(msgspec.Struct, frozen=True, tag_field="kind", tag="snapshot"):
    """Rows of tables as they were at a point of the log."""

    system: str
    point: int
    parts: tuple[Part, ...]
    start: int
    """Where the stream goes on."""
    moment: int
    """When it was taken by the server's clock, in nanoseconds."""
    prints: dict[str, Fingerprint]
    """Of the tables that are whole with it, by their spelled names."""
    again: bool = False
    """What was known of these tables before is void: their rows go, and those of the snapshot come."""
    anew: bool = False
    """The slot was lost: the stream begins again at `start`."""


Plan = Stream | Snapshot
_read: Callable[[str], Plan] = msgspec.json.Decoder(Plan).decode


def parse(text: str) -> Plan:
    """The plan of its JSON text."""
    return _read(text)


def spell(plan: Plan) -> str:
    """Its JSON text."""
    return msgspec.json.encode(plan).decode()


def bytes_of(plan: Plan) -> int:
    """Bytes of the log or of tables that it reads, about."""
    if isinstance(plan, Stream):
        return plan.end - plan.start
    return sum(PART_BYTES if part.end is None else (part.end - part.first) * BLOCK for part in plan.parts)


def parts_of(table: TableName, leaves: list[Leaf], blocks: int) -> Iterator[Part]:
    """A table in parts of about so many blocks; one at least, so that an empty table is done as well."""
    if not leaves:
        yield Part(table, 0, "", "", 0, 0, True)
    for number, leaf in enumerate(leaves):
        starts = range(0, max(1, leaf.blocks), blocks)
        for first in starts:
            end = first + blocks if first != starts[-1] else None
            last = end is None and number == len(leaves) - 1
            yield Part(table, number, leaf.schema, leaf.name, first, end, last)


def batch(parts: Iterable[Part], most: int) -> tuple[Part, ...]:
    """The first parts, at most so many."""
    return tuple(part for part, _ in zip(parts, range(most), strict=False))
