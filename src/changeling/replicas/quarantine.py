"""Quarantine: values that replicas cannot store. An entry is removed when its row is written again, and stays otherwise."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.iceberg import row_delta
from changeling.iceberg.data_files import DataFile, OpenFile, plan_files
from changeling.iceberg.lake import Lake
from changeling.iceberg.parquet_files import Writer, WriteSpec, WrittenFile
from changeling.iceberg.row_delta import RowDelta
from changeling.log.log_tables import QUARANTINE
from changeling.replicas import staged_rows
from changeling.replicas.replica_reader import Identity
from changeling.replicas.row_effect import Effect
from changeling.replicas.row_replacement import read_staged, vectors
from changeling.replicas.row_writer import readable
from changeling.replicas.shape import Shape
from changeling.spark.errors import translated_errors

_STAGED = (
    staged_rows.KEY,
    staged_rows.EFFECT,
    staged_rows.STALE,
    staged_rows.NEEDS_BASE,
    staged_rows.MOVED_FROM,
    staged_rows.POSITION,
    staged_rows.MENTIONED,
)


@dataclass(frozen=True)
class EntriesAfter:
    """The changes to the entries of a table."""

    removed: Sequence[int]
    """By their places."""
    moved: Sequence[dict[str, Any]] = ()
    """The entries that replace some of them."""


@dataclass(frozen=True)
class RowsWritten:
    """The rows of a table that a fold wrote."""

    files: Sequence[WrittenFile]
    """As they are staged."""
    shape: Shape
    moves: bool
    """Entries of a row that moved to another key move along, unless it was written again."""

    def after(self, entries: pa.Table, point: int) -> EntriesAfter:
        """The changes to the table's entries."""
        by_row: dict[str, list[dict[str, Any]]] = {}
        now: dict[str, dict[str, Any]] = {}
        for row in self._met(entries.column("row").combine_chunks()):
            by_row.setdefault(row[staged_rows.KEY], []).append(row)
            if row[staged_rows.MOVED_FROM] is not None and self.moves:
                now[row[staged_rows.MOVED_FROM]] = row
        met = np.flatnonzero(np.asarray(pc.is_in(entries.column("row"), pa.array(list(by_row), pa.string()))))
        removed, moved = [], []
        for place, entry in zip(met.tolist(), entries.take(pa.array(met)).to_pylist(), strict=True):
            there = now.get(entry["row"])
            if there is not None and entry["point"] < point and _is_carried(entry, there):
                removed.append(place)
                moved.append(self._moved(entry, there))
            elif any(_is_resolved(entry, row, point, moves=self.moves) for row in by_row[entry["row"]]):
                removed.append(place)
        return EntriesAfter(removed, moved)

    def _met(self, entries: pa.Array) -> Iterator[dict[str, Any]]:
        """The rows that have entries, or moved from where there are some; `mentioned` are names."""
        names = [column.name for column in self.shape.columns]
        for rows in read_staged(self.files, self.shape, columns=_STAGED):
            here, before = (
                pc.is_in(rows.column(name), entries, skip_nulls=True)
                for name in (staged_rows.KEY, staged_rows.MOVED_FROM)
            )
            for row in rows.filter(pc.or_(here, before)).to_pylist():
                flags = row[staged_rows.MENTIONED] or [False] * len(names)
                mentioned = {name for name, is_there in zip(names, flags, strict=True) if is_there}
                yield {**row, staged_rows.MENTIONED: mentioned}

    def _moved(self, entry: dict[str, Any], there: dict[str, Any]) -> dict[str, Any]:
        row = there[staged_rows.KEY]
        moved = {"row": row, "key": readable(row, self.shape), "position": there[staged_rows.POSITION]}
        return {**entry, **moved}


@dataclass(frozen=True)
class QuarantineUpdate:
    """The changes to the quarantine of a table after its fold."""

    identity: Identity
    added: Sequence[WrittenFile]
    written: RowsWritten | None = None
    """The entries of these rows may be over; without rows those of the whole table are."""
    any_before: bool = True
    """Whether the table may have entries."""


class Quarantine:
    """The table `asides` of a pipeline."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def write_spec(self) -> WriteSpec:
        """Where its files are written."""
        return self._lake.write_spec(QUARANTINE, datetime.now(UTC))

    def forget(self, after: int) -> None:
        """Removes what interrupted merges quarantined: no replica is past this point."""
        if self._lake.size(QUARANTINE).files:
            self._lake.retried(f"DELETE FROM {self._lake.name(QUARANTINE)} WHERE point > {after}")

    def take(self, updates: Sequence[QuarantineUpdate], point: int) -> None:
        """Adds what folds quarantined, and removes the entries of rows that they wrote again, in one commit. Idempotent."""
        if any(update.added or update.any_before for update in updates):
            self._lake.repeated(lambda: self._take(updates, point))

    def _take(self, updates: Sequence[QuarantineUpdate], point: int) -> None:
        with translated_errors():
            iceberg_table, jvm = self._lake.load(QUARANTINE), self._lake.jvm
            current = iceberg_table.currentSnapshot()
            planned = None if current is None else current.snapshotId()
            spec = self._lake.write_spec_of(iceberg_table, QUARANTINE, datetime.now(UTC))
            there = [update for update in updates if update.any_before]
            files = plan_files(iceberg_table, jvm, planned) if there else []
            removed, moved = _after(files, spec.columns, there, point)
            deleted = vectors(spec.location, files, removed)
            added = [file for update in updates for file in update.added]
            if moved:
                writer = Writer(spec)
                writer.write(pa.RecordBatch.from_pylist(moved, QUARANTINE.columns))
                added += writer.close()
            if added or deleted:
                row_delta.commit(iceberg_table, jvm, planned, RowDelta(added, deleted), {})


def _after(
    files: Sequence[DataFile], columns: pa.Schema, updates: Sequence[QuarantineUpdate], point: int
) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
    """The positions of resolved entries, by data file, and the entries that moved."""
    known = {_place(update.identity): update for update in updates}
    # A table's entries may be in many files: its staged rows are read once.
    entries: dict[tuple[str | None, ...], list[pa.Table]] = {}
    for number, file in enumerate(files):
        with OpenFile(file) as opened:
            rows, live = opened.columns(columns), np.flatnonzero(opened.live())
        rows = rows.append_column("file", pa.array(np.full(rows.num_rows, number)))
        rows = rows.append_column("place", pa.array(np.arange(rows.num_rows))).take(pa.array(live))
        for place, part in _by_table(rows):
            if place in known:
                entries.setdefault(place, []).append(part)
    removed: dict[str, list[int]] = {}
    moved: list[dict[str, Any]] = []
    for place, parts in entries.items():
        own, written = pa.concat_tables(parts), known[place].written
        after = (
            EntriesAfter(range(own.num_rows)) if written is None else written.after(own.select(columns.names), point)
        )
        for row in own.select(["file", "place"]).take(pa.array(after.removed, pa.int64())).to_pylist():
            removed.setdefault(files[row["file"]].path, []).append(row["place"])
        moved += after.moved
    return {path: np.array(sorted(places), np.int64) for path, places in removed.items()}, moved


def _by_table(rows: pa.Table) -> Iterator[tuple[tuple[str | None, ...], pa.Table]]:
    """Entries by the source and the table that they belong to."""
    table = rows.column("table").combine_chunks()
    parts = [pc.struct_field(table, name) for name in ("catalog", "schema", "name")]
    names = ["of_source", "of_catalog", "of_schema", "of_name"]
    places = pa.table([rows.column("source"), *parts], names=names).append_column(
        "at", pa.array(np.arange(rows.num_rows))
    )
    for group in places.group_by(names).aggregate([("at", "list")]).to_pylist():
        yield tuple(group[name] for name in names), rows.take(pa.array(group["at_list"]))


def _place(identity: Identity) -> tuple[str | None, ...]:
    table = identity.table
    return identity.source, table.catalog, table.schema, table.name


def _is_resolved(entry: dict[str, Any], row: dict[str, Any], point: int, *, moves: bool) -> bool:
    """Whether an entry is resolved now that its row was written."""
    effect = row[staged_rows.EFFECT]
    if entry["point"] >= point or effect not in (Effect.PATCH.value, Effect.TOUCH.value):
        return True
    if effect == Effect.PATCH.value and entry["column"] in row[staged_rows.MENTIONED]:
        return True
    # A stale row has one mark; the fold reports it again where it is still stale.
    if row[staged_rows.STALE] and _is_mark(entry):
        return True
    # A row that moved here is not the row whose entries are there; what moved along with it has its position, and stays if this
    # is done twice.
    if moves:
        return row[staged_rows.MOVED_FROM] is not None and bool(entry["position"] != row[staged_rows.POSITION])
    return bool(row[staged_rows.NEEDS_BASE]) and _is_mark(entry)


def _is_carried(entry: dict[str, Any], there: dict[str, Any]) -> bool:
    """Whether an entry is still so where its row is now."""
    if entry["column"] is not None:
        return entry["column"] not in there[staged_rows.MENTIONED]
    return _is_mark(entry) and not there[staged_rows.STALE]


def _is_mark(entry: dict[str, Any]) -> bool:
    """The entry says that its row is stale."""
    return entry["column"] is None and entry["value"] is None
