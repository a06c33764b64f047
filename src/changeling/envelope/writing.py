"""A dialect's writer, one function over cells, as the two ways that the kernel knows: change by change, and by columns."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from changeling.envelope.cells import Cell, Cells, Condition, as_bytes
from changeling.envelope.departures import Departures, RecordColumns
from changeling.envelope.one import ONE
from changeling.model.change import Record


class RecordCells(NamedTuple):
    """A record, or the record of each change of a group."""

    value: Cell
    key: Cell = None
    topic: Cell = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    where: Condition = True
    """Which of the changes have it."""


Writer: TypeAlias = Callable[[Cells, Any], Sequence[RecordCells]]
"""What a change is written as: `Outgoing`, or the changes of a group as `Departures`."""


def one_by_one(writer: Callable[[Any], Writer]) -> Callable[[Any], Callable[[Any], Sequence[Record]]]:
    """The way change by change, given the options."""

    def encoder(options: Any) -> Callable[[Any], Sequence[Record]]:
        write = writer(options)

        def encode(out: Any) -> Sequence[Record]:
            return [
                Record(as_bytes(made.value), as_bytes(made.key), made.headers, made.topic)
                for made in write(ONE, out)
                if made.where
            ]

        return encode

    return encoder


def by_columns(writer: Callable[[Any], Writer]) -> Callable[[Any], Callable[[Departures], RecordColumns]]:
    """The way of whole groups, given the options."""

    def encoder(options: Any) -> Callable[[Departures], RecordColumns]:
        write = writer(options)

        def encode(changes: Departures) -> RecordColumns:
            made = write(changes, changes)
            changes.check()
            columns = [_columns(changes, one) for one in made]
            if len(columns) == 1:
                return columns[0]
            places = np.concatenate([column.places for column in columns])
            order = np.argsort(places, kind="stable")
            value, key, topic = (
                pa.concat_arrays([column[part] for column in columns]).take(pa.array(order)) for part in range(3)
            )
            return RecordColumns(value, key, topic, places[order], changes.placed or ())

        return encode

    return encoder


def _columns(changes: Departures, made: RecordCells) -> RecordColumns:
    found = RecordColumns(
        changes.array(made.value, pa.binary()),
        changes.array(made.key, pa.binary()),
        changes.array(made.topic, pa.string()),
        np.arange(changes.count),
        changes.placed or (),
    )
    if made.where is True:
        return found
    places = np.flatnonzero(made.where)
    rows = pa.array(places)
    return RecordColumns(found.value.take(rows), found.key.take(rows), found.topic.take(rows), places)
