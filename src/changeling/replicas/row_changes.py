"""The first kernel of a fold: each change becomes the events of the rows that it touches, under normalised keys.

Rows without a key are counted: a row that comes is one more of its kind, a row that goes one less.
"""

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.formats import registry
from changeling.model import json_text
from changeling.model.errors import Rejected
from changeling.model.operation import NEW_ROW_OPERATIONS, Image, Operation
from changeling.replicas import partial_inserts
from changeling.replicas.change_groups import SourceTable, alike, by_table, effects_of, source_table
from changeling.replicas.change_order import ARRIVAL
from changeling.replicas.fold_table import FoldTable
from changeling.replicas.keys import KeyReader, Reader, content_key, normal, reader_of
from changeling.replicas.old_keys import old_keys
from changeling.replicas.row_effect import Effect
from changeling.replicas.row_events import (
    CODES,
    COMPARED,
    KINDS,
    MINUS,
    OLD_KEY_UNKNOWN,
    PLUS,
    ROW_EVENTS,
    UNIDENTIFIED,
    image_sums,
)
from changeling.replicas.snapshot_attempts import Assignment

_BASED = (CODES[Effect.PATCH], CODES[Effect.PARTIAL_INSERT])
"""The effects on rows that keep columns of the row that they were before."""
_WRITING = (CODES[Effect.REPLACE], *_BASED)


@functools.cache
def _kinds() -> pa.Array:
    return pa.array(KINDS, pa.string())


@dataclass(frozen=True)
class RowChangesKernel:
    """Makes `ROW_EVENTS` of changes with `READ_COLUMNS` and `ARRIVAL`."""

    tables: tuple[FoldTable, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batch by batch."""
        kernels = [_RowChanges(number, table) for number, table in enumerate(self.tables)]
        known: dict[SourceTable, list[_RowChanges]] = {}
        for one in kernels:
            known.setdefault(source_table(one.table.source, one.table.table), []).append(one)
        for batch in batches:
            for wanted, rows in by_table(batch, known):
                for one in wanted:
                    yield from (events for events in one(rows) if events.num_rows)


class _TouchedRows(NamedTuple):
    """What changes do to rows."""

    keys: pa.Array
    moved_from: pa.Array
    effects: pa.Array
    values: pa.Array


class _RowChanges:
    """The events of one table's changes."""

    def __init__(self, number: int, table: FoldTable) -> None:
        self._number, self.table = number, table
        self._keyed = bool(table.shape.key)
        self._attempt = Assignment(table.attempts)

    def __call__(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        effects, rows = effects_of(batch)
        if not rows.all():
            batch, effects = batch.filter(pa.array(rows)), effects[rows]
        versions = self._versions(batch)
        to_events = self._keyed_events if self._keyed else self._counted_events
        if self.table.is_change_list:
            to_events = self._appended_events
        if self.table.drops_superseded:
            batch = batch.append_column(COMPARED, pa.array(_may_share_position(batch.column("position"))))
        made = [
            to_events(part, kinds, encoding, version)
            for encoding, version, part, kinds in alike(batch, versions, effects)
        ]
        # What is looked at for superseded events has all that a batch says of a position.
        yield from made if not self.table.drops_superseded or len(made) < 2 else [pa.concat_batches(made)]

    def _versions(self, batch: pa.RecordBatch) -> np.ndarray:
        """The version of each change; -1 where there is none. A change that carries none has that of its position."""
        carried = batch.column("schema_id")
        found = np.asarray(pc.fill_null(carried, -1), np.int64).copy()
        if carried.null_count and self.table.columns.versions:
            for row in np.flatnonzero(found < 0):
                holding = self.table.columns.holding(batch.column("position")[int(row)].as_py())
                found[row] = -1 if holding is None else holding
        for versions, starts in self.table.columns.reversions:
            own = np.isin(found, list(versions))
            found[own] = starts[0][1]
            for start, number in starts[1:]:
                found[own & np.asarray(pc.greater_equal(batch.column("position"), start))] = number
        return found

    def _keyed_events(self, batch: pa.RecordBatch, effects: np.ndarray, encoding: str, version: int) -> pa.RecordBatch:
        batch, effects = partial_inserts.without_deletes_of_moves(batch, effects, self.table.moved)
        reader = KeyReader(self.table.columns, self.table.shape, encoding, None if version < 0 else version)
        keys = reader(batch.column("key"))
        moves = old_keys(batch, np.isin(effects, _WRITING), keys, reader)
        effects = partial_inserts.with_known_moves(batch, effects, self.table.moved, moves, reader)
        values = _plain(batch.column("after"))
        if keys.null_count:
            unidentified = keys.is_null()
            effects = np.where(np.asarray(unidentified), CODES[UNIDENTIFIED], effects)
            values = pc.if_else(unidentified, _plain(batch.column("key")), values)
            keys = pc.fill_null(keys, "")
        # A row with a full image leaves one key and appears under another: two events that need not be folded together.
        leaving = [place for place in moves if effects[place] == CODES[Effect.REPLACE]]
        based = {place: old for place, old in moves.items() if effects[place] in _BASED}
        moved_from = (
            pa.array(map(based.get, range(len(keys))), pa.string()) if based else pa.nulls(len(keys), pa.string())
        )
        if leaving:
            nothing = pa.nulls(len(leaving), pa.string())
            batch = batch.take(pa.array([*range(len(keys)), *leaving], pa.int64()))
            keys = pa.concat_arrays([keys, pa.array([moves[place] for place in leaving], pa.string())])
            moved_from, values = (pa.concat_arrays([column, nothing]) for column in (moved_from, values))
            effects = np.append(effects, [CODES[Effect.DELETE]] * len(leaving))
        rows = _TouchedRows(keys, moved_from, _kinds().take(pa.array(effects)), values)
        return self._made(batch, rows, version, len(leaving))

    def _counted_events(
        self, batch: pa.RecordBatch, effects: np.ndarray, encoding: str, version: int
    ) -> pa.RecordBatch:
        places: list[int] = []
        keys: list[str] = []
        kinds: list[str] = []
        values: list[str | None] = []
        columns = [batch.column(name).to_pylist() for name in ("op", "before", "after", "before_image", "after_image")]
        halves = encoding != "canonical" and registry.get(encoding).halves
        for place, (op, before, after, before_image, after_image) in enumerate(zip(*columns, strict=True)):
            images = Image(before_image), Image(after_image)
            for kind, text in _counted(Operation(op), before, after, *images, halves):
                key = None if text is None else self._content(text, encoding, version)
                places.append(place)
                keys.append(key or "")
                kinds.append(kind if key is not None else UNIDENTIFIED)
                values.append(text)
        own, effect_names, texts = (pa.array(column, pa.string()) for column in (keys, kinds, values))
        rows = _TouchedRows(own, pa.nulls(len(keys), pa.string()), effect_names, texts)
        return self._made(batch.take(pa.array(places, pa.int64())), rows, version)

    def _appended_events(
        self, batch: pa.RecordBatch, effects: np.ndarray, encoding: str, version: int
    ) -> pa.RecordBatch:
        """Each change as it came: the row after it, or where there is none the row before."""
        names = ("key", "before", "after", "before_image", "after_image")
        values, images = [], []
        for key, before, after, before_image, after_image in zip(
            *(batch.column(name).to_pylist() for name in names), strict=True
        ):
            values.append(_with_members(key, before if after is None else after))
            images.append(before_image if after is None else after_image)
        keys, moved_from = pa.repeat("", batch.num_rows), pa.nulls(batch.num_rows, pa.string())
        rows = _TouchedRows(keys, moved_from, pa.array(images, pa.string()), pa.array(values, pa.string()))
        return self._made(batch, rows, version)

    def _content(self, text: str, encoding: str, version: int) -> str:
        found = []
        for name, value in json_text.members(text).items():
            reader = reader_of(self.table.columns, self.table.shape, encoding, None if version < 0 else version, name)
            if reader is not None and value != b"null":
                found.append((reader.id, _spelled(value, reader)))
        return content_key(found)

    def _made(self, batch: pa.RecordBatch, rows: "_TouchedRows", version: int, leaving: int = 0) -> pa.RecordBatch:
        """Row events, given a change for each; the last ones of a table with a key may be of rows that leave theirs."""
        keys, moved_from, effects, values = rows
        table, count = self.table, len(keys)
        groups = keys
        if table.groups:
            groups = pa.array([table.groups.get(key, key) for key in keys.to_pylist()], pa.string())
        columns = [
            pa.repeat(pa.scalar(self._number, pa.int32()), count),
            groups,
            batch.column("position"),
            keys,
            moved_from,
            effects,
            batch.column("op"),
            values,
            batch.column("encoding"),
            pa.repeat(pa.scalar(version if version >= 0 else None, pa.int64()), count),
            batch.column("commit_time"),
            self._refolded(keys, moved_from),
            image_sums(batch, leaving if self._keyed else count),
            *(batch.column(name) for name in ARRIVAL),
            self._attempts(batch, count),
        ]
        events = pa.record_batch([_plain(column) for column in columns], schema=ROW_EVENTS)
        if table.start_after.position:
            # Changes of the position of a truncate show which of those after it are repetitions.
            reaches = pc.greater if table.start_after.is_end else pc.greater_equal
            events = events.filter(reaches(events.column("position"), table.start_after.position))
        if table.contained:
            events = events.filter(pc.greater_equal(events.column("position"), table.contained))
        if not table.applied_up_to:
            return events
        wanted = pc.or_(events.column("refolded"), pc.greater(events.column("position"), table.applied_up_to))
        # A row that may have left a key which is folded again.
        return events.filter(pc.or_(wanted, pc.equal(events.column("effect"), OLD_KEY_UNKNOWN)))

    def _refolded(self, keys: pa.Array, moved_from: pa.Array) -> pa.Array:
        """A row that left a key which is folded again appears there, so its new key is folded again too."""
        if not self.table.refold_keys:
            return pa.repeat(False, len(keys))
        return pc.or_(pc.is_in(keys, self._folded_again), pc.is_in(moved_from, self._folded_again))

    @functools.cached_property
    def _folded_again(self) -> pa.Array:
        return pa.array(list(self.table.refold_keys), pa.string())

    def _attempts(self, batch: pa.RecordBatch, count: int) -> pa.Array:
        """The attempts at a snapshot that rows belong to."""
        if not self.table.attempts or self._keyed or self.table.is_change_list:
            return pa.nulls(count, pa.int32())
        places = zip(*(batch.column(name).to_pylist() for name in ("op", *ARRIVAL)), strict=True)
        return pa.array([self._attempt(*place) if op == Operation.READ else None for op, *place in places], pa.int32())


def _may_share_position(positions: pa.Array) -> np.ndarray:
    """Which changes may share their position with others: the first and the last one with those of other batches.

    All of them where positions do not ascend.
    """
    before, after = positions.slice(0, max(0, len(positions) - 1)), positions.slice(1)
    found: np.ndarray = np.ones(len(positions), np.bool_)
    if pc.all(pc.less_equal(before, after)).as_py() is not False and len(positions):
        same = np.asarray(pc.equal(before, after))
        found[1:-1] = same[1:] | same[:-1]
        ends = pc.is_in(positions, pa.array([positions[0].as_py(), positions[-1].as_py()], positions.type))
        found |= np.asarray(ends)
    return found


def _with_members(key: str | None, row: str | None) -> str | None:
    """A row with the members of its key, which some dialects carry separately; those of the row itself take precedence."""
    if key is None or row is None or key == "{}":
        return row if row is not None else key
    return key if row == "{}" else f"{key[:-1]},{row[1:]}"


def _plain(column: pa.Array) -> pa.Array:
    return column.cast(pa.string()) if pa.types.is_large_string(column.type) else column


def _counted(
    op: Operation, before: str | None, after: str | None, before_image: Image, after_image: Image, halves: bool
) -> list[tuple[str, str | None]]:
    """Which rows are removed and added. Without a key only a full image identifies a row."""
    goes = before is not None and before_image is Image.FULL
    comes = after is not None and (after_image is Image.FULL or op in NEW_ROW_OPERATIONS)
    if op in NEW_ROW_OPERATIONS and comes:
        return [(PLUS, after)]
    if op is Operation.DELETE and goes:
        return [(MINUS, before)]
    if op is Operation.DELETE or not (goes or comes):
        return [(UNIDENTIFIED, before or after)]
    if goes and comes:
        return [(MINUS, before), (PLUS, after)]
    if halves and (before is None or after is None):
        return [(MINUS, before) if goes else (PLUS, after)]
    return [(UNIDENTIFIED, before or after)]


def _spelled(value: bytes, reader: Reader) -> bytes:
    """The normalised value of its type, or the value as it is where it does not fit: it is quarantined later."""
    try:
        return normal(value, reader)
    except (Rejected, ValueError, msgspec.DecodeError):
        return value
