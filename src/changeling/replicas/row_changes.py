"""The first kernel of a fold: each change becomes the events of the rows that it touches, under normalised keys.

Rows without a key are counted: a row that comes is one more of its kind, a row that goes one less.
"""

import functools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.formats import registry
from changeling.model import json_text
from changeling.model.errors import Rejected
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName
from changeling.replicas import partial_inserts
from changeling.replicas.keys import KeyReader, Reader, content_key, normal, reader_of
from changeling.replicas.row_effect import Effect, effect
from changeling.replicas.row_events import ARRIVAL, MINUS, PLUS, ROW_EVENTS, UNPLACED, UNSETTLED, FoldTable, image_sums
from changeling.replicas.snapshot_attempts import Assignment


@dataclass(frozen=True)
class RowChangesKernel:
    """Changes with `READ_COLUMNS` and `ARRIVAL` into `ROW_EVENTS`."""

    tables: tuple[FoldTable, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batch by batch."""
        spreads = [_RowChanges(number, table) for number, table in enumerate(self.tables)]
        known: dict[tuple[str | None, ...], list[_RowChanges]] = {}
        for spread in spreads:
            known.setdefault((spread.table.source, *_parts(spread.table.table)), []).append(spread)
        for batch in batches:
            for wanted, rows in _by_table(batch, known):
                for spread in wanted:
                    yield from spread(rows)


def _parts(table: TableName) -> tuple[str | None, str | None, str]:
    return table.catalog, table.schema, table.name


def _by_table(
    batch: pa.RecordBatch, known: dict[tuple[str | None, ...], list["_RowChanges"]]
) -> Iterator[tuple[list["_RowChanges"], pa.RecordBatch]]:
    names = [batch.column("source"), *batch.column("table").flatten()]
    encoded = [column.dictionary_encode() for column in names]
    if batch.num_rows and all(len(column.dictionary) + bool(column.null_count) == 1 for column in encoded):
        wanted = known.get(tuple(column[0].as_py() for column in names))
        if wanted is not None:
            yield wanted, batch
        return
    codes = np.zeros(batch.num_rows, np.int64)
    for column in encoded:
        codes = codes * (len(column.dictionary) + 1) + np.asarray(pc.add(pc.fill_null(column.indices, -1), 1), np.int64)
    _, firsts, inverse = np.unique(codes, return_index=True, return_inverse=True)
    for group, first in enumerate(firsts):
        wanted = known.get(tuple(column[int(first)].as_py() for column in names))
        if wanted is not None:
            yield wanted, batch if len(firsts) == 1 else batch.filter(pa.array(inverse == group))


class _RowChanges:
    """The events of one table's changes."""

    def __init__(self, number: int, table: FoldTable) -> None:
        self._number, self.table = number, table
        self._keyed = bool(table.shape.key)
        self._attempt = Assignment(table.attempts)

    def __call__(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        effects, rows = _effects(batch)
        if not rows.all():
            batch, effects = batch.filter(pa.array(rows)), effects[rows]
        versions = self._versions(batch)
        spread = self._keyed_events if self._keyed else self._counted_events
        if self.table.listed:
            spread = self._listed_events
        for encoding, version, part, kinds in _alike(batch, versions, effects):
            events = spread(part, kinds, encoding, version)
            if events.num_rows:
                yield events

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
        moves = _moves(batch, effects, keys, reader)
        effects = partial_inserts.settled(batch, effects, self.table.moved, moves, reader)
        effects = np.array([UNPLACED if key is None else kind for key, kind in zip(keys, effects, strict=True)], object)
        # A row with a full image leaves one key and appears under another: two events that need not be folded together.
        leaving = [place for place in moves if effects[place] == Effect.WHOLE]
        origins: list[str | None] = [None] * len(keys)
        for place, old in moves.items():
            if effects[place] in (Effect.PATCH, Effect.PART):
                origins[place] = old
        values = batch.column("after").to_pylist()
        raw = batch.column("key").to_pylist()
        values = [
            raw[place] if kind == UNPLACED else text
            for place, (kind, text) in enumerate(zip(effects, values, strict=True))
        ]
        places = [*range(len(keys)), *leaving]
        return self._made(
            batch.take(pa.array(places, pa.int64())) if leaving else batch,
            [key if key is not None else "" for key in keys] + [moves[place] for place in leaving],
            origins + [None] * len(leaving),
            [*effects, *([Effect.GONE.value] * len(leaving))],
            values + [None] * len(leaving),
            version,
            len(leaving),
        )

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
                kinds.append(kind if key is not None else UNPLACED)
                values.append(text)
        return self._made(batch.take(pa.array(places, pa.int64())), keys, [None] * len(keys), kinds, values, version)

    def _listed_events(self, batch: pa.RecordBatch, effects: np.ndarray, encoding: str, version: int) -> pa.RecordBatch:
        """Each change as it came: the row after it, or where there is none the row before."""
        names = ("key", "before", "after", "before_image", "after_image")
        values, images = [], []
        for key, before, after, before_image, after_image in zip(
            *(batch.column(name).to_pylist() for name in names), strict=True
        ):
            values.append(_with_members(key, before if after is None else after))
            images.append(before_image if after is None else after_image)
        count = batch.num_rows
        return self._made(batch, [""] * count, [None] * count, images, values, version)

    def _content(self, text: str, encoding: str, version: int) -> str:
        found = []
        for name, value in json_text.members(text).items():
            reader = reader_of(self.table.columns, self.table.shape, encoding, None if version < 0 else version, name)
            if reader is not None and value != b"null":
                found.append((reader.id, _spelled(value, reader)))
        return content_key(found)

    def _made(
        self,
        batch: pa.RecordBatch,
        keys: list[str],
        origins: list[str | None],
        effects: list[str],
        values: list[str | None],
        version: int,
        leaving: int = 0,
    ) -> pa.RecordBatch:
        """Row events; the last ones of a table with a key may be of rows that leave theirs."""
        table, count = self.table, len(keys)
        groups = keys if not table.groups else [table.groups.get(key, key) for key in keys]
        # A row that left a key which is folded again appears there, so its new key is folded again too.
        again = [key in table.again or origin in table.again for key, origin in zip(keys, origins, strict=True)]
        columns = [
            pa.repeat(pa.scalar(self._number, pa.int32()), count),
            pa.array(groups, pa.string()),
            batch.column("position"),
            pa.array(keys, pa.string()),
            pa.array(origins, pa.string()),
            pa.array([str(kind) for kind in effects], pa.string()),
            batch.column("op"),
            pa.array(values, pa.string()),
            batch.column("encoding"),
            pa.repeat(pa.scalar(version if version >= 0 else None, pa.int64()), count),
            batch.column("commit_time"),
            pa.array(again, pa.bool_()),
            image_sums(batch, leaving if self._keyed else count),
            *(batch.column(name) for name in ARRIVAL),
            self._attempts(batch, count),
        ]
        events = pa.record_batch([_plain(column) for column in columns], schema=ROW_EVENTS)
        if table.floor:
            events = events.filter(pc.greater(events.column("position"), table.floor))
        if table.contained:
            events = events.filter(pc.greater_equal(events.column("position"), table.contained))
        if not table.top:
            return events
        wanted = pc.or_(events.column("again"), pc.greater(events.column("position"), table.top))
        # A row that may have left a key which is folded again.
        return events.filter(pc.or_(wanted, pc.equal(events.column("effect"), UNSETTLED)))

    def _attempts(self, batch: pa.RecordBatch, count: int) -> pa.Array:
        """The attempts at a snapshot that rows belong to."""
        if not self.table.attempts or self._keyed or self.table.listed:
            return pa.nulls(count, pa.int32())
        places = zip(*(batch.column(name).to_pylist() for name in ("op", *ARRIVAL)), strict=True)
        return pa.array([self._attempt(*place) if op == Operation.READ else None for op, *place in places], pa.int32())


def _with_members(key: str | None, row: str | None) -> str | None:
    """A row with the members of its key, which some dialects carry separately; those of the row itself take precedence."""
    if key is None or row is None or key == "{}":
        return row if row is not None else key
    return key if row == "{}" else f"{key[:-1]},{row[1:]}"


def _plain(column: pa.Array) -> pa.Array:
    return column.cast(pa.string()) if pa.types.is_large_string(column.type) else column


def _effects(batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
    """The effect of each change, and which of them are changes of a row."""
    columns = [batch.column(name).dictionary_encode() for name in ("op", "before_image", "after_image", "encoding")]
    sizes = [len(column.dictionary) for column in columns]
    codes = np.zeros(batch.num_rows, np.int64)
    for column, size in zip(columns, sizes, strict=True):
        codes = codes * size + np.asarray(column.indices, np.int64)
    found = np.empty(max(1, math.prod(sizes)), object)
    for code in np.flatnonzero(np.bincount(codes)).tolist():
        places = np.unravel_index(code, sizes)
        parts = [column.dictionary[int(place)].as_py() for column, place in zip(columns, places, strict=True)]
        found[code] = effect(Operation(parts[0]), Image(parts[1]), Image(parts[2]), parts[3])
    rows: np.ndarray = np.array([kind is not None for kind in found], bool)[codes]
    return found[codes], rows


def _alike(
    batch: pa.RecordBatch, versions: np.ndarray, effects: np.ndarray
) -> Iterator[tuple[str, int, pa.RecordBatch, np.ndarray]]:
    """The changes of one encoding and one version each."""
    if not batch.num_rows:
        return
    encodings = batch.column("encoding").dictionary_encode()
    if len(encodings.dictionary) == 1 and (versions == versions[0]).all():
        yield encodings.dictionary[0].as_py(), int(versions[0]), batch, effects
        return
    codes = np.asarray(encodings.indices, np.int64)
    pairs = np.stack([codes, versions])
    distinct, inverse = np.unique(pairs, axis=1, return_inverse=True)
    inverse = inverse.reshape(-1)
    for place in range(distinct.shape[1]):
        encoding, version = encodings.dictionary[int(distinct[0, place])].as_py(), int(distinct[1, place])
        rows = inverse == place
        yield encoding, version, batch.filter(pa.array(rows)), effects[rows]


def _moves(batch: pa.RecordBatch, effects: np.ndarray, keys: list[str | None], reader: KeyReader) -> dict[int, str]:
    """The changes that move a row, and the key that it had."""
    befores = batch.column("before")
    written = (effects == Effect.WHOLE) | (effects == Effect.PATCH) | (effects == Effect.PART)
    found = written & ~np.asarray(befores.is_null()) & ~np.asarray(batch.column("key").is_null())
    candidates = pa.array(np.flatnonzero(found), pa.int64())
    moved: dict[int, str] = {}
    if not len(candidates):
        return moved
    texts = befores.take(candidates).to_pylist()
    own = batch.column("key").take(candidates).to_pylist()
    names = tuple(json_text.members(own[0]))
    was, now = _keys_in(texts, names), _keys_in(own, names)
    for place, old, new, text, key in zip(candidates.to_pylist(), was, now, texts, own, strict=True):
        # The same bytes are the same key: no need to compare further.
        if old != new and (other := _old(key, text, reader)) is not None and other != keys[place]:
            moved[place] = other
    return moved


def _keys_in(texts: list[str], names: tuple[str, ...]) -> list[Any]:
    """The values of some columns in each object; other members are ignored."""
    return _decoder(names).decode("[" + ",".join(texts) + "]")


@functools.lru_cache(maxsize=1024)
def _decoder(names: tuple[str, ...]) -> "msgspec.json.Decoder[list[Any]]":
    fields: list[Any] = [(f"k{place}", msgspec.Raw | msgspec.UnsetType, msgspec.UNSET) for place in range(len(names))]
    made: Any = msgspec.defstruct("Key", fields, rename={f"k{place}": name for place, name in enumerate(names)})
    return msgspec.json.Decoder(list[made])


def _old(key: str, before: str, reader: KeyReader) -> str | None:
    was, now = json_text.members(before), json_text.members(key)
    if any(name not in was for name in now):
        return None
    try:
        return reader.of({name: was[name] for name in now})
    except (Rejected, ValueError, msgspec.DecodeError):
        return None


def _counted(
    op: Operation, before: str | None, after: str | None, before_image: Image, after_image: Image, halves: bool
) -> list[tuple[str, str | None]]:
    """Which rows are removed and added. Without a key only a full image identifies a row."""
    goes = before is not None and before_image is Image.FULL
    comes = after is not None and (after_image is Image.FULL or op in (Operation.INSERT, Operation.READ))
    if op in (Operation.INSERT, Operation.READ) and comes:
        return [(PLUS, after)]
    if op is Operation.DELETE and goes:
        return [(MINUS, before)]
    if op is Operation.DELETE or not (goes or comes):
        return [(UNPLACED, before or after)]
    if goes and comes:
        return [(MINUS, before), (PLUS, after)]
    if halves and (before is None or after is None):
        return [(MINUS, before) if goes else (PLUS, after)]
    return [(UNPLACED, before or after)]


def _spelled(value: bytes, reader: Reader) -> bytes:
    """The normalised value of its type, or the value as it is where it does not fit: it is quarantined later."""
    try:
        return normal(value, reader)
    except (Rejected, ValueError, msgspec.DecodeError):
        return value
