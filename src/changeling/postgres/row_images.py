"""Inserts, updates and deletes of one table, many at once: their keys and images out of the bytes of their rows."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from changeling.model.errors import ChangelingError
from changeling.postgres.frames import Frames
from changeling.postgres.images import Member, images, keys
from changeling.postgres.published_table import ToldColumn, ToldTable
from changeling.postgres.transactions import DELETE, INSERT
from changeling.postgres.tuples import UNCHANGED, Field, Tuples, texts, walk

NONE, KEY, PARTIAL, FULL = range(4)
"""How much an image holds, as numbers."""
_NEW, _OLD_KEY, _OLD = (ord(letter) for letter in "NKO")
_TUPLE = 6
"""How far into a message its first row begins: behind its letter, the number of its table, and which row it is."""


class Texts(NamedTuple):
    """A text for some changes, which ascend."""

    changes: np.ndarray
    texts: pa.StringArray


class RowImages:
    """What so many changes say of rows. Where no list has a text for a change, it is null."""

    def __init__(self, count: int) -> None:
        self.keys: list[Texts] = []
        self.befores: list[Texts] = []
        self.afters: list[Texts] = []
        self.before_images = np.full(count, NONE, np.int8)
        self.after_images = np.full(count, NONE, np.int8)

    def add(self, frames: Frames, changes: np.ndarray, messages: np.ndarray, table: ToldTable) -> None:
        """Reads changes of one table from their messages. Raises `ChangelingError` where one cannot be read."""
        try:
            _Rows(frames, changes, messages, table).tell(self)
        except (ValueError, pa.ArrowException) as error:
            raise ChangelingError(f"{table.name}: a value of the replication stream cannot be read: {error}") from None


class _Rows:
    """Messages of one table, with their rows walked."""

    def __init__(self, frames: Frames, changes: np.ndarray, messages: np.ndarray, table: ToldTable) -> None:
        self._data, self._changes, self._table = frames.data, changes, table
        starts, letters = frames.starts[messages], frames.letters[messages]
        marks = frames.data[starts + _TUPLE - 1]
        deletes = letters == DELETE
        has_old = (marks == _OLD_KEY) | (marks == _OLD)
        if (~has_old & ((marks != _NEW) | deletes)).any() or (has_old & (letters == INSERT)).any():
            raise ChangelingError(f"{table.name}: the replication stream has a change without its row")
        width = len(table.relation.columns)
        self._has_new = ~deletes
        self._old_rows, self._new_rows = np.flatnonzero(has_old), np.flatnonzero(self._has_new)
        self._is_key = marks[self._old_rows] == _OLD_KEY
        self._old = walk(frames.data, starts[self._old_rows] + _TUPLE, width)
        ends = np.zeros(len(messages), np.int64)
        ends[self._old_rows] = self._old.ends
        new_starts = np.where(has_old, ends + 1, starts + _TUPLE)[self._new_rows]
        self._new = self._filled(walk(frames.data, new_starts, width))
        ends[self._new_rows] = self._new.ends
        if (ends != frames.ends[messages]).any():
            raise ChangelingError(f"{table.name}: the replication stream has a row that is shorter than its message")

    def _filled(self, new: Tuples) -> Tuples:
        """New rows, with the values that were left alone taken from the old row where that one tells them."""
        if not len(self._old_rows) or not any((field.kinds == UNCHANGED).any() for field in new.fields):
            return new
        updates = np.flatnonzero(self._has_new[self._old_rows])
        places = (np.cumsum(self._has_new) - 1)[self._old_rows[updates]]
        identity = {column.number for column in self._table.key}
        fields = []
        for number, field in enumerate(new.fields):
            from_old = field.kinds[places] == UNCHANGED
            if number not in identity:
                # An old row of the key alone has NULL for what it does not tell.
                from_old &= ~self._is_key[updates]
            fields.append(_replaced(field, places[from_old], self._old.fields[number], updates[from_old]))
        return Tuples(fields, new.ends)

    def tell(self, into: RowImages) -> None:
        """Adds everything that these rows say."""
        table, whole = self._table, ~self._is_key
        new = self._members(self._new, table.columns)
        old = self._members(self._old, table.columns if whole.any() else table.key)
        if len(self._new_rows):
            made, partial = images(new, len(self._new_rows))
            changes = self._changes[self._new_rows]
            into.afters.append(Texts(changes, made))
            into.after_images[changes] = np.where(partial, PARTIAL, FULL)
        for rows, members, kind in (
            (np.flatnonzero(self._is_key), [one for one in old if one.name in table.key_names], KEY),
            (np.flatnonzero(whole), old, FULL),
        ):
            if len(rows):
                made, partial = images(_of_rows(members, rows, len(whole)), len(rows))
                changes = self._changes[self._old_rows[rows]]
                into.befores.append(Texts(changes, made))
                into.before_images[changes] = np.where(partial, PARTIAL, kind)
        if table.key:
            self._tell_keys(into, table.spelled(new), table.spelled(old))

    def _members(self, walked: Tuples, columns: tuple[ToldColumn, ...]) -> list[Member]:
        if not len(walked.ends):
            return []
        found = []
        for column in columns:
            field = walked.fields[column.number]
            found.append(column.member(*texts(self._data, field), field.kinds))
        return found

    def _tell_keys(self, into: RowImages, new: list[Member], old: list[Member]) -> None:
        """Keys are those of new rows; of old ones where there is no new one."""
        gone = np.flatnonzero(~self._has_new[self._old_rows])
        if len(self._new_rows):
            made = keys(new, len(self._new_rows))
            into.keys.append(Texts(self._changes[self._new_rows], made))
        if len(gone):
            made = keys(_of_rows(old, gone, len(self._old_rows)), len(gone))
            into.keys.append(Texts(self._changes[self._old_rows[gone]], made))


def _of_rows(members: list[Member], rows: np.ndarray, count: int) -> list[Member]:
    """The columns of some of so many rows."""
    if len(rows) == count:
        return members
    return [
        member._replace(
            places=rows if member.places is None else member.places[rows],
            absent=None if member.absent is None else member.absent[rows],
        )
        for member in members
    ]


def _replaced(field: Field, places: np.ndarray, other: Field, others: np.ndarray) -> Field:
    if not len(places):
        return field
    made = Field(*(part.copy() for part in field))
    for part, source in zip(made, other, strict=True):
        part[places] = source[others]
    return made
