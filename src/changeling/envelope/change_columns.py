"""Changes on their way into records, by columns: those that a dialect writes as they are, and their records."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.column_cells import ColumnCells
from changeling.envelope.columns import Distinct, Fields
from changeling.envelope.groups import in_groups, rows_of
from changeling.envelope.keys import canonical_objects, fit_rows
from changeling.envelope.objects import are_compact, are_objects
from changeling.envelope.shapes import Names
from changeling.envelope.text_columns import Mask, Places, as_mask, distinct_rows
from changeling.model import arrow_layouts
from changeling.model.operation import NEW_ROW_OPERATIONS, Image, Operation
from changeling.model.table import TableName


class ChangeView:
    """The columns of changes under the names of the parts of a change."""

    def __init__(self, changes: pa.RecordBatch) -> None:
        self._changes = changes

    def __getattr__(self, name: str) -> pa.Array:
        return self._changes.column(name)

    @functools.cached_property
    def table(self) -> Distinct:
        """The tables."""
        columns = [part.to_pylist() for part in self._changes.column("table").flatten()]
        found, places = distinct_rows(columns)
        return Distinct([None if row[2] is None else TableName(*row) for row in found], places)


class ChangeColumns(ColumnCells):
    """Changes of rows that are written together; `running` and `counts` are those of `Outgoing`, as columns."""

    def __init__(self, changes: pa.RecordBatch, native: bool, drop: frozenset[str] = frozenset()) -> None:
        super().__init__(changes.num_rows)
        self.drop = drop
        """What may be lost, and leaves something worth writing."""
        self.lost: dict[str, Mask] = {}
        """Which changes lose it."""
        self.change = ChangeView(changes)
        self.source, self.running = changes.column("source"), changes.column("number")
        self.counts = Fields(changes.column("counts"))
        self.native = native
        """They were read from the dialect that is written."""
        self.arrived = as_mask(changes.column("arrived"))
        self.placed: tuple[pa.Array, ...] | None = None
        """The components of the positions that the records have, where readers use them: they are the changes' own."""

    def check_rows(self, *, in_part: bool = False) -> None:
        """Changes that are not exactly one full row each, or whose images cannot be written as they are, leave the group.

        `in_part`: rows need not be full, nor have the columns of their keys.
        """
        deleted = self.equal(self.change.op, Operation.DELETE)
        for image, kind in (
            (self.change.before, self.change.before_image),
            (self.change.after, self.change.after_image),
        ):
            self.expect(self.present(image) == ~self.equal(kind, Image.NONE))
        if in_part:
            new = self.one_of(self.change.op, NEW_ROW_OPERATIONS)
            self.expect(~(new & self.equal(self.change.after_image, Image.PARTIAL)))
        else:
            self.expect(self.equal(self.change.after_image, self.where(deleted, Image.NONE, Image.FULL)))
        key, names = self.keys()
        self.check_image(self.change.before, key, names, in_part)
        self.check_image(self.change.after, key, names, in_part)

    def keys(self) -> tuple[pa.Array, Names | None]:
        """The keys, and their columns where all changes have the same; keys that are not canonical are not plain."""
        given = self.change.key
        self.expect(pc.is_valid(given))
        self.check()
        key, names = canonical_objects(given.cast(pa.binary()))
        self.expect(pc.equal(key, given))
        self.check()
        return given, names

    def check_image(self, image: pa.Array, key: pa.Array, names: Names | None, in_part: bool) -> None:
        """Images are plain that can be written as they are, and contain the columns of their keys (`in_part`: or none of them)."""
        there = pc.is_valid(image)
        if image.null_count == len(image):
            return
        given = pc.coalesce(image, key)
        self.expect(are_objects(given))
        self.check()
        self.expect(are_compact(given))
        fits = fit_rows(key.cast(pa.binary()), key, names, given.cast(pa.binary()), in_part=in_part)
        self.expect(pc.or_(pc.invert(there), pa.array(fits)))
        self.check()


class WrittenRecords(NamedTuple):
    """The records of the plain changes of a batch, and the place of the change of each, in order."""

    records: pa.RecordBatch
    places: np.ndarray[Any, np.dtype[np.int64]]
    plain: Mask
    """For each change of the batch, whether it is among them."""
    positions: tuple[pa.Array, ...]
    lost: dict[str, Places]
    """The places of the changes that lose a feature."""


class RecordColumns(NamedTuple):
    """Records as columns, and the places of their changes among those given."""

    value: pa.Array
    key: pa.Array
    headers: pa.Array
    topic: pa.Array
    places: np.ndarray[Any, np.dtype[np.int64]]
    positions: tuple[pa.Array, ...] = ()
    """The components of the positions that the records have, where readers use them: they are the changes' own."""


def written(
    batch: pa.RecordBatch,
    candidates: Mask,
    native: bool,
    drop: frozenset[str],
    write: Callable[[ChangeColumns], RecordColumns],
) -> WrittenRecords | None:
    """The records of the candidates that `write` takes, group by group; None where it takes none. `drop` may be lost."""

    def attempt(group: Places) -> tuple[RecordColumns, dict[str, Mask]]:
        group_changes = ChangeColumns(rows_of(batch, group), native, drop)
        return write(group_changes), group_changes.lost

    found, others = in_groups(candidates, attempt)
    if not found:
        return None
    plain = np.ones(batch.num_rows, np.bool_)
    plain[others] = False
    places = np.concatenate([group[made.places] for group, (made, _) in found])
    order = None if len(found) == 1 else pa.array(np.argsort(places, kind="stable"))

    def joined(columns: list[pa.Array], kind: pa.DataType) -> pa.Array:
        together = pa.concat_arrays([column.cast(kind) for column in columns])
        return together if order is None else together.take(order)

    every = [made for _, (made, _) in found]
    ordered = places if order is None else places[order.to_numpy()]
    columns = [
        joined([made.value for made in every], pa.binary()),
        joined([made.key for made in every], pa.binary()),
        joined([made.headers for made in every], arrow_layouts.HEADERS),
        joined([made.topic for made in every], pa.string()),
        batch.column("origin").take(pa.array(ordered)),
    ]
    positions = ()
    if all(made.positions for made in every):
        positions = tuple(
            joined(list(parts), pa.int64()) for parts in zip(*(made.positions for made in every), strict=True)
        )
    lost: dict[str, list[Places]] = {}
    for group, (_, masks) in found:
        for feature, mask in masks.items():
            lost.setdefault(feature, []).append(group[mask])
    return WrittenRecords(
        pa.record_batch(columns, schema=arrow_layouts.RECORDS),
        ordered,
        plain,
        positions,
        {feature: np.concatenate(parts) for feature, parts in lost.items()},
    )
