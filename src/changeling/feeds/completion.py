"""Completes changes: each gets the whole row before and after it, from the rows as they were published and the changes in order.

Late changes are not published themselves. The rows that they touch are compared with what was published: a row that differs is
republished before the new changes, and once more after them where a new change copied from it, even under another key.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from changeling.feeds.row_values import Row
from changeling.model.operation import Operation
from changeling.replicas.row_effect import Effect


class Event(NamedTuple):
    """One change of one row, or a truncate."""

    place: int
    """Its change among those of the point."""
    key: str
    effect: Effect | None
    op: Operation
    values: Row
    moved_from: str | None = None
    is_partly_read: bool = False
    """Values of it do not fit their columns: what the row has there, the replica knows."""

    @property
    def mentioned(self) -> frozenset[str]:
        """The columns that it has values of."""
        return frozenset(self.values)

    @property
    def keys(self) -> list[str]:
        """The keys of the rows that it touches, as far as it names them."""
        if self.op is Operation.TRUNCATE:
            return []
        return [self.key] if self.moved_from is None else [self.key, self.moved_from]


class Completed(NamedTuple):
    """A change with the whole row before and after it."""

    key: str
    op: Operation
    before: Row | None
    after: Row | None
    place: int | None
    """Its change among those of the point; None for a correction."""
    is_last: bool = False
    """A correction behind all changes of the point."""
    mentioned: frozenset[str] | None = None
    """The columns of a partial image, as they came."""
    touched: bool = False
    """The change does not say what it did to the row."""


class Incomplete(NamedTuple):
    """A change that cannot be published: the whole row is not known."""

    place: int
    key: str
    why: str


@dataclass
class Completion:
    """Follows the rows of one table through the changes of a point."""

    published: dict[str, Row]
    """The rows as they were published, of all keys that the changes touch; of all keys where the table is truncated."""
    reads_are_published: bool
    """Rows of a snapshot are published as such."""
    rows: dict[str, Row | None] = field(default_factory=dict)
    _emptied: dict[str, tuple[int, Row]] = field(default_factory=dict)
    """Rows that were truncated, each with the truncate: a snapshot that follows may show them again."""
    _truncated: bool = False

    def row(self, key: str) -> Row | None:
        """A row as the feed has it now."""
        return self.rows[key] if key in self.rows else self.published.get(key)

    def correct(self, key: str, now: Row | None, *, is_last: bool = False) -> Iterator[Completed]:
        """Republishes a row, if it is not what was published."""
        before = self.row(key)
        if before == now:
            return
        self.rows[key] = now
        if now is None:
            yield Completed(key, Operation.DELETE, before, None, None, is_last)
        else:
            op = Operation.INSERT if before is None else Operation.UPDATE
            yield Completed(key, op, before, now, None, is_last)

    def apply(self, event: Event) -> Iterator[Completed | Incomplete]:
        """Publishes a change."""
        if event.op is Operation.TRUNCATE:
            self._truncate(event)
            return
        if event.key in self._emptied and event.op is not Operation.READ:
            place, gone = self._emptied.pop(event.key)
            yield Completed(event.key, Operation.DELETE, gone, None, place)
        if event.op is Operation.READ:
            yield from self._read(event)
            return
        yield from self._write(event)

    def finish(self) -> Iterator[Completed]:
        """Publishes that the rows are gone which no snapshot showed after a truncate."""
        for key, (place, gone) in self._emptied.items():
            yield Completed(key, Operation.DELETE, gone, None, place)
        self._emptied = {}

    def _truncate(self, event: Event) -> None:
        there = {key: row for key in {**self.published, **self.rows} if (row := self.row(key)) is not None}
        self.rows = dict.fromkeys({**self.published, **self.rows})
        self._emptied |= {key: (event.place, row) for key, row in there.items()}
        self._truncated = True

    def _read(self, event: Event) -> Iterator[Completed | Incomplete]:
        """A row of a snapshot: of the first one it is a base, of a later one it may differ from what was published."""
        emptied = self._emptied.pop(event.key, None)
        before = self.row(event.key) if emptied is None else emptied[1]
        again = before is not None or self._truncated
        after = self._after(event, before)
        if isinstance(after, Incomplete):
            yield after
            return
        self.rows[event.key] = after
        if before == after:
            return
        if again:
            op = Operation.INSERT if before is None else Operation.UPDATE
            yield Completed(event.key, op, before, after, event.place)
        elif self.reads_are_published:
            yield Completed(event.key, Operation.READ, None, after, event.place)

    def _write(self, event: Event) -> Iterator[Completed | Incomplete]:
        below = self.row(event.key)
        before = below
        moved = event.moved_from is not None and event.moved_from != event.key and event.effect is not Effect.DELETE
        if moved and event.moved_from is not None:
            below = self.row(event.moved_from)
        after = None if event.effect is Effect.DELETE else self._after(event, below)
        if isinstance(after, Incomplete):
            yield after
            return
        if moved and event.moved_from is not None and below is not None:
            self.rows[event.moved_from] = None
            yield Completed(event.moved_from, Operation.DELETE, below, None, event.place)
        self.rows[event.key] = after
        if after is None:
            if before is not None:
                yield Completed(event.key, Operation.DELETE, before, None, event.place)
            return
        op = Operation.REPLACE if event.op is Operation.REPLACE else Operation.UPDATE
        if before is None and op is Operation.UPDATE:
            op = Operation.INSERT
        mentioned = event.mentioned if event.effect is Effect.PATCH and not moved else None
        touched = event.effect is Effect.TOUCH
        yield Completed(event.key, op, before, after, event.place, mentioned=mentioned, touched=touched)

    def _after(self, event: Event, below: Row | None) -> Row | Incomplete:
        if event.effect is Effect.TOUCH:
            if below is None:
                return Incomplete(
                    event.place, event.key, "the change has only the key of a row that was never published"
                )
            return below
        if event.effect is Effect.REPLACE:
            return _without_nulls(event.values)
        if event.effect is Effect.PARTIAL_INSERT and below is None:
            return Incomplete(
                event.place,
                event.key,
                "the row is new, its image is partial, and it is not known which row it was before",
            )
        return _without_nulls({**(below or {}), **event.values})


def _without_nulls(values: Mapping[str, bytes]) -> Row:
    return {number: value for number, value in values.items() if value != b"null"}


@dataclass(frozen=True)
class Completions:
    """The changes of a table between two points that are to be published."""

    changes: list[Completed]
    """In order, corrections first."""
    incomplete: list[Incomplete]
    corrections: int
    published: Mapping[str, Row]
    """The rows before them, of the keys that they touch."""
    touched: frozenset[str] | None
    """The keys that the events name; None where they concern all rows."""

    def without_touches(self) -> "Completions":
        """For a feed that shows more than keys: a change that does not say what it did to its row cannot be published."""
        refused = [
            Incomplete(one.place or 0, one.key, "the change has only the key of its row, and the feed shows more")
            for one in self.changes
            if one.touched
        ]
        shown = [one for one in self.changes if not one.touched]
        return replace(self, changes=shown, incomplete=[*self.incomplete, *refused])


RowsOf = Callable[[Sequence[str] | None], dict[str, Row]]
"""The rows with some keys, or all of them."""


def complete(
    events: Sequence[Event],
    is_late: Callable[[Event], bool],
    published_of: RowsOf,
    stored_of: RowsOf,
    *,
    reads_are_published: bool,
    carried: Collection[str] | None = (),
) -> Completions:
    """Completes the events between two points.

    `published_of` gives rows as they were at the earlier point, `stored_of` as they are at the later one. To the rows with
    `carried` keys, earlier changes of keys may have carried on what came late; None: the replica was rebuilt, any row may be
    another one. All rows are compared then, and without any event, since then it must have been rebuilt.
    """
    late = [event for event in events if is_late(event)]
    new = [event for event in events if not is_late(event)]
    everything = carried is None or not events or any(event.op is Operation.TRUNCATE for event in late)
    touched = sorted({*(carried or ()), *(key for event in events for key in event.keys)})
    all_published = everything or any(event.op is Operation.TRUNCATE for event in new)
    published = published_of(None if all_published else touched)
    doubtful = bool(late) or any(event.is_partly_read for event in new)
    stored = stored_of(None) if everything else stored_of(touched) if doubtful else {}
    late_keys = sorted({**published, **stored} if everything else {*_keys_of(late), *(carried or ())})
    by_key: dict[str, list[Event]] = {}
    for event in new:
        for key in event.keys:
            by_key.setdefault(key, []).append(event)
    rows = Completion(published, reads_are_published)
    made: list[Completed | Incomplete] = []
    for key in late_keys:
        made += rows.correct(key, corrected(published.get(key), stored.get(key), by_key.get(key, ())))
    corrections = len(made)
    for event in new:
        made += rows.apply(event)
    made += rows.finish()
    made.sort(key=lambda one: -1 if one.place is None else one.place)
    if doubtful or everything:
        # A change may carry on what came late, to another key even.
        last = [
            one for key in sorted({*touched, *late_keys}) for one in rows.correct(key, stored.get(key), is_last=True)
        ]
        made += last
        corrections += len(last)
    done = [one for one in made if isinstance(one, Completed)]
    incomplete = [one for one in made if isinstance(one, Incomplete)]
    return Completions(done, incomplete, corrections, published, None if all_published else frozenset(touched))


def _keys_of(events: Iterable[Event]) -> set[str]:
    return {key for event in events for key in event.keys}


def carried_keys(late: Iterable[Event], behind: Iterable[Event]) -> set[str]:
    """The keys under which rows that something late touches are now: `behind` are the changes after it, in order."""
    found = _keys_of(late)
    own = set(found)
    for event in behind:
        if event.moved_from in found:
            found.add(event.key)
    return found - own


def corrected(published: Row | None, stored: Row | None, events: Iterable[Event]) -> Row | None:
    """A row that something late touched, as it is before the new changes of the point.

    `stored` is the row after all of them. What they write shows nothing of what came late: there it is as it was published.
    """
    own = list(events)
    if not own:
        return stored
    if stored is None or any(event.effect is not Effect.PATCH for event in own):
        return published
    if published is None:
        return stored
    written = frozenset().union(*(event.mentioned for event in own))
    return {
        **{number: value for number, value in stored.items() if number not in written},
        **{number: value for number, value in published.items() if number in written},
    }
