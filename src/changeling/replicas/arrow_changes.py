"""Changes of the log in this process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from changeling.iceberg.conditions import EVERYTHING, Condition, all_of, columns_in, equals, is_set, one_of
from changeling.iceberg.measured_scan import BoundedReads
from changeling.iceberg.row_matching import matching
from changeling.log import log_tables
from changeling.model import json_text
from changeling.replicas.change_order import arrivals
from changeling.replicas.fold_task import OUTCOME
from changeling.replicas.logged_changes import SnapshotMarks
from changeling.replicas.row_events import LOG_COLUMNS, ROW_EVENTS, fold_input, sorted_events
from changeling.replicas.snapshot_attempts import FIRSTS, LASTS, Mark, topic_partition

if TYPE_CHECKING:
    from changeling.spark.adapter import Kernel


@dataclass(frozen=True)
class ArrowChanges:
    """Changes that are read when they are asked about, as far as they are few."""

    log: BoundedReads
    condition: Condition = EVERYTHING
    known: pa.Table | None = None
    """Rows that were read already, all of them that are meant, and maybe others."""

    def where(self, *conditions: Condition) -> "ArrowChanges":
        """The changes that meet all conditions."""
        return replace(self, condition=all_of([self.condition, *conditions]))

    def cached(self) -> "ArrowChanges":
        """The same changes, read with all columns that a fold needs."""
        return replace(self, known=self._read(*LOG_COLUMNS))

    def min_by(self, column: str, *others: str) -> tuple[Any, ...] | None:
        """The smallest value of a column, and what other columns have there; None where no change has one."""
        return self._extreme("ascending", column, *others)

    def max_by(self, column: str, *others: str) -> tuple[Any, ...] | None:
        """The same for the largest value."""
        return self._extreme("descending", column, *others)

    def _extreme(self, order: str, *columns: str) -> tuple[Any, ...] | None:
        rows = self.where(is_set(columns[0])).rows(*columns)
        found = rows.take(pc.select_k_unstable(rows, 1, [(columns[0], order)])).to_pylist()
        return tuple(found[0].values()) if found else None

    def any_value(self, column: str) -> Any:
        """The value of a column in some change that has one; None where none has."""
        found = self.log.first(self.condition, column).column(column).to_pylist()
        return found[0] if found else None

    def distinct(self, *columns: str) -> list[tuple[Any, ...]]:
        """The different values of some columns."""
        rows = self.rows(*columns)
        return list(dict.fromkeys(zip(*(column.to_pylist() for column in rows.columns), strict=True)))

    def rows(self, *columns: str, alike: pa.Table | None = None) -> pa.Table:
        """Some columns of all changes; only of those that have the values of a row of `alike` in its columns, none of them NULL."""
        names = dict.fromkeys([*columns, *(() if alike is None else alike.column_names)])
        read = self._read(*(name.partition(".")[0] for name in names))
        found = pa.table({name: _column(read, name) for name in names})
        if alike is not None:
            found = found.take(pa.array(matching(alike.columns, found.select(alike.column_names).columns).stored))
        return found.select(list(columns))

    def has_new_reads(self) -> bool:
        """Whether a `read` of a row has no other change of it before, given all changes of a table. One without a key has none."""
        rows = self.rows("key", "op", "position")
        is_other = pc.not_equal(rows.column("op"), "read")
        rows = rows.append_column("is_other", is_other).filter(
            pc.or_(rows.column("key").is_valid(), pc.invert(is_other))
        )
        ordered = rows.sort_by([("position", "ascending"), ("is_other", "ascending")])
        firsts = ordered.group_by("key", use_threads=False).aggregate([("is_other", "first")])
        return pc.all(firsts.column("is_other_first"), min_count=0).as_py() is False

    def snapshot_marks(self, paths: Mapping[str, str]) -> SnapshotMarks | None:
        """The rows of snapshots, if there are any; `paths` says by encoding where in `meta` they are marked."""
        reads = self.where(equals("op", "read"))
        first, last = reads.min_by("position"), reads.max_by("position")
        if first is None or last is None:
            return None
        rows = reads.where(one_of("encoding", paths))._read("position", "encoding", "meta", "batch", "origin")
        columns = [*(rows.column(name) for name in ("position", "encoding", "meta")), *arrivals(rows)]
        marks = []
        for position, encoding, meta, batch, ordinal, partition, record in zip(
            *(column.to_pylist() for column in columns), strict=True
        ):
            mark = _member(meta, paths[encoding])
            if mark in (*FIRSTS, *LASTS):
                marks.append(
                    Mark(topic_partition(ordinal, partition), (batch, ordinal, record), mark in FIRSTS, position)
                )
        return SnapshotMarks(first[0], last[0], marks)

    def schema_switches(self, kinds: Mapping[int, int], limit: int) -> list[tuple[str, int]]:
        """Where a change has a schema of another kind than the one before it: positions and schemas, the first `limit`."""
        rows = self.where(one_of("schema_id", kinds)).rows("position", "schema_id").to_pylist()
        places = sorted({(row["position"], kinds[row["schema_id"]], row["schema_id"]) for row in rows})
        changed = places[:1] + [after for before, after in pairwise(places) if before[1] != after[1]]
        return [(position, number) for position, _, number in changed[:limit]]

    def to_fold(self, limit: int) -> pa.Table:
        """The columns that a fold reads, of at most `limit` changes."""
        return self._to_fold().slice(0, limit)

    def folded(self, to_events: "Kernel", fold_events: "Kernel", one_bucket: Sequence[int] = ()) -> pa.Table:
        """See `Changes.folded`."""
        events = pa.Table.from_batches(list(to_events(self._to_fold().combine_chunks().to_batches())), ROW_EVENTS)
        return pa.Table.from_batches(list(fold_events(sorted_events(events).combine_chunks().to_batches())), OUTCOME)

    def _to_fold(self) -> pa.Table:
        return fold_input(self._read(*LOG_COLUMNS))

    def _read(self, *columns: str) -> pa.Table:
        """Whole columns of the changes that are meant."""
        if self.known is not None and {*columns, *columns_in(self.condition)} <= set(self.known.column_names):
            return self.log.matching(self.known, self.condition).select(list(dict.fromkeys(columns)))
        return self.log.rows(self.condition, list(dict.fromkeys(columns)))


def _column(rows: pa.Table, name: str) -> pa.ChunkedArray:
    """A column, or a member of one that is a struct."""
    whole, _, member = name.partition(".")
    column = rows.column(whole)
    if member:
        column = pc.struct_field(column, member)
    return column.cast(_type_of(name))


def _type_of(name: str) -> pa.DataType:
    whole, _, member = name.partition(".")
    kind = log_tables.CHANGES.columns.field(whole).type
    return kind.field(member).type if member else kind


def _member(text: str | None, path: str) -> str | None:
    """The text at a path such as `$.source.snapshot` of a JSON object; None where it has none."""
    value = b"null" if text is None else text.encode()
    for name in path.removeprefix("$.").split("."):
        value = json_text.members(value).get(name, b"null") if value[:1] == b"{" else b"null"
    if value == b"null":
        return None
    return json_text.string(value) if value[:1] == b'"' else value.decode()
