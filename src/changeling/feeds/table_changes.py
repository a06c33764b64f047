"""The changes of one table between two points: as events of its rows, in order and each once, and where they came from."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.feeds.completion import Completed, Event, Incomplete
from changeling.feeds.dialect_spelling import user_of
from changeling.feeds.encode import ToPublish
from changeling.feeds.feed import Feed
from changeling.feeds.point_changes import PointChanges, Stamped
from changeling.feeds.row_values import Values
from changeling.log.batch_stats import TABLE_OPERATIONS
from changeling.model import arrow_layouts
from changeling.model.operation import NEW_ROW_OPERATIONS, Operation
from changeling.replicas.change_order import ARRIVAL
from changeling.replicas.fold_table import FoldTable
from changeling.replicas.key_move_lookup import halves
from changeling.replicas.key_moves import Moved, moved
from changeling.replicas.row_changes import RowChangesKernel
from changeling.replicas.row_effect import Effect
from changeling.replicas.row_events import OLD_KEY_UNKNOWN, READ_COLUMNS, ROW_EVENTS, UNIDENTIFIED
from changeling.replicas.shape import Columns, Shape

_KEPT = ("op", "key", "before", "after", "position", "meta")
_CONTENT = ("position", "key", "effect", "op", "values", "encoding", "schema", "moved_from", "images")
_SLICE = 20_000
"""Events whose values are read at once."""
_EFFECTS = {effect.value: effect for effect in Effect}
_OPERATIONS = {operation.value: operation for operation in Operation}


class TableChanges:
    """The changes of a feed's table among those of its source."""

    def __init__(self, changes: PointChanges, feed: Feed) -> None:
        self._changes, self._feed = changes, feed
        self._own = _places(changes.rows, feed)
        self._rows = changes.rows.take(pa.array(self._own, pa.int64()))

    def __len__(self) -> int:
        return len(self._own)

    def first_late(self) -> str | None:
        """The position of the first change that belongs before the end of the earlier point; None where none does."""
        late = self._changes.late[self._own]
        return min(self._rows.column("position").filter(pa.array(late)).to_pylist(), default=None)

    def is_late(self, event: Event | Incomplete) -> bool:
        """Whether an event belongs before the end of the earlier point."""
        return bool(self._changes.late[event.place])

    def events(self, columns: Columns, shape: Shape) -> list[Event | Incomplete]:
        """What the changes did to the rows, in order."""
        found = [*self._row_events(columns, shape), *self._truncates()]
        # A row leaves its key before another one takes it.
        found.sort(key=lambda one: (one.place, not (isinstance(one, Event) and one.effect in (None, Effect.DELETE))))
        return found

    def outgoing(self, changes: Iterable[Completed]) -> Iterator[ToPublish]:
        """Completed changes with what records show of them: stamp, time, transaction and user."""
        names = ("commit_time", "encoding", "meta") if self._feed.user_sids else ("commit_time",)
        columns = {name: self._rows.column(name).to_pylist() for name in names}
        transactions = arrow_layouts.transactions(self._rows.column("transaction"))
        numbers = {int(place): number for number, place in enumerate(self._own)}
        for one in changes:
            if one.place is None:
                yield ToPublish(one, Stamped(*(self._changes.last if one.is_last else self._changes.correction), 0))
                continue
            number = numbers[one.place]
            stamped = self._changes.stamped[one.place] or Stamped(*self._changes.correction, 0)
            user = user_of(columns["encoding"][number], columns["meta"][number]) if self._feed.user_sids else None
            yield ToPublish(one, stamped, columns["commit_time"][number], transactions[number], user)

    def rejects(self, incomplete: Sequence[Incomplete]) -> pa.Table:
        """Changes that cannot be published, as the log has them."""
        rows = [{"reason": f"key {one.key}: {one.why}", "raw": self._text(one.place)} for one in incomplete]
        return pa.Table.from_pylist(rows, arrow_layouts.REJECTS)

    def _text(self, place: int) -> bytes:
        return msgspec.json.encode(self._changes.rows.slice(place, 1).select(list(_KEPT)).to_pylist()[0])

    def _row_events(self, columns: Columns, shape: Shape) -> Iterator[Event | Incomplete]:
        source, table = self._changes.source, self._feed.table
        kernel = RowChangesKernel((FoldTable(source, table, columns, shape, stored=True, moved=_moved(self._rows)),))
        read = Values(columns, shape)
        for batch in _without_repetitions(list(kernel(_batches(self._rows, source, self._own)))):
            for start in range(0, batch.num_rows, _SLICE):
                yield from _events(batch.slice(start, _SLICE), read)

    def _truncates(self) -> Iterator[Event]:
        """The truncates; a further one at the same position is a repetition."""
        found = np.flatnonzero(np.asarray(pc.equal(self._rows.column("op"), Operation.TRUNCATE.value), bool))
        positions = self._rows.column("position").take(pa.array(found)).to_pylist()
        for number in dict(zip(reversed(positions), reversed(found.tolist()), strict=True)).values():
            place = int(self._own[number])
            yield Event(place, "", None, Operation.TRUNCATE, {})


def _without_repetitions(batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each event once: with the same position and the same content it is a repetition."""
    events = pa.Table.from_batches(batches, ROW_EVENTS)
    counts = pc.value_counts(events.column("position"))
    shared = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    kept = np.ones(events.num_rows, bool)
    places = np.flatnonzero(pc.is_in(events.column("position"), shared))
    met: set[tuple[object, ...]] = set()
    for place, content in zip(places, _columns(events.take(pa.array(places)), *_CONTENT), strict=True):
        kept[place] = content not in met
        met.add(content)
    start = 0
    for batch in batches:
        yield batch.filter(pa.array(kept[start : start + batch.num_rows]))
        start += batch.num_rows


def _events(batch: pa.RecordBatch, read: Values) -> Iterator[Event | Incomplete]:
    """Events of one encoding and version of the schema; `record` is the place of the change among those of the point."""
    is_lost = pc.is_in(batch.column("effect"), pa.array([UNIDENTIFIED, OLD_KEY_UNKNOWN]))
    for place, key, values in _columns(batch.filter(is_lost), "record", "key", "values"):
        yield Incomplete(place, str(values or key), "its key does not fit the columns of the table")
    batch = batch.filter(pc.invert(is_lost))
    if not batch.num_rows:
        return
    texts, keys = batch.column("values").to_pylist(), batch.column("key").to_pylist()
    rows = read.rows(texts, keys, batch.column("encoding")[0].as_py(), batch.column("schema")[0].as_py())
    parts = _columns(batch, "record", "key", "effect", "op", "moved_from")
    for row, (place, key, effect, op, moved_from) in zip(rows, parts, strict=True):
        if row.unfit_key is not None:
            yield Incomplete(place, key, row.unfit_key)
        else:
            yield Event(place, key, _EFFECTS[effect], _OPERATIONS[op], row.values, moved_from, not row.is_whole)


def _columns(batch: pa.RecordBatch | pa.Table, *names: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(batch.column(name).to_pylist() for name in names), strict=True)


def _places(rows: pa.Table, feed: Feed) -> np.ndarray:
    """The places of the changes of a feed's table."""
    wanted = pc.is_in(rows.column("op"), pa.array(TABLE_OPERATIONS))
    for name, value in (("catalog", feed.table.catalog), ("schema", feed.table.schema), ("name", feed.table.name)):
        part = pc.struct_field(rows.column("table"), name)
        wanted = pc.and_(wanted, pc.is_null(part) if value is None else pc.fill_null(pc.equal(part, value), False))
    found: np.ndarray = np.flatnonzero(np.asarray(wanted, bool))
    return found


def _batches(rows: pa.Table, source: str, places: np.ndarray) -> list[pa.RecordBatch]:
    """What the kernel of row changes reads, with places instead of the numbers of records."""
    given = {name: rows.column(name) for name in (*READ_COLUMNS, *ARRIVAL) if name != "source"}
    given["record"] = pa.array(places, pa.int64())
    given["source"] = pa.repeat(pa.scalar(source, pa.string()), rows.num_rows)
    given["partition"] = pc.if_else(pc.less(given["partition"], 0), pa.scalar(None, pa.int64()), given["partition"])
    made = pa.table({name: given[name] for name in (*READ_COLUMNS, *ARRIVAL)}).combine_chunks()
    return list(made.to_batches())


def _moved(rows: pa.Table) -> Moved:
    """The moves that appear as a delete and a create."""
    is_part = pc.and_(
        pc.is_in(rows.column("op"), pa.array(sorted(NEW_ROW_OPERATIONS))),
        pc.equal(rows.column("after_image"), "partial"),
    )
    creates = rows.filter(is_part)
    if not creates.num_rows:
        return Moved()
    return moved(halves(creates), halves(rows.filter(pc.equal(rows.column("op"), "delete"))))
