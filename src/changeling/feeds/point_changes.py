"""The changes of a source that one point of the replicas has and an earlier one does not, in their order, each with its stamp.

A stamp is the place of a transaction in its source, as YDB shows it: a step, which is the time in milliseconds, and a number. A
source that has such pairs keeps its own; for the others the step never goes back and transactions are numbered from 1. Every
feed of a source shows the same stamps: they depend on the log and on what the point before ended with, which is stored. The
transactions of a source with pairs of its own are counted besides, since the numbers of its pairs do not rise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And, BooleanExpression, GreaterThan, GreaterThanOrEqual, LessThanOrEqual

from changeling.iceberg.conditions import equals
from changeling.iceberg.reader import Tables
from changeling.log.batch_stats import TABLE_OPERATIONS
from changeling.log.log_tables import CHANGES
from changeling.model import position as positions
from changeling.model.times import NANOS_PER_MILLI
from changeling.replicas.change_order import ARRIVAL, arrivals
from changeling.replicas.points import Point, SourcePoint
from changeling.replicas.row_events import READ_COLUMNS

_OWN_PAIRS = ("ydb-json", "ydb-debezium")
_OWN_NUMBERS = "xtdb"
_COLUMNS = (*READ_COLUMNS, "transaction", "origin", "meta", "arrived", "batch")


class Stamp(NamedTuple):
    """The place of a transaction in its source."""

    step: int
    number: int


class Reached(NamedTuple):
    """The stamp of a transaction, and its running number among those of its source."""

    stamp: Stamp
    serial: int


class Stamped(NamedTuple):
    """What a record shows of the transaction of a change."""

    stamp: Stamp
    serial: int
    """The running number of the transaction."""
    order: int
    """The place of the change in its transaction, over all tables."""


NOWHERE = Reached(Stamp(0, 0), 0)


@dataclass(frozen=True)
class PointChanges:
    """The changes of one source behind a point, up to another."""

    source: str
    rows: pa.Table
    """In the order of the fold: position, then arrival (`batch`, `ordinal`, `partition`, `record`)."""
    late: np.ndarray
    """Which of them belong before the end of the earlier point."""
    stamped: list[Stamped | None]
    """None for those that are late, and for those that are no change of a row."""
    correction: Reached
    """Of rows that are published again, since something came late."""
    last: Reached
    """Of the last transaction."""


def read_point(tables: Tables, source: str, before: Point, after: Point, start: Reached) -> PointChanges:
    """Reads the changes that are new in a point; `start` is what the earlier one has reached."""
    old, new = before.of(source), after.of(source)
    where = And(
        And(equals("source", source), _batch_above(old.last_complete_batch)),
        LessThanOrEqual("batch", new.batch),  # type: ignore[call-arg, arg-type]
    )
    rows = (
        tables.rows(CHANGES, where, _COLUMNS) if new.batch > old.last_complete_batch else CHANGES.columns.empty_table()
    )
    rows = _with_arrival(rows)
    rows = rows.filter(pc.and_not(_is_in(rows, new), _is_in(rows, old)))
    rows = _in_order(rows)
    late = np.zeros(rows.num_rows, bool)
    if old.position is not None:
        late = np.asarray(pc.less_equal(rows.column("position"), old.position))
    return _stamped(source, rows, late, after, start)


def joined(parts: Sequence[PointChanges]) -> PointChanges:
    """The changes of successive points as those of one, each with the stamp that it has at its own point.

    What came late to any of them counts as late: it has no place among the stamps of the others.
    """
    if len(parts) == 1:
        return parts[0]
    rows = pa.concat_tables([part.rows for part in parts])
    ordered = _in_order(rows.append_column("place", pa.array(range(rows.num_rows), pa.int64())))
    places = ordered.column("place").to_pylist()
    late = np.concatenate([part.late for part in parts])
    stamped = [one for part in parts for one in part.stamped]
    return PointChanges(
        parts[0].source,
        ordered.drop_columns(["place"]),
        late[places],
        [stamped[place] for place in places],
        parts[0].correction,
        parts[-1].last,
    )


def read_behind(tables: Tables, source: str, point: Point, position: str) -> PointChanges:
    """Reads the changes from a position on that a point has already, without stamps."""
    known = point.of(source)
    where = And(
        And(equals("source", source), GreaterThanOrEqual("position", position)),  # type: ignore[call-arg, arg-type]
        LessThanOrEqual("batch", known.batch),  # type: ignore[call-arg, arg-type]
    )
    rows = _with_arrival(tables.rows(CHANGES, where, _COLUMNS))
    rows = _in_order(rows.filter(_is_in(rows, known)))
    nothing: list[Stamped | None] = [None] * rows.num_rows
    return PointChanges(source, rows, np.zeros(rows.num_rows, bool), nothing, NOWHERE, NOWHERE)


def _in_order(rows: pa.Table) -> pa.Table:
    order = [(name, "ascending") for name in ("position", *ARRIVAL)]
    return rows.sort_by(order).combine_chunks()


def begun_at(point: Point, source: str) -> Reached:
    """What a point has reached before which nothing was counted."""
    known = point.of(source)
    made = int(point.made_at.timestamp() * 1000)
    step = made if known.commit_time is None else max(known.commit_time // NANOS_PER_MILLI, 0)
    parts = positions.decode(known.position) if known.position is not None else ()
    # The position of a source with such pairs is one: its first part is the time.
    return Reached(Stamp(step, parts[1] if len(parts) == 2 and parts[0] == step else 0), 0)


def _batch_above(number: int) -> BooleanExpression:
    return GreaterThan("batch", number)  # type: ignore[call-arg, arg-type]


def _with_arrival(rows: pa.Table) -> pa.Table:
    """With the columns of the place of arrival: files have no partition, and come before topics."""
    for name, column in zip(ARRIVAL, arrivals(rows), strict=True):
        if name not in rows.column_names:
            rows = rows.append_column(name, pc.fill_null(column, -1))
    return rows


def _is_in(rows: pa.Table, point: SourcePoint) -> pa.Array:
    """Which changes a point has."""
    whole = pc.less_equal(rows.column("batch"), point.last_complete_batch)
    if point.position is None:
        return whole
    part = pc.and_(
        pc.less_equal(rows.column("batch"), point.batch), pc.less_equal(rows.column("position"), point.position)
    )
    return pc.or_(whole, part)


def _stamped(source: str, rows: pa.Table, late: np.ndarray, after: Point, start: Reached) -> PointChanges:
    is_row = np.asarray(pc.is_in(rows.column("op"), pa.array(TABLE_OPERATIONS)))
    ids = pc.struct_field(rows.column("transaction"), "id").to_pylist()
    columns = zip(
        *(rows.column(name).to_pylist() for name in ("commit_time", "encoding", "arrived", "position")), strict=True
    )
    made = int(after.made_at.timestamp() * 1000)
    # What came late gets a number of its own, before the new transactions.
    correction = Reached(Stamp(start.stamp.step, start.stamp.number + 1), start.serial + 1)
    new = is_row & ~late
    last, serial = correction if late.any() or (rows.num_rows and not new.any()) else start
    # The rest of a transaction that an earlier point has a part of counts as another: a barrier may have its stamp.
    known: dict[str, Stamp] = {}
    serials: dict[Stamp, int] = {}
    orders: dict[Stamp, int] = {}
    found: list[Stamped | None] = [None] * rows.num_rows
    for place, (name, (time, encoding, arrived, text)) in enumerate(zip(ids, columns, strict=True)):
        if not new[place]:
            continue
        own = None if arrived else _own(encoding, text)
        stamp = None if name is None else known.get(name)
        if own is not None and own.step is not None:
            stamp = Stamp(own.step, own.number)
        elif stamp is None:
            millis = made if time is None else time // NANOS_PER_MILLI
            stamp = Stamp(max(last.step, millis, 0), last.number + 1 if own is None else own.number)
            if stamp <= last:
                # A correction has the number already.
                stamp = Stamp(last.step + 1, stamp.number)
        if name is not None:
            known[name] = stamp
        if stamp not in serials:
            serials[stamp] = serial + 1 if own is None or own.step is not None else own.number
        order = orders.get(stamp, 0)
        orders[stamp] = order + 1
        last, serial = stamp, serials[stamp]
        found[place] = Stamped(stamp, serial, order if own is None or own.order is None else own.order)
    return PointChanges(source, rows, late, found, correction, Reached(last, serial))


class _Own(NamedTuple):
    """What a source says of the place of a change by itself."""

    step: int | None
    number: int
    order: int | None


def _own(encoding: str, text: str) -> _Own | None:
    if encoding not in (*_OWN_PAIRS, _OWN_NUMBERS):
        return None
    parts = positions.decode(text)
    if len(parts) < 2:
        return None
    first, second = parts[:2]
    return _Own(None, first, second) if encoding == _OWN_NUMBERS else _Own(first, second, None)
