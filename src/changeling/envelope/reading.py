"""A dialect's reader, one function over cells, as the kernel calls it: record by record, and by columns."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.cells import Cell, Cells
from changeling.envelope.column_cells import ColumnCells
from changeling.envelope.columns import Distinct
from changeling.envelope.positions import positions
from changeling.envelope.scalar_cells import SCALARS, ScalarCells
from changeling.model import arrow_layouts
from changeling.model.change import Change, Record
from changeling.model.operation import Image
from changeling.model.position import encode
from changeling.model.table import TableName


class ChangeCells(NamedTuple):
    """What a record says, or what each record of a group says. An image is full, unless its kind is given."""

    op: Cell
    table: Cell = None
    key: Cell = None
    before: Cell = None
    after: Cell = None
    before_image: Cell = None
    after_image: Cell = None
    position: Cell = None
    commit_time: Cell = None
    transaction: Cell = None
    meta: Cell = None
    schema: Cell = None


class GroupRecords(NamedTuple):
    """The records of a group, all with the same headers; if one of them is a tombstone, all are, and `value` is None."""

    value: Cell
    key: Cell
    topic: Cell
    headers: tuple[tuple[str, bytes | None], ...]


Reader: TypeAlias = Callable[[Cells, Any], ChangeCells | Sequence[Change]]
"""What a record says: `Record`, or the records of a group as `GroupRecords`. Only a record by itself may give any number of changes."""


def one_by_one(read: Reader, templates: bool = False) -> Callable[[Record], Sequence[Change]]:
    """Decodes record by record."""
    cells = ScalarCells(templates)

    def decode(record: Record) -> Sequence[Change]:
        found = read(cells, record)
        return [change_of(found)] if isinstance(found, ChangeCells) else found

    return decode


def change_of(found: ChangeCells) -> Change:
    """The change of one record."""
    return Change(**_with_kinds(SCALARS, found)._asdict())


def _with_kinds(cells: Cells, found: ChangeCells) -> ChangeCells:
    """The same with the kinds of both images."""
    if found.before_image is None:
        found = found._replace(before_image=cells.where(cells.present(found.before), Image.FULL, Image.NONE))
    if found.after_image is None:
        found = found._replace(after_image=cells.where(cells.present(found.after), Image.FULL, Image.NONE))
    return found


def by_columns(
    read: Reader, encoding: str, source: str, before_arrival: Callable[[str], tuple[int, ...]], templates: bool
) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Decodes whole groups: records of one shape into changes of that encoding and source, one each.

    `before_arrival` gives the numbers in front of the place of arrival, for an operation without a position.
    """

    def decode(records: pa.RecordBatch) -> pa.RecordBatch:
        cells = ColumnCells(records.num_rows, templates)
        headers = _common_headers(cells, records.column("headers"))
        cells.branch(cells.present(records.column("value")))
        value, key, topic = (_column(records, name) for name in ("value", "key", "topic"))
        found = read(cells, GroupRecords(value, key, topic, headers))
        if not isinstance(found, ChangeCells):
            cells.one_by_one()
            raise TypeError("a group gives cells")
        cells.check()
        found = _with_kinds(cells, found)
        origin = records.column("origin")
        placed = cells.present(found.position)
        if not cells.all(placed):
            front = cells.each(lambda op: "".join(f"{encode(number)}." for number in before_arrival(op)), found.op)
            found = found._replace(position=cells.first(found.position, cells.joined(front, arrivals(origin))))
        return _batch(cells, found, origin, source, encoding, pa.array(~placed))

    return decode


def _common_headers(cells: ColumnCells, headers: pa.ListArray) -> tuple[tuple[str, bytes | None], ...]:
    """The headers of the first record; a group continues with those that have the same."""
    if headers.null_count == len(headers):
        return ()
    counts = pc.fill_null(pc.list_value_length(headers), 0)
    cells.usually(pc.equal(counts, counts[0]))
    found = []
    for place in range(counts[0].as_py()):
        pairs = pc.list_element(headers, place)
        found.append(tuple(cells.common(part) for part in pairs.flatten()))
    return tuple(found)


def arrivals(origin: pa.StructArray) -> pa.Array:
    """The positions of records whose dialect has none: partition and offset, or the file's ordinal and the record."""
    _, ordinal, record, _, partition, offset = origin.flatten()
    outer = pc.fill_null(pc.if_else(pc.is_valid(offset), partition.cast(pa.int64()), ordinal), 0)
    return positions(outer, pc.fill_null(pc.coalesce(offset, record), 0))


def _column(records: pa.RecordBatch, name: str) -> Cell:
    found = records.column(name)
    return None if found.null_count == len(found) else found


def _batch(
    cells: ColumnCells, found: ChangeCells, origin: pa.Array, source: str, encoding: str, arrived: pa.Array
) -> pa.RecordBatch:
    """The changes as a batch of layout `CHANGES`."""
    given = {
        **found._asdict(),
        "source": source,
        "table": _tables(cells, found.table),
        "encoding": encoding,
        "origin": origin,
        "schema_id": None,
        "arrived": arrived,
    }
    columns = [cells.array(given[field.name], field.type) for field in arrow_layouts.CHANGES]
    return pa.record_batch(columns, schema=arrow_layouts.CHANGES)


def _tables(cells: ColumnCells, table: Cell) -> pa.Array:
    known: list[TableName | None] = table.values if isinstance(table, Distinct) else [table]
    places = table.places if isinstance(table, Distinct) else cells.array(0)
    return arrow_layouts.tables_array(known).take(places)
