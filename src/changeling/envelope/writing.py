"""A dialect's writer, one function over cells, as the kernel calls it: change by change, and by columns."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from changeling.envelope.cells import Cell, Cells, Condition, Members, as_bytes
from changeling.envelope.change_columns import ChangeColumns, RecordColumns
from changeling.envelope.scalar_cells import SCALARS
from changeling.model import arrow_layouts, times
from changeling.model.change import Record


class RecordCells(NamedTuple):
    """A record, or the record of each change of a group."""

    value: Cell
    key: Cell = None
    topic: Cell = None
    headers: Sequence[tuple[str, Cell]] = ()
    where: Condition = True
    """Which of the changes have it."""


Writer: TypeAlias = Callable[[Cells, Any], Sequence[RecordCells]]
"""What a change is written as: `Outgoing`, or the changes of a group as `ChangeColumns`."""


def kept(cells: Cells, out: Any) -> Members:
    """The members of the `meta` of changes that were read from the dialect that is written; of others, none."""
    meta = out.change.meta
    if not out.native or not cells.branch(cells.present(meta)):
        return {}
    return cells.members(meta)


def milliseconds(cells: Cells, out: Any, why: str) -> Cell:
    """When changes were committed, in whole milliseconds; `why` says why a finer time is a loss."""
    time = out.change.commit_time
    millis = cells.units(time, times.NANOS_PER_MILLI)
    finer = cells.present(time) & ~cells.equal(cells.time(millis, times.NANOS_PER_MILLI), time)
    cells.lose(out, finer, "commit_time", why)
    return millis


def one_by_one(write: Writer) -> Callable[[Any], Sequence[Record]]:
    """Encodes change by change."""

    def encode(out: Any) -> Sequence[Record]:
        return [
            Record(as_bytes(made.value), as_bytes(made.key), tuple(made.headers), made.topic)
            for made in write(SCALARS, out)
            if made.where
        ]

    return encode


def by_columns(write: Writer) -> Callable[[ChangeColumns], RecordColumns]:
    """Encodes whole groups."""

    def encode(changes: ChangeColumns) -> RecordColumns:
        made = write(changes, changes)
        changes.check()
        columns = [_columns(changes, one) for one in made]
        if len(columns) == 1:
            return columns[0]
        places = np.concatenate([column.places for column in columns])
        order = np.argsort(places, kind="stable")
        value, key, headers, topic = (
            pa.concat_arrays([column[part] for column in columns]).take(pa.array(order)) for part in range(4)
        )
        return RecordColumns(value, key, headers, topic, places[order], changes.placed or ())

    return encode


def _columns(changes: ChangeColumns, made: RecordCells) -> RecordColumns:
    found = RecordColumns(
        changes.array(made.value, pa.binary()),
        changes.array(made.key, pa.binary()),
        _headers(changes, made.headers),
        changes.array(made.topic, pa.string()),
        np.arange(changes.count),
        changes.placed or (),
    )
    if made.where is True:
        return found
    places = np.flatnonzero(made.where)
    value, key, headers, topic = (
        column.take(pa.array(places)) for column in (found.value, found.key, found.headers, found.topic)
    )
    return RecordColumns(value, key, headers, topic, places)


def _headers(changes: ChangeColumns, headers: Sequence[tuple[str, Cell]]) -> pa.Array:
    """The headers of each record: the same names, in this order."""
    if not headers:
        return pa.nulls(changes.count, arrow_layouts.HEADERS)
    values = pa.concat_arrays([changes.array(value, pa.binary()) for _, value in headers])
    names = np.repeat(np.array([name for name, _ in headers]), changes.count)
    order = pa.array(np.arange(len(values)).reshape(len(headers), changes.count).T.ravel())
    every = pa.StructArray.from_arrays(
        [pa.array(names, pa.string()), values], fields=list(arrow_layouts.HEADERS.value_type)
    )
    bounds = pa.array(np.arange(0, len(values) + 1, len(headers)), pa.int32())
    return pa.ListArray.from_arrays(bounds, every.take(order)).cast(arrow_layouts.HEADERS)
