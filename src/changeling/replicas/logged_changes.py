"""Changes of the log as merges and states read them: on Spark, or in this process. Which ones, and what is asked of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import pyarrow as pa

from changeling.iceberg.conditions import (
    Condition,
    above,
    all_of,
    any_of,
    at_most,
    below,
    differs,
    equals,
    is_null,
    is_set,
    one_of,
)
from changeling.log.batch_stats import TABLE_OPERATIONS
from changeling.model.operation import NEW_ROW_OPERATIONS
from changeling.model.table import TableName
from changeling.replicas.change_order import Rank, Truncate, log_ranks, truncates_in_order
from changeling.replicas.snapshot_attempts import Mark

if TYPE_CHECKING:
    from changeling.spark.adapter import Kernel


class SnapshotMarks(NamedTuple):
    """Rows of snapshots: the first position, the last one, and those that mark the start or the end of an attempt."""

    first: str
    last: str
    marks: list[Mark]


class Changes(Protocol):
    """Changes of the log, or some of them."""

    def where(self, *conditions: Condition) -> Self:
        """The changes that meet all conditions."""

    def cached(self) -> Self:
        """The same changes, for several questions: in this process they are read once."""

    def min_by(self, column: str, *others: str) -> tuple[Any, ...] | None:
        """The smallest value of a column, and what other columns have there; None where no change has one."""

    def max_by(self, column: str, *others: str) -> tuple[Any, ...] | None:
        """The same for the largest value."""

    def any_value(self, column: str) -> Any:
        """The value of a column in some change that has one; None where none has."""

    def distinct(self, *columns: str) -> list[tuple[Any, ...]]:
        """The different values of some columns."""

    def rows(self, *columns: str, alike: pa.Table | None = None) -> pa.Table:
        """Some columns of all changes; only of those that have the values of a row of `alike` in its columns, none of them NULL."""

    def has_new_reads(self) -> bool:
        """Whether a `read` of a row has no other change of it before, given all changes of a table. One without a key has none."""

    def snapshot_marks(self, paths: Mapping[str, str]) -> SnapshotMarks | None:
        """The rows of snapshots, if there are any; `paths` says by encoding where in `meta` they are marked."""

    def schema_switches(self, kinds: Mapping[int, int], limit: int) -> list[tuple[str, int]]:
        """Where a change has a schema of another kind than the one before it: positions and schemas, the first `limit`.

        `kinds` numbers the kinds by schema; changes of other schemas do not count.
        """

    def to_fold(self, limit: int) -> pa.Table:
        """The columns that a fold reads, of at most `limit` changes."""

    def folded(self, to_events: "Kernel", fold_events: "Kernel", one_bucket: Sequence[int]) -> pa.Table:
        """Makes row events of the changes, puts those of a row together and in order, and folds them; returns the output of the fold.

        Tables with the numbers `one_bucket` are folded by one task each.
        """


def of_table(source: str, table: TableName) -> Condition:
    """The changes of one table."""
    names = (("catalog", table.catalog), ("schema", table.schema), ("name", table.name))
    parts = (is_null(f"table.{name}") if value is None else equals(f"table.{name}", value) for name, value in names)
    return all_of([equals("source", source), *parts])


def names_a_table() -> Condition:
    """Changes that name a table of the source. A message may not: a topic alone names that of a tombstone, and not in full."""
    return all_of([is_set("table.name"), differs("op", "message")])


def is_part() -> Condition:
    """New rows with a partial image."""
    return all_of(
        [one_of("op", sorted(operation.value for operation in NEW_ROW_OPERATIONS)), equals("after_image", "partial")]
    )


def is_placed() -> Condition:
    """Changes whose positions compare: a control change that has none of its own only has its place of arrival."""
    return any_of([one_of("op", TABLE_OPERATIONS), is_null("arrived"), equals("arrived", False)])


def between(after: str, before: str | None, batch: int, since: int = 0) -> Condition:
    """Positions after one and before another, of batches up to one; batches up to `since` are known to contain none."""
    parts = [above("position", after), at_most("batch", batch)]
    if since:
        parts.append(above("batch", since))
    if before is not None:
        parts.append(below("position", before))
    return all_of(parts)


def after(position: str) -> str:
    """A text that sorts after a position and before every later one."""
    return f"{position}!"


def last_truncate(changes: Changes) -> Rank | None:
    """The place of the last truncate among the changes of a table."""
    found = all_truncates(changes)
    return found[-1].rank if found else None


def all_truncates(changes: Changes) -> tuple[Truncate, ...]:
    """The truncates among the changes of a table, in order."""
    rows = changes.where(equals("op", "truncate")).rows("position", "commit_time", "batch", "origin")
    return truncates_in_order(map(Truncate, log_ranks(rows), rows.column("commit_time").to_pylist()))


class Span(NamedTuple):
    """Positions after `start`, up to `end`; a transaction among them may have begun before, but after `earlier`."""

    earlier: str
    start: str
    end: str


def first_later(changes: Changes, source: str, moment: int, span: Span) -> str | None:
    """The start of the first transaction in a span that is later than a time; None where there is none."""
    own = changes.where(equals("source", source), is_placed(), at_most("position", span.end))
    found = own.where(above("position", span.start), above("commit_time", moment)).min_by("position", "transaction.id")
    if found is None:
        return None
    position, number = found
    begun = None
    if number is not None:
        begun = own.where(above("position", span.earlier), equals("transaction.id", number)).min_by("position")
    return str(position if begun is None else begun[0])


def tables_named(changes: Changes, name: str) -> list[tuple[str, TableName]]:
    """The tables of the log that have a name, whatever their schema, each with its source."""
    return list(_tables(changes.where(names_a_table(), equals("table.name", name))))


def all_tables(changes: Changes) -> list[tuple[str, TableName]]:
    """All tables of the log, each with its source."""
    return list(_tables(changes.where(names_a_table())))


def _tables(changes: Changes) -> Iterable[tuple[str, TableName]]:
    for source, *name in changes.distinct("source", "table.catalog", "table.schema", "table.name"):
        yield source, TableName(*name)


def some_key(changes: Changes, source: str, table: TableName) -> str | None:
    """A key of some row of a table, for its columns."""
    found: str | None = changes.where(of_table(source, table)).any_value("key")
    return found


def last_version(changes: Changes) -> tuple[int | None, str]:
    """The schema version of a table's last change that has one, and its position."""
    found = changes.where(is_set("schema_id")).max_by("position", "schema_id")
    return (None, "") if found is None else (int(found[1]), found[0])
