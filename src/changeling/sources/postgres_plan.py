"""Plans over a database: a range of its log, or ranges of its tables in a snapshot. Does no I/O."""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from changeling.model.table import TableName
from changeling.postgres.catalog import Leaf
from changeling.postgres.fingerprint import ColumnFingerprint, Fingerprint

PART_BYTES = 64 * 1024 * 1024
"""About how much of a table one task reads."""
BLOCK = 8192


class TablePart(msgspec.Struct, frozen=True, array_like=True):
    """Blocks of one leaf of a table, from the first up to, not including, the last; None is the end."""

    table: TableName
    leaf: int
    """The index of the leaf among those of its table."""
    schema: str
    name: str
    first: int
    end: int | None
    last: bool
    """Whether it completes the table."""


class Altered(msgspec.Struct, frozen=True, array_like=True):
    """A table whose columns differ from those in the log."""

    table: TableName
    schema: str
    columns: tuple[ColumnFingerprint, ...]


class Stream(msgspec.Struct, frozen=True, tag_field="kind", tag="stream"):
    """Transactions that commit from `start` on and before `end`."""

    system: str
    start: int
    end: int
    altered: tuple[Altered, ...] = ()
    """Schemas that apply at the end, and that no change may ever carry."""


class Snapshot(msgspec.Struct, frozen=True, tag_field="kind", tag="snapshot"):
    """Rows of tables as they were at an LSN."""

    system: str
    point: int
    parts: tuple[TablePart, ...]
    start: int
    """The LSN at which the stream continues."""
    moment: int
    """The server's clock when it was taken, in nanoseconds."""
    prints: dict[str, Fingerprint]
    """The fingerprints of the tables that it completes, by their spelled names."""
    replaces_rows: bool = msgspec.field(default=False, name="again")
    """It replaces all earlier rows of these tables."""
    slot_recreated: bool = msgspec.field(default=False, name="anew")
    """The slot was lost: the stream begins again at `start`."""


PostgresPlan = Stream | Snapshot
parse_plan: Callable[[str], PostgresPlan] = msgspec.json.Decoder(PostgresPlan).decode


def format_plan(plan: PostgresPlan) -> str:
    """Its JSON text."""
    return msgspec.json.encode(plan).decode()


def bytes_of(plan: PostgresPlan) -> int:
    """About how many bytes of the log or of tables it reads."""
    if isinstance(plan, Stream):
        return plan.end - plan.start
    return sum(PART_BYTES if part.end is None else (part.end - part.first) * BLOCK for part in plan.parts)


def parts_of(table: TableName, leaves: list[Leaf], blocks: int = PART_BYTES // BLOCK) -> Iterator[TablePart]:
    """A table in parts of about `blocks` blocks; at least one, so that an empty table is completed as well."""
    if not leaves:
        yield TablePart(table, 0, "", "", 0, 0, True)
    for number, leaf in enumerate(leaves):
        starts = range(0, max(1, leaf.blocks), blocks)
        for first in starts:
            end = first + blocks if first != starts[-1] else None
            last = end is None and number == len(leaves) - 1
            yield TablePart(table, number, leaf.schema, leaf.name, first, end, last)


def batch(parts: Iterable[TablePart], most: int) -> tuple[TablePart, ...]:
    """The first `most` parts."""
    return tuple(part for part, _ in zip(parts, range(most), strict=False))
