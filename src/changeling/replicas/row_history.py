"""The history of one row: every change that wrote it, moved it or removed it, in order, with the columns that changed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from changeling.formats.key_changes import old_key_of
from changeling.formats.meta_template import with_whole_meta
from changeling.iceberg.conditions import equals
from changeling.iceberg.reader import Tables
from changeling.log.log_tables import CHANGES
from changeling.model import arrow_layouts, json_text
from changeling.model.change import Change, Origin
from changeling.model.errors import UsageError
from changeling.model.operation import Operation
from changeling.model.table import TableName
from changeling.replicas.change_order import Rank, log_ranks
from changeling.replicas.fold import Cell, Fold, Repetitions, RowEvent
from changeling.replicas.key_moves import Half, Moved, moved
from changeling.replicas.row_effect import Effect, effect, old_key
from changeling.replicas.table_lookup import WantedTable

Image = Mapping[str, bytes]


@dataclass(frozen=True)
class RowChange:
    """One change in the history of a row, and the row before and after it; None where it did not or does not exist."""

    row: pa.RecordBatch
    """The change itself, as the log has it."""
    before: Image | None
    after: Image | None
    is_resnapshot: bool = False
    """The table was snapshotted again: the row is as it was found then, or was not found."""

    @property
    def changed(self) -> list[str]:
        """The columns whose value changed; all of them where the row was created or removed."""
        before, after = self.before or {}, self.after or {}
        names = [*after, *(name for name in before if name not in after)]
        return [name for name in names if before.get(name) != after.get(name)]


def life(log: Tables, table: WantedTable, key: str) -> Iterator[RowChange]:
    """The changes of the row with that key (a JSON object), by position.

    A change that moves the row to this key or away from it is one of them. Raises `UsageError` where the log has no such
    table, several of that name, or no such key.
    """
    batch, ranks = _changes_of(log, table)
    changes = arrow_layouts.changes(batch)
    encodings = batch.column("encoding").to_pylist()
    events = [_event(change, encoding) for change, encoding in zip(changes, encodings, strict=True)]
    moves = _delete_and_create_moves(changes, events)
    touched = [_keys(change, moves) for change in changes]
    wanted = _logged_key(key, table.name, {found for keys in touched for found in keys})
    family = _family(touched, wanted)
    places = [
        place for place, change in enumerate(changes) if change.op is Operation.TRUNCATE or touched[place] & family
    ]
    snapshots = [_snapshot_of(origin) for origin in arrow_layouts.origins(batch)]
    fold, met, last = Fold(), Repetitions(), None
    # A new snapshot that replaces the table, and has not shown the row yet.
    emptied: RowChange | None = None
    for place in _in_order(places, changes, ranks, moves):
        change, event = changes[place], events[place]
        was = wanted if text_of(change.key) != wanted else _old_key(change, moves)
        before = _image(fold, wanted) or _image(fold, was)
        if _place(change) in moves.deletes:
            # The fold moves the row when it reaches the create.
            if text_of(change.key) == wanted and _place(change) != last:
                last = _place(change)
                yield RowChange(batch.slice(place, 1), before, None)
            continue
        if emptied is not None and snapshots[place] != _snapshot_of(arrow_layouts.origins(emptied.row)[0]):
            yield emptied
            emptied = None
        if change.op is Operation.TRUNCATE:
            if met.meet("", change.position or "", _content(change)):
                continue
            fold.truncate()
        elif event is None or met.meet(event.key, event.position, _content(change)):
            continue
        else:
            fold.apply(event._replace(moved_from=_old_key(change, moves)))
        is_own = wanted in touched[place] and not _repeats_move(change, wanted, moves)
        found = RowChange(batch.slice(place, 1), before, _image(fold, wanted))
        if change.op is Operation.TRUNCATE and snapshots[place] is not None:
            emptied = None if before is None else replace(found, is_resnapshot=True)
        elif is_own and emptied is not None:
            yield replace(found, before=emptied.before, is_resnapshot=True)
            emptied = None
        elif is_own or (change.op is Operation.TRUNCATE and before is not None):
            yield found
    if emptied is not None:
        yield emptied


def _snapshot_of(origin: Origin) -> int | None:
    """The snapshot of a database that a change is from: no topic of Kafka has a blank in its name."""
    return origin.ordinal if origin.topic is not None and origin.topic.startswith("snapshot ") else None


def _content(change: Change) -> tuple[str, ...]:
    """The content of a change: one with the same content at the same position is a repetition."""
    return change.op, change.before_image, change.after_image, text_of(change.before), text_of(change.after)


def _delete_and_create_moves(changes: Sequence[Change], events: Sequence[RowEvent | None]) -> Moved:
    """The moves that appear as a delete and a create."""
    creates = [
        change for change, event in zip(changes, events, strict=True) if event and event.effect is Effect.PARTIAL_INSERT
    ]
    if not creates:
        return Moved()
    return moved(map(_half, creates), (_half(change) for change in changes if change.op is Operation.DELETE))


def _half(change: Change) -> Half:
    return Half(*_place(change), change.transaction, old_key_of(change.meta))


def _place(change: Change) -> tuple[str, str]:
    return change.position or "", text_of(change.key)


def _old_key(change: Change, moves: Moved) -> str | None:
    """The key of the row before a change, by its image or as it was found."""
    return old_key(change.key, change.before) or moves.old_keys.get(_place(change))


def _repeats_move(change: Change, key: str, moves: Moved) -> bool:
    """Whether a create took the row away from a key, which the delete of that key reports already."""
    taken = {delete for at, delete in moves.deletes if at <= (change.position or "")}
    return text_of(change.key) != key and moves.old_keys.get(_place(change)) == key and key in taken


def _in_order(places: Sequence[int], changes: Sequence[Change], ranks: Sequence[Rank], moves: Moved) -> Sequence[int]:
    """Some changes in the order of the fold; a delete that is part of a move comes before the rest of it."""
    creates: dict[tuple[str, str], Rank] = {}
    for place in sorted(places, key=ranks.__getitem__, reverse=True):
        old = moves.old_keys.get(_place(changes[place]))
        if old is not None:
            creates[ranks[place].position, old] = ranks[place]

    def order(place: int) -> tuple[Rank, bool]:
        if _place(changes[place]) not in moves.deletes:
            return ranks[place], True
        return min(ranks[place], creates.get(_place(changes[place]), ranks[place])), False

    return sorted(places, key=order)


def _event(change: Change, encoding: str) -> RowEvent | None:
    found = effect(change.op, change.before_image, change.after_image, encoding)
    if found is None or change.key is None:
        return None
    # Some dialects carry key columns in the key alone, and a row that moves has those of its new key.
    values = {**json_text.members(change.key), **json_text.members(change.after or b"{}")}
    cells = {name: Cell(value, encoding, None) for name, value in values.items()}
    return RowEvent(text_of(change.key), change.position or "", found, cells, old_key(change.key, change.before))


def text_of(value: str | bytes | None) -> str:
    """A key or an image as text; empty where there is none."""
    if value is None:
        return ""
    return value.decode() if isinstance(value, bytes) else value


def _image(fold: Fold, key: str | None) -> Image | None:
    row = None if key is None else fold.row(key)
    return None if row is None or not row.exists else row.image()


def _keys(change: Change, moves: Moved) -> set[str]:
    """The keys that a change touches: that of the row now, and where it moved the row, the one before."""
    return {text_of(key) for key in (change.key, _old_key(change, moves)) if key is not None}


def _family(touched: Sequence[set[str]], key: str) -> set[str]:
    """The keys that rows moved between, as far as they lead to this one: each takes columns of the one before."""
    moves = [keys for keys in touched if len(keys) > 1]
    family = {key}
    while True:
        wider = family.union(*(keys for keys in moves if keys & family))
        if wider == family:
            return family
        family = wider


def _logged_key(key: str, table: TableName, known: set[str]) -> str:
    """The key as the log has it; a key whose values differ only in being text or numbers counts as the same."""
    try:
        wanted = json_text.canonical_key(json_text.members(key).items()).decode()
    except ValueError:
        raise UsageError(f"--key {key}: write a JSON object of the key columns, such as {_some(known)}") from None
    if wanted in known:
        return wanted
    alike = [found for found in known if _loosely(found) == _loosely(wanted)]
    if len(alike) != 1:
        raise UsageError(f"no change of {table} has the key {wanted}; keys look like {_some(known)}")
    return alike[0]


def _loosely(key: str) -> dict[str, str]:
    return {name: value.decode().strip('"') for name, value in json_text.members(key).items()}


def _some(known: set[str]) -> str:
    return min(known, default='{"id": 1}')


def _changes_of(log: Tables, table: WantedTable) -> tuple[pa.RecordBatch, list[Rank]]:
    """All changes of the one table of the log that is meant, and the place of each in their order."""
    rows = _of_tables(log.rows(CHANGES, equals("table.name", table.name.name)))
    found = _as_changes(rows)
    sources = found.column("source").to_pylist()
    places = [
        (source, TableName(**row)) for source, row in zip(sources, found.column("table").to_pylist(), strict=True)
    ]
    chosen = table.among(places)
    if chosen is None:
        raise UsageError(f"the log has no table {table}; {table.nearest(_tables(log))}")
    kept = pa.array([place == chosen for place in places], pa.bool_())
    changes = with_whole_meta(found.filter(kept).combine_chunks().to_batches()[0])
    return changes, list(log_ranks(rows.filter(kept)))


def _as_changes(found: pa.Table) -> pa.Table:
    """The log's columns in the layout of changes; it keeps no schema texts."""
    nothing = pa.nulls(found.num_rows, pa.string())
    columns = [nothing if name == "schema" else found.column(name) for name in arrow_layouts.CHANGES.names]
    return pa.table(columns, names=arrow_layouts.CHANGES.names).cast(arrow_layouts.CHANGES)


def _of_tables(found: pa.Table) -> pa.Table:
    """Without messages: a topic alone names the table of a tombstone, and not all of its name."""
    return found.filter(pc.not_equal(found.column("op"), Operation.MESSAGE.value))


def _tables(log: Tables) -> set[TableName]:
    names = _of_tables(log.rows(CHANGES, columns=("table", "op"))).column("table").to_pylist()
    return {TableName(**row) for row in names if row is not None and row["name"] is not None}
