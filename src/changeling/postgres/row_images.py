"""Inserts, updates and deletes of one table, many at once: their keys and images, parsed from the bytes of their rows."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from changeling.model.errors import ChangelingError
from changeling.postgres.frames import Frames
from changeling.postgres.images import Member, images, keys
from changeling.postgres.published_table import PublishedColumn, PublishedTable
from changeling.postgres.transactions import DELETE, INSERT
from changeling.postgres.tuples import UNCHANGED, Field, Tuples, texts, walk

NONE, KEY, PARTIAL, FULL = range(4)
"""The kinds of images, as numbers."""
_NEW, _OLD_KEY, _OLD = (ord(letter) for letter in "NKO")
_TUPLE = 6
"""The offset of the first row in a message: after its letter, the oid of its table, and the kind of row."""


class Texts(NamedTuple):
    """Texts for some changes, in ascending order."""

    changes: np.ndarray
    texts: pa.StringArray


class RowImages:
    """The keys and images of `count` changes. A change without a text in a list has null there."""

    def __init__(self, count: int) -> None:
        self.keys: list[Texts] = []
        self.befores: list[Texts] = []
        self.afters: list[Texts] = []
        self.before_images = np.full(count, NONE, np.int8)
        self.after_images = np.full(count, NONE, np.int8)

    def add_afters(self, found: Texts, kinds: np.ndarray) -> None:
        """Adds after-images, each with its kind."""
        self.afters.append(found)
        self.after_images[found.changes] = kinds

    def add_befores(self, found: Texts, kinds: np.ndarray) -> None:
        """Adds before-images, each with its kind."""
        self.befores.append(found)
        self.before_images[found.changes] = kinds

    def add(self, frames: Frames, changes: np.ndarray, messages: np.ndarray, table: PublishedTable) -> None:
        """Reads changes of one table from their messages. Raises `ChangelingError` where one cannot be read."""
        try:
            _Rows(frames, changes, messages, table).add_to(self)
        except (ValueError, pa.ArrowException) as error:
            raise ChangelingError(f"{table.name}: a value of the replication stream cannot be read: {error}") from None


class _Rows:
    """Messages of one table, with their rows parsed."""

    def __init__(self, frames: Frames, changes: np.ndarray, messages: np.ndarray, table: PublishedTable) -> None:
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
            raise ChangelingError(
                f"{table.name}: the replication stream has a row whose length differs from its message"
            )

    def _filled(self, new: Tuples) -> Tuples:
        """New rows, with unchanged values taken from the old row where it has them."""
        if not len(self._old_rows) or not any((field.kinds == UNCHANGED).any() for field in new.fields):
            return new
        updates = np.flatnonzero(self._has_new[self._old_rows])
        places = (np.cumsum(self._has_new) - 1)[self._old_rows[updates]]
        identity = {column.number for column in self._table.key}
        fields = []
        for number, field in enumerate(new.fields):
            from_old = field.kinds[places] == UNCHANGED
            if number not in identity:
                # An old row of only the key has NULL for all other columns.
                from_old &= ~self._is_key[updates]
            fields.append(_replaced(field, places[from_old], self._old.fields[number], updates[from_old]))
        return Tuples(fields, new.ends)

    def add_to(self, into: RowImages) -> None:
        """Adds the images and keys of these rows."""
        table, whole = self._table, ~self._is_key
        new = self._members(self._new, table.columns)
        old = self._members(self._old, table.columns if whole.any() else table.key)
        if len(self._new_rows):
            found, partial = images(new, len(self._new_rows))
            changes = self._changes[self._new_rows]
            into.add_afters(Texts(changes, found), np.where(partial, PARTIAL, FULL))
        for rows, members, kind in (
            (np.flatnonzero(self._is_key), [one for one in old if one.name in table.key_names], KEY),
            (np.flatnonzero(whole), old, FULL),
        ):
            if len(rows):
                found, partial = images(_of_rows(members, rows, len(whole)), len(rows))
                changes = self._changes[self._old_rows[rows]]
                into.add_befores(Texts(changes, found), np.where(partial, PARTIAL, kind))
        if table.key:
            self._add_keys(into, table.spelled(new), table.spelled(old))

    def _members(self, walked: Tuples, columns: tuple[PublishedColumn, ...]) -> list[Member]:
        if not len(walked.ends):
            return []
        found = []
        for column in columns:
            field = walked.fields[column.number]
            found.append(column.member(*texts(self._data, field), field.kinds))
        return found

    def _add_keys(self, into: RowImages, new: list[Member], old: list[Member]) -> None:
        """Keys are taken from the new row; from the old row if there is no new one."""
        gone = np.flatnonzero(~self._has_new[self._old_rows])
        if len(self._new_rows):
            found = keys(new, len(self._new_rows))
            into.keys.append(Texts(self._changes[self._new_rows], found))
        if len(gone):
            found = keys(_of_rows(old, gone, len(self._old_rows)), len(gone))
            into.keys.append(Texts(self._changes[self._old_rows[gone]], found))


def _of_rows(members: list[Member], rows: np.ndarray, count: int) -> list[Member]:
    """The columns of some of `count` rows."""
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
    found = Field(*(part.copy() for part in field))
    for part, source in zip(found, other, strict=True):
        part[places] = source[others]
    return found
