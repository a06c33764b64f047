"""Collects the folded rows of one table, types them a few thousand at a time, and writes them to files."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.iceberg.parquet_files import Writer, WrittenFile
from changeling.log.log_tables import QUARANTINE
from changeling.model.arrow_layouts import tables_array
from changeling.replicas import staged_rows
from changeling.replicas.fold import FoldedRow
from changeling.replicas.fold_table import FoldTable
from changeling.replicas.keys import object_text
from changeling.replicas.metadata_columns import service_names
from changeling.replicas.row_effect import Effect
from changeling.replicas.shape import Shape
from changeling.replicas.typed_rows import TypedRows

_FLUSH = 20_000
STALE = "a change touched the row and did not carry its values"
CLOSE = "close"
"""The state that was open in the stored history ends here."""
State = tuple[str, int | None, str, FoldedRow | None]
"""The row from a position and a time on, by an operation; None where it was removed."""
Entry = tuple[str, str | None, str | None, str | None, str, str]
"""What is quarantined: the key of a row, a column, its value, the value's encoding, the reason, the position."""


def stale_entry(key: str, position: str) -> Entry:
    """The mark of a row whose values are not known."""
    return key, None, None, None, STALE, position


def quarantine_rows(table: FoldTable, entries: Sequence[Entry], point: int) -> pa.RecordBatch:
    """Entries as rows of the quarantine."""
    rows = [entry[0] for entry in entries]
    count = len(entries)
    columns = [
        pa.repeat(pa.scalar(table.source, pa.string()), count),
        tables_array([table.table] * count),
        pa.array(rows, pa.string()),
        pa.array([readable(row, table.shape) for row in rows], pa.string()),
        *(pa.array([entry[place] for entry in entries], pa.string()) for place in (1, 2, 3, 4, 5)),
        pa.repeat(pa.scalar(point, pa.int64()), count),
    ]
    return pa.record_batch(columns, schema=QUARANTINE.columns)


class RowWriter:
    """Writes rows: final ones where no rows are stored yet, otherwise in the layout `staged_layout`."""

    def __init__(self, table: FoldTable, writer: Writer, quarantine: Writer, point: int) -> None:
        self._table, self._writer, self._quarantine, self._point = table, writer, quarantine, point
        self.typed = TypedRows(table.columns, table.shape)
        self.rows = self.patched = self.quarantined = self.stale = self.moved = 0
        self._waiting: list[dict[str, Any]] = []
        self._cells: list[FoldedRow] = []

    def write_whole_rows(self, rows: pa.Table) -> None:
        """Rows whose last event contains all of them."""
        for start in range(0, rows.num_rows, _FLUSH):
            part = rows.slice(start, _FLUSH)
            for encoding, version, alike in _alike(part):
                keys, images, positions, refolded = _columns(alike, "key", "values", "position", "refolded")
                arrays = self.typed.whole(images, keys, encoding, version)
                self._write(arrays, keys, positions, {staged_rows.REFOLDED: refolded})

    def write_counts(self, rows: pa.Table, counts: np.ndarray) -> None:
        """Rows without a key, and how many more or fewer of each there are."""
        for start in range(0, rows.num_rows, _FLUSH):
            part = rows.slice(start, _FLUSH).append_column(staged_rows.COUNT, pa.array(counts[start : start + _FLUSH]))
            for encoding, version, alike in _alike(part):
                self._count(alike, encoding, version)

    def _count(self, rows: pa.Table, encoding: str, version: int | None) -> None:
        keys, images, positions, refolded, count = _columns(
            rows, "key", "values", "position", "refolded", staged_rows.COUNT
        )
        arrays = self.typed.whole(images, keys, encoding, version)
        if self._table.staged:
            self._write(arrays, keys, positions, {staged_rows.COUNT: count, staged_rows.REFOLDED: refolded})
            return
        self._keep_unfit(keys, positions)
        self.typed.quarantined = []
        copies = pa.array(np.repeat(np.arange(len(keys)), np.maximum(count.to_numpy(), 0)), pa.int64())
        self._write([array.take(copies) for array in arrays], keys.slice(0, 0), positions.slice(0, 0), {})

    def write_changes(self, rows: pa.Table) -> None:
        """Changes, each a row of its own."""
        service = service_names(self._table.shape, "changes")
        for start in range(0, rows.num_rows, _FLUSH):
            for encoding, version, alike in _alike(rows.slice(start, _FLUSH)):
                keys, images, times, *values = _columns(
                    alike, "key", "values", "commit_time", "op", "effect", "position"
                )
                arrays = self.typed.whole(images, keys, encoding, version)
                moments = pc.divide(times, 1000).cast(pa.timestamp("us", "UTC"))
                self._write(arrays, keys, values[-1], dict(zip(service, [*values, moments], strict=True)))

    def write_deletes(self, rows: pa.Table) -> None:
        """Rows that no longer exist."""
        if not self._table.stored:
            return
        refolded = rows.column("refolded").to_pylist()
        for key, place in zip(rows.column("key").to_pylist(), refolded, strict=True):
            self.write_row(key, None, bool(place), "")

    def write_row(self, key: str, row: FoldedRow | None, refolded: bool, position: str) -> None:
        """One row as its fold left it."""
        if row is None:
            if self._table.stored:
                self._add(
                    FoldedRow(stored_key=key),
                    {staged_rows.KEY: key, staged_rows.EFFECT: Effect.DELETE.value, staged_rows.REFOLDED: refolded},
                )
            return
        if not self._table.staged and not row.exists:
            self.stale += 1
            self._quarantine_entries([stale_entry(key, position)])
            return
        needs_base = row.needs_base and not row.stale
        self.moved += needs_base
        self._add(
            row,
            {
                staged_rows.KEY: key,
                staged_rows.EFFECT: _effect(row),
                staged_rows.REFOLDED: refolded,
                staged_rows.STALE: row.stale,
                staged_rows.NEEDS_BASE: needs_base,
                staged_rows.MOVED_FROM: None if row.stored_key == key else row.stored_key,
                staged_rows.POSITION: position,
            },
        )

    def write_states(self, key: str, states: list[State], refolded: bool) -> None:
        """Every state of one row, each until the next begins."""
        if self._table.stored and states:
            position, time, _, _ = states[0]
            end = {staged_rows.UNTIL: position, staged_rows.UNTIL_TIME: time}
            self._add(
                FoldedRow(stored_key=key),
                {staged_rows.KEY: key, staged_rows.EFFECT: CLOSE, staged_rows.REFOLDED: refolded, **end},
            )
        for place, (position, time, op, row) in enumerate(states):
            if row is None:
                continue
            until, until_time = states[place + 1][:2] if place + 1 < len(states) else (None, None)
            self._add(
                row,
                {
                    staged_rows.KEY: key,
                    staged_rows.EFFECT: _effect(row),
                    staged_rows.REFOLDED: refolded,
                    staged_rows.POSITION: position,
                    staged_rows.TIME: time,
                    staged_rows.OP: op,
                    staged_rows.UNTIL: until,
                    staged_rows.UNTIL_TIME: until_time,
                },
            )

    def quarantine_change(self, image: str | None, encoding: str, version: int | None, position: str) -> None:
        """Quarantines a change that does not identify its row: a key that does not fit, or no key and no full image."""
        if self._table.shape.key and image is not None:
            before = {name: len(kinds) for name, kinds in self.typed.wider.items()}
            self._meet_key(image, encoding, version)
            if {name: len(kinds) for name, kinds in self.typed.wider.items()} != before:
                return
        reason = (
            "the key does not fit the table's key columns"
            if self._table.shape.key
            else "a table without a key needs the whole row before an update or a delete"
        )
        self._quarantine_entries([(image or "", None, image, encoding, reason, position)])

    def _meet_key(self, image: str, encoding: str, version: int | None) -> None:
        """Finds out whether a key column without a schema needs a wider type."""
        cells = self.typed.cells(image, encoding, version)
        key = [cells.get(number) for number in self._table.shape.key]
        if all(cell is not None for cell in key):
            columns = [number for number in self._table.shape.key if number.startswith("+")]
            for number in columns:
                self.typed.widen(number, cells[number])

    def _add(self, row: FoldedRow, entry: dict[str, Any]) -> None:
        self._waiting.append(entry)
        self._cells.append(row)
        if len(self._waiting) >= _FLUSH:
            self.flush()

    def flush(self) -> None:
        """Types and writes the buffered rows."""
        if not self._waiting:
            return
        waiting, rows = self._waiting, self._cells
        self._waiting, self._cells = [], []
        keys = [entry[staged_rows.KEY] for entry in waiting]
        positions = pa.array([entry.get(staged_rows.POSITION) or "" for entry in waiting], pa.string())
        arrays = self.typed.parts([row.cells for row in rows], keys)
        known = {name: pa.array([entry.get(name) for entry in waiting], kind) for name, kind in _OWN.items()}
        known[staged_rows.MENTIONED] = pa.array(
            [[column.id in row.cells for column in self._table.shape.columns] for row in rows], pa.list_(pa.bool_())
        )
        stored_keys = self.typed.keys([row.stored_key or key for row, key in zip(rows, keys, strict=True)])
        for place, number in enumerate(self._table.shape.key):
            known[staged_rows.stored_key_name(place)] = stored_keys[number]
        self._mark_stale(waiting)
        self._write(arrays, pa.array(keys, pa.string()), positions, known)

    def _mark_stale(self, waiting: list[dict[str, Any]]) -> None:
        stale = [entry for entry in waiting if entry.get(staged_rows.STALE)]
        if stale and not self._table.history:
            self.stale += len(stale)
            self._quarantine_entries(
                [stale_entry(entry[staged_rows.KEY], entry[staged_rows.POSITION]) for entry in stale]
            )

    def _write(self, arrays: list[pa.Array], keys: pa.Array, positions: pa.Array, known: dict[str, pa.Array]) -> None:
        """Writes rows; `known` has the columns of the layout that have no default."""
        count = len(arrays[0]) if arrays else len(keys)
        self._keep_unfit(keys, positions)
        self.rows += count
        if self._table.staged:
            layout = staged_rows.staged_layout(self._table.shape, self._table.history)
            effects = known.get(staged_rows.EFFECT)
            if effects is None:
                known[staged_rows.EFFECT] = pa.repeat(pa.scalar(Effect.REPLACE.value), count)
            else:
                written = pc.is_in(effects, pa.array([Effect.PATCH.value, Effect.TOUCH.value]))
                self.patched += pc.sum(written).as_py() or 0
            known[staged_rows.KEY] = keys
            known |= {staged_rows.column_name(place): array for place, array in enumerate(arrays)}
            for place, number in enumerate(self._table.shape.key):
                number_at = [column.id for column in self._table.shape.columns].index(number)
                known.setdefault(staged_rows.stored_key_name(place), arrays[number_at])
        else:
            layout = self._writer.columns
            known |= {column.name: array for column, array in zip(self._table.shape.columns, arrays, strict=True)}
        columns = [known[field.name] if field.name in known else pa.nulls(count, field.type) for field in layout]
        self._writer.write(pa.record_batch(columns, schema=_bare(layout)))

    def _keep_unfit(self, keys: pa.Array, positions: pa.Array) -> None:
        """Quarantines values that do not fit; once only, although a history has the same rows."""
        if self._table.history or not self.typed.quarantined:
            return
        rows = pa.array([one.row for one in self.typed.quarantined], pa.int64())
        places = zip(self.typed.quarantined, keys.take(rows).to_pylist(), positions.take(rows).to_pylist(), strict=True)
        self._quarantine_entries(
            [(key, one.column, one.value.decode(), one.encoding, one.reason, at) for one, key, at in places]
        )

    def _quarantine_entries(self, entries: list[Entry]) -> None:
        self.quarantined += sum(entry[2] is not None for entry in entries)
        self._quarantine.write(quarantine_rows(self._table, entries, self._point))

    def close(self) -> tuple[list[WrittenFile], list[WrittenFile]]:
        """The files of rows, and those of quarantined values."""
        return self._writer.close(), self._quarantine.close()

    def abandon(self) -> None:
        """Leaves no file behind."""
        self._writer.abandon()
        self._quarantine.abandon()


_OWN = {
    staged_rows.EFFECT: pa.string(),
    staged_rows.REFOLDED: pa.bool_(),
    staged_rows.STALE: pa.bool_(),
    staged_rows.NEEDS_BASE: pa.bool_(),
    staged_rows.MOVED_FROM: pa.string(),
    staged_rows.POSITION: pa.string(),
    staged_rows.TIME: pa.int64(),
    staged_rows.OP: pa.string(),
    staged_rows.UNTIL: pa.string(),
    staged_rows.UNTIL_TIME: pa.int64(),
}


def _columns(rows: pa.Table, *names: str) -> list[pa.Array]:
    return [rows.column(name).combine_chunks() for name in names]


def _effect(row: FoldedRow) -> str:
    if not row.exists:
        # A row that was removed and only touched since does not exist, whatever is stored.
        return (Effect.DELETE if row.stored_key is None else Effect.TOUCH).value
    return (Effect.REPLACE if row.stored_key is None else Effect.PATCH).value


def readable(row: str, shape: Shape) -> str:
    """A normalised key as the quarantine shows it; what is no key as it is."""
    try:
        return object_text(row, shape)
    except ValueError:
        return row


def _bare(layout: pa.Schema) -> pa.Schema:
    """The same names and types without the field ids of files."""
    return pa.schema([(field.name, field.type) for field in layout])


def _alike(rows: pa.Table) -> list[tuple[str, int | None, pa.Table]]:
    """The rows of one encoding and one version of the schema each."""
    pairs = rows.select(["encoding", "schema"]).group_by(["encoding", "schema"]).aggregate([])
    if pairs.num_rows == 1:
        return [(pairs.column("encoding")[0].as_py(), pairs.column("schema")[0].as_py(), rows)]
    found = []
    for pair in pairs.to_pylist():
        same = pc.equal(rows.column("encoding"), pair["encoding"])
        version = rows.column("schema")
        same = pc.and_(
            same,
            version.is_null() if pair["schema"] is None else pc.fill_null(pc.equal(version, pair["schema"]), False),
        )
        found.append((pair["encoding"], pair["schema"], rows.filter(same)))
    return found
