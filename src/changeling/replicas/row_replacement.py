"""Which stored rows the rows of a fold replace, and by what: with Arrow alone, in a task or in the driver.

A scan looks the keys of a fold up in some data files; files whose bounds exclude all of them are not read. What several scans
found is put together into deleted positions and new rows, which one commit then brings into the table.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from changeling.iceberg import deletion_vectors
from changeling.iceberg.bounds import may_hold
from changeling.iceberg.data_files import DataFile, OpenFile
from changeling.iceberg.parquet_files import WrittenFile, filesystem
from changeling.iceberg.row_matching import codes, matching
from changeling.replicas import staged_rows as staged
from changeling.replicas.row_effect import Effect
from changeling.replicas.shape import Shape

NO_ROWS = np.zeros(0, np.int64)
MAX_ROWS = 500_000
"""Rows of a fold that are looked up at once."""


@dataclass(frozen=True)
class StoredSnapshot:
    """The rows of one snapshot: its files, and its columns in the order of their places, each with its id."""

    files: tuple[DataFile, ...]
    columns: pa.Schema
    key: tuple[int, ...] = ()
    """The places of the key; none where rows have no key."""
    in_memory: pa.Table | None = None
    """Rows that are in no file."""

    @property
    def key_columns(self) -> pa.Schema:
        """What rows are looked up by: all columns where there is no key."""
        return pa.schema([self.columns.field(place) for place in self.key]) if self.key else self.columns


@dataclass(frozen=True)
class Scan:
    """The result of scanning some files."""

    deleted: dict[str, np.ndarray] = field(default_factory=dict)
    """Positions of live rows to delete, by data file."""
    found: np.ndarray = field(default_factory=lambda: NO_ROWS)
    """Of each row in `base_rows`, the place of the row of the fold that is based on it."""
    base_rows: pa.Table | None = None


def read_staged(
    files: Sequence[WrittenFile],
    shape: Shape,
    history: bool = False,
    limit: int | None = MAX_ROWS,
    columns: Sequence[str] | None = None,
) -> Iterator[pa.Table]:
    """The rows that a fold staged, or some of their columns, in parts of bounded size: no row is in two of them."""
    layout = staged.staged_layout(shape, history)
    if columns is not None:
        layout = pa.schema([layout.field(name) for name in columns])
    waiting: list[pa.Table] = []
    for written in files:
        store, path = filesystem(written.path)
        with pq.ParquetFile(store.open_input_file(path)) as file:
            for group in range(file.num_row_groups):
                waiting.append(file.read_row_group(group, layout.names).cast(layout))
                if limit is not None and sum(part.num_rows for part in waiting) >= limit:
                    yield pa.concat_tables(waiting)
                    waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def lookup_columns(rows: pa.Table, places: Sequence[str], columns: pa.Schema) -> pa.Table:
    """Columns of a fold's rows under the ids of the stored columns that they are compared with."""
    return pa.table([rows.column(name) for name in places], schema=columns)


def scan_keyed(rows: pa.Table, current: StoredSnapshot, base: StoredSnapshot | None = None) -> Scan:
    """Looks up the rows of a table with a key: those to delete, and those that complete partial rows.

    Rows that are folded again are completed from the rows of `base`, the others from those of `current`.
    """
    refolded = is_refolded(rows)
    patched = _places(rows, Effect.PATCH)
    written = np.flatnonzero(np.asarray(pc.not_equal(rows.column(staged.EFFECT), Effect.TOUCH.value)))
    own = lookup_columns(rows.take(written), own_names(current), current.key_columns)
    on_current = patched if base is None else patched[~refolded[patched]]
    on_base = NO_ROWS if base is None else patched[refolded[patched]]
    parts = [_scan(current, own, rows, on_current)]
    if base is not None:
        parts.append(_scan(base, own.slice(0, 0), rows, on_base))
    return together(parts)


def without_base(rows: pa.Table, current: StoredSnapshot, base: StoredSnapshot | None = None) -> pa.Table:
    """Of the rows that moved here from a stored row, those for which there is none."""
    moved = rows.filter(pc.fill_null(rows.column(staged.NEEDS_BASE), False))
    found = scan_keyed(moved, current, base).found
    return moved.take(pa.array(np.setdiff1d(np.arange(moved.num_rows), found)))


def _scan(stored: StoredSnapshot, own: pa.Table, rows: pa.Table, based: np.ndarray) -> Scan:
    bases = lookup_columns(rows.take(based), stored_key_names(stored), stored.key_columns)
    deleted: dict[str, np.ndarray] = {}
    found, base_rows = [], []
    if stored.in_memory is not None and bases.num_rows:
        pairs = matching(bases.columns, stored.in_memory.select(list(stored.key)).columns)
        found.append(based[pairs.wanted])
        base_rows.append(stored.in_memory.take(pa.array(pairs.stored)))
    for file in stored.files:
        goes, completes = may_hold(file, own), may_hold(file, bases)
        if not (goes or completes):
            continue
        with OpenFile(file) as opened:
            keys, live = opened.columns(stored.key_columns).columns, opened.live()
            if goes:
                hits = np.unique(matching(own.columns, keys).stored)
                hits = hits[live[hits]]
                if len(hits):
                    deleted[file.path] = hits
            if completes:
                pairs = matching(bases.columns, keys)
                alive = live[pairs.stored]
                if alive.any():
                    places, back = np.unique(pairs.stored[alive], return_inverse=True)
                    found.append(based[pairs.wanted[alive]])
                    base_rows.append(opened.rows(places, stored.columns).take(pa.array(back)))
    return Scan(
        deleted, np.concatenate(found) if found else NO_ROWS, pa.concat_tables(base_rows) if base_rows else None
    )


def rows_with_keys(stored: StoredSnapshot, keys: pa.Table) -> pa.Table:
    """The stored rows that have one of some keys, in the order of `key_columns`."""
    found = [stored.columns.empty_table()]
    for file in stored.files:
        if not may_hold(file, keys):
            continue
        with OpenFile(file) as opened:
            hits = np.unique(matching(keys.columns, opened.columns(stored.key_columns).columns).stored)
            hits = hits[opened.live()[hits]]
            if len(hits):
                found.append(opened.rows(hits, stored.columns))
    return pa.concat_tables(found)


def all_rows(stored: StoredSnapshot) -> pa.Table:
    """All stored rows."""
    found = [stored.columns.empty_table()]
    for file in stored.files:
        with OpenFile(file) as opened:
            found.append(opened.columns(stored.columns).filter(pa.array(opened.live())))
    return pa.concat_tables(found)


def together(scans: Iterable[Scan]) -> Scan:
    """The union of scans of different files."""
    parts = list(scans)
    base_rows = [part.base_rows for part in parts if part.base_rows is not None]
    return Scan(
        {path: hits for part in parts for path, hits in part.deleted.items()},
        np.concatenate([NO_ROWS, *(part.found for part in parts)]),
        pa.concat_tables(base_rows) if base_rows else None,
    )


def rows_that_exist(rows: pa.Table) -> np.ndarray:
    """The places of the rows of a fold that exist now, in the order in which `completed` returns them."""
    return np.concatenate([_places(rows, Effect.REPLACE), _places(rows, Effect.PATCH)])


def _places(rows: pa.Table, effect: Effect) -> np.ndarray:
    return np.flatnonzero(np.asarray(pc.equal(rows.column(staged.EFFECT), effect.value)))


def completed(rows: pa.Table, scan: Scan, columns: pa.Schema, key: Sequence[int]) -> pa.Table:
    """The rows of a fold as they are now, without those that are gone or were only touched."""
    whole, patched = _places(rows, Effect.REPLACE), _places(rows, Effect.PATCH)
    names = [staged.column_name(place) for place in range(len(columns))]
    plain = rows.select(names).take(pa.array(whole)).cast(_bare(columns, names))
    if not len(patched):
        return plain
    base_row = np.full(rows.num_rows, -1, np.int64)
    base_row[scan.found] = np.arange(len(scan.found))
    places = pa.array(base_row[patched], mask=base_row[patched] < 0)
    mentioned = _mentioned(rows.column(staged.MENTIONED).take(pa.array(patched)), len(columns))
    filled = []
    for place, name in enumerate(names):
        written = rows.column(name).take(pa.array(patched)).combine_chunks()
        if place in key or scan.base_rows is None:
            filled.append(written)
            continue
        stored = scan.base_rows.column(place).combine_chunks().take(places)
        filled.append(pc.if_else(pa.array(mentioned[:, place]), written, stored.cast(written.type)))
    return pa.concat_tables([plain, pa.table(filled, schema=plain.schema)])


def _mentioned(flags: pa.ChunkedArray, width: int) -> np.ndarray:
    """Which columns each row mentions."""
    flat = flags.combine_chunks().flatten()
    found: np.ndarray = np.asarray(flat, bool).reshape(-1, width)
    return found


def recounted(rows: pa.Table, current: StoredSnapshot, base: StoredSnapshot | None = None) -> tuple[Scan, pa.Table]:
    """Rows without a key: deletes or adds as many of each content as the fold counted."""
    names = [staged.column_name(place) for place in range(len(current.columns))]
    rows = added_up(rows, names)
    refolded = is_refolded(rows) if base is not None else np.zeros(rows.num_rows, bool)
    own = lookup_columns(rows, names, current.columns)
    stored_counts, places = _copies(own, current, np.arange(rows.num_rows))
    # The count of rows that are folded again starts with those of the base.
    before = stored_counts.copy()
    if base is not None and refolded.any():
        before[refolded] = _copies(own, base, np.flatnonzero(refolded))[0][refolded]
    wanted = np.maximum(before + np.asarray(rows.column(staged.COUNT), np.int64), 0)
    deleted: dict[str, list[int]] = {}
    for row in np.flatnonzero(wanted < stored_counts).tolist():
        for path, position in places[row][: int(stored_counts[row] - wanted[row])]:
            deleted.setdefault(path, []).append(position)
    copies = np.repeat(np.arange(rows.num_rows), np.maximum(wanted - stored_counts, 0))
    coming = rows.select(names).take(pa.array(copies))
    return Scan({path: np.array(sorted(hits), np.int64) for path, hits in deleted.items()}), coming


def added_up(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """One row for each content: texts that were spelled in several ways may be one value."""
    own, _ = codes([rows.column(name) for name in names], [rows.column(name) for name in names])
    distinct, firsts = np.unique(own, return_index=True)
    if len(distinct) == rows.num_rows:
        return rows
    counts = np.bincount(own, np.asarray(rows.column(staged.COUNT), np.int64)).astype(np.int64)
    merged = rows.take(pa.array(firsts))
    return merged.set_column(merged.schema.get_field_index(staged.COUNT), staged.COUNT, pa.array(counts))


def _copies(
    own: pa.Table, stored: StoredSnapshot, wanted: np.ndarray
) -> tuple[np.ndarray, dict[int, list[tuple[str, int]]]]:
    """How many stored rows are equal to each row, and where they are."""
    counts: np.ndarray = np.zeros(own.num_rows, np.int64)
    places: dict[int, list[tuple[str, int]]] = {}
    part = own.take(pa.array(wanted))
    if stored.in_memory is not None and part.num_rows:
        pairs = matching(part.columns, stored.in_memory.columns)
        np.add.at(counts, wanted[pairs.wanted], 1)
    for file in stored.files:
        if not may_hold(file, part):
            continue
        with OpenFile(file) as opened:
            pairs, live = matching(part.columns, opened.columns(stored.columns).columns), opened.live()
            for row, position in zip(wanted[pairs.wanted].tolist(), pairs.stored.tolist(), strict=True):
                if live[position]:
                    counts[row] += 1
                    places.setdefault(row, []).append((file.path, position))
    return counts, places


def vectors(
    location: str, files: Sequence[DataFile], deleted: dict[str, np.ndarray]
) -> list[tuple[DataFile, deletion_vectors.Vector]]:
    """Writes the deletion vectors of the files: each with all of its deleted rows, earlier ones included."""
    by_path = {file.path: file for file in files if file.path in deleted}
    merged = {}
    for path, hits in deleted.items():
        vector = by_path[path].vector
        merged[path] = hits if vector is None else np.union1d(hits, deletion_vectors.read(vector))
    written = deletion_vectors.write(location, merged)
    return [(by_path[path], vector) for path, vector in written.items()]


def is_refolded(rows: pa.Table) -> np.ndarray:
    """Which rows are folded from an earlier state on."""
    found: np.ndarray = np.asarray(pc.fill_null(rows.column(staged.REFOLDED), False), bool)
    return found


def own_names(stored: StoredSnapshot) -> list[str]:
    """The key columns of a fold's rows."""
    return [staged.column_name(place) for place in stored.key]


def stored_key_names(stored: StoredSnapshot) -> list[str]:
    """The key columns of the rows that a fold's rows are based on."""
    return [staged.stored_key_name(place) for place in range(len(stored.key))]


def _bare(columns: pa.Schema, names: Sequence[str]) -> pa.Schema:
    return pa.schema([(name, field.type) for name, field in zip(names, columns, strict=True)])
