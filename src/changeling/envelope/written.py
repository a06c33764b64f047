"""Changes on their way into records, by columns: those that a dialect writes as they are, and their records."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.events import Group
from changeling.envelope.keys import canonical_objects, fit_rows
from changeling.envelope.objects import are_compact, are_objects
from changeling.envelope.shapes import Names, OddOnes
from changeling.envelope.text_columns import Mask, Part, distinct_rows, joined
from changeling.model import layout
from changeling.model.table import TableName

_ATTEMPTS = 4


class Departures(Group):
    """Changes of rows that are written together."""

    def __init__(self, changes: pa.RecordBatch, native: bool) -> None:
        super().__init__(changes.num_rows)
        self.changes = changes
        self.native = native
        """They were read from the dialect that is written."""

    def column(self, name: str) -> pa.Array:
        """A column of the changes."""
        return self.changes.column(name)

    def tables(self) -> tuple[list[TableName], pa.Array]:
        """The distinct tables, and which of them each change belongs to; changes without one are not plain."""
        table = self.column("table")
        self.expect(pc.is_valid(table))
        self.check()
        found, places = distinct_rows([part.to_pylist() for part in table.flatten()])
        return [TableName(*row) for row in found], places

    def keys(self) -> tuple[pa.Array, Names | None]:
        """The keys, and their columns where all changes have the same; keys that are not canonical are not plain."""
        given = self.column("key")
        self.expect(pc.is_valid(given))
        self.check()
        key, names = canonical_objects(given.cast(pa.binary()))
        self.expect(pc.equal(key, given))
        self.check()
        return given, names

    def check_image(self, image: pa.Array, key: pa.Array, names: Names | None) -> None:
        """Images are plain that can be written as they are, and contain the columns of their keys."""
        there = pc.is_valid(image)
        if image.null_count == len(image):
            return
        given = pc.coalesce(image, key)
        self.expect(are_objects(given))
        self.check()
        self.expect(are_compact(given))
        self.expect(
            pc.or_(pc.invert(there), pa.array(fit_rows(key.cast(pa.binary()), key, names, given.cast(pa.binary()))))
        )
        self.check()


class Written(NamedTuple):
    """The records of the plain changes of a batch, and the place of the change of each, in order."""

    records: pa.RecordBatch
    places: np.ndarray[Any, np.dtype[np.int64]]
    plain: Mask
    """For each change of the batch, whether it is among them."""
    positions: tuple[pa.Array, ...]


class RecordColumns(NamedTuple):
    """Records as columns, and the places of their changes among those given."""

    value: pa.Array
    key: pa.Array
    topic: pa.Array
    places: np.ndarray[Any, np.dtype[np.int64]]
    positions: tuple[pa.Array, ...] = ()
    """The components of the positions that the records have, where readers use them: they are the changes' own."""


def written(
    batch: pa.RecordBatch, candidates: Mask, native: bool, write: Callable[[Departures], RecordColumns]
) -> Written | None:
    """The records of the candidates that `write` takes; None where it takes none."""
    group = np.flatnonzero(candidates)
    for _ in range(_ATTEMPTS):
        if not len(group):
            return None
        changes = batch if len(group) == batch.num_rows else batch.take(pa.array(group))
        try:
            made = write(Departures(changes, native))
        except OddOnes as error:
            group = group[error.plain]
            continue
        except (ValueError, TypeError, OverflowError, RecursionError, pa.ArrowCapacityError):
            return None
        places = group[made.places]
        plain = np.zeros(batch.num_rows, np.bool_)
        plain[group] = True
        columns = [
            made.value.cast(pa.binary()),
            made.key.cast(pa.binary()),
            pa.nulls(len(places), layout.HEADERS),
            made.topic,
            batch.column("origin").take(pa.array(places)),
        ]
        return Written(pa.record_batch(columns, schema=layout.RECORDS), places, plain, made.positions)
    return None


def texts_of(numbers: pa.Array) -> pa.Array:
    """Integers as JSON, `null` where there is none."""
    return pc.fill_null(numbers.cast(pa.string()), "null")


def where(condition: pa.Array, *parts: Part) -> Part:
    """These parts where a condition holds, and nothing elsewhere."""
    if not pc.any(condition).as_py():
        return b""
    return pc.if_else(condition, joined(*parts), b"")
