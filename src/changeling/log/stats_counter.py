"""Collects the statistics of a task's changes while it writes them."""

from collections.abc import Iterable

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from changeling.log.batch_stats import TABLE_OPERATIONS, BatchStats, TableStats, together
from changeling.log.table_groups import grouped, table_at
from changeling.model.table import TableName


class StatsCounter:
    """The statistics of a task's changes."""

    def __init__(self) -> None:
        self._stats = BatchStats()
        self._seen: set[str] = set()
        self._ended: set[str] = set()
        self._is_counted = False
        """The mark of an end counts the changes of its transaction, which may be in other tasks."""

    def __call__(self, changes: pa.RecordBatch) -> None:
        """Adds changes with the numbers of their schemas."""
        if not changes.num_rows:
            return
        times = changes.column("commit_time")
        commit_time = pc.max(times.filter(placed_positions(changes).is_valid())).as_py()
        self._note_ends(changes)
        stats = BatchStats(_last(changes), commit_time, tables=list(_tables(changes)))
        self._stats = together((self._stats, stats))

    def found(self) -> BatchStats:
        """The statistics so far."""
        return msgspec.structs.replace(self._stats, open=self._is_counted or bool(self._seen - self._ended))

    def _note_ends(self, changes: pa.RecordBatch) -> None:
        transactions, ops = changes.column("transaction"), changes.column("op")
        ids, complete, totals = (pc.struct_field(transactions, name) for name in ("id", "complete", "total"))
        commits = pc.equal(ops, "commit")
        ends = pc.or_(pc.fill_null(complete, False), commits)
        self._ended.update(pc.unique(ids.filter(ends)).to_pylist())
        self._seen.update(pc.unique(ids.drop_null()).to_pylist())
        counted = pc.and_(pc.and_(commits, changes.column("arrived")), pc.greater(pc.fill_null(totals, 0), 0))
        self._is_counted = self._is_counted or bool(pc.any(counted).as_py())
        if self._seen <= self._ended:
            # A transaction's changes arrive together; otherwise its end is looked up in the log.
            self._seen.clear()
            self._ended.clear()


def _last(changes: pa.RecordBatch) -> tuple[str, str | None] | None:
    positions = placed_positions(changes)
    last = pc.max(positions).as_py()
    if last is None:
        return None
    return last, pc.struct_field(changes.column("transaction"), "id")[pc.index(positions, last).as_py()].as_py()


def placed_positions(changes: pa.RecordBatch | pa.Table) -> pa.Array | pa.ChunkedArray:
    """The positions of changes; null for a control change without its own: its place of arrival is not comparable with positions of others."""
    positions, arrived = changes.column("position"), pc.fill_null(changes.column("arrived"), False)
    if not pc.any(arrived).as_py():
        return positions
    is_control = pc.invert(pc.is_in(changes.column("op"), pa.array(TABLE_OPERATIONS)))
    return pc.if_else(pc.and_(arrived, is_control), None, positions)


def _tables(changes: pa.RecordBatch) -> Iterable[TableStats]:
    parts = changes.column("table").flatten()
    groups, rows = grouped(parts)
    counted = changes.select(["position", "op", "schema_id", "key", "arrived"])
    for group, row in enumerate(rows):
        if parts[-1][int(row)].is_valid:
            own = counted if len(rows) == 1 else counted.filter(pa.array(groups == group))
            stats = _table(table_at(changes, int(row)), own)
            if stats.changes or stats.altered:
                yield stats


def _table(table: TableName, changes: pa.RecordBatch) -> TableStats:
    positions, ops, versions = (changes.column(name) for name in ("position", "op", "schema_id"))
    kinds = pc.value_counts(ops)
    counts = dict(zip(kinds.field(0).to_pylist(), kinds.field(1).to_pylist(), strict=True))
    truncated = pc.min(positions.filter(pc.equal(ops, "truncate"))).as_py() if "truncate" in counts else None
    keys = changes.column("key")
    key = pc.index(keys.is_valid(), True).as_py() if keys.null_count < len(keys) else None
    with_schema = positions if not versions.null_count else positions.filter(versions.is_valid())
    version = None
    if len(with_schema):
        last = pc.max(with_schema).as_py()
        version = (last, pc.max(versions.drop_null().filter(pc.equal(with_schema, last))).as_py())
    return TableStats(
        table,
        sum(counts.get(op, 0) for op in TABLE_OPERATIONS),
        pc.min(placed_positions(changes)).as_py() or pc.min(positions).as_py(),
        truncated,
        None if key is None else keys[key].as_py(),
        version,
        sorted(pc.unique(versions.drop_null()).to_pylist()),
        altered="ddl" in counts and bool(pc.any(pc.and_(pc.equal(ops, "ddl"), versions.is_valid())).as_py()),
        has_snapshot_rows="read" in counts,
    )
