"""The table that the records of a feed make: decoded changes, folded one after another, typed as the replica is."""

from collections.abc import Sequence

import pyarrow as pa

from changeling.model import json_text
from changeling.model.change import Change
from changeling.model.operation import Operation
from changeling.model.table import Column, schema_from_json
from changeling.replicas.fold import Cell, Fold, FoldedRow, RowEvent
from changeling.replicas.json_output import json_column
from changeling.replicas.row_effect import effect
from changeling.replicas.shape import Columns, ColumnTarget, ReplicaColumn, Shape
from changeling.replicas.typed_rows import TypedRows

Texts = tuple[bytes, ...]
Rows = dict[Texts, Texts]
"""Rows by their keys; both are values as JSON texts, in the order of the columns."""


class RebuiltTable:
    """Rows by the key of their records, with the values as the records have them."""

    def __init__(self, encoding: str, shapes: Sequence[Shape]) -> None:
        """`shapes`: those that the table ever had, the newest last."""
        self._encoding, self._shapes = encoding, shapes
        self._fold = Fold()
        self._columns = Columns()
        self._numbers: dict[tuple[str | None, Shape], int] = {}

    def apply(self, change: Change, key: str, shape: Shape) -> None:
        """Applies the next change of a row, whose columns have the names of a shape."""
        found = effect(change.op, change.before_image, change.after_image, self._encoding)
        if change.op is Operation.TRUNCATE:
            self._fold.truncate()
        if found is not None:
            # Some dialects have the columns of the key in the key alone.
            values = {**json_text.members(change.key or b"{}"), **json_text.members(change.after or b"{}")}
            self._fold.apply(RowEvent(key, "", found, self._cells(values, change.schema, shape)))

    def row(self, key: str) -> FoldedRow | None:
        """The known state of a row; None where it does not exist, or was never seen."""
        return self._fold.row(key)

    def has_seen(self, key: str) -> bool:
        """Whether a record had that key."""
        return key in self._fold.rows

    def contradicted(self, row: FoldedRow, change: Change, shape: Shape) -> str | None:
        """The first column in which the old image of a change is not what the row was; None where there is none."""
        for number, cell in self._cells(json_text.members(change.before or b"{}"), change.schema, shape).items():
            was = row.cells.get(number)
            if was is not None and json_text.canonical(was.value) != json_text.canonical(cell.value):
                column = next((one for one in self._shapes[-1].columns if one.id == number), None)
                if column is not None and len({*self._typed([{number: was}, {number: cell}], [column])[0]}) > 1:
                    return column.name
        return None

    def rows(self, shape: Shape) -> Rows:
        """The rows that exist, with the columns of a shape."""
        rows = [row.cells for row in self._fold.rows.values() if row is not None and row.exists]
        return by_key(self._typed(rows, shape.columns), shape)

    def _cells(self, values: dict[str, bytes], schema: str | None, shape: Shape) -> dict[str, Cell]:
        number = self._number(schema, shape)
        places = self._columns.column_targets[number]
        return {
            places[name].id: Cell(value, self._encoding, number) for name, value in values.items() if name in places
        }

    def _number(self, schema: str | None, shape: Shape) -> int:
        """The number of a record's schema and the shape that it belongs to, by which its columns are found again."""
        number = self._numbers.setdefault((schema, shape), len(self._numbers))
        if number not in self._columns.column_targets:
            carried = {} if schema is None else {column.name: column for column in schema_from_json(schema).columns}
            # A name that the shape does not have is one from before the table was altered.
            known = [column for one in (*self._shapes, shape) for column in one.columns]
            self._columns.column_targets[number] = {
                column.source_name: ColumnTarget(
                    column.id, carried.get(column.source_name, Column(column.source_name, column.type))
                )
                for column in known
            }
        return number

    def _typed(self, rows: Sequence[dict[str, Cell]], columns: Sequence[ReplicaColumn]) -> list[list[bytes]]:
        typed = TypedRows(self._columns, Shape(tuple(columns)))
        for number, places in self._columns.column_targets.items():
            for name in places:
                typed.reader(self._encoding, number, name)
        arrays = typed.parts(rows, [""] * len(rows))
        return [texts(array, column) for array, column in zip(arrays, columns, strict=True)]


def stored_rows(table: pa.Table, shape: Shape) -> Rows:
    """The rows of a replica."""
    return by_key([texts(table.column(column.name), column) for column in shape.columns], shape)


def texts(column: pa.Array | pa.ChunkedArray, kind: ReplicaColumn) -> list[bytes]:
    """The values of a column as JSON texts: equal values have equal ones."""
    found = json_column(column, kind.kind)
    if _is_any_decimal(kind):
        return list(map(_without_scale, found))
    return list(map(json_text.canonical, found)) if kind.kind.kind in ("json", "interval") else found


def _is_any_decimal(column: ReplicaColumn) -> bool:
    """Whether the replica stores numbers as text: dialects spell them in ways that only their readers of decimals know."""
    return column.kind.kind == "decimal" and column.kind.precision is None


def _without_scale(text: bytes) -> bytes:
    """A decimal of any scale: not every dialect has a place for zeros at its end."""
    number = text.strip(b'"')
    return text if number.lstrip(b"-")[:1].isalpha() else json_text.canonical_number(number)


def by_key(columns: Sequence[Sequence[bytes]], shape: Shape) -> Rows:
    """Rows by the values of their key columns."""
    places = {column.id: place for place, column in enumerate(shape.columns)}
    keys = zip(*(columns[places[number]] for number in shape.key), strict=True)
    return dict(zip(keys, zip(*columns, strict=True), strict=True))
